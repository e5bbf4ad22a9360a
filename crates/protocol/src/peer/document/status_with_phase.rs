//! Where a cycle is in the protocol's transition matrix, which `docs/peer.md` shows.

use std::fmt;

use super::{Document, PeerCycleStatus, Phase, PhaseStatus};
use crate::check::Violation;
use crate::peer::names::PeerCycleId;

/// A row or a column of the transition matrix.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum StatusWithPhase {
    Initialized,
    /// The phase is in progress.
    InProgress(Phase),
    /// The phase is completed, and the next one has not started.
    PhaseCompleted(Phase),
    Completed,
    Failed(Phase),
}

/// A change of a document that the matrix does not allow. It is not written. The error code is `invalid_transition`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InvalidTransition {
    pub cycle_id: PeerCycleId,
    /// `None` if there was no document.
    pub from: Option<StatusWithPhase>,
    pub to: StatusWithPhase,
    /// What is wrong with the change although the matrix has the transition. Empty if the matrix does not have it.
    pub violations: Vec<Violation>,
}

impl Document {
    /// Returns the row of a valid document. For an invalid one, returns a guess.
    pub fn status_with_phase(&self) -> StatusWithPhase {
        match self.metadata.status {
            PeerCycleStatus::Initialized => StatusWithPhase::Initialized,
            PeerCycleStatus::InProgress => match self.phases.find(PhaseStatus::InProgress) {
                Some(phase) => StatusWithPhase::InProgress(phase),
                None => StatusWithPhase::PhaseCompleted(self.metadata.current_phase),
            },
            PeerCycleStatus::Completed => StatusWithPhase::Completed,
            PeerCycleStatus::Failed => StatusWithPhase::Failed(
                self.phases.find(PhaseStatus::Failed).unwrap_or(self.metadata.current_phase),
            ),
        }
    }
}

impl StatusWithPhase {
    /// The phase that may start here.
    pub fn startable(self) -> Option<Phase> {
        match self {
            Self::Initialized => Some(Phase::Plan),
            Self::PhaseCompleted(phase) => phase.next(),
            Self::InProgress(_) | Self::Completed | Self::Failed(_) => None,
        }
    }

    /// The phase that fails if the cycle fails here: the one in progress, else the first that is not completed. `None` if all
    /// are completed.
    pub fn failable(self) -> Option<Phase> {
        match self {
            Self::InProgress(phase) => Some(phase),
            Self::Initialized | Self::PhaseCompleted(_) => self.startable(),
            Self::Completed | Self::Failed(_) => None,
        }
    }
}

impl fmt::Display for StatusWithPhase {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Initialized => f.write_str("initialized"),
            Self::InProgress(phase) => write!(f, "{phase} in_progress"),
            Self::PhaseCompleted(phase) => write!(f, "{phase} completed"),
            Self::Completed => f.write_str("completed"),
            Self::Failed(phase) => write!(f, "{phase} failed"),
        }
    }
}

impl fmt::Display for InvalidTransition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { cycle_id, from, to, violations } = self;
        match from {
            Some(from) => write!(f, "cycle `{cycle_id}` cannot go from {from} to {to}")?,
            None => write!(f, "cycle `{cycle_id}` cannot begin as {to}")?,
        }
        match violations.first() {
            Some(first) => write!(f, ": {}", first.message),
            None => Ok(()),
        }
    }
}

impl std::error::Error for InvalidTransition {}
