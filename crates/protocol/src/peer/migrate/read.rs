//! Reads what the keys of a dump say about one cycle. The keys have one of the formats that came before version 2 of the
//! document; `docs/peer.md` numbers them as generations.

use serde_json::Value;

use super::group::Fragment;
use super::key::KeyContent;
use super::reshape::{Reshaped, is_empty, reshape};
use super::result::{Note, NoteKind};
use super::status::{OldStatus, ParsedStatus, parse_phase, parse_phase_name, parse_status};
use crate::Timestamp;
use crate::check::shortened;
use crate::peer::document::{Mode, Phase, WholeSecond};

/// What the keys say about a cycle.
#[derive(Debug, Default)]
pub(super) struct OldCycle {
    pub(super) instruction: Option<String>,
    pub(super) created: Option<WholeSecond>,
    pub(super) updated: Option<WholeSecond>,
    /// When the cycle was completed or failed.
    pub(super) ended: Option<WholeSecond>,
    pub(super) status: Option<ParsedStatus>,
    pub(super) current_phase: Option<Phase>,
    pub(super) error: Option<Value>,
    pub(super) error_phase: Option<Phase>,
    pub(super) mode: Option<Mode>,
    pub(super) arguments: Option<String>,
    pub(super) requirements: Option<String>,
    pub(super) summary: Option<Value>,
    pub(super) insights: Option<Value>,
    /// A key that should hold a document and does not.
    pub(super) unreadable: Option<String>,
    pub(super) phases: [OldPhase; 4],
}

#[derive(Debug, Default)]
pub(super) struct OldPhase {
    pub(super) status: Option<OldStatus>,
    pub(super) started: Option<WholeSecond>,
    pub(super) completed: Option<WholeSecond>,
    /// The output, as it was found.
    pub(super) output: Option<Value>,
    pub(super) errors: Vec<Value>,
}

/// Reads the keys of a cycle. The first that has a value takes precedence. No time is later than `at`.
pub(super) fn read(
    fragments: &[&Fragment],
    instruction: Option<&str>,
    at: WholeSecond,
    notes: &mut Vec<Note>,
) -> OldCycle {
    let mut old = OldCycle::default();
    for fragment in fragments {
        Reader { old: &mut old, fragment, notes }.read();
    }
    set_if_none(&mut old.instruction, instruction.map(str::to_owned));
    let phases = old.phases.iter_mut().flat_map(|phase| [&mut phase.started, &mut phase.completed]);
    let times = phases.chain([&mut old.created, &mut old.updated, &mut old.ended]);
    times.flatten().for_each(|time| *time = at.min(*time));
    old
}

/// Parses a time and cuts it to the second.
pub(super) fn time(value: &Value) -> Option<WholeSecond> {
    let timestamp = value.as_str()?.trim().parse().ok()?;
    Some(WholeSecond::from(Timestamp::from_jiff(timestamp)))
}

pub(super) fn text(value: &Value) -> Option<String> {
    value.as_str().map(str::to_owned)
}

fn mode(value: &Value) -> Option<Mode> {
    Mode::ALL.into_iter().find(|mode| Some(mode.as_str()) == value.as_str().map(str::trim))
}

fn any(value: &Value) -> Option<Value> {
    Some(value.clone())
}

/// Sets a value, unless it is set already.
fn set_if_none<T>(slot: &mut Option<T>, value: Option<T>) {
    if slot.is_none() {
        *slot = value;
    }
}

impl OldCycle {
    pub(super) fn phase(&self, phase: Phase) -> &OldPhase {
        &self.phases[phase as usize]
    }

    /// Whether the cycle is marked completed. A word like `review_complete` is about the phase.
    pub(super) fn is_completed(&self) -> bool {
        self.status == Some(ParsedStatus { status: OldStatus::Completed, phase: None })
    }

    /// The earliest time that a key gives, except for the creation.
    pub(super) fn earliest(&self) -> Option<WholeSecond> {
        let phases = self.phases.iter().flat_map(|phase| [phase.started, phase.completed]);
        phases.chain([self.updated, self.ended]).flatten().min()
    }
}

