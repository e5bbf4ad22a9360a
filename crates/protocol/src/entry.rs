//! The journal: one entry per commit, with the input *and* the decision's result.
//!
//! Folding an entry never calls `decide`: a fix to a protocol's table does not rewrite history, and a parked run
//! survives an upgrade.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::report::Report;
use crate::rules::Protocol;
use crate::run::{Action, Attempt, Change, ChangeOf, Fact, Request, Run};
use crate::{AttemptId, Revision, Stamp};

/// The version this program writes. Older ones are lifted by [`Entry::decode`].
///
/// * 1: the first
/// * 2: adds [`Input::Recovered`]; what version 1 could say is said as before
/// * 3: adds [`Input::Edited`], [`Evidence::kind`] and [`RecoverySource::Migrated`]; what version 2 could say is said as before
/// * 4: adds [`Author::Client`]; what version 3 could say is said as before
pub const ENTRY_VERSION: u32 = 4;

/// The record of one commit.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(bound = "")]
pub struct Entry<P: Protocol> {
    pub v: u32,
    /// The run's own time: it never runs backwards.
    pub at: Stamp,
    pub by: Author,
    pub input: Input<P>,
    pub changes: Vec<ChangeOf<P>>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub actions: Vec<Action<P::Step>>,
    /// Timers this entry sets.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub timers: Vec<Timer>,
}

/// Who caused an entry.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "who")]
pub enum Author {
    /// The engine, on what it saw.
    Engine { host: String, boot_id: String, pid: u32 },
    /// A person or program at the command line.
    Person { name: String, host: String },
    /// Another client of the bucket in which documents are kept, by the entry of this sequence.
    Client { bucket: String, sequence: u64 },
}

impl Author {
    /// The machine it was written on; of another client nobody knows it.
    pub fn host(&self) -> &str {
        match self {
            Self::Engine { host, .. } | Self::Person { host, .. } => host,
            Self::Client { .. } => "",
        }
    }
}

/// What came in.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", bound = "")]
pub enum Input<P: Protocol> {
    /// The run was opened; the digest names the frozen definition.
    Opened { definition: String },
    Fact {
        #[serde(flatten)]
        fact: Fact<P::Step, P::Verdict>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        evidence: Option<Box<Evidence>>,
    },
    Request {
        request: Request<P::Step>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        reason: Option<String>,
    },
    /// Somebody asked for what only a person may ask for.
    Refused {
        request: Request<P::Step>,
        /// The attempt it was asked from.
        attempt: String,
    },
    /// Somebody wrote into the document. The run stays as it is.
    Edited {
        edit: P::Edit,
        /// The attempt from inside which it was written.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        from: Option<AttemptId>,
    },
    /// Nothing came in: what was due has been done.
    Deferred,
    /// The run was put together again from what was left of it.
    Recovered { source: RecoverySource },
}

impl<P: Protocol> Input<P> {
    /// What lies behind a fact.
    pub fn evidence(&self) -> Option<&Evidence> {
        match self {
            Self::Fact { evidence, .. } => evidence.as_deref(),
            Self::Opened { .. }
            | Self::Request { .. }
            | Self::Refused { .. }
            | Self::Edited { .. }
            | Self::Deferred
            | Self::Recovered { .. } => None,
        }
    }
}

/// What a run was put together from.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RecoverySource {
    /// A damaged store: its journal ends with the entry before this one, for this reason.
    Journal {
        lost: String,
        /// The last revision that was left, and the newest that is known to have been.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        gap: Option<(Revision, Revision)>,
    },
    /// The document was not what it should have been; this is what was put in its place.
    Document {
        document: serde_json::Value,
        /// The revision at which the run had this document, and the one at which it was found broken.
        from: Revision,
        bad: Revision,
        /// The highest `sequence` that anybody can have seen.
        highest: u64,
        /// What was wrong, and where the bad bytes are kept, if there were any.
        what: String,
        kept: String,
    },
    /// A view, as it was found; nothing of its journal was left.
    View { path: String, document: serde_json::Value },
    /// An archive, written elsewhere.
    Archive { host: String },
    /// A dump of a store that was not ours, and the document that was made of it.
    Migrated { from: String, document: serde_json::Value },
}

impl std::fmt::Display for RecoverySource {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Journal { lost, .. } => write!(f, "recovered from a damaged store: {lost}"),
            Self::Document { from, what, kept, .. } => {
                write!(f, "its document was put back as of revision {from}: {what}")?;
                match kept.as_str() {
                    "" => Ok(()),
                    kept => write!(f, "; the bad bytes are kept in `{kept}`"),
                }
            }
            Self::View { path, .. } => {
                write!(f, "rebuilt from its view `{path}`; its journal before is lost")
            }
            Self::Archive { host } => write!(f, "imported from an archive written on `{host}`"),
            Self::Migrated { from, .. } => write!(f, "migrated from the dump `{from}`"),
        }
    }
}

