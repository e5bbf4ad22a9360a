//! The explored workflows: every relation between steps, up to six of them.

use testkit::explorer::steps::Shape;

pub(crate) const ONE: Shape =
    Shape { name: "one step", steps: &[("a", &[])], gates: &[], people: &[], worktrees: &[] };

pub(crate) const LINE: Shape = Shape {
    name: "line",
    steps: &[("a", &[]), ("b", &["a"]), ("c", &["b"])],
    gates: &[],
    people: &[],
    worktrees: &[],
};

pub(crate) const PAIR: Shape =
    Shape { name: "pair", steps: &[("a", &[]), ("b", &[])], gates: &[], people: &[], worktrees: &[] };

pub(crate) const FORK: Shape = Shape {
    name: "fork and join",
    steps: &[("a", &[]), ("b", &["a"]), ("c", &["a"]), ("d", &["b", "c"])],
    gates: &[],
    people: &[],
    worktrees: &[],
};

pub(crate) const JOIN: Shape = Shape {
    name: "join of three",
    steps: &[("a", &[]), ("b", &[]), ("c", &[]), ("d", &["a", "b", "c"])],
    gates: &[],
    people: &[],
    worktrees: &[],
};

pub(crate) const GATE: Shape = Shape {
    name: "gate",
    steps: &[("code", &[]), ("review", &["code"])],
    gates: &[("review", "code")],
    people: &[],
    worktrees: &[],
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
};

pub(crate) const NESTED: Shape = Shape {
    name: "nested gates",
    steps: &[("plan", &[]), ("code", &["plan"]), ("review", &["code"]), ("accept", &["review"])],
    gates: &[("review", "code"), ("accept", "plan")],
    people: &[],
    worktrees: &[],
};

/// Both gates may fail before either loop-back; one target is above the other.
pub(crate) const GATHERED: Shape = Shape {
    name: "gates side by side",
    steps: &[("plan", &[]), ("code", &["plan"]), ("near", &["code"]), ("far", &["code"])],
    gates: &[("near", "code"), ("far", "plan")],
    people: &[],
    worktrees: &[],
};

pub(crate) const UNRELATED: Shape = Shape {
    name: "unrelated gates",
    steps: &[("a", &[]), ("g", &["a"]), ("x", &[]), ("h", &["x"])],
    gates: &[("g", "a"), ("h", "x")],
    people: &[],
    worktrees: &[],
};

/// `far` is not reset by `near`, but resets `near`.
pub(crate) const CROSSED: Shape = Shape {
    name: "gates across",
    steps: &[("plan", &[]), ("code", &["plan"]), ("near", &["code"]), ("far", &["plan"])],
    gates: &[("near", "code"), ("far", "plan")],
    people: &[],
    worktrees: &[],
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
};

/// A line of gates, each looping back further.
pub(crate) const DEEP: Shape = Shape {
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
};

/// A person approves what `code` did, or sends it back; another person allows the release.
pub(crate) const APPROVAL: Shape = Shape {
    name: "approvals",
    steps: &[("code", &[]), ("approve", &["code"]), ("ship", &["approve"]), ("release", &["code"])],
    gates: &[("approve", "code")],
    people: &["approve", "release"],
    worktrees: &[],
};

/// A person approves one step, and sends it back.
pub(crate) const APPROVED_GATE: Shape = Shape {
    name: "approval",
    steps: &[("code", &[]), ("approve", &["code"])],
    gates: &[("approve", "code")],
    people: &["approve"],
    worktrees: &[],
};

/// A feature in a worktree of its own: a merge follows it, and the fast-forward of the run.
pub(crate) const WORKTREE: Shape =
    Shape { name: "worktree", steps: &[("code", &[])], gates: &[], people: &[], worktrees: &["code"] };

/// Two features in worktrees of their own, side by side. A merge that fails loops back to its feature only.
pub(crate) const WORKTREES: Shape = Shape {
    name: "two worktrees",
    steps: &[("a", &[]), ("b", &[])],
    gates: &[],
    people: &[],
    worktrees: &["a", "b"],
};

/// A gate after the merge sends the feature back, which is merged again.
pub(crate) const REVIEWED_WORKTREE: Shape = Shape {
    name: "worktree with a gate",
    steps: &[("code", &[]), ("review", &["code"])],
    gates: &[("review", "code")],
    people: &[],
    worktrees: &["code"],
};

/// Asked to start again at each of its steps.
pub(crate) const RESTART: Shape = Shape {
    name: "restart of a gate",
    steps: &[("a", &[]), ("b", &["a"])],
    gates: &[("b", "a")],
    people: &[],
    worktrees: &[],
};
