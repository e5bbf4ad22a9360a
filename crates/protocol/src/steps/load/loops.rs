//! Reads `loop` of a step, a data loop: the step is repeated for each item of a list. Also checks what depends on the
//! other steps.

use std::num::NonZeroU32;

use serde_json::Value as Json;

use super::draft::StepDraft;
use super::field;
use super::graph::{Edges, is_ancestor, name};
use crate::StepId;
use crate::located::{Located, MappingEntry, Problems, Rule, SourcePos, Value};
use crate::steps::workflow::{DataLoop, ItemsSource};

const KEYS: [&str; 8] = [
    "items",
    "items_from_step",
    "items_from_artifact",
    "with",
    "max_iterations",
    "item_var",
    "index_var",
    "parallel",
];
const SOURCES: [&str; 4] = ["items", "items_from_step", "items_from_artifact", "with"];
const HINT: &str =
    "write `loop: {items_from_step: plan}`, or one of `items`, `items_from_artifact` and `with`";

/// The number of an item has at most this many digits.
const DIGITS: usize = 10;

/// A data loop whose references are still text.
pub(super) struct LoopDraft {
    pos: SourcePos,
    source: SourceDraft,
    max_iterations: Option<NonZeroU32>,
    item_var: Option<String>,
    index_var: Option<String>,
    parallel: Option<NonZeroU32>,
}

enum SourceDraft {
    Items(Vec<Json>),
    Step(Located<String>),
    Artifact(String),
    With(Located<String>),
}

impl LoopDraft {
    /// Returns the key and the id of the step that the loop refers to.
    pub(super) fn step(&self) -> Option<(&'static str, &Located<String>)> {
        match &self.source {
            SourceDraft::Step(step) => Some(("items_from_step", step)),
            SourceDraft::With(step) => Some(("with", step)),
            SourceDraft::Items(_) | SourceDraft::Artifact(_) => None,
        }
    }

    /// Returns whether the items are those of another step.
    pub(super) fn is_paired(&self) -> bool {
        matches!(self.source, SourceDraft::With(_))
    }

    /// Returns the data loop; `None` if its reference was reported.
    pub(super) fn build(self, from: Option<StepId>) -> Option<DataLoop> {
        let source = match self.source {
            SourceDraft::Items(items) => ItemsSource::Items(items),
            SourceDraft::Artifact(path) => ItemsSource::Artifact(path),
            SourceDraft::Step(_) => ItemsSource::Step(from?),
            SourceDraft::With(_) => ItemsSource::With(from?),
        };
        let mut data_loop = DataLoop::new(source);
        data_loop.max_iterations = self.max_iterations;
        data_loop.item_var = self.item_var.unwrap_or(data_loop.item_var);
        data_loop.index_var = self.index_var.unwrap_or(data_loop.index_var);
        data_loop.parallel = self.parallel.unwrap_or(data_loop.parallel);
        Some(data_loop)
    }
}