impl OldPhase {
    /// Whether any key says that the phase started.
    pub(super) fn has_started(&self) -> bool {
        self.output.is_some() || self.status.is_some_and(|status| status != OldStatus::Pending)
    }

    /// The output in the form of version 2, the present format.
    pub(super) fn reshaped(&self, phase: Phase) -> Option<Reshaped> {
        self.output.as_ref().map(|output| reshape(phase, output))
    }
}

/// Reads one key into the cycle.
struct Reader<'a> {
    old: &'a mut OldCycle,
    fragment: &'a Fragment,
    notes: &'a mut Vec<Note>,
}

impl Reader<'_> {
    fn read(&mut self) {
        match self.fragment.content {
            KeyContent::Document => self.read_document(),
            KeyContent::MetaEntry | KeyContent::Metadata => self.read_metadata(""),
            KeyContent::Context => self.read_context(""),
            KeyContent::Status | KeyContent::State => self.read_status(""),
            KeyContent::Instruction => self.set(|old| &mut old.instruction, &[""], text),
            KeyContent::Mode => self.set(|old| &mut old.mode, &[""], mode),
            KeyContent::PhasesCompleted => self.read_phases_completed(""),
            KeyContent::Output(phase) => {
                let output = self.get(&[""], any);
                set_if_none(&mut self.old.phases[phase as usize].output, output);
            }
            KeyContent::PhaseStatus(phase) => {
                let word = self.get(&[""], parse_status);
                set_if_none(&mut self.old.phases[phase as usize].status, word.map(|word| word.status));
            }
            KeyContent::CompletedAt => self.read_end(OldStatus::Completed),
            KeyContent::FailedAt => self.read_end(OldStatus::Failed),
            KeyContent::Error => self.set(|old| &mut old.error, &[""], any),
            KeyContent::Other => {}
        }
    }

    /// Returns the first value at one of these pointers. Empty values are skipped. A value that cannot be parsed is noted.
    fn get<T>(&mut self, pointers: &[&str], parse: impl Fn(&Value) -> Option<T>) -> Option<T> {
        for pointer in pointers {
            let value = self.fragment.value.pointer(pointer).filter(|value| !is_empty(value));
            let Some(value) = value else { continue };
            if let Some(parsed) = parse(value) {
                return Some(parsed);
            }
            let at = if pointer.is_empty() { String::new() } else { format!(" at `{pointer}`") };
            let message = format!("cannot parse {}{at}", shortened(value));
            self.notes.push(Note::new(NoteKind::Unreadable, message).of(&self.fragment.key));
        }
        None
    }

    /// Sets a field, unless a key with precedence has set it.
    fn set<T>(
        &mut self,
        field: impl FnOnce(&mut OldCycle) -> &mut Option<T>,
        pointers: &[&str],
        parse: impl Fn(&Value) -> Option<T>,
    ) {
        let value = self.get(pointers, parse);
        set_if_none(field(self.old), value);
    }

    /// Reads a key with the whole cycle. Some generations have at the root what others have in `metadata`.
    fn read_document(&mut self) {
        if !self.fragment.value.is_object() {
            let note = Note::new(NoteKind::Unreadable, "it should be a document, but is not an object");
            self.notes.push(note.of(&self.fragment.key));
            self.old.unreadable = Some(self.fragment.key.clone());
            return;
        }
        self.read_metadata("/metadata");
        self.read_metadata("");
        self.read_context("/context");
        self.set(|old| &mut old.error_phase, &["/error_info/phase"], parse_phase);
        self.set(|old| &mut old.error, &["/error_info"], any);
        self.old.summary = self.get(&["/cycle_summary"], any);
        self.old.insights = self.get(&["/insights"], any);
        for phase in Phase::ALL {
            self.read_phase(phase, &format!("/phases/{phase}"));
        }
    }

    fn read_metadata(&mut self, pointer: &str) {
        let field = |name: &str| format!("{pointer}/{name}");
        self.set(|old| &mut old.instruction, &[&field("instruction"), &field("instruction_name")], text);
        self.set(|old| &mut old.created, &[&field("created_at"), &field("started_at")], time);
        self.set(|old| &mut old.updated, &[&field("updated_at"), &field("last_updated_at")], time);
        self.set(|old| &mut old.ended, &[&field("completed_at"), &field("failed_at")], time);
        let status = field("status");
        if self.fragment.value.pointer(&status).is_some_and(Value::is_object) {
            self.read_status_object(&status);
        } else {
            self.read_status(&status);
        }
        self.set(|old| &mut old.current_phase, &[&field("current_phase")], parse_phase);
        self.read_phases_completed(&field("phases_completed"));
    }

    /// Reads a status of generation 0: the status is an object, and its `current_phase` is also the status of the
    /// cycle.
    fn read_status_object(&mut self, pointer: &str) {
        let field = |name: &str| format!("{pointer}/{name}");
        self.read_status(&field("current_phase"));
        self.set(|old| &mut old.updated, &[&field("last_update")], time);
        self.set(|old| &mut old.error, &[&field("error_message")], any);
        self.set(|old| &mut old.error_phase, &[&field("error_phase")], parse_phase);
    }

    /// Reads the status of the cycle. It may name a phase: `planning_complete`.
    fn read_status(&mut self, pointer: &str) {
        let Some(word) = self.get(&[pointer], parse_status) else { return };
        set_if_none(&mut self.old.status, Some(word));
        let Some(phase) = word.phase else { return };
        match word.status {
            OldStatus::Completed => {
                set_if_none(&mut self.old.phases[phase as usize].status, Some(OldStatus::Completed));
            }
            OldStatus::Failed | OldStatus::Cancelled => set_if_none(&mut self.old.error_phase, Some(phase)),
            OldStatus::Pending | OldStatus::InProgress => {
                set_if_none(&mut self.old.current_phase, Some(phase));
            }
        }
    }

    fn read_context(&mut self, pointer: &str) {
        let field = |name: &str| format!("{pointer}/{name}");
        self.set(|old| &mut old.mode, &[&field("peer_mode")], mode);
        self.set(|old| &mut old.arguments, &[&field("instruction_args")], text);
        self.set(|old| &mut old.requirements, &[&field("user_requirements")], text);
        self.set(|old| &mut old.instruction, &[&field("instruction_name")], text);
    }

    fn read_phase(&mut self, phase: Phase, pointer: &str) {
        let field = |name: &str| format!("{pointer}/{name}");
        let reference = |value: &Value| Some(serde_json::json!({ "output_ref": value }));
        let errors = self.get(&[&field("errors")], |value| value.as_array().cloned()).unwrap_or_default();
        let old = OldPhase {
            status: self.get(&[&field("status")], parse_status).map(|word| word.status),
            started: self.get(&[&field("started_at")], time),
            completed: self.get(&[&field("completed_at"), &field("failed_at")], time),
            output: self
                .get(&[&field("output")], any)
                .or_else(|| self.get(&[&field("output_ref")], reference)),
            errors: errors.into_iter().chain(self.get(&[&field("error")], any)).collect(),
        };
        let status = self.old.phases[phase as usize].status;
        self.old.phases[phase as usize] = OldPhase { status: old.status.or(status), ..old };
    }

    /// Reads a list of phases, or their names in a text.
    fn read_phases_completed(&mut self, pointer: &str) {
        let phases = self.get(&[pointer], |value| match value {
            Value::Array(names) => Some(names.iter().filter_map(parse_phase).collect()),
            Value::String(names) => {
                let words = names.split(|c: char| !c.is_alphanumeric());
                Some(words.filter_map(|word| parse_phase_name(&word.to_lowercase())).collect::<Vec<_>>())
            }
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::Object(_) => None,
        });
        for phase in phases.into_iter().flatten() {
            set_if_none(&mut self.old.phases[phase as usize].status, Some(OldStatus::Completed));
        }
    }

    /// Reads when the cycle ended, and sets its status if no other key does.
    fn read_end(&mut self, status: OldStatus) {
        let Some(ended) = self.get(&[""], time) else { return };
        set_if_none(&mut self.old.ended, Some(ended));
        set_if_none(&mut self.old.status, Some(ParsedStatus { status, phase: None }));
    }
}
