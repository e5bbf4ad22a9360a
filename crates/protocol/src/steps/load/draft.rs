//! The tree → a draft: every key known and of its type, but ids and references still only text.

use std::num::NonZeroU32;
use std::time::Duration;

use serde_json::{Map, Value as Json};

use super::field::{self, Placed};
use super::grammar::{self, Key};
use super::problem::{Problems, Rule};
use super::tree::{Entry, Node, Position, Value};
use crate::closest;

/// Keys of the grammar that this version refuses, and what each of them would do.
const LATER_KEYS: [(&str, &str); 5] = [
    ("gates", "waiting for conditions outside the workflow"),
    ("human_in_the_loop", "waiting for a person's answer"),
    ("loop", "repeating a step over a list of items"),
    ("until_condition", "repeating a step until a condition holds"),
    ("merge_conditions", "conditions for merging"),
];

pub(super) struct Draft {
    pub(super) name: Option<String>,
    pub(super) description: Option<String>,
    pub(super) metadata: Map<String, Json>,
    pub(super) steps: Vec<StepDraft>,
}

/// A step as far as it could be read: what is `None` although it is required has been reported.
pub(super) struct StepDraft {
    pub(super) id: Option<Placed<String>>,
    pub(super) agent: Option<String>,
    pub(super) prompt: Option<Placed<String>>,
    pub(super) needs: Vec<Placed<String>>,
    /// Something in `needs` could not be read, so that nobody knows all it stands on.
    pub(super) needs_unread: bool,
    pub(super) next_on_success: Vec<Placed<String>>,
    pub(super) loop_back_to: Option<Placed<String>>,
    pub(super) metadata: Map<String, Json>,
    pub(super) model: Option<String>,
    pub(super) timeout: Option<Duration>,
    pub(super) max_attempts: Option<NonZeroU32>,
}

pub(super) fn read(root: &Node, problems: &mut Problems) -> Option<Draft> {
    let Value::Mapping(entries) = &root.value else {
        let message = format!("the file is {} where a mapping is expected", field::kind(root));
        let hint = "a workflow begins with `name: …` and `steps:`";
        problems.add(root.position, Rule::NotAMapping, message, hint);
        return None;
    };
    check_keys(entries, Keys::OfTheWorkflow, problems);
    let get = |key| find(entries, key);
    Some(Draft {
        name: get("name").and_then(|entry| field::text(entry, problems)).map(|name| name.value),
        description: get("description").and_then(|entry| field::text_or_empty(entry, problems)),
        metadata: get("metadata").map(|entry| field::mapping(entry, problems)).unwrap_or_default(),
        steps: read_steps(root.position, get("steps"), problems),
    })
}

fn read_steps(start: Position, entry: Option<&Entry>, problems: &mut Problems) -> Vec<StepDraft> {
    let hint = "a step looks like `- {id: plan, agent: claude, prompt: prompts/plan.md}`";
    let Some(entry) = entry else {
        problems.add(start, Rule::MissingKey, "the workflow has no `steps`", hint);
        return vec![];
    };
    match &entry.value.value {
        Value::List(steps) if !steps.is_empty() => {
            steps.iter().filter_map(|step| read_step(step, problems)).collect()
        }
        Value::Scalar { .. } | Value::Mapping(_) if !entry.value.is_null() => {
            field::wrong_type(entry, "a list", "begin each step with `- id: …`", problems);
            vec![]
        }
        Value::List(_) | Value::Scalar { .. } | Value::Mapping(_) => {
            problems.add(entry.key_position, Rule::NoSteps, "`steps` is empty", hint);
            vec![]
        }
    }
}

fn read_step(node: &Node, problems: &mut Problems) -> Option<StepDraft> {
    let Value::Mapping(entries) = &node.value else {
        let message = format!("this step is {} where a mapping is expected", field::kind(node));
        let hint = "a step has at least `id`, `agent` and `prompt`";
        problems.add(node.position, Rule::NotAMapping, message, hint);
        return None;
    };
    check_keys(entries, Keys::OfAStep, problems);
    let id = find(entries, "id").map(|entry| field::text(entry, problems));
    let called = match &id {
        Some(Some(id)) => format!("step `{}`", id.value),
        Some(None) | None => "this step".to_owned(),
    };
    for (key, example) in
        [("id", "id: plan"), ("agent", "agent: claude"), ("prompt", "prompt: prompts/plan.md")]
    {
        if find(entries, key).is_none() {
            let message = format!("{called} has no `{key}`");
            problems.add(node.position, Rule::MissingKey, message, format!("add it, such as `{example}`"));
        }
    }
    let get = |key| find(entries, key);
    let mut text = |key| get(key).and_then(|entry| field::text(entry, problems));
    let (agent, prompt, model, loop_back_to) =
        (text("agent"), text("prompt"), text("model"), text("loop_back_to"));
    let before = problems.count();
    let needs = get("needs").map(|entry| field::ids(entry, problems)).unwrap_or_default();
    Some(StepDraft {
        id: id.flatten(),
        agent: agent.map(|agent| agent.value),
        prompt,
        needs,
        needs_unread: problems.count() > before,
        next_on_success: get("next_on_success").map(|entry| field::ids(entry, problems)).unwrap_or_default(),
        loop_back_to,
        metadata: get("metadata").map(|entry| field::mapping(entry, problems)).unwrap_or_default(),
        model: model.map(|model| model.value),
        timeout: get("timeout").and_then(|entry| field::length_of_time(entry, problems)),
        max_attempts: get("max_attempts").and_then(|entry| field::max_attempts(entry, problems)),
    })
}

fn find<'a>(entries: &'a [Entry], key: &str) -> Option<&'a Entry> {
    entries.iter().find(|entry| entry.key == key)
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Keys {
    OfTheWorkflow,
    OfAStep,
}

impl Keys {
    fn known(self) -> &'static [Key] {
        match self {
            Self::OfTheWorkflow => &grammar::WORKFLOW,
            Self::OfAStep => &grammar::STEP,
        }
    }

    fn know(self, name: &str) -> bool {
        self.known().iter().any(|key| key.name == name)
    }

    fn owner(self) -> &'static str {
        match self {
            Self::OfTheWorkflow => "a workflow",
            Self::OfAStep => "a step",
        }
    }
}

fn check_keys(entries: &[Entry], keys: Keys, problems: &mut Problems) {
    for entry in entries.iter().filter(|entry| !keys.know(&entry.key)) {
        let (key, owner) = (&entry.key, keys.owner());
        let later = LATER_KEYS.iter().find(|(later, _)| later == key);
        if let Some((_, feature)) = later.filter(|_| keys == Keys::OfAStep) {
            let message = format!("`{key}` ({feature}) is not supported yet");
            let hint = format!("remove `{key}` if the workflow makes sense without it");
            problems.add(entry.key_position, Rule::NotSupportedYet, message, hint);
            continue;
        }
        let names = || keys.known().iter().map(|key| key.name);
        let hint = if keys == Keys::OfTheWorkflow && (Keys::OfAStep.know(key) || later.is_some()) {
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
        problems.add(entry.key_position, Rule::UnknownKey, message, hint);
    }
}