pub(super) fn read(entry: &MappingEntry, problems: &mut Problems) -> Option<LoopDraft> {
    let Value::Mapping(entries) = &entry.value.value else {
        field::wrong_type(entry, "a mapping", HINT, problems);
        return None;
    };
    for unknown in entries.iter().filter(|entry| !KEYS.contains(&entry.key.value.as_str())) {
        let key = &unknown.key.value;
        if key == "until_condition" {
            let message =
                "`until_condition` is not supported: a run must end, and no rule says when a condition holds";
            let hint =
                "use `max_iterations`, or a gate with `loop_back_to`, which repeats until its report passes";
            problems.add(unknown.key.pos, Rule::NotSupportedYet, message, hint);
            continue;
        }
        let message = format!("`{key}` is not a key of `loop`");
        let hint = format!("`loop` has the keys {}", KEYS.map(|key| format!("`{key}`")).join(", "));
        problems.add(unknown.key.pos, Rule::UnknownKey, message, hint);
    }
    let get = |key| MappingEntry::find(entries, key);
    let given: Vec<_> = SOURCES.into_iter().filter_map(get).collect();
    let source = match given[..] {
        [source] => source,
        [] => {
            problems.add(
                entry.key.pos,
                Rule::MissingKey,
                "`loop` does not say where its items come from",
                HINT,
            );
            return None;
        }
        [_, second, ..] => {
            let message = "`loop` has two sources of items";
            problems.add(second.key.pos, Rule::WrongType, message, "keep one of them");
            return None;
        }
    };
    let source = read_source(source, problems)?;
    let is_paired = matches!(source, SourceDraft::With(_));
    for key in ["max_iterations", "parallel"] {
        if let Some(entry) = get(key).filter(|_| is_paired) {
            let message = format!("`{key}` has no effect beside `with`: the other step decides");
            problems.add(entry.key.pos, Rule::NoEffect, message, format!("remove `{key}`"));
        }
    }
    let names = [("item_var", "item"), ("index_var", "index")].map(|(key, default)| {
        get(key)
            .and_then(|entry| entry.value.to_json().as_str().map(str::to_owned))
            .unwrap_or_else(|| default.to_owned())
    });
    // The names of the variables are in capitals.
    if names[0].eq_ignore_ascii_case(&names[1])
        && let Some(entry) = get("item_var").or(get("index_var"))
    {
        let message = format!("the variables of the item and of its index are both called `{}`", names[0]);
        problems.add(entry.key.pos, Rule::UnsafeId, message, "choose another name for one of them");
    }
    Some(LoopDraft {
        pos: entry.key.pos,
        source,
        max_iterations: get("max_iterations").and_then(|entry| field::loop_limit(entry, problems)),
        item_var: get("item_var").and_then(|entry| variable(entry, problems)),
        index_var: get("index_var").and_then(|entry| variable(entry, problems)),
        parallel: get("parallel").and_then(|entry| field::loop_limit(entry, problems)),
    })
}

fn read_source(entry: &MappingEntry, problems: &mut Problems) -> Option<SourceDraft> {
    if entry.key.value == "items" {
        let Json::Array(items) = entry.value.to_json() else {
            field::wrong_type(entry, "a list", "write `items: [one, two]`", problems);
            return None;
        };
        return Some(SourceDraft::Items(items));
    }
    let text = field::text(entry, problems)?;
    Some(match entry.key.value.as_str() {
        "items_from_artifact" => SourceDraft::Artifact(text.value),
        "with" => SourceDraft::With(text),
        _ => SourceDraft::Step(text),
    })
}

/// Reads a name that becomes part of the name of an environment variable.
fn variable(entry: &MappingEntry, problems: &mut Problems) -> Option<String> {
    let text = field::text(entry, problems)?;
    let is_word = |c: char| c.is_ascii_alphanumeric() || c == '_';
    if text.value.starts_with(|c: char| c.is_ascii_digit()) || !text.value.chars().all(is_word) {
        let message = format!("`{}` cannot be part of the name of a variable", text.value);
        problems.add(text.pos, Rule::UnsafeId, message, "use letters, digits and `_`, such as `story`");
        return None;
    }
    Some(text.value)
}

