//! One attempt of a script: what the scripted agent does in it.

use std::collections::BTreeMap;
use std::num::NonZeroU32;
use std::path::{Component, Path};
use std::rc::Rc;
use std::time::Duration;

use protocol::closest;
use protocol::located::{Located, MappingEntry, Node, Rule, Value};
use protocol::steps::load::parse_duration;
use supervisor::adapter::rehearsal::{
    Behaviour, Fields, MAX_SCRIPTED_ATTEMPT, ScriptedAttempt, ScriptedOutput,
};

use super::{Reader, quoted_list};
use crate::rehearsal::script_steps::ScriptStep;

/// The behaviours, with an example of each.
pub(crate) const BEHAVIOURS: [(&str, &str); 11] = [
    ("ok", "ok"),
    ("fail", "fail: why"),
    ("gate_fail", "gate_fail: {times: 1, why: found issues}"),
    ("delay", "delay: 2s"),
    ("hang", "hang"),
    ("crash", "crash"),
    ("exit", "exit: 3"),
    ("flood", "flood: 10MB"),
    ("rubbish", "rubbish"),
    ("leave_child", "leave_child"),
    ("report_then_hang", "report_then_hang"),
];

/// The keys that can be combined with any behaviour.
const MODIFIERS: [&str; 2] = ["delay", "partial"];

/// A larger number is probably a typing error.
const LARGEST_FLOOD: u64 = 1_000_000_000;

