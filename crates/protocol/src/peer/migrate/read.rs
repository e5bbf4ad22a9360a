//! Reads the keys of one cycle.

use serde_json::Value;

use super::group::Fragment;
use super::key::Part;
use super::report::{Note, NoteKind};
use super::reshape::{Reshaped, is_empty, reshape};
use super::status::{CycleWord, OldStatus, cycle_word, phase, phase_word};
use crate::Stamp;
use crate::check::shortened;
use crate::peer::document::{Mode, Phase, WholeSecond};

/// What the keys say about a cycle.
#[derive(Debug, Default)]
pub(super) struct Facts {
    pub(super) instruction: Option<String>,
    pub(super) created: Option<WholeSecond>,
    pub(super) updated: Option<WholeSecond>,
    /// When the cycle was completed or failed.
    pub(super) ended: Option<WholeSecond>,
    pub(super) status: Option<CycleWord>,
    pub(super) current: Option<Phase>,
    pub(super) error: Option<Value>,
    pub(super) error_phase: Option<Phase>,
    pub(super) mode: Option<Mode>,
    pub(super) arguments: Option<String>,
    pub(super) requirements: Option<String>,
    pub(super) summary: Option<Value>,
    pub(super) insights: Option<Value>,
    /// A key that should hold a document and does not.
    pub(super) unreadable: Option<String>,
    pub(super) phases: [PhaseFacts; 4],
}

#[derive(Debug, Default)]
pub(super) struct PhaseFacts {
    pub(super) status: Option<OldStatus>,
    pub(super) started: Option<WholeSecond>,
    pub(super) completed: Option<WholeSecond>,
    /// The output, as it was found.
    pub(super) output: Option<Value>,
    pub(super) errors: Vec<Value>,
}

/// Reads the keys of a cycle. The first that gives a value counts. No time is later than `at`.
pub(super) fn read(
    fragments: &[&Fragment],
    instruction: Option<&str>,
    at: WholeSecond,
    notes: &mut Vec<Note>,
) -> Facts {
    let mut facts = Facts::default();
    for fragment in fragments {
        Reader { facts: &mut facts, fragment, notes }.read();
    }
    fill(&mut facts.instruction, instruction.map(str::to_owned));
    let phases = facts.phases.iter_mut().flat_map(|phase| [&mut phase.started, &mut phase.completed]);
    let times = phases.chain([&mut facts.created, &mut facts.updated, &mut facts.ended]);
    times.flatten().for_each(|time| *time = at.min(*time));
    facts
}

/// Parses a time and cuts it to the second.
pub(super) fn time(value: &Value) -> Option<WholeSecond> {
    let timestamp = value.as_str()?.trim().parse().ok()?;
    Some(WholeSecond::from(Stamp::from_timestamp(timestamp)))
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

fn fill<T>(slot: &mut Option<T>, value: Option<T>) {
    if slot.is_none() {
        *slot = value;
    }
}

impl Facts {
    pub(super) fn phase(&self, phase: Phase) -> &PhaseFacts {
        &self.phases[phase as usize]
    }

    /// Whether the cycle is marked completed. A word like `review_complete` is about the phase.
    pub(super) fn is_completed(&self) -> bool {
        self.status == Some(CycleWord { status: OldStatus::Completed, phase: None })
    }

    pub(super) fn earliest(&self) -> Option<WholeSecond> {
        let phases = self.phases.iter().flat_map(|phase| [phase.started, phase.completed]);
        phases.chain([self.updated, self.ended]).flatten().min()
    }
}

impl PhaseFacts {
    /// Whether any key says that the phase started.
    pub(super) fn has_started(&self) -> bool {
        self.output.is_some() || self.status.is_some_and(|status| status != OldStatus::Pending)
    }

    /// The output in the form of version 2.
    pub(super) fn reshaped(&self, phase: Phase) -> Option<Reshaped> {
        self.output.as_ref().map(|output| reshape(phase, output))
    }
}

struct Reader<'a> {
    facts: &'a mut Facts,
    fragment: &'a Fragment,
    notes: &'a mut Vec<Note>,
}

