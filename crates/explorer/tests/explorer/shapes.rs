//! The explored workflows, and two larger ones for random walks.

use explorer::steps::{Extra, Shape};

pub(crate) const ONE: Shape =
    Shape { name: "one step", steps: &[("a", &[])], gates: &[], people: &[], worktrees: &[], extras: &[] };

pub(crate) const LINE: Shape = Shape {
    name: "line",
    steps: &[("a", &[]), ("b", &["a"]), ("c", &["b"])],
    gates: &[],
    people: &[],
    worktrees: &[],
    extras: &[],
};

pub(crate) const PAIR: Shape = Shape {
    name: "pair",
    steps: &[("a", &[]), ("b", &[])],
    gates: &[],
    people: &[],
    worktrees: &[],
    extras: &[],
};

pub(crate) const FORK: Shape = Shape {
    name: "fork and join",
    steps: &[("a", &[]), ("b", &["a"]), ("c", &["a"]), ("d", &["b", "c"])],
    gates: &[],
    people: &[],
    worktrees: &[],
    extras: &[],
};

pub(crate) const JOIN: Shape = Shape {
    name: "join of three",
    steps: &[("a", &[]), ("b", &[]), ("c", &[]), ("d", &["a", "b", "c"])],
    gates: &[],
    people: &[],
    worktrees: &[],
    extras: &[],
};

pub(crate) const GATE: Shape = Shape {
    name: "gate",
    steps: &[("code", &[]), ("review", &["code"])],
    gates: &[("review", "code")],
    people: &[],
    worktrees: &[],
    extras: &[],
};

/// `docs` may be running when `review` loops back to `code`; `plan` is above both, and `ship` needs both.
pub(crate) const SIBLING: Shape = Shape {
    name: "gate with a sibling",
    steps: &[
        ("plan", &[]),
        ("code", &["plan"]),
        ("docs", &["code"]),
        ("review", &["code"]),
        ("ship", &["docs", "review"]),
    ],
    gates: &[("review", "code")],
    people: &[],
    worktrees: &[],
    extras: &[],
};

pub(crate) const NESTED: Shape = Shape {
    name: "nested gates",
    steps: &[("plan", &[]), ("code", &["plan"]), ("review", &["code"]), ("accept", &["review"])],
    gates: &[("review", "code"), ("accept", "plan")],
    people: &[],
    worktrees: &[],
    extras: &[],
};

/// Both gates may fail before either loop-back; one target is above the other.
pub(crate) const GATES_SIDE_BY_SIDE: Shape = Shape {
    name: "gates side by side",
    steps: &[("plan", &[]), ("code", &["plan"]), ("near", &["code"]), ("far", &["code"])],
    gates: &[("near", "code"), ("far", "plan")],
    people: &[],
    worktrees: &[],
    extras: &[],
};

pub(crate) const UNRELATED: Shape = Shape {
    name: "unrelated gates",
    steps: &[("a", &[]), ("g", &["a"]), ("x", &[]), ("h", &["x"])],
    gates: &[("g", "a"), ("h", "x")],
    people: &[],
    worktrees: &[],
    extras: &[],
};

/// `far` is not reset by `near`, but resets `near`.
pub(crate) const CROSSED: Shape = Shape {
    name: "gates across",
    steps: &[("plan", &[]), ("code", &["plan"]), ("near", &["code"]), ("far", &["plan"])],
    gates: &[("near", "code"), ("far", "plan")],
    people: &[],
    worktrees: &[],
    extras: &[],
};

pub(crate) const SIX: Shape = Shape {
    name: "six steps, two gates",
    steps: &[
        ("plan", &[]),
        ("code", &["plan"]),
        ("docs", &["plan"]),
        ("test", &["code"]),
        ("review", &["test"]),
        ("ship", &["docs", "review"]),
    ],
    gates: &[("test", "code"), ("review", "plan")],
    people: &[],
    worktrees: &[],
    extras: &[],
};

/// Three branches with a gate each, all needed at the end.
pub(crate) const WIDE: Shape = Shape {
    name: "three branches",
    steps: &[
        ("plan", &[]),
        ("a", &["plan"]),
        ("b", &["plan"]),
        ("c", &["plan"]),
        ("test-a", &["a"]),
        ("test-b", &["b"]),
        ("test-c", &["c"]),
        ("review", &["test-a", "test-b", "test-c"]),
        ("ship", &["review"]),
        ("tell", &["plan"]),
    ],
    gates: &[("test-a", "a"), ("test-b", "b"), ("test-c", "plan"), ("review", "plan")],
    people: &[],
    worktrees: &[],
    extras: &[],
};

/// A line of seven steps, a branch beside it, and gates that loop back one step, two steps and to the first step.
pub(crate) const LINE_OF_GATES: Shape = Shape {
    name: "line of gates",
    steps: &[
        ("a", &[]),
        ("b", &["a"]),
        ("c", &["b"]),
        ("d", &["c"]),
        ("e", &["d"]),
        ("f", &["e"]),
        ("g", &["f"]),
        ("side", &["b"]),
        ("last", &["side", "g"]),
    ],
    gates: &[("c", "b"), ("e", "d"), ("g", "a"), ("last", "f")],
    people: &[],
    worktrees: &[],
    extras: &[],
};

/// A person approves what `code` did, or sends it back; another person allows the release.
pub(crate) const APPROVAL: Shape = Shape {
    name: "approvals",
    steps: &[("code", &[]), ("approve", &["code"]), ("ship", &["approve"]), ("release", &["code"])],
    gates: &[("approve", "code")],
    people: &["approve", "release"],
    worktrees: &[],
    extras: &[],
};