impl Reader<'_> {
    /// Reads an attempt: a word, or a mapping of a behaviour to its value, with the keys that can be combined with any
    /// behaviour.
    pub(super) fn attempt(&mut self, step: &ScriptStep, node: &Node) -> Option<ScriptedAttempt> {
        let word;
        let entries = match &node.value {
            Value::Mapping(entries) => entries.as_slice(),
            Value::Text(text) => {
                let key = Located { value: text.clone(), pos: node.pos };
                word = [MappingEntry { key, value: Rc::new(Node { pos: node.pos, value: Value::Null }) }];
                &word
            }
            Value::Null
            | Value::Bool { .. }
            | Value::AmbiguousBool(_)
            | Value::Number { .. }
            | Value::List(_) => {
                let message = format!("an attempt of `{}` is {}", step.step, node.kind());
                self.problem(
                    node.pos,
                    Rule::WrongType,
                    message,
                    format!("a behaviour is {}", behaviour_list()),
                );
                return None;
            }
        };
        let is_modifier = |entry: &MappingEntry| MODIFIERS.contains(&entry.key.value.as_str());
        let [delay, partial] = MODIFIERS.map(|name| MappingEntry::find(entries, name));
        let mut behaviours = entries.iter().filter(|entry| !is_modifier(entry));
        let behaviour = match behaviours.next() {
            Some(MappingEntry { key: kind, value }) => self.behaviour(step, kind, value),
            None if delay.is_some() || partial.is_some() => Some(Default::default()),
            None => {
                self.problem(
                    node.pos,
                    Rule::EmptyValue,
                    "this attempt has no behaviour",
                    format!("a behaviour is {}", behaviour_list()),
                );
                None
            }
        };
        for MappingEntry { key: second, .. } in behaviours {
            let message = format!("`{}` is a second behaviour in one attempt", second.value);
            let hint = "only `delay` and, for `peer`, `partial` can be combined with another; begin the next attempt \
                        with `- `";
            self.problem(second.pos, Rule::UnknownKey, message, hint);
        }
        let delay = match delay {
            Some(MappingEntry { value, .. }) => Some(self.duration(value)?),
            None => None,
        };
        let partial = match partial {
            Some(entry) => self.partial(step, entry)?,
            None => Vec::new(),
        };
        let (behaviour, fields) = behaviour?;
        let attempt = ScriptedAttempt { delay, partial, behaviour, fields, ..ScriptedAttempt::default() };
        let length = attempt.to_argument().len() + default_length(step);
        if length > MAX_SCRIPTED_ATTEMPT {
            let message = format!("this attempt has {length} bytes, the limit is {MAX_SCRIPTED_ATTEMPT}");
            self.problem(node.pos, Rule::TooLarge, message, "write shorter files; `flood` makes long output");
            return None;
        }
        Some(attempt)
    }

    fn behaviour(
        &mut self,
        step: &ScriptStep,
        kind: &Located<String>,
        value: &Node,
    ) -> Option<(Behaviour, Fields)> {
        let behaviour = match kind.value.as_str() {
            "ok" => {
                let (output, fields) = self.output(step, value)?;
                return Some((Behaviour::Ok(output), fields));
            }
            "fail" => self.text_or("`fail`", value, "rehearsed failure").map(|why| Behaviour::Fail { why }),
            "gate_fail" => self.gate_fail(step, kind, value),
            "hang" => self.without_value(kind, value, Behaviour::Hang),
            "crash" => self.without_value(kind, value, Behaviour::Crash),
            "exit" => self
                .number("`exit`", value, "a whole number from 0 to 255", "exit: 3")
                .map(|code| Behaviour::Exit { code }),
            "flood" => self.size(value).map(|bytes| Behaviour::Flood { bytes }),
            "rubbish" => self.without_value(kind, value, Behaviour::Rubbish),
            "leave_child" => self.without_value(kind, value, Behaviour::LeaveChild),
            "report_then_hang" => self.without_value(kind, value, Behaviour::ReportThenHang),
            other => {
                let hint = match closest(other, BEHAVIOURS.map(|(kind, _)| kind)) {
                    Some(meant) => format!("did you mean `{meant}`?"),
                    None => format!("a behaviour is {}", behaviour_list()),
                };
                self.problem(kind.pos, Rule::UnknownKey, format!("`{other}` is not a behaviour"), hint);
                None
            }
        };
        Some((behaviour?, Fields::new()))
    }

    /// Reads a behaviour that has no value.
    fn without_value(
        &mut self,
        kind: &Located<String>,
        value: &Node,
        behaviour: Behaviour,
    ) -> Option<Behaviour> {
        if value.is_null() {
            return Some(behaviour);
        }
        let message = format!("`{}` takes no value", kind.value);
        self.problem(value.pos, Rule::WrongType, message, format!("write `- {}`", kind.value));
        None
    }

    fn text_or(&mut self, what: &str, value: &Node, default: &str) -> Option<String> {
        if value.is_null() { Some(default.to_owned()) } else { self.text(what, value) }
    }

    fn gate_fail(&mut self, step: &ScriptStep, kind: &Located<String>, value: &Node) -> Option<Behaviour> {
        if step.loop_back_to.is_none() {
            let (message, hint) = self.steps.not_a_gate(&step.step);
            self.problem(kind.pos, Rule::MissingKey, message, hint);
            return None;
        }
        let entries = match &value.value {
            Value::Null => &[][..],
            Value::Mapping(entries) => entries,
            Value::Bool { .. }
            | Value::AmbiguousBool(_)
            | Value::Number { .. }
            | Value::Text(_)
            | Value::List(_) => {
                self.wrong_type(
                    "`gate_fail`",
                    value,
                    "a mapping",
                    "gate_fail: {times: 1, why: found issues}",
                );
                return None;
            }
        };
        let [times, why] = self.find_keys("`gate_fail`", entries, ["times", "why"], &[]);
        let times = match times {
            Some(MappingEntry { value, .. }) => {
                self.number("`times`", value, "a whole number from 1", "times: 1")
            }
            None => Some(NonZeroU32::MIN),
        };
        let default = "rehearsed gate failure";
        let why = match why {
            Some(MappingEntry { value, .. }) => self.text_or("`why`", value, default),
            None => Some(default.to_owned()),
        };
        Some(Behaviour::GateFail { times: times?, why: why? })
    }

    /// Reads the value of `ok`.
    fn output(&mut self, step: &ScriptStep, value: &Node) -> Option<(ScriptedOutput, Fields)> {
        let entries = match &value.value {
            Value::Null => return Some((ScriptedOutput::default(), Fields::new())),
            Value::Mapping(entries) => entries,
            Value::Bool { .. }
            | Value::AmbiguousBool(_)
            | Value::Number { .. }
            | Value::Text(_)
            | Value::List(_) => {
                self.wrong_type("`ok`", value, "a mapping", "ok: {logs: [did it]}");
                return None;
            }
        };
        let before = self.problems.count();
        let fields = self.fields(step, entries);
        let [logs, artifacts, write] =
            self.find_keys("`ok`", entries, ["logs", "artifacts", "write"], step.ok_keys);
        let logs = self.texts(logs);
        let artifacts = self.texts(artifacts);
        let mut output = ScriptedOutput::default();
        output.logs.extend(logs.into_iter().map(|log| log.value));
        for artifact in artifacts {
            self.check_path(&artifact, "the run's `artifacts/`");
            output.artifacts.push(artifact.value);
        }
        output.write = self.files(write);
        (self.problems.count() == before).then_some((output, fields))
    }

    /// Reads the files to write, by path.
    fn files(&mut self, entry: Option<&MappingEntry>) -> BTreeMap<String, String> {
        let Some(MappingEntry { value, .. }) = entry else { return BTreeMap::new() };
        let Value::Mapping(files) = &value.value else {
            self.wrong_type("`write`", value, "a mapping", "write: {\"src/x.txt\": \"content\"}");
            return BTreeMap::new();
        };
        let mut written = BTreeMap::new();
        for MappingEntry { key: path, value: content } in files {
            self.check_path(path, "the repository");
            if let Some(text) = self.text(&format!("`{}`", path.value), content) {
                written.insert(path.value.clone(), text);
            }
        }
        written
    }

    /// Reports a path that leaves its folder, or names a file of git.
    fn check_path(&mut self, path: &Located<String>, folder: &str) {
        let mut components = Path::new(&path.value).components();
        let inside =
            components.all(|component| matches!(component, Component::Normal(name) if name != ".git"));
        if path.value.is_empty() || path.value.contains('\0') || path.value.ends_with('/') || !inside {
            let message = format!("`{}` is not the path of a file inside {folder}", path.value);
            let hint = "write a relative path without `..`, such as `src/x.txt`";
            self.problem(path.pos, Rule::WrongType, message, hint);
        }
    }

    fn texts(&mut self, entry: Option<&MappingEntry>) -> Vec<Located<String>> {
        let Some(MappingEntry { key, value }) = entry else { return Vec::new() };
        let Value::List(items) = &value.value else {
            self.wrong_type(&format!("`{}`", key.value), value, "a list", &format!("{}: [\"…\"]", key.value));
            return Vec::new();
        };
        let text = |item: &Rc<Node>| {
            let text = self.text(&format!("an entry of `{}`", key.value), item)?;
            Some(Located { value: text, pos: item.pos })
        };
        items.iter().filter_map(text).collect()
    }

    fn text(&mut self, what: &str, value: &Node) -> Option<String> {
        match &value.value {
            Value::Text(text) => Some(text.clone()),
            Value::Number { .. } | Value::Bool { .. } | Value::AmbiguousBool(_) => {
                let message = format!("{what} is {} where a string is expected", value.kind());
                self.problem(value.pos, Rule::WrongType, message, "put it in quotes");
                None
            }
            Value::Null | Value::List(_) | Value::Mapping(_) => {
                self.wrong_type(what, value, "a string", "\"a string\"");
                None
            }
        }
    }

    fn number<T: std::str::FromStr>(
        &mut self,
        what: &str,
        value: &Node,
        expected: &str,
        example: &str,
    ) -> Option<T> {
        let Value::Number { value: number, .. } = &value.value else {
            self.wrong_type(what, value, expected, example);
            return None;
        };
        let number = number.to_string().parse().ok();
        if number.is_none() {
            let message = format!("{what} must be {expected}");
            self.problem(value.pos, Rule::WrongType, message, format!("write `{example}`"));
        }
        number
    }

    fn duration(&mut self, value: &Node) -> Option<Duration> {
        let (Value::Text(word) | Value::Number { word, .. }) = &value.value else {
            self.wrong_type("`delay`", value, "a length of time", "delay: 2s");
            return None;
        };
        let hint = "write `delay: 500ms`, `delay: 2s` or `delay: 1m30s`";
        parse_duration(word)
            .map_err(|bad| self.problem(value.pos, Rule::BadTimeout, format!("bad `delay`: {bad}"), hint))
            .ok()
    }

    fn size(&mut self, value: &Node) -> Option<u64> {
        let (Value::Text(text) | Value::Number { word: text, .. }) = &value.value else {
            self.wrong_type("`flood`", value, "a size", "flood: 10MB");
            return None;
        };
        let bytes = bytes(text).filter(|bytes| (1..=LARGEST_FLOOD).contains(bytes));
        if bytes.is_none() {
            let message = format!("`{text}` is not a size from 1 byte to 1 GB");
            self.problem(
                value.pos,
                Rule::WrongType,
                message,
                "write `flood: 10MB`; also `B`, `kB`, `GB`, `MiB`",
            );
        }
        bytes
    }
}

/// Parses a size such as `10MB`, `64 KiB` or `500`.
fn bytes(text: &str) -> Option<u64> {
    let digits = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (number, unit) = text.split_at(digits);
    let unit = match unit.trim().to_ascii_lowercase().as_str() {
        "" | "b" => 1,
        "kb" => 1_000,
        "mb" => 1_000_000,
        "gb" => 1_000_000_000,
        "kib" => 1 << 10,
        "mib" => 1 << 20,
        "gib" => 1 << 30,
        _ => return None,
    };
    number.parse::<u64>().ok()?.checked_mul(unit)
}

/// Returns how many bytes the default fields of the step can add to an attempt.
fn default_length(step: &ScriptStep) -> usize {
    serde_json::to_string(&step.default_fields).map_or(0, |json| json.len())
}

fn behaviour_list() -> String {
    quoted_list(BEHAVIOURS.map(|(_, example)| example))
}
