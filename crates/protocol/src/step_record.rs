//! What the document of `team`, `cycle` and `issue` keeps of each step. Their originals keep nothing of the kind.

use serde::{Deserialize, Serialize};

use crate::present::{StatusKind, StepSummary};
use crate::run::{AttemptConsequence, Change};
use crate::{Timestamp, Turn};

/// A step in its latest turn.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct StepRecord {
    pub status: StepRecordStatus,
    /// 0 before the first turn.
    pub turn: Turn,
    /// The counted attempts of the turn.
    pub attempts: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub started_at: Option<Timestamp>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ended_at: Option<Timestamp>,
    /// Why the last attempt failed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StepRecordStatus {
    #[default]
    Pending,
    Running,
    Waiting,
    Succeeded,
    Failed,
}

impl StepRecordStatus {
    pub(crate) fn kind(self) -> StatusKind {
        match self {
            Self::Pending => StatusKind::Pending,
            Self::Running => StatusKind::Running,
            Self::Waiting => StatusKind::Waiting,
            Self::Succeeded => StatusKind::Succeeded,
            Self::Failed => StatusKind::Failed,
        }
    }
}

impl StepRecord {
    /// Records what happened to the step. Ignores changes that say nothing about the record.
    pub fn record<C>(&mut self, change: &Change<C>, error: Option<String>, at: Timestamp) {
        match change {
            Change::Queued { turn, .. } => {
                self.begin_turn(*turn);
                (self.status, self.attempts) = (StepRecordStatus::Pending, 0);
            }
            Change::Waiting { .. } => {
                (self.status, self.started_at, self.ended_at) = (StepRecordStatus::Waiting, Some(at), None);
            }
            Change::Started { attempt, counted_attempt, .. } => {
                self.begin_turn(attempt.turn);
                (self.status, self.attempts) = (StepRecordStatus::Running, *counted_attempt);
                (self.started_at, self.ended_at) = (Some(at), None);
            }
            Change::Ended { consequence, .. } => {
                (self.status, self.ended_at) = (status_after(*consequence), Some(at));
                // A stop or an interruption does not replace the reason why an attempt failed before.
                self.error = match consequence {
                    AttemptConsequence::Stopped
                    | AttemptConsequence::Released
                    | AttemptConsequence::Interrupted { .. } => self.error.take().or(error),
                    AttemptConsequence::Reported
                    | AttemptConsequence::Exhausted
                    | AttemptConsequence::WillRetry { .. }
                    | AttemptConsequence::FailedWhileDraining => error,
                };
            }
            Change::Answered { .. } => {
                (self.status, self.ended_at) = (StepRecordStatus::Succeeded, Some(at));
            }
            Change::Dequeued { .. } => self.status = StepRecordStatus::Pending,
            Change::Status { .. }
            | Change::Protocol { .. }
            | Change::BackoffElapsed { .. }
            | Change::StopRequested { .. } => {}
        }
    }

    /// Begins a record for a new turn. Within a turn it is kept, so that the next attempt is told why the last one failed.
    fn begin_turn(&mut self, turn: Turn) {
        if self.turn != turn {
            *self = Self { turn, ..Self::default() };
        }
    }

    pub fn summary(&self) -> StepSummary {
        let kind = self.status.kind();
        StepSummary {
            status: kind.as_str(),
            kind,
            attempts: self.attempts,
            loop_backs: self.turn.0.saturating_sub(1),
            started_at: self.started_at,
            ended_at: self.ended_at,
            error: self.error.clone().filter(|_| kind != StatusKind::Succeeded),
            note: None,
        }
    }
}

fn status_after(consequence: AttemptConsequence) -> StepRecordStatus {
    match consequence {
        AttemptConsequence::Reported => StepRecordStatus::Succeeded,
        AttemptConsequence::Exhausted => StepRecordStatus::Failed,
        AttemptConsequence::WillRetry { .. }
        | AttemptConsequence::Interrupted { .. }
        | AttemptConsequence::Stopped
        | AttemptConsequence::Released
        | AttemptConsequence::FailedWhileDraining => StepRecordStatus::Pending,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{AttemptId, AttemptNo, StepId, StepKind};

    #[test]
    fn a_stop_does_not_replace_the_reason_why_an_attempt_failed() {
        let mut record = StepRecord::default();
        let mut end = |consequence, error: Option<&str>| {
            let attempt =
                AttemptId { step: StepId::new("code").unwrap(), turn: Turn(1), attempt_no: AttemptNo(1) };
            let change = Change::<()>::Ended { attempt, consequence, kind: StepKind::Agent };
            record.record(&change, error.map(str::to_owned), Timestamp::from_micros(0));
            record.error.clone()
        };
        let failed = AttemptConsequence::WillRetry { failures: 1, next: AttemptNo(2) };
        assert_eq!(end(AttemptConsequence::Stopped, Some("stopped")).as_deref(), Some("stopped"));
        assert_eq!(end(failed, Some("no report")).as_deref(), Some("no report"));
        assert_eq!(end(AttemptConsequence::Stopped, Some("stopped")).as_deref(), Some("no report"));
        assert_eq!(end(AttemptConsequence::Reported, None), None);
    }
}