/// What lies behind the end of an attempt, for people and the document; deciding does not look at it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Default)]
pub struct Evidence {
    /// What went wrong, in a word.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kind: Option<FaultKind>,
    /// What went wrong, in a sentence.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// The report, if it was valid.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub report: Option<Report>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub duration_ms: Option<u64>,
}

/// What can go wrong with an attempt, for programs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FaultKind {
    /// It could not be started.
    NotStarted,
    /// It ended by itself and left no report.
    NoReport,
    /// It left a report that cannot be accepted.
    UnfitReport,
    /// Its report says that it failed.
    ReportedFailure,
    /// Its time was over.
    Timeout,
    /// It was silent for too long.
    Silence,
    /// It was killed, by nobody of ours.
    Interrupted,
    /// Somebody stopped it.
    Cancelled,
}

impl FaultKind {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::NotStarted => "not_started",
            Self::NoReport => "no_report",
            Self::UnfitReport => "unfit_report",
            Self::ReportedFailure => "reported_failure",
            Self::Timeout => "timeout",
            Self::Silence => "silence",
            Self::Interrupted => "interrupted",
            Self::Cancelled => "cancelled",
        }
    }
}

/// A durable timer: it fires once, at `due` or as soon as an engine is there.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Timer {
    /// The attempt after which it rests.
    pub attempt: AttemptId,
    pub due: Stamp,
    /// How long it was set for: a due time absurdly far ahead means that the clock was changed.
    pub length_ms: u64,
}

/// An entry that cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum BadEntry {
    #[error("the entry is not what this program writes")]
    Malformed(#[from] serde_json::Error),
    #[error("the entry has version {0}; this program knows up to {ENTRY_VERSION}")]
    TooNew(u32),
}

impl<P: Protocol> Entry<P> {
    pub fn encode(&self) -> String {
        serde_json::to_string(self).expect("BUG: an entry is plain data")
    }

    /// Reads an entry of this or an earlier version.
    pub fn decode(text: &str) -> Result<Self, BadEntry> {
        #[derive(Deserialize)]
        struct Version {
            v: u32,
        }
        match serde_json::from_str::<Version>(text)?.v {
            1 | 2 | 3 | ENTRY_VERSION => Ok(serde_json::from_str(text)?),
            newer => Err(BadEntry::TooNew(newer)),
        }
    }
}

/// All that folding the journal gives to whoever decides: the run, its timers, where its attempts are, its clock.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(bound = "")]
pub struct RunState<P: Protocol> {
    pub run: Run<P>,
    pub timers: BTreeMap<AttemptId, Timer>,
    /// The host of each attempt that may be alive: that of the engine whose entry began it. A person's entry begins one
    /// only if the command was the engine, so its host is as good. Snapshots from before this was kept know of none.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub placed: BTreeMap<AttemptId, String>,
    /// The time of the last entry.
    pub at: Stamp,
}

impl<P: Protocol> RunState<P> {
    /// A run before its first entry.
    pub fn blank(definition: &P::Definition, at: Stamp) -> Self {
        Self { run: Run::blank(definition), timers: BTreeMap::new(), placed: BTreeMap::new(), at }
    }

    /// Takes in an entry somebody else decided.
    pub fn fold(&mut self, entry: &Entry<P>) {
        for change in &entry.changes {
            self.run.apply(change);
        }
        self.keep_time_and_place(entry);
    }

    /// The part of folding that deciding has not done already.
    pub fn keep_time_and_place(&mut self, entry: &Entry<P>) {
        self.at = self.at.max(entry.at);
        for change in &entry.changes {
            match change {
                Change::BackoffElapsed { step } | Change::Dequeued { step } => {
                    let step = P::step_id(step);
                    self.timers.retain(|attempt, _| attempt.step != step);
                }
                Change::Queued { step, .. } => {
                    let step = P::step_id(step);
                    self.placed.retain(|attempt, _| attempt.step != step);
                }
                Change::Started { attempt, .. } => {
                    self.placed.insert(Run::<P>::id(attempt), entry.by.host().to_owned());
                }
                Change::Ended { attempt, .. } => {
                    self.placed.remove(&Run::<P>::id(attempt));
                }
                Change::Status { .. } | Change::Protocol { .. } | Change::StopRequested { .. } => {}
            }
        }
        self.timers.extend(entry.timers.iter().map(|timer| (timer.attempt.clone(), timer.clone())));
        if let Input::Recovered { source: RecoverySource::Archive { .. } } = &entry.input {
            // Whoever unpacks a run has its attempts' directories: what was open in it is that host's now.
            self.placed.values_mut().for_each(|host| entry.by.host().clone_into(host));
        }
    }

    /// Attempts that may be alive on other hosts than this one, and where.
    pub fn remote<'a>(&'a self, here: &'a str) -> impl Iterator<Item = (Attempt<P::Step>, &'a str)> {
        self.run.live_attempts().filter_map(move |(attempt, _)| {
            let host = self.placed.get(&Run::<P>::id(&attempt))?;
            (host != here).then_some((attempt, host.as_str()))
        })
    }
}
