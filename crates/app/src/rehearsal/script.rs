//! Script text → [`Rehearsal`], or everything that is wrong with it, each with line, column and the way out.
//!
//! As strict as the workflow's loader: a part that is silently ignored would rehearse another play than the author's.

mod part;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use protocol::SeatName;
use protocol::closest;
use protocol::steps::Workflow;
use protocol::steps::load::{Problem, Rule};
use supervisor::adapter::Rehearsal;
use supervisor::adapter::rehearsal::Part;

use super::node::{self, Entry, Node, Placed};

/// Reads a script for this workflow. On failure every problem that could be found is returned, in the order of the file.
pub(super) fn load(text: &str, workflow: &Workflow) -> Result<Rehearsal, Vec<Problem>> {
    let root = node::parse(text).map_err(|problem| vec![problem])?;
    let mut reader = Reader { workflow, problems: Vec::new() };
    let seats = reader.script(&root);
    let mut problems = reader.problems;
    if problems.is_empty() {
        return Ok(Rehearsal { seats });
    }
    problems.sort_by(|a, b| (a.line, a.column, &a.message).cmp(&(b.line, b.column, &b.message)));
    problems.dedup();
    Err(problems)
}

struct Reader<'a> {
    workflow: &'a Workflow,
    problems: Vec<Problem>,
}

impl<'a> Reader<'a> {
    fn script(&mut self, root: &Placed<Node>) -> BTreeMap<SeatName, Vec<Part>> {
        let hint = "a script begins with `steps:`, and below it `STEP: [PART, …]`";
        let entries = match &root.value {
            Node::Mapping(entries) => entries,
            Node::Nothing => {
                self.problem(root, Rule::EmptyFile, "the file is empty", hint);
                return BTreeMap::new();
            }
            other @ (Node::Truth | Node::Number(_) | Node::Text(_) | Node::List(_)) => {
                let message = format!("the file is {} where a mapping is expected", other.kind());
                self.problem(root, Rule::NotAMapping, message, hint);
                return BTreeMap::new();
            }
        };
        let [steps] = self.known("a script", entries, ["steps"]);
        let Some((key, steps)) = steps else {
            self.problem(root, Rule::MissingKey, "the script has no `steps`", hint);
            return BTreeMap::new();
        };
        match &steps.value {
            Node::Mapping(seats) if !seats.is_empty() => {
                seats.iter().filter_map(|entry| self.seat(entry)).collect()
            }
            Node::Mapping(_) | Node::Nothing => {
                let hint = "name a step, or rehearse without a script: `--rehearse`";
                self.problem(key, Rule::NoSteps, "`steps` is empty", hint);
                BTreeMap::new()
            }
            other @ (Node::Truth | Node::Number(_) | Node::Text(_) | Node::List(_)) => {
                let message = format!("`steps` is {} where a mapping is expected", other.kind());
                self.problem(
                    steps,
                    Rule::WrongType,
                    message,
                    "write `STEP:`, and below it one `- PART` a try",
                );
                BTreeMap::new()
            }
        }
    }

    fn seat(&mut self, (name, parts): &Entry) -> Option<(SeatName, Vec<Part>)> {
        let workflow: &'a Workflow = self.workflow;
        let Some(step) = workflow.steps.iter().find(|step| step.id.as_str() == name.value) else {
            self.unknown_seat(name);
            return None;
        };
        match &parts.value {
            Node::List(list) if !list.is_empty() => {
                let parts = list.iter().filter_map(|node| self.part(step, node)).collect();
                Some((step.id.clone(), parts))
            }
            Node::List(_) | Node::Nothing => {
                let message = format!("step `{}` has no part", step.id);
                self.problem(name, Rule::EmptyValue, message, "write `- ok` below it, or remove it");
                None
            }
            other @ (Node::Truth | Node::Number(_) | Node::Text(_) | Node::Mapping(_)) => {
                let message =
                    format!("the parts of `{}` are {} where a list is expected", step.id, other.kind());
                self.problem(parts, Rule::WrongType, message, "begin each part with `- `, one a try");
                None
            }
        }
    }

    fn unknown_seat(&mut self, name: &Placed<String>) {
        let ids = || self.workflow.steps.iter().map(|step| step.id.as_str());
        let hint = match closest(&name.value, ids()) {
            Some(meant) => format!("did you mean `{meant}`?"),
            None => format!("it has {}", listed(ids())),
        };
        let message = format!("the workflow has no step `{}`", name.value);
        self.problem(name, Rule::UnknownStep, message, hint);
    }

    /// The values of the known keys; the others are problems.
    fn known<'n, const N: usize>(
        &mut self,
        what: &str,
        entries: &'n [Entry],
        keys: [&str; N],
    ) -> [Option<&'n Entry>; N] {
        for (key, _) in entries.iter().filter(|(key, _)| !keys.contains(&key.value.as_str())) {
            let hint = match closest(&key.value, keys) {
                Some(meant) => format!("did you mean `{meant}`?"),
                None => format!("{what} has {}", listed(keys)),
            };
            self.problem(key, Rule::UnknownKey, format!("`{}` is not a key of {what}", key.value), hint);
        }
        keys.map(|known| entries.iter().find(|(key, _)| key.value == known))
    }

    fn problem<T>(&mut self, at: &Placed<T>, rule: Rule, message: impl AsRef<str>, hint: impl AsRef<str>) {
        let (message, hint) = (node::printable(message.as_ref()), node::printable(hint.as_ref()));
        self.problems.push(Problem { line: at.line, column: at.column, rule, message, hint });
    }

    /// A value of the wrong kind; `example` shows a right one.
    fn wrong(&mut self, what: &str, value: &Placed<Node>, expected: &str, example: &str) {
        let message = match &value.value {
            Node::Nothing => format!("{what} has no value where {expected} is expected"),
            Node::Truth | Node::Number(_) | Node::Text(_) | Node::List(_) | Node::Mapping(_) => {
                format!("{what} is {} where {expected} is expected", value.value.kind())
            }
        };
        self.problem(value, Rule::WrongType, message, format!("write `{example}`"));
    }
}

fn listed<'a>(names: impl IntoIterator<Item = &'a str>) -> String {
    names.into_iter().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ")
}
