//! Parses the script of a rehearsal: for each step, how the built-in scripted agent behaves in each attempt.
//!
//! The result is a [`RehearsalScript`], or all problems of the script, each with line, column and a hint.
//! As strict as the workflow loader: if a misspelt behaviour were ignored, the rehearsal would not follow the script.

mod attempt;
mod fields;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use protocol::StepId;
use protocol::closest;
use protocol::located::{Located, MappingEntry, Node, Problem, Problems, Rule, SourcePos, Value};
use supervisor::adapter::RehearsalScript;
use supervisor::adapter::rehearsal::ScriptedAttempt;

use super::script_steps::{ScriptStep, ScriptSteps};

/// Loads a script for these steps. Fails with every problem that was found, in the order of the file.
pub(super) fn load(text: &str, steps: &ScriptSteps) -> Result<RehearsalScript, Vec<Problem>> {
    let mut problems = Problems::default();
    let root = Node::from_yaml(text, &mut problems);
    let mut reader = Reader { steps, problems };
    let turns = root.map(|root| reader.script(&root)).unwrap_or_default();
    let default_fields = steps.default_fields();
    match reader.problems.into_sorted() {
        problems if !problems.is_empty() => Err(problems),
        _ if steps.are_created_by_run => {
            Ok(RehearsalScript { turns, default_fields, ..RehearsalScript::default() })
        }
        _ => {
            // Here each turn is one attempt: only scripts for steps that the run creates have lists of attempts.
            let attempts =
                |(step, turns): (StepId, Vec<Vec<_>>)| (step, turns.into_iter().flatten().collect());
            let steps = turns.into_iter().map(attempts).collect();
            Ok(RehearsalScript { steps, default_fields, ..RehearsalScript::default() })
        }
    }
}

struct Reader<'a> {
    steps: &'a ScriptSteps,
    problems: Problems,
}

impl<'a> Reader<'a> {
    fn script(&mut self, root: &Node) -> BTreeMap<StepId, Vec<Vec<ScriptedAttempt>>> {
        let (singular, plural) = self.steps.nouns;
        let placeholder = singular.to_uppercase();
        let hint = format!("a script begins with `{plural}:`, and below it `{placeholder}: [BEHAVIOUR, …]`");
        let entries = match &root.value {
            Value::Mapping(entries) => entries,
            Value::Null => {
                self.problem(SourcePos::START, Rule::EmptyFile, "the file is empty", hint);
                return BTreeMap::new();
            }
            Value::Bool { .. }
            | Value::AmbiguousBool(_)
            | Value::Number { .. }
            | Value::Text(_)
            | Value::List(_) => {
                let message = format!("the file is {} where a mapping is expected", root.kind());
                self.problem(root.pos, Rule::NotAMapping, message, hint);
                return BTreeMap::new();
            }
        };
        let [steps] = self.find_keys("a script", entries, [plural], &[]);
        let Some(MappingEntry { key, value: steps }) = steps else {
            self.problem(root.pos, Rule::MissingKey, format!("the script has no `{plural}`"), hint);
            return BTreeMap::new();
        };
        match &steps.value {
            Value::Mapping(steps) if !steps.is_empty() => {
                steps.iter().filter_map(|entry| self.step(entry)).collect()
            }
            Value::Mapping(_) | Value::Null => {
                let hint = format!("name a {singular}, or rehearse without a script: `--rehearse`");
                self.problem(key.pos, Rule::NoSteps, format!("`{plural}` is empty"), hint);
                BTreeMap::new()
            }
            Value::Bool { .. }
            | Value::AmbiguousBool(_)
            | Value::Number { .. }
            | Value::Text(_)
            | Value::List(_) => {
                let message = format!("`{plural}` is {} where a mapping is expected", steps.kind());
                let hint = format!("write `{placeholder}:`, and below it one `- BEHAVIOUR` per attempt");
                self.problem(steps.pos, Rule::WrongType, message, hint);
                BTreeMap::new()
            }
        }
    }

