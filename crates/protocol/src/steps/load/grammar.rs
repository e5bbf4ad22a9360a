//! The keys of a workflow file. The loader, the JSON Schema and the tables in `docs/workflow.md` use this one list.

/// One key of a mapping.
#[derive(Debug, Clone, Copy)]
pub struct Key {
    pub name: &'static str,
    pub value_type: ValueType,
    pub requirement: Requirement,
    /// Shown by editors and in `docs/workflow.md`.
    pub description: &'static str,
}

/// Whether a key is required.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Requirement {
    Always,
    /// Required unless the step asks a person (`agent: person`).
    UnlessPerson,
    Optional,
}

/// The type of a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ValueType {
    /// A text that is not empty.
    Text,
    /// A text that may be empty.
    AnyText,
    /// An id that is safe as a file name and in a variable.
    Id,
    Ids,
    /// A list of names.
    Names,
    /// The mapping of a data loop.
    Loop,
    /// A condition of `when`, or a list of them.
    When,
    /// A list of names and mappings with `run`.
    Checks,
    Mapping,
    /// A number of seconds, or `1h30m`.
    Time,
    /// A whole number from 1.
    Count,
    Flag,
    Steps,
}

impl ValueType {
    /// Returns the name of the type in `docs/workflow.md`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Text | Self::AnyText => "text",
            Self::Id => "id",
            Self::Ids => "list of ids",
            Self::Names => "list of names",
            Self::Checks => "list of checks",
            Self::When => "mapping, or list of mappings",
            Self::Mapping | Self::Loop => "mapping",
            Self::Time => "length of time",
            Self::Count => "whole number from 1",
            Self::Flag => "`true` or `false`",
            Self::Steps => "list of steps",
        }
    }
}

const fn always(name: &'static str, value_type: ValueType, description: &'static str) -> Key {
    Key { name, value_type, requirement: Requirement::Always, description }
}

const fn unless_person(name: &'static str, value_type: ValueType, description: &'static str) -> Key {
    Key { name, value_type, requirement: Requirement::UnlessPerson, description }
}

const fn optional(name: &'static str, value_type: ValueType, description: &'static str) -> Key {
    Key { name, value_type, requirement: Requirement::Optional, description }
}

/// The keys of the file.
pub const WORKFLOW: [Key; 4] = [
    optional(
        "name",
        ValueType::Text,
        "The name of the workflow in lists and in the document of the run; `unnamed` if left out.",
    ),
    optional("description", ValueType::AnyText, "What the workflow is for."),
    optional(
        "metadata",
        ValueType::Mapping,
        "Anything you want to store with the workflow. It has no effect on a run.",
    ),
    always(
        "steps",
        ValueType::Steps,
        "The steps. If several could start, the first in the file starts first.",
    ),
];

/// The keys of a step.
pub const STEP: [Key; 16] = [
    always(
        "id",
        ValueType::Id,
        "The id of the step, unique in the file: at most 100 letters, digits, `.`, `_` and `-`. Files and variables are named after it.",
    ),
    always(
        "agent",
        ValueType::Text,
        "The agent that runs the step: a name of `[adapters]` in `callboard.toml`, passed to a wrapper unchanged. `person` asks a person for an approval.",
    ),
    unless_person(
        "prompt",
        ValueType::Text,
        "The file with the prompt: an absolute path, else looked for by its file name in `.agents/prompts` of the repository, then as written from the workflow's folder, then from the repository. A block (`prompt: |`) is the prompt itself.",
    ),
    optional("needs", ValueType::Ids, "The steps that must be done before this one starts."),
    optional(
        "next_on_success",
        ValueType::Ids,
        "The steps that you expect to come next. Checked against their `needs`, and otherwise without effect.",
    ),
    optional(
        "loop_back_to",
        ValueType::Id,
        "Makes the step a gate: when its report has `gate_failure: true`, the run loops back to the named step and does everything from there again. The named step must be one that this one needs, directly or not.",
    ),
    optional(
        "metadata",
        ValueType::Mapping,
        "Anything you want to store with the step. It has no effect on a run.",
    ),
    optional("model", ValueType::Text, "The model to use, passed to the agent as `STEP_MODEL`."),
    optional(
        "timeout",
        ValueType::Time,
        "How long one attempt may take: a number of seconds, or a length such as `90s`, `10m`, `1h30m`, at most a year.",
    ),
    optional(
        "max_attempts",
        ValueType::Count,
        "How many attempts the step has before it fails; `--max-attempts` if left out.",
    ),
    optional(
        "human_in_the_loop",
        ValueType::Flag,
        "With `true` a person approves the agent's work before the step is done. `--no-pause` skips the wait.",
    ),
    optional(
        "gates",
        ValueType::Names,
        "Conditions that must hold before the step starts: names that the file of `--gate-state-file` maps to `true`. Without that flag they count as true.",
    ),
    optional(
        "when",
        ValueType::When,
        "The step runs only if this is so, and is skipped otherwise: `{step: ID, status: COMPLETED}` (or `SKIPPED`), `{step: ID, metric: NAME, above: 0}` (or `is`, `is_not`, `at_least`, `below`, `at_most`), `{artifact: PATH}`, or a list of which all must hold.",
    ),
    optional(
        "checks",
        ValueType::Checks,
        "What the engine runs in the step's working directory after the agent's report: names of `[checks]` in `callboard.toml`, or mappings with `run` (a list of arguments, or a line for `sh`), and optionally `name` and `timeout`. A failing check is a gate failure if the step is a gate; otherwise the attempt fails.",
    ),
    optional(
        "loop",
        ValueType::Loop,
        "Repeats the step for each item of a list: `items`, `items_from_step`, `items_from_artifact`, or `with` another step. Optionally `max_iterations`, `item_var`, `index_var` and `parallel`.",
    ),
    optional(
        "worktree",
        ValueType::Flag,
        "With `true` the step works in a git worktree and on a branch of its own, which is merged into the integration branch of the run when it is done.",
    ),
];
