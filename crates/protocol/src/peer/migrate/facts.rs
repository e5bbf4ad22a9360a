//! Claims → facts: of each fact, the claim that counts most is believed, and those that disagree are named.

use serde_json::Value;

use super::account::{Note, NoteKind};
use super::claim::{Claim, Of, Slot};
use super::fit::{Fitted, fit};
use super::words::{Said, Standing, phase, said, text, time};
use crate::peer::document::{Mode, Phase, Second};
use crate::peer::names::CycleId;

/// What is known of a cycle.
#[derive(Debug)]
pub(super) struct Facts {
    /// Whose word each fact is.
    pub(super) believed: Vec<(Slot, String)>,
    pub(super) instruction: Option<String>,
    pub(super) created: Option<Second>,
    pub(super) updated: Option<Second>,
    pub(super) ended: Option<Second>,
    pub(super) status: Option<Said>,
    pub(super) current: Option<Phase>,
    pub(super) error: Option<Value>,
    pub(super) error_phase: Option<Phase>,
    pub(super) mode: Option<Mode>,
    pub(super) arguments: Option<String>,
    pub(super) requirements: Option<String>,
    pub(super) summary: Option<Value>,
    pub(super) insights: Option<Value>,
    pub(super) phases: [PhaseFacts; 4],
}

#[derive(Debug)]
pub(super) struct PhaseFacts {
    pub(super) phase: Phase,
    pub(super) status: Option<Standing>,
    pub(super) started: Option<Second>,
    pub(super) completed: Option<Second>,
    /// As it was found.
    pub(super) found: Option<Value>,
    /// As version 2 takes it.
    pub(super) output: Option<Fitted>,
    pub(super) errors: Vec<Value>,
}

impl Facts {
    /// Decides what to believe. No time is later than `at`.
    pub(super) fn of(cycle: &CycleId, claims: Vec<Claim>, at: Second, notes: &mut Vec<Note>) -> Self {
        let mut court = Court { claims, at, notes, believed: Vec::new() };
        court.claims.sort_by(|one, other| other.rank.cmp(&one.rank).then_with(|| one.key.cmp(&other.key)));
        let spec = cycle.scope.spec().map(|name| name.as_str().to_owned());
        court.hold(Slot::Spec, spec, text);
        court.hold(Slot::Number, Some(cycle.number), number);
        court.hold(Slot::Aware, Some(cycle.scope.spec().is_some()), flag);
        let mut facts = Self {
            believed: Vec::new(),
            instruction: court.believe(Slot::Instruction, text),
            created: court.believe_time(Slot::Created),
            updated: court.believe_time(Slot::Updated),
            ended: court.believe_time(Slot::Ended),
            status: court.believe(Slot::Status, said),
            current: court.believe(Slot::Current, phase),
            error: court.believe(Slot::Error, something),
            error_phase: court.believe(Slot::ErrorPhase, phase),
            mode: court.believe(Slot::Mode, mode),
            arguments: court.believe(Slot::Arguments, verbatim),
            requirements: court.believe(Slot::Requirements, verbatim),
            summary: court.believe(Slot::Summary, something),
            insights: court.believe(Slot::Insights, something),
            phases: Phase::ALL.map(|phase| PhaseFacts::of(phase, &mut court)),
        };
        facts.believed = court.believed;
        facts
    }

    pub(super) fn phase(&self, phase: Phase) -> &PhaseFacts {
        let [plan, execute, express, review] = &self.phases;
        match phase {
            Phase::Plan => plan,
            Phase::Execute => execute,
            Phase::Express => express,
            Phase::Review => review,
        }
    }

    /// Whether the cycle says that it is completed. A word like `review_complete` is about its phase.
    pub(super) fn is_over(&self) -> bool {
        self.status.is_some_and(|said| said.standing == Standing::Done && said.phase.is_none())
    }

    /// The earliest time anybody speaks of.
    pub(super) fn earliest(&self) -> Option<Second> {
        let phases = self.phases.iter().flat_map(|phase| [phase.started, phase.completed]);
        phases.chain([self.updated, self.ended]).flatten().min()
    }
}

impl PhaseFacts {
    fn of(phase: Phase, court: &mut Court<'_>) -> Self {
        let slot = |of| Slot::Phase(phase, of);
        let status = court.believe(slot(Of::Status), |value| said(value).map(|said| said.standing));
        let started = court.believe_time(slot(Of::Started));
        let completed = court.believe_time(slot(Of::Completed));
        let mut found = court.believe(slot(Of::Output), something);
        if let (None, Some(reference)) = (&found, court.believe(slot(Of::Reference), something)) {
            found = Some(serde_json::json!({ "output_ref": reference }));
        }
        let output = found.as_ref().and_then(|found| fit(phase, found));
        let one = court.believe(slot(Of::Error), something);
        let several = court.believe(slot(Of::Errors), |value| value.as_array().cloned()).unwrap_or_default();
        let errors = one.into_iter().chain(several).collect();
        Self { phase, status, started, completed, found, output, errors }
    }

