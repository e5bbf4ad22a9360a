//! One part of a script: what is played in one attempt.

use std::collections::BTreeMap;
use std::num::NonZeroU32;
use std::path::{Component, Path};
use std::time::Duration;

use protocol::closest;
use protocol::steps::load::{Rule, parse_duration};
use supervisor::adapter::rehearsal::{
    Behaviour, Fields, MAX_SCRIPTED_ATTEMPT, ScriptedAttempt, ScriptedOutput,
};

use super::{Reader, listed};
use crate::rehearsal::node::{Entry, Node, Placed};
use crate::rehearsal::roles::Role;

/// What can be played, with an example of each.
pub(crate) const KINDS: [(&str, &str); 11] = [
    ("ok", "ok"),
    ("fail", "fail: why"),
    ("gate_fail", "gate_fail: {times: 1, why: found issues}"),
    ("take", "take: 2s"),
    ("hang", "hang"),
    ("crash", "crash"),
    ("exit", "exit: 3"),
    ("flood", "flood: 10MB"),
    ("rubbish", "rubbish"),
    ("leave_child", "leave_child"),
    ("report_then_hang", "report_then_hang"),
];

/// What may stand beside any kind.
const BESIDE: [&str; 2] = ["take", "partial"];

/// More output than this is taken for a slip of the pen.
const LARGEST_FLOOD: u64 = 1_000_000_000;