impl Reader<'_> {
    fn read(&mut self) {
        match self.fragment.part {
            Part::Document => self.document(),
            Part::Meta | Part::Metadata => self.metadata(""),
            Part::Context => self.context(""),
            Part::Status | Part::State => self.status(""),
            Part::Instruction => self.set(|facts| &mut facts.instruction, &[""], text),
            Part::Mode => self.set(|facts| &mut facts.mode, &[""], mode),
            Part::PhasesCompleted => self.phases_completed(""),
            Part::Output(phase) => {
                let output = self.get(&[""], any);
                fill(&mut self.facts.phases[phase as usize].output, output);
            }
            Part::PhaseStatus(phase) => {
                let word = self.get(&[""], cycle_word);
                fill(&mut self.facts.phases[phase as usize].status, word.map(|word| word.status));
            }
            Part::CompletedAt => self.ended(OldStatus::Completed),
            Part::FailedAt => self.ended(OldStatus::Failed),
            Part::Error => self.set(|facts| &mut facts.error, &[""], any),
            Part::Other => {}
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

    /// Sets a fact, unless a key that counts more has set it.
    fn set<T>(
        &mut self,
        fact: impl FnOnce(&mut Facts) -> &mut Option<T>,
        pointers: &[&str],
        parse: impl Fn(&Value) -> Option<T>,
    ) {
        let value = self.get(pointers, parse);
        fill(fact(self.facts), value);
    }

    /// A document of any generation: some have at the root what others have in `metadata`.
    fn document(&mut self) {
        if !self.fragment.value.is_object() {
            let note = Note::new(NoteKind::Unreadable, "it should be a document, but is not an object");
            self.notes.push(note.of(&self.fragment.key));
            self.facts.unreadable = Some(self.fragment.key.clone());
            return;
        }
        self.metadata("/metadata");
        self.metadata("");
        self.context("/context");
        self.set(|facts| &mut facts.error_phase, &["/error_info/phase"], phase);
        self.set(|facts| &mut facts.error, &["/error_info"], any);
        self.facts.summary = self.get(&["/cycle_summary"], any);
        self.facts.insights = self.get(&["/insights"], any);
        for phase in Phase::ALL {
            self.phase(phase, &format!("/phases/{phase}"));
        }
    }

    fn metadata(&mut self, at: &str) {
        let field = |name: &str| format!("{at}/{name}");
        self.set(|facts| &mut facts.instruction, &[&field("instruction"), &field("instruction_name")], text);
        self.set(|facts| &mut facts.created, &[&field("created_at"), &field("started_at")], time);
        self.set(|facts| &mut facts.updated, &[&field("updated_at"), &field("last_updated_at")], time);
        self.set(|facts| &mut facts.ended, &[&field("completed_at"), &field("failed_at")], time);
        let status = field("status");
        if self.fragment.value.pointer(&status).is_some_and(Value::is_object) {
            self.status_object(&status);
        } else {
            self.status(&status);
        }
        self.set(|facts| &mut facts.current, &[&field("current_phase")], phase);
        self.phases_completed(&field("phases_completed"));
    }

    /// Generation 0: the status is an object, and its `current_phase` is also the status of the cycle.
    fn status_object(&mut self, at: &str) {
        let field = |name: &str| format!("{at}/{name}");
        self.status(&field("current_phase"));
        self.set(|facts| &mut facts.updated, &[&field("last_update")], time);
        self.set(|facts| &mut facts.error, &[&field("error_message")], any);
        self.set(|facts| &mut facts.error_phase, &[&field("error_phase")], phase);
    }

    /// The status of the cycle. It may name a phase: `planning_complete`.
    fn status(&mut self, at: &str) {
        let Some(word) = self.get(&[at], cycle_word) else { return };
        fill(&mut self.facts.status, Some(word));
        let Some(phase) = word.phase else { return };
        match word.status {
            OldStatus::Completed => {
                fill(&mut self.facts.phases[phase as usize].status, Some(OldStatus::Completed));
            }
            OldStatus::Failed | OldStatus::Cancelled => fill(&mut self.facts.error_phase, Some(phase)),
            OldStatus::Pending | OldStatus::InProgress => fill(&mut self.facts.current, Some(phase)),
        }
    }

    fn context(&mut self, at: &str) {
        let field = |name: &str| format!("{at}/{name}");
        self.set(|facts| &mut facts.mode, &[&field("peer_mode")], mode);
        self.set(|facts| &mut facts.arguments, &[&field("instruction_args")], text);
        self.set(|facts| &mut facts.requirements, &[&field("user_requirements")], text);
        self.set(|facts| &mut facts.instruction, &[&field("instruction_name")], text);
    }

    fn phase(&mut self, phase: Phase, at: &str) {
        let field = |name: &str| format!("{at}/{name}");
        let reference = |value: &Value| Some(serde_json::json!({ "output_ref": value }));
        let errors = self.get(&[&field("errors")], |value| value.as_array().cloned()).unwrap_or_default();
        let facts = PhaseFacts {
            status: self.get(&[&field("status")], cycle_word).map(|word| word.status),
            started: self.get(&[&field("started_at")], time),
            completed: self.get(&[&field("completed_at"), &field("failed_at")], time),
            output: self
                .get(&[&field("output")], any)
                .or_else(|| self.get(&[&field("output_ref")], reference)),
            errors: errors.into_iter().chain(self.get(&[&field("error")], any)).collect(),
        };
        let status = self.facts.phases[phase as usize].status;
        self.facts.phases[phase as usize] = PhaseFacts { status: facts.status.or(status), ..facts };
    }

    /// A list of phases, or their names in a text.
    fn phases_completed(&mut self, at: &str) {
        let phases = self.get(&[at], |value| match value {
            Value::Array(names) => Some(names.iter().filter_map(phase).collect()),
            Value::String(names) => {
                let words = names.split(|c: char| !c.is_alphanumeric());
                Some(words.filter_map(|word| phase_word(&word.to_lowercase())).collect::<Vec<_>>())
            }
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::Object(_) => None,
        });
        for phase in phases.into_iter().flatten() {
            fill(&mut self.facts.phases[phase as usize].status, Some(OldStatus::Completed));
        }
    }

    /// When the cycle ended, and thereby that it did.
    fn ended(&mut self, status: OldStatus) {
        let Some(ended) = self.get(&[""], time) else { return };
        fill(&mut self.facts.ended, Some(ended));
        fill(&mut self.facts.status, Some(CycleWord { status, phase: None }));
    }
}