    /// Whether anything says that this phase came about.
    pub(super) fn is_seen(&self) -> bool {
        match self.status {
            Some(Standing::Working | Standing::Done | Standing::Failed | Standing::Cancelled) => true,
            Some(Standing::Pending) | None => self.output.is_some(),
        }
    }
}

/// Where claims are heard, the weightiest first.
struct Court<'a> {
    claims: Vec<Claim>,
    at: Second,
    notes: &'a mut Vec<Note>,
    believed: Vec<(Slot, String)>,
}

impl Court<'_> {
    fn believe<T: PartialEq>(&mut self, slot: Slot, read: impl Fn(&Value) -> Option<T>) -> Option<T> {
        self.hear(slot, None, read)
    }

    /// Holds the claims against what is known from the key.
    fn hold<T: PartialEq>(&mut self, slot: Slot, known: Option<T>, read: impl Fn(&Value) -> Option<T>) {
        let by = known.map(|known| (known, "the key".to_owned()));
        self.hear(slot, by, read);
    }

    fn hear<T: PartialEq>(
        &mut self,
        slot: Slot,
        mut believed: Option<(T, String)>,
        read: impl Fn(&Value) -> Option<T>,
    ) -> Option<T> {
        for claim in self.claims.iter().filter(|claim| claim.slot == slot) {
            let shown = short(&claim.value);
            match (read(&claim.value), &believed) {
                (None, _) => {
                    let message = format!("{shown} cannot be read as {}", name(slot));
                    self.notes
                        .push(Note::new(NoteKind::Unreadable, message).of(&claim.key).at(slot.pointer()));
                }
                (Some(value), None) => {
                    self.believed.push((slot, claim.key.clone()));
                    believed = Some((value, format!("`{}`", claim.key)));
                }
                (Some(value), Some((known, by))) if value != *known => {
                    let message = format!("{} is {shown} here, but {by} counts more", name(slot));
                    self.notes
                        .push(Note::new(NoteKind::Overruled, message).of(&claim.key).at(slot.pointer()));
                }
                (Some(_), Some(_)) => {}
            }
        }
        believed.map(|(value, _)| value)
    }

    fn believe_time(&mut self, slot: Slot) -> Option<Second> {
        let found = self.believe(slot, time)?;
        if found > self.at {
            let message = format!("{} is {found}, which is still to come; now is written", name(slot));
            self.notes.push(Note::new(NoteKind::Guessed, message).at(slot.pointer()));
        }
        Some(found.min(self.at))
    }
}

fn number(value: &Value) -> Option<u64> {
    value.as_u64().or_else(|| value.as_str()?.trim().parse().ok())
}

fn flag(value: &Value) -> Option<bool> {
    value.as_bool().or_else(|| value.as_str()?.trim().parse().ok())
}

fn mode(value: &Value) -> Option<Mode> {
    let word = text(value)?.to_lowercase();
    Mode::ALL.into_iter().find(|mode| mode.as_str() == word)
}

fn verbatim(value: &Value) -> Option<String> {
    value.as_str().map(str::to_owned)
}

fn something(value: &Value) -> Option<Value> {
    (!value.is_null() && !value.as_str().is_some_and(super::words::is_blank)).then(|| value.clone())
}

/// What people call a fact.
fn name(slot: Slot) -> String {
    let fixed = match slot {
        Slot::Instruction => "the instruction",
        Slot::Spec => "the spec",
        Slot::Number => "the cycle's number",
        Slot::Created => "the time of its creation",
        Slot::Updated => "the time of its last change",
        Slot::Ended => "the time of its end",
        Slot::Status => "the cycle's status",
        Slot::Current => "the current phase",
        Slot::Error => "the cycle's error",
        Slot::ErrorPhase => "the phase that failed",
        Slot::Mode => "the mode",
        Slot::Aware => "`spec_aware`",
        Slot::Arguments => "`instruction_args`",
        Slot::Requirements => "`user_requirements`",
        Slot::Summary => "`cycle_summary`",
        Slot::Insights => "`insights`",
        Slot::Phase(phase, of) => {
            let what = match of {
                Of::Status => "status",
                Of::Started => "start",
                Of::Completed => "end",
                Of::Output | Of::Reference => "output",
                Of::Error | Of::Errors => "error",
            };
            return format!("the {what} of `{phase}`");
        }
    };
    fixed.to_owned()
}

/// A value as far as it fits into a line.
fn short(value: &Value) -> String {
    const ROOM: usize = 40;
    let text = value.to_string();
    match text.char_indices().nth(ROOM) {
        Some((end, _)) => format!("`{}…`", &text[..end]),
        None => format!("`{text}`"),
    }
}