impl Reader<'_> {
    /// A word, or a mapping of a kind to what it needs; `take` may stand beside any kind.
    pub(super) fn part(&mut self, role: &Role, node: &Placed<Node>) -> Option<ScriptedAttempt> {
        let nothing = Placed { value: Node::Nothing, line: node.line, column: node.column };
        let word;
        let entries = match &node.value {
            Node::Mapping(entries) => entries.as_slice(),
            Node::Text(text) => {
                word = [(Placed { value: text.clone(), line: node.line, column: node.column }, nothing)];
                &word
            }
            other @ (Node::Nothing | Node::Truth(_) | Node::Number(_) | Node::List(_)) => {
                let message = format!("a part of `{}` is {}", role.step, other.kind());
                self.problem(node, Rule::WrongType, message, format!("a part is {}", kinds()));
                return None;
            }
        };
        let beside = |key: &Entry| BESIDE.contains(&key.0.value.as_str());
        let [take, partial] = BESIDE.map(|name| entries.iter().find(|(key, _)| key.value == name));
        let mut plays = entries.iter().filter(|entry| !beside(entry));
        let play = match plays.next() {
            Some((kind, value)) => self.play(role, kind, value),
            None if take.is_some() || partial.is_some() => Some(Default::default()),
            None => {
                self.problem(node, Rule::EmptyValue, "this part is empty", format!("a part is {}", kinds()));
                None
            }
        };
        for (second, _) in plays {
            let message = format!("`{}` is a second kind in one part", second.value);
            let hint = "only `take` may stand beside another; begin the next part with `- `";
            self.problem(second, Rule::UnknownKey, message, hint);
        }
        let take = match take {
            Some((_, value)) => Some(self.length_of_time(value)?),
            None => None,
        };
        let partial = match partial {
            Some(entry) => self.partial(role, entry)?,
            None => Vec::new(),
        };
        let (play, says) = play?;
        let part = ScriptedAttempt { take, partial, behaviour: play, says };
        let length = part.to_argument().len() + default_length(role);
        if length > MAX_SCRIPTED_ATTEMPT {
            let message = format!("this part has {length} bytes, the limit is {MAX_SCRIPTED_ATTEMPT}");
            self.problem(node, Rule::TooLarge, message, "write shorter files; `flood` makes long output");
            return None;
        }
        Some(part)
    }

    fn play(
        &mut self,
        role: &Role,
        kind: &Placed<String>,
        value: &Placed<Node>,
    ) -> Option<(Behaviour, Fields)> {
        let play = match kind.value.as_str() {
            "ok" => {
                let (delivery, says) = self.delivery(role, value)?;
                return Some((Behaviour::Ok(delivery), says));
            }
            "fail" => self.why("`fail`", value, "rehearsed failure").map(|why| Behaviour::Fail { why }),
            "gate_fail" => self.gate(role, kind, value),
            "hang" => self.alone(kind, value, Behaviour::Hang),
            "crash" => self.alone(kind, value, Behaviour::Crash),
            "exit" => self
                .number("`exit`", value, "a whole number from 0 to 255", "exit: 3")
                .map(|code| Behaviour::Exit { code }),
            "flood" => self.size(value).map(|bytes| Behaviour::Flood { bytes }),
            "rubbish" => self.alone(kind, value, Behaviour::Rubbish),
            "leave_child" => self.alone(kind, value, Behaviour::LeaveChild),
            "report_then_hang" => self.alone(kind, value, Behaviour::ReportThenHang),
            other => {
                let hint = match closest(other, KINDS.map(|(kind, _)| kind)) {
                    Some(meant) => format!("did you mean `{meant}`?"),
                    None => format!("a part is {}", kinds()),
                };
                self.problem(kind, Rule::UnknownKey, format!("`{other}` is not a kind of part"), hint);
                None
            }
        };
        Some((play?, Fields::new()))
    }

    /// A kind that says everything by its name.
    fn alone(&mut self, kind: &Placed<String>, value: &Placed<Node>, play: Behaviour) -> Option<Behaviour> {
        if matches!(value.value, Node::Nothing) {
            return Some(play);
        }
        let message = format!("`{}` takes no value", kind.value);
        self.problem(value, Rule::WrongType, message, format!("write `- {}`", kind.value));
        None
    }

    fn why(&mut self, what: &str, value: &Placed<Node>, unsaid: &str) -> Option<String> {
        match &value.value {
            Node::Nothing => Some(unsaid.to_owned()),
            Node::Text(_) | Node::Truth(_) | Node::Number(_) | Node::List(_) | Node::Mapping(_) => {
                self.text(what, value)
            }
        }
    }

    fn gate(&mut self, role: &Role, kind: &Placed<String>, value: &Placed<Node>) -> Option<Behaviour> {
        if role.gate.is_none() {
            let (message, hint) = self.roles.without_gate(&role.step);
            self.problem(kind, Rule::MissingKey, message, hint);
            return None;
        }
        let entries = match &value.value {
            Node::Nothing => &[][..],
            Node::Mapping(entries) => entries,
            Node::Truth(_) | Node::Number(_) | Node::Text(_) | Node::List(_) => {
                self.wrong("`gate_fail`", value, "a mapping", "gate_fail: {times: 1, why: found issues}");
                return None;
            }
        };
        let [times, why] = self.known("`gate_fail`", entries, ["times", "why"], &[]);
        let times = match times {
            Some((_, value)) => self.number("`times`", value, "a whole number from 1", "times: 1"),
            None => Some(NonZeroU32::MIN),
        };
        let unsaid = "rehearsed gate failure";
        let why = match why {
            Some((_, value)) => self.why("`why`", value, unsaid),
            None => Some(unsaid.to_owned()),
        };
        Some(Behaviour::GateFail { times: times?, why: why? })
    }

    fn delivery(&mut self, role: &Role, value: &Placed<Node>) -> Option<(ScriptedOutput, Fields)> {
        let entries = match &value.value {
            Node::Nothing => return Some((ScriptedOutput::default(), Fields::new())),
            Node::Mapping(entries) => entries,
            Node::Truth(_) | Node::Number(_) | Node::Text(_) | Node::List(_) => {
                self.wrong("`ok`", value, "a mapping", "ok: {logs: [did it]}");
                return None;
            }
        };
        let before = self.problems.len();
        let says = self.says(role, entries);
        let [logs, artifacts, write] = self.known("`ok`", entries, ["logs", "artifacts", "write"], role.says);
        let logs = self.texts(logs);
        let artifacts = self.texts(artifacts);
        let mut delivery = ScriptedOutput::default();
        delivery.logs.extend(logs.into_iter().map(|log| log.value));
        for artifact in artifacts {
            self.check_path(&artifact, "the run's `artifacts/`");
            delivery.artifacts.push(artifact.value);
        }
        delivery.write = self.files(write);
        (self.problems.len() == before).then_some((delivery, says))
    }

    /// Files to write, by path.
    fn files(&mut self, entry: Option<&Entry>) -> BTreeMap<String, String> {
        let Some((_, value)) = entry else { return BTreeMap::new() };
        let Node::Mapping(files) = &value.value else {
            self.wrong("`write`", value, "a mapping", "write: {\"src/x.txt\": \"content\"}");
            return BTreeMap::new();
        };
        let mut written = BTreeMap::new();
        for (path, content) in files {
            self.check_path(path, "the repository");
            if let Some(text) = self.text(&format!("`{}`", path.value), content) {
                written.insert(path.value.clone(), text);
            }
        }
        written
    }

    /// A path must stay where it is meant to be, and git's own files are nobody's to write.
    fn check_path(&mut self, path: &Placed<String>, folder: &str) {
        let mut components = Path::new(&path.value).components();
        let inside = components.all(|part| matches!(part, Component::Normal(name) if name != ".git"));
        if path.value.is_empty() || path.value.contains('\0') || path.value.ends_with('/') || !inside {
            let message = format!("`{}` is not the path of a file inside {folder}", path.value);
            let hint = "write a relative path without `..`, such as `src/x.txt`";
            self.problem(path, Rule::WrongType, message, hint);
        }
    }

    fn texts(&mut self, entry: Option<&Entry>) -> Vec<Placed<String>> {
        let Some((key, value)) = entry else { return Vec::new() };
        let Node::List(items) = &value.value else {
            self.wrong(&format!("`{}`", key.value), value, "a list", &format!("{}: [\"…\"]", key.value));
            return Vec::new();
        };
        let text = |item: &Placed<Node>| {
            let text = self.text(&format!("an entry of `{}`", key.value), item)?;
            Some(Placed { value: text, line: item.line, column: item.column })
        };
        items.iter().filter_map(text).collect()
    }

    fn text(&mut self, what: &str, value: &Placed<Node>) -> Option<String> {
        match &value.value {
            Node::Text(text) => Some(text.clone()),
            Node::Number(_) | Node::Truth(_) => {
                let message = format!("{what} is {} where a text is expected", value.value.kind());
                self.problem(value, Rule::WrongType, message, "put it in quotes");
                None
            }
            Node::Nothing | Node::List(_) | Node::Mapping(_) => {
                self.wrong(what, value, "a text", "\"a text\"");
                None
            }
        }
    }

    fn number<T: std::str::FromStr>(
        &mut self,
        what: &str,
        value: &Placed<Node>,
        expected: &str,
        example: &str,
    ) -> Option<T> {
        let number = match &value.value {
            Node::Number(number) => number.parse().ok(),
            Node::Nothing | Node::Truth(_) | Node::Text(_) | Node::List(_) | Node::Mapping(_) => {
                self.wrong(what, value, expected, example);
                return None;
            }
        };
        if number.is_none() {
            let message = format!("{what} must be {expected}");
            self.problem(value, Rule::WrongType, message, format!("write `{example}`"));
        }
        number
    }

    fn length_of_time(&mut self, value: &Placed<Node>) -> Option<Duration> {
        match &value.value {
            Node::Text(text) | Node::Number(text) => {
                let length = parse_duration(text);
                let hint = "write `take: 500ms`, `take: 2s` or `take: 1m30s`";
                length
                    .map_err(|bad| self.problem(value, Rule::BadTimeout, format!("bad `take`: {bad}"), hint))
                    .ok()
            }
            Node::Nothing | Node::Truth(_) | Node::List(_) | Node::Mapping(_) => {
                self.wrong("`take`", value, "a length of time", "take: 2s");
                None
            }
        }
    }

    fn size(&mut self, value: &Placed<Node>) -> Option<u64> {
        let (Node::Text(text) | Node::Number(text)) = &value.value else {
            self.wrong("`flood`", value, "a size", "flood: 10MB");
            return None;
        };
        let bytes = bytes(text).filter(|bytes| (1..=LARGEST_FLOOD).contains(bytes));
        if bytes.is_none() {
            let message = format!("`{text}` is not a size from 1 byte to 1 GB");
            self.problem(value, Rule::WrongType, message, "write `flood: 10MB`; also `B`, `kB`, `GB`, `MiB`");
        }
        bytes
    }
}

/// Reads `10MB`, `64 KiB`, `500`.
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

/// What the step says by default adds to a part at most.
fn default_length(role: &Role) -> usize {
    serde_json::to_string(&role.by_default).map_or(0, |said| said.len())
}

fn kinds() -> String {
    listed(KINDS.map(|(_, example)| example))
}
