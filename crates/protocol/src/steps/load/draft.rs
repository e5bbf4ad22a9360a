//! The tree → a draft: every key known and of its type, but ids and references still only text.

use std::num::NonZeroU32;
use std::time::Duration;

use serde_json::{Map, Value as Json};

use super::field::{self, Placed};
use super::problem::{Problems, Rule};
use super::suggest::closest;
use super::tree::{Entry, Node, Position, Value};

const WORKFLOW_KEYS: [&str; 4] = ["name", "description", "metadata", "steps"];

const STEP_KEYS: [&str; 10] = [
    "id",
    "agent",
    "prompt",
    "needs",
    "next_on_success",
    "loop_back_to",
    "metadata",
    "model",
    "timeout",
    "max_attempts",
];

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
        problems.add_with_hint(root.position, Rule::NotAMapping, message, hint);
        return None;
    };
    check_keys("a workflow", entries, &WORKFLOW_KEYS, problems);
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
        problems.add_with_hint(start, Rule::MissingKey, "the workflow has no `steps`", hint);
        return vec![];
    };
    match &entry.value.value {
        Value::List(steps) if !steps.is_empty() => {
            steps.iter().filter_map(|step| read_step(step, problems)).collect()
        }
        Value::Scalar { .. } if !entry.value.is_null() => {
            field::wrong_type(entry, "a list", problems);
            vec![]
        }
        Value::Mapping(_) => {
            let message = "`steps` is a mapping where a list is expected";
            let hint = "begin each step with `- id: …`";
            problems.add_with_hint(entry.value.position, Rule::WrongType, message, hint);
            vec![]
        }
        Value::List(_) | Value::Scalar { .. } => {
            problems.add_with_hint(entry.key_position, Rule::NoSteps, "`steps` is empty", hint);
            vec![]
        }
    }
}

fn read_step(node: &Node, problems: &mut Problems) -> Option<StepDraft> {
    let Value::Mapping(entries) = &node.value else {
        let message = format!("this step is {} where a mapping is expected", field::kind(node));
        let hint = "a step has at least `id`, `agent` and `prompt`";
        problems.add_with_hint(node.position, Rule::NotAMapping, message, hint);
        return None;
    };
    check_keys("a step", entries, &STEP_KEYS, problems);
    let id = find(entries, "id").map(|entry| field::text(entry, problems));
    let called = match &id {
        Some(Some(id)) => format!("step `{}`", id.value),
        Some(None) | None => "this step".to_owned(),
    };
    for key in ["id", "agent", "prompt"] {
        if find(entries, key).is_none() {
            problems.add(node.position, Rule::MissingKey, format!("{called} has no `{key}`"));
        }
    }
    let get = |key| find(entries, key);
    let mut text = |key| get(key).and_then(|entry| field::text(entry, problems));
    let (agent, prompt, model, loop_back_to) =
        (text("agent"), text("prompt"), text("model"), text("loop_back_to"));
    Some(StepDraft {
        id: id.flatten(),
        agent: agent.map(|agent| agent.value),
        prompt,
        needs: get("needs").map(|entry| field::ids(entry, problems)).unwrap_or_default(),
        next_on_success: get("next_on_success").map(|entry| field::ids(entry, problems)).unwrap_or_default(),
        loop_back_to,
        metadata: get("metadata").map(|entry| field::mapping(entry, problems)).unwrap_or_default(),
        model: model.map(|model| model.value),
        timeout: get("timeout").and_then(|entry| field::length_of_time(entry, problems)),
        max_attempts: get("max_attempts").and_then(|entry| field::tries(entry, problems)),
    })
}

fn find<'a>(entries: &'a [Entry], key: &str) -> Option<&'a Entry> {
    entries.iter().find(|entry| entry.key == key)
}

fn check_keys(what: &str, entries: &[Entry], known: &[&str], problems: &mut Problems) {
    for entry in entries.iter().filter(|entry| !known.contains(&entry.key.as_str())) {
        let key = &entry.key;
        let later = LATER_KEYS.iter().find(|(later, _)| later == key);
        if let Some((_, feature)) = later.filter(|_| known == STEP_KEYS) {
            let message = format!("`{key}` ({feature}) is not supported yet");
            let hint = format!("remove `{key}` if the workflow makes sense without it");
            problems.add_with_hint(entry.key_position, Rule::NotSupportedYet, message, hint);
            continue;
        }
        let hint = if known != STEP_KEYS && (STEP_KEYS.contains(&key.as_str()) || later.is_some()) {
            format!("`{key}` belongs to a step")
        } else if let Some(meant) = closest(key, known.iter().copied()) {
            format!("did you mean `{meant}`?")
        } else {
            format!("{what} has the keys {}", listed(known))
        };
        problems.add_with_hint(
            entry.key_position,
            Rule::UnknownKey,
            format!("`{key}` is not a key of {what}"),
            hint,
        );
    }
}

fn listed(keys: &[&str]) -> String {
    keys.iter().map(|key| format!("`{key}`")).collect::<Vec<_>>().join(", ")
}
