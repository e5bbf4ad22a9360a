//! What a part hands in besides what every report has: outputs, whole or in parts. Any JSON will do, also what is unfit: that a
//! phase's output is refused can be rehearsed as well.

use protocol::steps::load::Rule;
use serde_json::Value;
use supervisor::adapter::rehearsal::Fields;

use super::Reader;
use crate::rehearsal::node::{Entry, Node, Placed};
use crate::rehearsal::outputs;
use crate::rehearsal::roles::Role;

impl Reader<'_> {
    /// The fields of a report that a step may fill in.
    pub(super) fn says(&mut self, role: &Role, entries: &[Entry]) -> Fields {
        let mut fields = Fields::new();
        for (key, value) in entries.iter().filter(|(key, _)| role.says.contains(&key.value.as_str())) {
            let Some(said) = self.json(value) else { continue };
            if key.value == outputs::SCORE {
                self.score(key, &said, entries);
                for (field, value) in outputs::scored(said) {
                    fields.entry(field).or_insert(value);
                }
            } else {
                fields.insert(key.value.clone(), said);
            }
        }
        fields
    }

    /// A score stands for a whole output: beside one it would say something twice.
    fn score(&mut self, key: &Placed<String>, score: &Value, entries: &[Entry]) {
        let hint = "write `score: 86`, or `score: low`; anything else goes into `output`";
        if !score.is_number() && !score.is_string() {
            self.problem(key, Rule::WrongType, "`score` is neither a number nor a word", hint);
        }
        if entries.iter().any(|(key, _)| key.value == protocol::peer::output::OUTPUT) {
            let message = "`score` stands beside `output`, which has a score of its own";
            self.problem(key, Rule::UnknownKey, message, "write it as `quality_score` in `output`");
        }
    }

    /// What is handed in as progress: one output, or a list of them.
    pub(super) fn partial(&mut self, role: &Role, (key, value): &Entry) -> Option<Vec<Value>> {
        if role.says.is_empty() {
            let message = format!("{} `{}` has no output to hand in in parts", self.roles.word.0, role.step);
            self.problem(key, Rule::UnknownKey, message, "remove it");
            return None;
        }
        match &value.value {
            Node::List(several) => several.iter().map(|one| self.json(one)).collect(),
            Node::Mapping(_) => Some(vec![self.json(value)?]),
            Node::Nothing | Node::Truth(_) | Node::Number(_) | Node::Text(_) => {
                self.wrong("`partial`", value, "an output, or a list of them", "partial: {progress: half}");
                None
            }
        }
    }

    fn json(&mut self, node: &Placed<Node>) -> Option<Value> {
        Some(match &node.value {
            Node::Nothing => Value::Null,
            Node::Truth(truth) => Value::Bool(*truth),
            Node::Text(text) => Value::String(text.clone()),
            Node::Number(number) => match serde_json::from_str(number) {
                Ok(number) => Value::Number(number),
                Err(_) => {
                    let message = format!("`{number}` is not a number that JSON can hold");
                    self.problem(node, Rule::WrongType, message, "put it in quotes");
                    return None;
                }
            },
            Node::List(items) => items.iter().map(|item| self.json(item)).collect::<Option<_>>()?,
            Node::Mapping(entries) => {
                let field = |(key, value): &Entry| Some((key.value.clone(), self.json(value)?));
                Value::Object(entries.iter().map(field).collect::<Option<_>>()?)
            }
        })
    }
}