    fn step(
        &mut self,
        MappingEntry { key: name, value: attempts }: &MappingEntry,
    ) -> Option<(StepId, Vec<Vec<ScriptedAttempt>>)> {
        let steps: &'a ScriptSteps = self.steps;
        let Some(script_step) = steps.find(&name.value) else {
            self.unknown_step(name);
            return None;
        };
        let ScriptStep { step, .. } = &*script_step;
        match &attempts.value {
            Value::List(list) if !list.is_empty() => {
                let turns = list.iter().map(|node| self.turn(&script_step, node)).collect();
                Some((step.clone(), turns))
            }
            Value::List(_) | Value::Null => {
                let message = format!("{} `{step}` has no behaviour", steps.nouns.0);
                self.problem(name.pos, Rule::EmptyValue, message, "write `- ok` below it, or remove it");
                None
            }
            Value::Bool { .. }
            | Value::AmbiguousBool(_)
            | Value::Number { .. }
            | Value::Text(_)
            | Value::Mapping(_) => {
                let message =
                    format!("the behaviours of `{step}` are {} where a list is expected", attempts.kind());
                self.problem(attempts.pos, Rule::WrongType, message, "begin each with `- `, one per attempt");
                None
            }
        }
    }

    /// Reads the attempts of a turn: one, or a list of them if the run creates its steps.
    fn turn(&mut self, step: &ScriptStep, node: &Node) -> Vec<ScriptedAttempt> {
        match &node.value {
            Value::List(attempts) if self.steps.are_created_by_run && !attempts.is_empty() => {
                attempts.iter().filter_map(|node| self.attempt(step, node)).collect()
            }
            Value::Null
            | Value::Bool { .. }
            | Value::AmbiguousBool(_)
            | Value::Number { .. }
            | Value::Text(_)
            | Value::List(_)
            | Value::Mapping(_) => self.attempt(step, node).into_iter().collect(),
        }
    }

    fn unknown_step(&mut self, name: &Located<String>) {
        let ScriptSteps { nouns: (singular, _), owner, .. } = self.steps;
        let hint = match closest(&name.value, self.steps.names()) {
            Some(meant) => format!("did you mean `{meant}`?"),
            None => format!("it has {}", quoted_list(self.steps.names())),
        };
        self.problem(
            name.pos,
            Rule::UnknownStep,
            format!("{owner} has no {singular} `{}`", name.value),
            hint,
        );
    }

    /// Returns the entries with these keys. Reports every key that is neither one of them nor one of `others`.
    fn find_keys<'n, const N: usize>(
        &mut self,
        what: &str,
        entries: &'n [MappingEntry],
        keys: [&str; N],
        others: &[&str],
    ) -> [Option<&'n MappingEntry>; N] {
        let all = || keys.iter().chain(others).copied();
        let is_unknown = |key: &str| all().all(|known| known != key);
        for MappingEntry { key, .. } in entries.iter().filter(|entry| is_unknown(&entry.key.value)) {
            let hint = match closest(&key.value, all()) {
                Some(meant) => format!("did you mean `{meant}`?"),
                None => format!("{what} has {}", quoted_list(all())),
            };
            self.problem(key.pos, Rule::UnknownKey, format!("`{}` is not a key of {what}", key.value), hint);
        }
        keys.map(|key| MappingEntry::find(entries, key))
    }

    fn problem(&mut self, at: SourcePos, rule: Rule, message: impl AsRef<str>, hint: impl AsRef<str>) {
        self.problems.add(at, rule, message, hint);
    }

    /// Reports a value of the wrong type; `example` shows a right one.
    fn wrong_type(&mut self, what: &str, value: &Node, expected: &str, example: &str) {
        let message = if value.is_null() {
            format!("{what} has no value where {expected} is expected")
        } else {
            format!("{what} is {} where {expected} is expected", value.kind())
        };
        self.problem(value.pos, Rule::WrongType, message, format!("write `{example}`"));
    }
}

fn quoted_list<'a>(names: impl IntoIterator<Item = &'a str>) -> String {
    names.into_iter().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ")
}
