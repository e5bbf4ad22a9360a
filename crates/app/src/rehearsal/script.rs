//! Script text → [`Rehearsal`], or everything that is wrong with it, each with line, column and the way out.
//!
//! As strict as the workflow's loader: a part that is silently ignored would rehearse another play than the author's.

mod part;
mod says;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use protocol::StepId;
use protocol::closest;
use protocol::steps::load::{Problem, Rule};
use supervisor::adapter::Rehearsal;
use supervisor::adapter::rehearsal::ScriptedAttempt;

use super::node::{self, Entry, Node, Placed};
use super::roles::{Role, Roles};

/// Reads a script for these steps. On failure every problem that could be found is returned, in the order of the file.
pub(super) fn load(text: &str, roles: &Roles) -> Result<Rehearsal, Vec<Problem>> {
    let root = node::parse(text).map_err(|problem| vec![problem])?;
    let mut reader = Reader { roles, problems: Vec::new() };
    let steps = reader.script(&root);
    let mut problems = reader.problems;
    if problems.is_empty() {
        return Ok(Rehearsal { steps, by_default: roles.by_default() });
    }
    problems.sort_by(|a, b| (a.line, a.column, &a.message).cmp(&(b.line, b.column, &b.message)));
    problems.dedup();
    Err(problems)
}

struct Reader<'a> {
    roles: &'a Roles,
    problems: Vec<Problem>,
}

impl<'a> Reader<'a> {
    fn script(&mut self, root: &Placed<Node>) -> BTreeMap<StepId, Vec<ScriptedAttempt>> {
        let (one, many) = self.roles.word;
        let upper = one.to_uppercase();
        let hint = format!("a script begins with `{many}:`, and below it `{upper}: [PART, …]`");
        let entries = match &root.value {
            Node::Mapping(entries) => entries,
            Node::Nothing => {
                self.problem(root, Rule::EmptyFile, "the file is empty", hint);
                return BTreeMap::new();
            }
            other @ (Node::Truth(_) | Node::Number(_) | Node::Text(_) | Node::List(_)) => {
                let message = format!("the file is {} where a mapping is expected", other.kind());
                self.problem(root, Rule::NotAMapping, message, hint);
                return BTreeMap::new();
            }
        };
        let [steps] = self.known("a script", entries, [many], &[]);
        let Some((key, steps)) = steps else {
            self.problem(root, Rule::MissingKey, format!("the script has no `{many}`"), hint);
            return BTreeMap::new();
        };
        match &steps.value {
            Node::Mapping(steps) if !steps.is_empty() => {
                steps.iter().filter_map(|entry| self.step(entry)).collect()
            }
            Node::Mapping(_) | Node::Nothing => {
                let hint = format!("name a {one}, or rehearse without a script: `--rehearse`");
                self.problem(key, Rule::NoSteps, format!("`{many}` is empty"), hint);
                BTreeMap::new()
            }
            other @ (Node::Truth(_) | Node::Number(_) | Node::Text(_) | Node::List(_)) => {
                let message = format!("`{many}` is {} where a mapping is expected", other.kind());
                let hint = format!("write `{upper}:`, and below it one `- PART` an attempt");
                self.problem(steps, Rule::WrongType, message, hint);
                BTreeMap::new()
            }
        }
    }

    fn step(&mut self, (name, parts): &Entry) -> Option<(StepId, Vec<ScriptedAttempt>)> {
        let roles: &'a Roles = self.roles;
        let Some(role) = roles.find(&name.value) else {
            self.unknown_step(name);
            return None;
        };
        let Role { step, .. } = role;
        match &parts.value {
            Node::List(list) if !list.is_empty() => {
                let parts = list.iter().filter_map(|node| self.part(role, node)).collect();
                Some((step.clone(), parts))
            }
            Node::List(_) | Node::Nothing => {
                let message = format!("{} `{step}` has no part", roles.word.0);
                self.problem(name, Rule::EmptyValue, message, "write `- ok` below it, or remove it");
                None
            }
            other @ (Node::Truth(_) | Node::Number(_) | Node::Text(_) | Node::Mapping(_)) => {
                let message = format!("the parts of `{step}` are {} where a list is expected", other.kind());
                self.problem(parts, Rule::WrongType, message, "begin each part with `- `, one an attempt");
                None
            }
        }
    }

    fn unknown_step(&mut self, name: &Placed<String>) {
        let Roles { word: (one, _), whose, .. } = self.roles;
        let hint = match closest(&name.value, self.roles.names()) {
            Some(meant) => format!("did you mean `{meant}`?"),
            None => format!("it has {}", listed(self.roles.names())),
        };
        self.problem(name, Rule::UnknownStep, format!("{whose} has no {one} `{}`", name.value), hint);
    }

    /// The values of the known keys; all but those and `others` are problems.
    fn known<'n, const N: usize>(
        &mut self,
        what: &str,
        entries: &'n [Entry],
        keys: [&str; N],
        others: &[&str],
    ) -> [Option<&'n Entry>; N] {
        let all = || keys.iter().chain(others).copied();
        for (key, _) in entries.iter().filter(|(key, _)| all().all(|known| known != key.value)) {
            let hint = match closest(&key.value, all()) {
                Some(meant) => format!("did you mean `{meant}`?"),
                None => format!("{what} has {}", listed(all())),
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
            Node::Truth(_) | Node::Number(_) | Node::Text(_) | Node::List(_) | Node::Mapping(_) => {
                format!("{what} is {} where {expected} is expected", value.value.kind())
            }
        };
        self.problem(value, Rule::WrongType, message, format!("write `{example}`"));
    }
}

fn listed<'a>(names: impl IntoIterator<Item = &'a str>) -> String {
    names.into_iter().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ")
}
