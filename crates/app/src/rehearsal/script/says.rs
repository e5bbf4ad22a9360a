//! What a part hands in besides what every report has: outputs, whole or in parts. Any JSON will do, also what is unfit: that a
//! phase's output is refused can be rehearsed as well.

use protocol::located::{Entry, Located, Rule, Value as Yaml};
use serde_json::Value;
use supervisor::adapter::rehearsal::Fields;

use super::Reader;
use crate::rehearsal::outputs;
use crate::rehearsal::roles::Role;

impl Reader<'_> {
    /// The fields of a report that a step may fill in.
    pub(super) fn says(&mut self, role: &Role, entries: &[Entry]) -> Fields {
        let mut fields = Fields::new();
        let is_said = |entry: &&Entry| role.says.contains(&entry.key.value.as_str());
        for Entry { key, value } in entries.iter().filter(is_said) {
            let said = value.to_json();
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
    fn score(&mut self, key: &Located<String>, score: &Value, entries: &[Entry]) {
        let hint = "write `score: 86`, or `score: low`; anything else goes into `output`";
        if !score.is_number() && !score.is_string() {
            self.problem(key.pos, Rule::WrongType, "`score` is neither a number nor a word", hint);
        }
        if Entry::find(entries, protocol::peer::output::OUTPUT).is_some() {
            let message = "`score` stands beside `output`, which has a score of its own";
            self.problem(key.pos, Rule::UnknownKey, message, "write it as `quality_score` in `output`");
        }
    }

    /// What is handed in as progress: one output, or a list of them.
    pub(super) fn partial(&mut self, role: &Role, Entry { key, value }: &Entry) -> Option<Vec<Value>> {
        if role.says.is_empty() {
            let message = format!("{} `{}` has no output to hand in in parts", self.roles.word.0, role.step);
            self.problem(key.pos, Rule::UnknownKey, message, "remove it");
            return None;
        }
        match &value.value {
            Yaml::List(several) => Some(several.iter().map(|one| one.to_json()).collect()),
            Yaml::Mapping(_) => Some(vec![value.to_json()]),
            Yaml::Null | Yaml::Bool { .. } | Yaml::AmbiguousBool(_) | Yaml::Number { .. } | Yaml::Text(_) => {
                self.wrong("`partial`", value, "an output, or a list of them", "partial: {progress: half}");
                None
            }
        }
    }
}
