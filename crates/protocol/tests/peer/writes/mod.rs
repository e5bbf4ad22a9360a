//! The writes of a cycle's document: every change keeps the rules and is recognised, in any order; any other write is refused.

mod mutations;
mod refusals;
mod walk;

use protocol::Timestamp;
use protocol::peer::change::{self, ChangeError, ErrorDetail, NewCycle, ReviewFields, UnknownFields};
use protocol::peer::{
    Document, Mode, PeerCycleId, Phase, PhaseStatus, StatusWithPhase, Transition, WholeSecond,
};
use serde_json::{Value, json};

/// A time, this many seconds after the start.
fn second(seconds: i64) -> WholeSecond {
    WholeSecond::from(Timestamp::from_micros((1_754_388_000 + seconds) * 1_000_000))
}

fn new_cycle(cycle: &str, continues: Option<&str>) -> NewCycle {
    NewCycle {
        cycle: cycle.parse().unwrap(),
        instruction: "create-spec".to_owned(),
        mode: if continues.is_some() { Mode::Continue } else { Mode::New },
        instruction_args: "--spec=login".to_owned(),
        user_requirements: "People can log in".to_owned(),
        continues: continues.map(|cycle| cycle.parse::<PeerCycleId>().unwrap()),
    }
}

/// A new cycle with unknown fields, which every later write must preserve.
fn opened() -> Document {
    let mut document = change::initialise(new_cycle("peer:spec:login:cycle:2", None), second(0));
    document.unknown.insert("x_owner".to_owned(), json!({"team": ["a"]}));
    document.metadata.unknown.insert("x_ticket".to_owned(), json!(7));
    document.phases.review.unknown.insert("x_note".to_owned(), json!(null));
    document
}

/// A valid output.
fn output(phase: Phase) -> Value {
    match phase {
        Phase::Plan => {
            json!({"phases": [{"phase": "preparation", "steps": ["read"]}], "success_criteria": "it works"})
        }
        Phase::Execute => json!({"execution_status": "success", "files_created": ["src/login.rs"]}),
        Phase::Express => json!({"summary": "People can log in", "success": true}),
        Phase::Review => json!({"quality_score": 85, "strengths": ["small"]}),
    }
}

/// A change of the document that the tests try, legal or not.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum DocumentChange {
    Start(Phase),
    Progress(Phase),
    FailAttempt(Phase),
    Complete(Phase),
    Fail(Phase),
    CompleteCycle,
    UnknownFields,
}

impl DocumentChange {
    fn all() -> Vec<Self> {
        let for_each_phase = |change_of: fn(Phase) -> Self| Phase::ALL.map(change_of);
        let mut all = [Self::CompleteCycle, Self::UnknownFields].to_vec();
        for changes in [
            for_each_phase(Self::Start),
            for_each_phase(Self::Progress),
            for_each_phase(Self::FailAttempt),
            for_each_phase(Self::Complete),
            for_each_phase(Self::Fail),
        ] {
            all.extend(changes);
        }
        all
    }

    /// Makes the change. The number makes its values unique.
    fn apply(self, old: &Document, number: i64) -> Result<Document, ChangeError> {
        let at = second(number);
        let error = ErrorDetail { kind: "timeout".to_owned(), message: format!("attempt {number}") };
        match self {
            Self::Start(phase) => change::start(old, phase, at),
            Self::Progress(phase) => change::progress(old, phase, json!({ "progress": number }), at),
            Self::FailAttempt(phase) => change::fail_attempt(old, phase, error, at),
            Self::Complete(Phase::Review) => {
                let fields = ReviewFields {
                    cycle_summary: Some(json!({"success": true, "highlights": ["a"]})),
                    insights: Some(json!({"questions_for_user": ["Which database?"]})),
                };
                change::complete_review(old, output(Phase::Review), fields, at)
            }
            Self::Complete(phase) => change::complete(old, phase, output(phase), at),
            Self::Fail(phase) => change::fail(old, phase, error, at),
            Self::CompleteCycle => change::complete_cycle(old, at),
            Self::UnknownFields => {
                let mut fields = UnknownFields::of(old);
                fields.root.insert("x_count".to_owned(), json!(number));
                fields.phases[2].insert("x_mark".to_owned(), json!([number]));
                Ok(change::set_unknown_fields(old, fields, at))
            }
        }
    }

    /// The transition that the change makes.
    fn transition(self) -> Transition {
        match self {
            Self::Start(phase) => Transition::Started(phase),
            Self::Progress(phase) | Self::FailAttempt(phase) => {
                Transition::Progress { phase, unknown_fields: false }
            }
            Self::Complete(phase) => Transition::Completed(phase),
            Self::Fail(phase) => Transition::Failed(phase),
            Self::CompleteCycle => Transition::CycleCompleted,
            Self::UnknownFields => Transition::UnknownFields,
        }
    }

    /// The table "Transitions" of `docs/peer.md`, written a second time to compare with what the changes allow.
    fn is_legal(self, at: StatusWithPhase, old: &Document) -> bool {
        let first_incomplete =
            || old.phases.iter().find(|(_, phase)| phase.status != PhaseStatus::Completed).map(|(p, _)| p);
        let is_open = !matches!(at, StatusWithPhase::Completed | StatusWithPhase::Failed(_));
        match self {
            Self::Start(phase) => {
                is_open && !matches!(at, StatusWithPhase::InProgress(_)) && first_incomplete() == Some(phase)
            }
            Self::Progress(phase) | Self::FailAttempt(phase) | Self::Complete(phase) => {
                at == StatusWithPhase::InProgress(phase)
            }
            Self::Fail(phase) => is_open && first_incomplete() == Some(phase),
            Self::CompleteCycle => at == StatusWithPhase::PhaseCompleted(Phase::Review),
            Self::UnknownFields => true,
        }
    }
}
