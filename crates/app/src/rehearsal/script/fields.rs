//! Reads the report fields that only some steps have: above all the outputs of the phases of a peer cycle, complete and
//! partial. Invalid outputs are allowed, so that a rehearsal can show how they are refused.

use protocol::located::{Located, MappingEntry, Rule, Value as Yaml};
use serde_json::Value;
use supervisor::adapter::rehearsal::Fields;

use super::Reader;
use crate::rehearsal::outputs;
use crate::rehearsal::script_steps::{REPORT, ScriptStep};

impl Reader<'_> {
    /// Reads the additional report fields of a step.
    pub(super) fn fields(&mut self, step: &ScriptStep, entries: &[MappingEntry]) -> Fields {
        let mut fields = Fields::new();
        // `entries` are those of `ok`, which also has the keys of every step.
        let is_report_field = |entry: &&MappingEntry| step.ok_keys.contains(&entry.key.value.as_str());
        for MappingEntry { key, value } in entries.iter().filter(is_report_field) {
            let json = value.to_json();
            if key.value == REPORT {
                match json {
                    Value::Object(object) => fields.extend(object),
                    _ => self.wrong_type("`report`", value, "a mapping", "report: {FIELD: VALUE}"),
                }
            } else if key.value == outputs::SCORE {
                self.check_score(key, &json, entries);
                for (field, value) in outputs::scored(json) {
                    fields.entry(field).or_insert(value);
                }
            } else {
                fields.insert(key.value.clone(), json);
            }
        }
        fields
    }

    /// Checks a score, which replaces a whole output and must not be combined with one.
    fn check_score(&mut self, key: &Located<String>, score: &Value, entries: &[MappingEntry]) {
        let hint = "write `score: 86`, or `score: low`; anything else goes into `output`";
        if !score.is_number() && !score.is_string() {
            self.problem(key.pos, Rule::WrongType, "`score` is neither a number nor a word", hint);
        }
        if MappingEntry::find(entries, protocol::peer::output::OUTPUT).is_some() {
            let message = "`score` stands beside `output`, which has a score of its own";
            self.problem(key.pos, Rule::UnknownKey, message, "write it as `quality_score` in `output`");
        }
    }

    /// Reads the partial outputs: one, or a list of them.
    pub(super) fn partial(
        &mut self,
        step: &ScriptStep,
        MappingEntry { key, value }: &MappingEntry,
    ) -> Option<Vec<Value>> {
        // Only the phases of a peer cycle have outputs.
        if step.ok_keys.is_empty() || self.steps.are_created_by_run {
            let message =
                format!("{} `{}` has no output, so it cannot report progress", self.steps.nouns.0, step.step);
            self.problem(key.pos, Rule::UnknownKey, message, "remove it");
            return None;
        }
        match &value.value {
            Yaml::List(several) => Some(several.iter().map(|one| one.to_json()).collect()),
            Yaml::Mapping(_) => Some(vec![value.to_json()]),
            Yaml::Null | Yaml::Bool { .. } | Yaml::AmbiguousBool(_) | Yaml::Number { .. } | Yaml::Text(_) => {
                self.wrong_type(
                    "`partial`",
                    value,
                    "an output, or a list of them",
                    "partial: {progress: half}",
                );
                None
            }
        }
    }
}