/// Checks that the items come from a step before, that paired steps fit together, and that items have ids of their own.
pub(super) fn check(steps: &[StepDraft], edges: &[Edges], problems: &mut Problems) {
    for (index, step) in steps.iter().enumerate() {
        let Some(data_loop) = &step.data_loop else { continue };
        check_ids(steps, step, problems);
        if step.worktree {
            let message = "a step with `loop` cannot have `worktree: true`";
            problems.add(data_loop.pos, Rule::NoEffect, message, "remove one of them");
        }
        let Some(source) = &edges[index].loop_source else { continue };
        match &data_loop.source {
            SourceDraft::Step(_) if !edges[index].needs.iter().any(|need| need.value == source.value) => {
                if !edges[index].needs_incomplete {
                    let (this, from) = (name(steps, index), name(steps, source.value));
                    let message = format!("`{this}` takes its items from `{from}`, but does not need it");
                    let hint = format!("add `{from}` to the `needs` of `{this}`");
                    problems.add(source.pos, Rule::NotAnAncestor, message, hint);
                }
            }
            SourceDraft::With(_) => check_paired(steps, edges, index, source, problems),
            SourceDraft::Step(_) | SourceDraft::Items(_) | SourceDraft::Artifact(_) => {}
        }
    }
}

/// Checks that the ids of items are free, and not too long.
fn check_ids(steps: &[StepDraft], step: &StepDraft, problems: &mut Problems) {
    let Some(Located { value: id, pos }) = &step.id else { return };
    if StepId::new(id).is_ok() && StepId::new(format!("{id}.{}", "9".repeat(DIGITS))).is_err() {
        let message = format!("`{id}` is too long for a step with `loop`: its items are called `{id}.1`");
        problems.add(*pos, Rule::UnsafeId, message, "choose a shorter id");
    }
    let is_item = |other: &str| {
        let number = other.strip_prefix(id.as_str()).and_then(|rest| rest.strip_prefix('.'));
        number.is_some_and(|number| number.parse::<u32>().is_ok())
    };
    for other in steps.iter().filter_map(|step| step.id.as_ref()).filter(|other| is_item(&other.value)) {
        let message = format!("`{}` is the id of an item of `{id}`", other.value);
        problems.add(other.pos, Rule::DuplicateId, message, "give this step another id");
    }
}

