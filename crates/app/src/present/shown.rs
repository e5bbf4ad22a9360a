//! How a step stands, as its document says it, in words that are the same for every protocol.

use std::time::Duration;

use protocol::Stamp;

use crate::output::{CYAN, DIM, GREEN, RED, Style, YELLOW};

/// What a document says of a step.
#[derive(Debug, Clone)]
pub(crate) struct Shown {
    /// In the document's own word.
    pub(crate) status: &'static str,
    pub(crate) kind: StatusKind,
    /// Tries of this turn that count.
    pub(crate) attempts: u32,
    /// How often the run was sent back over it.
    pub(crate) sent_back: u32,
    pub(crate) began: Option<Stamp>,
    pub(crate) ended: Option<Stamp>,
    pub(crate) error: Option<String>,
    /// What else there is to say of it.
    pub(crate) remark: Option<String>,
}

impl Shown {
    /// How long it took, or has been at work.
    pub(crate) fn length(&self, now: Stamp) -> Option<Duration> {
        let began = self.began?;
        match self.kind {
            StatusKind::Running | StatusKind::Waiting => Some(now.since(began)),
            StatusKind::Succeeded | StatusKind::Failed => self.ended.map(|ended| ended.since(began)),
            StatusKind::Pending | StatusKind::Skipped => None,
        }
    }

    /// How long it took, if it is over.
    pub(crate) fn took(&self) -> Option<Duration> {
        match self.kind {
            StatusKind::Succeeded | StatusKind::Failed => Some(self.ended?.since(self.began?)),
            StatusKind::Pending | StatusKind::Running | StatusKind::Waiting | StatusKind::Skipped => None,
        }
    }
}

/// What a status means, whatever its protocol calls it: it has a colour, and in graphs a sign and a word.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum StatusKind {
    Pending,
    Running,
    /// For a person.
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

/// Where a gate sends the run back to, and how often it may be asked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct WayBack<S> {
    pub(crate) to: S,
    pub(crate) most: u32,
}