/// A person approves one step, and sends it back.
pub(crate) const APPROVED_GATE: Shape = Shape {
    name: "approval",
    steps: &[("code", &[]), ("approve", &["code"])],
    gates: &[("approve", "code")],
    people: &["approve"],
    worktrees: &[],
    extras: &[],
};

/// A step in a worktree of its own. The engine adds a merge after it, and the fast-forward at the end of the run.
pub(crate) const WORKTREE: Shape = Shape {
    name: "worktree",
    steps: &[("code", &[])],
    gates: &[],
    people: &[],
    worktrees: &["code"],
    extras: &[],
};

/// Two steps in worktrees of their own, side by side. A merge that fails loops back to its own step only.
pub(crate) const WORKTREES: Shape = Shape {
    name: "two worktrees",
    steps: &[("a", &[]), ("b", &[])],
    gates: &[],
    people: &[],
    worktrees: &["a", "b"],
    extras: &[],
};

/// A gate after the merge sends the step back, and its work is merged again.
pub(crate) const REVIEWED_WORKTREE: Shape = Shape {
    name: "worktree with a gate",
    steps: &[("code", &[]), ("review", &["code"])],
    gates: &[("review", "code")],
    people: &[],
    worktrees: &["code"],
    extras: &[],
};

/// A workflow that is asked to start again at each of its steps.
pub(crate) const RESTART: Shape = Shape {
    name: "restart of a gate",
    steps: &[("a", &[]), ("b", &["a"])],
    gates: &[("b", "a")],
    people: &[],
    worktrees: &[],
    extras: &[],
};

/// A person approves the work of an agent, or sends it back.
pub(crate) const HUMAN_IN_THE_LOOP: Shape = Shape {
    name: "human in the loop",
    steps: &[("code", &[]), ("review", &["code"]), ("ship", &["review"])],
    gates: &[("review", "code")],
    people: &[],
    worktrees: &[],
    extras: &[("review", Extra::Approval)],
};

/// A person approves the work of an agent beside another step, and cannot send it back.
pub(crate) const APPROVED_FORK: Shape = Shape {
    name: "approved fork",
    steps: &[("a", &[]), ("b", &[]), ("c", &["a"])],
    gates: &[],
    people: &[],
    worktrees: &[],
    extras: &[("a", Extra::Approval)],
};

/// A step waits for conditions, and then for a person.
pub(crate) const CONDITIONS: Shape = Shape {
    name: "conditions",
    steps: &[("code", &[]), ("ship", &["code"]), ("tell", &["code"])],
    gates: &[("ship", "code")],
    people: &["tell"],
    worktrees: &[],
    extras: &[("ship", Extra::Conditions), ("ship", Extra::Approval), ("tell", Extra::Conditions)],
};

/// A step runs only if a file exists, and then waits for a condition; a gate after it loops back.
pub(crate) const WHEN: Shape = Shape {
    name: "when",
    steps: &[("code", &[]), ("fix", &["code"]), ("review", &["fix"])],
    gates: &[("review", "code")],
    people: &[],
    worktrees: &[],
    extras: &[("fix", Extra::When), ("fix", Extra::Conditions), ("review", Extra::When)],
};

/// Checks judge the work of an agent. The agent works again if a check fails.
pub(crate) const CHECKED: Shape = Shape {
    name: "checks",
    steps: &[("code", &[]), ("docs", &[]), ("ship", &["code"])],
    gates: &[],
    people: &[],
    worktrees: &[],
    extras: &[("code", Extra::Checks)],
};

/// Checks of a gate send the work back, and a person approves it afterwards.
pub(crate) const CHECKED_GATE: Shape = Shape {
    name: "checked gate",
    steps: &[("code", &[]), ("test", &["code"]), ("ship", &["test"])],
    gates: &[("test", "code")],
    people: &[],
    worktrees: &[],
    extras: &[("test", Extra::Checks), ("test", Extra::Approval)],
};

/// A data loop: the step `code` runs once for each item of a list, one item after the other.
pub(crate) const ITEMS: Shape = Shape {
    name: "items",
    steps: &[("plan", &[]), ("code", &["plan"]), ("ship", &["code"])],
    gates: &[("ship", "plan")],
    people: &[],
    worktrees: &[],
    extras: &[("code", Extra::Items(1))],
};

/// Two paired steps, which share the items of one data loop. The second step sends an item back.
pub(crate) const PAIRED: Shape = Shape {
    name: "paired items",
    steps: &[("code", &[]), ("review", &["code"]), ("ship", &["review"])],
    gates: &[("review", "code")],
    people: &[],
    worktrees: &[],
    extras: &[("code", Extra::Items(1)), ("review", Extra::With("code"))],
};

/// Two items at once, with approvals.
pub(crate) const PARALLEL: Shape = Shape {
    name: "parallel items",
    steps: &[("code", &[]), ("ship", &["code"])],
    gates: &[],
    people: &[],
    worktrees: &[],
    extras: &[("code", Extra::Items(2)), ("code", Extra::Approval)],
};

/// A workflow that is asked to start again at steps that checks and people judge.
pub(crate) const RESTARTED_PHASES: Shape = Shape {
    name: "restart of phases",
    steps: &[("code", &[]), ("ship", &["code"])],
    gates: &[],
    people: &[],
    worktrees: &[],
    extras: &[("code", Extra::Checks), ("ship", Extra::Approval)],
};

/// A workflow that is asked to start again at each step of a data loop.
pub(crate) const RESTARTED_ITEMS: Shape = Shape {
    name: "restart of items",
    steps: &[("code", &[]), ("review", &["code"])],
    gates: &[("review", "code")],
    people: &[],
    worktrees: &[],
    extras: &[("code", Extra::Items(1)), ("review", Extra::With("code"))],
};