/// Checks a step that is paired with the loop of another one.
fn check_paired(
    steps: &[StepDraft],
    edges: &[Edges],
    index: usize,
    items_owner: &Located<usize>,
    problems: &mut Problems,
) {
    let (this, other) = (name(steps, index), name(steps, items_owner.value));
    let has_items = steps[items_owner.value]
        .data_loop
        .as_ref()
        .is_some_and(|data_loop| !matches!(data_loop.source, SourceDraft::With(_)));
    if !has_items {
        let message = format!("`{this}` is paired with `{other}`, which has no items of its own");
        problems.add(items_owner.pos, Rule::NotAnAncestor, message, "name a step whose `loop` has the items");
        return;
    }
    if !is_ancestor(items_owner.value, index, edges) {
        let message = format!("`{this}` is paired with `{other}`, which it does not need, directly or not");
        let hint = format!("add `{other}` to the `needs` of `{this}`");
        problems.add(items_owner.pos, Rule::NotAnAncestor, message, hint);
    }
    if !steps[index].gates.is_empty() {
        let message = format!("`gates` has no effect on `{this}`, which starts with the items of `{other}`");
        problems.add(items_owner.pos, Rule::NoEffect, message, format!("move `gates` to `{other}`"));
    }
    // Whether a step runs for each of these items: their owner, or a step that is paired with it.
    let is_member = |step: usize| {
        step == items_owner.value
            || edges[step].loop_source.as_ref().is_some_and(|source| source.value == items_owner.value)
                && matches!(
                    steps[step].data_loop.as_ref().map(|data_loop| &data_loop.source),
                    Some(SourceDraft::With(_))
                )
    };
    for need in edges[index].needs.iter().filter(|need| !is_member(need.value)) {
        let waits =
            (0..steps.len()).any(|member| is_member(member) && is_ancestor(member, need.value, edges));
        if waits {
            let between = name(steps, need.value);
            let message = format!(
                "`{this}` could never start: `{between}` waits for all items of `{other}`, and the items for `{this}`"
            );
            problems.add(need.pos, Rule::Cycle, message, format!("pair `{between}` with `{other}`, too"));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::load;
    use super::*;

    fn loaded(steps: &[&str]) -> Result<Vec<DataLoop>, Vec<String>> {
        let steps = steps.iter().map(|step| format!("- {{agent: x, prompt: p, {step}}}\n"));
        match load(&format!("steps:\n{}", steps.collect::<String>())) {
            Ok(loaded) => Ok(loaded.workflow.steps.into_iter().filter_map(|step| step.data_loop).collect()),
            Err(problems) => Err(problems.into_iter().map(|problem| problem.message).collect()),
        }
    }

    #[test]
    fn a_data_loop_has_one_source_and_defaults() {
        let loops = loaded(&[
            "id: plan",
            "id: code, needs: [plan], loop: {items_from_step: plan, item_var: story, parallel: 3}",
            "id: review, needs: [code], loop: {with: code}",
            "id: list, loop: {items: [a, {b: 1}], max_iterations: 2, index_var: n}",
        ])
        .unwrap();
        let id = |id: &str| StepId::new(id).unwrap();
        assert_eq!(loops[0].source, ItemsSource::Step(id("plan")));
        assert_eq!((loops[0].item_var.as_str(), loops[0].index_var.as_str()), ("story", "index"));
        assert_eq!(loops[0].parallel.get(), 3);
        assert_eq!(loops[1].source, ItemsSource::With(id("code")));
        let items = serde_json::json!(["a", { "b": 1 }]);
        assert_eq!(loops[2].source, ItemsSource::Items(items.as_array().unwrap().clone()));
        assert_eq!(loops[2].max_iterations, NonZeroU32::new(2));
    }

    #[test]
    fn unusable_data_loops_are_refused() {
        for (steps, message) in [
            (&["id: a, loop: {}"][..], "`loop` does not say where its items come from"),
            (&["id: a, loop: {items: [], with: b}", "id: b"], "`loop` has two sources of items"),
            (&["id: a, loop: {items: x}"], "`items` is a string where a list is expected"),
            (&["id: a, loop: {items: [], item_var: a-b}"], "`a-b` cannot be part of the name of a variable"),
            (&["id: a, loop: {items: [], step: 2}"], "`step` is not a key of `loop`"),
            (
                &["id: a, loop: {items_from_step: b}", "id: b"],
                "`a` takes its items from `b`, but does not need it",
            ),
            (&["id: a, loop: {items_from_step: c}"], "`items_from_step` names `c`, but no step has this id"),
            (
                &["id: a", "id: b, needs: [a], loop: {with: a}"],
                "`b` is paired with `a`, which has no items of its own",
            ),
            (
                &["id: a, loop: {items: []}", "id: b, loop: {with: a}"],
                "`b` is paired with `a`, which it does not need, directly or not",
            ),
            (&["id: a, loop: {items: []}", "id: a.1"], "`a.1` is the id of an item of `a`"),
            (
                &["id: a, loop: {items: []}, worktree: true"],
                "a step with `loop` cannot have `worktree: true`",
            ),
            (
                &["id: a, loop: {items: []}", "id: m, needs: [a]", "id: b, needs: [m], loop: {with: a}"],
                "`b` could never start: `m` waits for all items of `a`, and the items for `b`",
            ),
        ] {
            assert_eq!(loaded(steps).unwrap_err(), [message], "{steps:?}");
        }
        for key in ["parallel", "max_iterations"] {
            let text = format!("steps: [{{id: a, agent: x, prompt: p, loop: {{items: [], {key}: 0}}}}]");
            let problems = load(&text).unwrap_err();
            assert_eq!(problems[0].rule, Rule::BadLoopLimit);
            assert_eq!(problems[0].message, format!("`{key}` is 0; it must be a whole number from 1"));
        }
        let refused = loaded(&["id: a, loop: {items: [], until_condition: x}"]).unwrap_err();
        assert!(refused[0].starts_with("`until_condition` is not supported: "), "{refused:?}");
    }
}
