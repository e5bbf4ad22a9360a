//! The grammar of a workflow file, written down once: the loader knows its keys by it, and the JSON Schema is made of it.

/// One key of a mapping.
#[derive(Debug, Clone, Copy)]
pub struct Key {
    pub name: &'static str,
    pub kind: Kind,
    pub needed: Needed,
    /// What it is for: shown by editors, and in the manual.
    pub says: &'static str,
}

/// Whether a mapping may do without the key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Needed {
    Always,
    Optional,
}

/// What the value of a key is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// A text that is not empty.
    Text,
    AnyText,
    /// A name that is safe as a file and in a variable.
    Id,
    Ids,
    Mapping,
    /// A number of seconds, or `1h30m`.
    Time,
    /// A whole number from 1.
    Count,
    Steps,
}

impl Kind {
    /// What people call it.
    pub fn word(self) -> &'static str {
        match self {
            Self::Text | Self::AnyText => "text",
            Self::Id => "id",
            Self::Ids => "list of ids",
            Self::Mapping => "mapping",
            Self::Time => "length of time",
            Self::Count => "whole number from 1",
            Self::Steps => "list of steps",
        }
    }
}

const fn always(name: &'static str, kind: Kind, says: &'static str) -> Key {
    Key { name, kind, needed: Needed::Always, says }
}

const fn optional(name: &'static str, kind: Kind, says: &'static str) -> Key {
    Key { name, kind, needed: Needed::Optional, says }
}

/// The keys of the file.
pub const WORKFLOW: [Key; 4] = [
    optional(
        "name",
        Kind::Text,
        "What the workflow is called in lists and in the run's document; `unnamed` if left out.",
    ),
    optional("description", Kind::AnyText, "What the workflow is for, for people."),
    optional(
        "metadata",
        Kind::Mapping,
        "Anything you want to keep with the workflow. It changes nothing in a run.",
    ),
    always("steps", Kind::Steps, "The steps. Of those that could start, the first in the file starts first."),
];

/// The keys of a step.
pub const STEP: [Key; 10] = [
    always(
        "id",
        Kind::Id,
        "The step's name, unique in the file: letters, digits, `.`, `_` and `-`, at most 100. Files and variables are named after it.",
    ),
    always(
        "agent",
        Kind::Text,
        "Who plays the step: a name of `[adapters]` in `callboard.toml`, passed on to a wrapper as it is.",
    ),
    always(
        "prompt",
        Kind::Text,
        "The file with the prompt: an absolute path, else looked for by its last part in `.agents/prompts` of the repository, then as written from the workflow's folder, then from the repository.",
    ),
    optional(
        "needs",
        Kind::Ids,
        "The steps that must be done before this one starts. Nothing else makes a step wait.",
    ),
    optional(
        "next_on_success",
        Kind::Ids,
        "The steps that you expect to come next. Checked against their `needs`, and otherwise without effect.",
    ),
    optional(
        "loop_back_to",
        Kind::Id,
        "Makes the step a gate: when its report has `gate_failure: true`, the run goes back to this step and does everything from there again. It must be one of the steps that this one needs, directly or not.",
    ),
    optional(
        "metadata",
        Kind::Mapping,
        "Anything you want to keep with the step. It changes nothing in a run.",
    ),
    optional("model", Kind::Text, "The model to use, handed to the agent as `STEP_MODEL`."),
    optional(
        "timeout",
        Kind::Time,
        "How long one attempt may take: a number of seconds, or a length such as `90s`, `10m`, `1h30m`, at most a year.",
    ),
    optional(
        "max_attempts",
        Kind::Count,
        "How many attempts the step has in all before it has failed; `--max-attempts` if left out.",
    ),
];
