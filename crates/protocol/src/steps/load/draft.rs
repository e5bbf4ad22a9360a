//! Reads the tree of a workflow file as a draft, in which every key is known and has its type. Ids and references are still text.

use std::num::NonZeroU32;
use std::time::Duration;

use serde_json::{Map, Value as Json};

use super::super::workflow::{PERSON, StepCheck};
use super::Prompt;
use super::checks;
use super::field;
use super::grammar::{self, Key};
use super::loops::{self, LoopDraft};
use super::when::{self, WhenDraft};
use crate::closest;
use crate::located::{Located, MappingEntry, Node, Problems, Rule, SourcePos, Value};

/// Keys that are about attempts, which a person does not make.
pub(super) const ATTEMPT_KEYS: [&str; 5] = ["model", "timeout", "max_attempts", "checks", "worktree"];

/// Keys of the original's format that are refused because it does not say when their conditions hold, and what to use instead.
const UNSUPPORTED_KEYS: [(&str, &str); 2] = [
    ("until_condition", "use a gate with `loop_back_to`, which repeats until its report passes"),
    ("merge_conditions", "use `checks`, which judge the step before it is merged, or `gates`"),
];

pub(super) struct Draft {
    pub(super) name: Option<String>,
    pub(super) description: Option<String>,
    pub(super) metadata: Map<String, Json>,
    pub(super) steps: Vec<StepDraft>,
}

/// A step, as far as it could be read. If a required field is `None`, a problem says why.
pub(super) struct StepDraft {
    pub(super) id: Option<Located<String>>,
    pub(super) agent: Option<String>,
    pub(super) prompt: Option<Located<Prompt>>,
    pub(super) needs: Vec<Located<String>>,
    /// Whether a part of `needs` could not be read, so that its dependencies are not all known.
    pub(super) needs_incomplete: bool,
    pub(super) next_on_success: Vec<Located<String>>,
    pub(super) loop_back_to: Option<Located<String>>,
    pub(super) metadata: Map<String, Json>,
    pub(super) model: Option<String>,
    pub(super) timeout: Option<Duration>,
    pub(super) max_attempts: Option<NonZeroU32>,
    pub(super) human_in_the_loop: bool,
    pub(super) gates: Vec<String>,
    pub(super) when: Vec<WhenDraft>,
    pub(super) checks: Vec<Located<StepCheck>>,
    pub(super) data_loop: Option<LoopDraft>,
    pub(super) worktree: bool,
}

pub(super) fn read(root: &Node, problems: &mut Problems) -> Option<Draft> {
    if root.is_null() {
        let hint = "a workflow has a `name` and a list of `steps`";
        problems.add(SourcePos::START, Rule::EmptyFile, "the file is empty", hint);
        return None;
    }
    let Value::Mapping(entries) = &root.value else {
        let message = format!("the file is {} where a mapping is expected", root.kind());
        let hint = "a workflow begins with `name: …` and `steps:`";
        problems.add(root.pos, Rule::NotAMapping, message, hint);
        return None;
    };
    check_keys(entries, Keys::Workflow, problems);
    let get = |key| MappingEntry::find(entries, key);
    Some(Draft {
        name: get("name").and_then(|entry| field::text(entry, problems)).map(|name| name.value),
        description: get("description").and_then(|entry| field::text_or_empty(entry, problems)),
        metadata: get("metadata").map(|entry| field::mapping(entry, problems)).unwrap_or_default(),
        steps: read_steps(root.pos, get("steps"), problems),
    })
}

fn read_steps(start: SourcePos, entry: Option<&MappingEntry>, problems: &mut Problems) -> Vec<StepDraft> {
    let hint = "a step looks like `- {id: plan, agent: claude, prompt: prompts/plan.md}`";
    let Some(entry) = entry else {
        problems.add(start, Rule::MissingKey, "the workflow has no `steps`", hint);
        return vec![];
    };
    match &entry.value.value {
        Value::List(steps) if !steps.is_empty() => {
            steps.iter().filter_map(|step| read_step(step, problems)).collect()
        }
        Value::List(_) | Value::Null => {
            problems.add(entry.key.pos, Rule::NoSteps, "`steps` is empty", hint);
            vec![]
        }
        Value::Bool { .. }
        | Value::AmbiguousBool(_)
        | Value::Number { .. }
        | Value::Text(_)
        | Value::Mapping(_) => {
            field::wrong_type(entry, "a list", "begin each step with `- id: …`", problems);
            vec![]
        }
    }
}

