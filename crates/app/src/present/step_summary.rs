//! What a document says about a step, in terms that are the same for every protocol.

use std::time::Duration;

use protocol::Stamp;

use crate::output::{CYAN, DIM, GREEN, RED, Style, YELLOW};

#[derive(Debug, Clone)]
pub(crate) struct StepSummary {
    /// The word of the protocol's own document.
    pub(crate) status: &'static str,
    pub(crate) kind: StatusKind,
    /// Counted attempts of this turn.
    pub(crate) attempts: u32,
    /// How often a loop-back has reset the step.
    pub(crate) loop_backs: u32,
    pub(crate) started_at: Option<Stamp>,
    pub(crate) ended_at: Option<Stamp>,
    pub(crate) error: Option<String>,
    pub(crate) note: Option<String>,
}

impl StepSummary {
    /// Returns how long the step has run so far, or how long it took.
    pub(crate) fn elapsed(&self, now: Stamp) -> Option<Duration> {
        let started_at = self.started_at?;
        match self.kind {
            StatusKind::Running | StatusKind::Waiting => Some(now.since(started_at)),
            StatusKind::Succeeded | StatusKind::Failed => {
                self.ended_at.map(|ended_at| ended_at.since(started_at))
            }
            StatusKind::Pending | StatusKind::Skipped => None,
        }
    }

    /// Returns how long the step took, if it has ended.
    pub(crate) fn took(&self) -> Option<Duration> {
        match self.kind {
            StatusKind::Succeeded | StatusKind::Failed => Some(self.ended_at?.since(self.started_at?)),
            StatusKind::Pending | StatusKind::Running | StatusKind::Waiting | StatusKind::Skipped => None,
        }
    }
}

/// The meaning of a status across protocols.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum StatusKind {
    Pending,
    Running,
    /// Waits for a person.
    Waiting,
    Succeeded,
    Failed,
    Skipped,
}

impl StatusKind {
    pub(crate) fn style(self) -> Style {
        match self {
            Self::Pending | Self::Skipped => DIM,
            Self::Running => CYAN,
            Self::Waiting => YELLOW,
            Self::Succeeded => GREEN,
            Self::Failed => RED,
        }
    }
}

/// The step that a gate loops back to, and its iteration limit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct LoopBack<S> {
    pub(crate) to: S,
    pub(crate) max_iterations: u32,
}