fn read_step(node: &Node, problems: &mut Problems) -> Option<StepDraft> {
    let Value::Mapping(entries) = &node.value else {
        let message = format!("this step is {} where a mapping is expected", node.kind());
        let hint = "a step has at least `id`, `agent` and `prompt`";
        problems.add(node.pos, Rule::NotAMapping, message, hint);
        return None;
    };
    check_keys(entries, Keys::Step, problems);
    let id = MappingEntry::find(entries, "id").map(|entry| field::text(entry, problems));
    let subject = match &id {
        Some(Some(id)) => format!("step `{}`", id.value),
        Some(None) | None => "this step".to_owned(),
    };
    let agent = MappingEntry::find(entries, "agent").and_then(|entry| field::text(entry, problems));
    let is_for_person = agent.as_ref().is_some_and(|agent| agent.value == PERSON);
    for (key, example) in
        [("id", "id: plan"), ("agent", "agent: claude"), ("prompt", "prompt: prompts/plan.md")]
    {
        if MappingEntry::find(entries, key).is_none() && !(key == "prompt" && is_for_person) {
            let message = format!("{subject} has no `{key}`");
            problems.add(node.pos, Rule::MissingKey, message, format!("add it, such as `{example}`"));
        }
    }
    for key in ATTEMPT_KEYS {
        if let Some(entry) = MappingEntry::find(entries, key).filter(|_| is_for_person) {
            let message = format!("{subject} has `{key}`, which has no effect on a person");
            problems.add(entry.key.pos, Rule::NoEffect, message, format!("remove `{key}`"));
        }
    }
    let get = |key| MappingEntry::find(entries, key);
    let mut text = |key| get(key).and_then(|entry| field::text(entry, problems));
    let (model, loop_back_to) = (text("model"), text("loop_back_to"));
    let before = problems.count();
    let needs = get("needs").map(|entry| field::ids(entry, problems)).unwrap_or_default();
    Some(StepDraft {
        id: id.flatten(),
        agent: agent.map(|agent| agent.value),
        prompt: get("prompt").and_then(|entry| field::prompt(entry, problems)),
        needs,
        needs_incomplete: problems.count() > before,
        next_on_success: get("next_on_success").map(|entry| field::ids(entry, problems)).unwrap_or_default(),
        loop_back_to,
        metadata: get("metadata").map(|entry| field::mapping(entry, problems)).unwrap_or_default(),
        model: model.map(|model| model.value),
        timeout: get("timeout").and_then(|entry| field::duration(entry, problems)),
        max_attempts: get("max_attempts").and_then(|entry| field::max_attempts(entry, problems)),
        human_in_the_loop: get("human_in_the_loop").is_some_and(|entry| field::flag(entry, problems)),
        gates: get("gates").map(|entry| field::conditions(entry, problems)).unwrap_or_default(),
        when: get("when").map(|entry| when::read(entry, problems)).unwrap_or_default(),
        checks: get("checks").map(|entry| checks::read(entry, problems)).unwrap_or_default(),
        data_loop: get("loop").and_then(|entry| loops::read(entry, problems)),
        worktree: get("worktree").is_some_and(|entry| field::flag(entry, problems)),
    })
}

/// The mapping to which keys belong.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Keys {
    Workflow,
    Step,
}

impl Keys {
    fn known(self) -> &'static [Key] {
        match self {
            Self::Workflow => &grammar::WORKFLOW,
            Self::Step => &grammar::STEP,
        }
    }

    fn contain(self, name: &str) -> bool {
        self.known().iter().any(|key| key.name == name)
    }

    fn owner(self) -> &'static str {
        match self {
            Self::Workflow => "a workflow",
            Self::Step => "a step",
        }
    }
}

fn check_keys(entries: &[MappingEntry], keys: Keys, problems: &mut Problems) {
    for entry in entries.iter().filter(|entry| !keys.contain(&entry.key.value)) {
        let (key, owner) = (&entry.key.value, keys.owner());
        if let Some((_, hint)) = UNSUPPORTED_KEYS.iter().find(|(name, _)| name == key) {
            let message = format!("`{key}` is not supported: the format does not say when it holds");
            problems.add(entry.key.pos, Rule::NotSupportedYet, message, hint);
            continue;
        }
        let names = || keys.known().iter().map(|key| key.name);
        let hint = if keys == Keys::Workflow && Keys::Step.contain(key) {
            format!("`{key}` belongs to a step")
        } else if let Some(meant) = closest(key, names()) {
            format!("did you mean `{meant}`?")
        } else {
            format!(
                "{owner} has the keys {}",
                names().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ")
            )
        };
        let message = format!("`{key}` is not a key of {owner}");
        problems.add(entry.key.pos, Rule::UnknownKey, message, hint);
    }
}
