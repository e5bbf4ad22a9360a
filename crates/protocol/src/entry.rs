//! The journal: one entry per commit, with the input *and* the result of the decision.
//!
//! Folding an entry never calls `decide`, so a fix to a protocol's table does not rewrite history and a paused run
//! survives an upgrade.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::report::Report;
use crate::rules::Protocol;
use crate::run::{Action, Attempt, Change, ChangeOf, Fact, Request, Run};
use crate::{AttemptId, Revision, Stamp};

/// The version of entries that this program reads and writes. [`Entry::decode`] refuses newer ones.
pub const ENTRY_VERSION: u32 = 1;

/// The record of one commit.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(bound = "")]
pub struct Entry<P: Protocol> {
    pub v: u32,
    /// The run's own time, which never goes backwards.
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
    /// The engine that drives the run.
    Engine { host: String, boot_id: String, pid: u32 },
    /// A person or a program that used a command.
    Person { name: String, host: String },
    /// Another client of the NATS bucket that holds the documents; `sequence` is the message it wrote.
    Client { bucket: String, sequence: u64 },
}

impl Author {
    /// Returns the host the entry was written on; empty for another client, whose host is unknown.
    pub fn host(&self) -> &str {
        match self {
            Self::Engine { host, .. } | Self::Person { host, .. } => host,
            Self::Client { .. } => "",
        }
    }
}

/// What caused an entry.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", bound = "")]
pub enum Input<P: Protocol> {
    /// The run was opened; `definition` is the digest of the frozen definition.
    Opened { definition: String },
    Fact {
        #[serde(flatten)]
        fact: Fact<P::Step, P::Verdict>,
        #[serde(skip_serializing_if = "Option::is_none")]
        evidence: Option<Box<Evidence>>,
    },
    Request {
        request: Request<P::Step>,
        #[serde(skip_serializing_if = "Option::is_none")]
        reason: Option<String>,
    },
    /// An attempt made a request that only a person may make.
    Refused {
        request: Request<P::Step>,
        /// The attempt that made the request.
        attempt: String,
    },
    /// The document was edited. The state of the run does not change.
    Edited {
        edit: P::Edit,
        /// The attempt that wrote the edit, if one did.
        #[serde(skip_serializing_if = "Option::is_none")]
        from: Option<AttemptId>,
    },
    /// No input: the protocol's deferred transition was applied.
    Deferred,
    /// The run was restored after damage, or created from data of another store.
    Recovered { source: RecoverySource },
}

impl<P: Protocol> Input<P> {
    /// Returns the evidence of a fact; `None` for every other input.
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

/// What a run was recovered from.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RecoverySource {
    /// A damaged store, whose journal ends with the entry before this one. `lost` says why.
    Journal {
        lost: String,
        /// The last readable revision, and the newest one that is known to have existed.
        #[serde(skip_serializing_if = "Option::is_none")]
        gap: Option<(Revision, Revision)>,
    },
    /// A document that replaces a broken one.
    Document {
        document: serde_json::Value,
        /// The revision at which the run had this document.
        restored_from: Revision,
        /// The revision at which the document was found broken.
        broken_at: Revision,
        /// The highest `sequence` of the document that a client can have read.
        highest_sequence: u64,
        /// What was wrong with the document.
        problem: String,
        /// Where the broken bytes were moved to, if there were any.
        #[serde(skip_serializing_if = "Option::is_none")]
        quarantine: Option<String>,
    },
    /// A view file; the journal is lost.
    View { path: String, document: serde_json::Value },
    /// An archive written on another host.
    Archive { host: String },
    /// A document read from the dump of a foreign store.
    Migrated { from: String, document: serde_json::Value },
}

impl std::fmt::Display for RecoverySource {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Journal { lost, .. } => write!(f, "recovered from a damaged store: {lost}"),
            Self::Document { restored_from, problem, quarantine, .. } => {
                write!(f, "document restored from revision {restored_from}: {problem}")?;
                match quarantine {
                    None => Ok(()),
                    Some(path) => write!(f, "; the broken bytes are in `{path}`"),
                }
            }
            Self::View { path, .. } => {
                write!(f, "rebuilt from its view `{path}`; the journal before this entry is lost")
            }
            Self::Archive { host } => write!(f, "imported from an archive written on `{host}`"),
            Self::Migrated { from, .. } => write!(f, "migrated from the dump `{from}`"),
        }
    }
}

/// How an attempt ended, in detail. People and the document read it; `decide` does not.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Default)]
pub struct Evidence {
    /// The class of the failure.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kind: Option<FailureKind>,
    /// The failure in one sentence.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// The report, if it was valid.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub report: Option<Report>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub duration_ms: Option<u64>,
}

/// Why an attempt failed, for programs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FailureKind {
    /// It could not be started.
    NotStarted,
    /// It exited by itself without a report.
    NoReport,
    /// Its report was not accepted.
    InvalidReport,
    /// Its report says that it failed.
    ReportedFailure,
    /// It exceeded its timeout.
    Timeout,
    /// It wrote no output for too long.
    Silence,
    /// It was killed by something other than the engine.
    Interrupted,
    /// A user stopped it.
    Cancelled,
}

impl FailureKind {
    /// Returns the name that entries and documents use.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::NotStarted => "not_started",
            Self::NoReport => "no_report",
            Self::InvalidReport => "invalid_report",
            Self::ReportedFailure => "reported_failure",
            Self::Timeout => "timeout",
            Self::Silence => "silence",
            Self::Interrupted => "interrupted",
            Self::Cancelled => "cancelled",
        }
    }
}

/// A durable back-off timer. It fires once, at `fires_at` or as soon as an engine runs after that.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Timer {
    /// The failed attempt after which the step backs off.
    pub attempt: AttemptId,
    pub fires_at: Stamp,
    /// The length it was set for. A `fires_at` further ahead than this means that the clock was changed.
    pub length_ms: u64,
}

/// Why an entry cannot be decoded.
#[derive(Debug, thiserror::Error)]
pub enum BadEntry {
    #[error("the entry is malformed")]
    Malformed(#[from] serde_json::Error),
    #[error("the entry has version {0}; this program reads up to version {ENTRY_VERSION}")]
    TooNew(u32),
}

impl<P: Protocol> Entry<P> {
    pub fn encode(&self) -> String {
        serde_json::to_string(self).expect("BUG: an entry is plain data")
    }

    /// Decodes an entry. Fails if it is malformed or has a newer version.
    pub fn decode(text: &str) -> Result<Self, BadEntry> {
        #[derive(Deserialize)]
        struct Version {
            v: u32,
        }
        match serde_json::from_str::<Version>(text)?.v {
            newer if newer > ENTRY_VERSION => Err(BadEntry::TooNew(newer)),
            _ => Ok(serde_json::from_str(text)?),
        }
    }
}

/// What folding the journal yields: the run, its timers, the hosts of its attempts and its clock.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(bound = "")]
pub struct RunState<P: Protocol> {
    pub run: Run<P>,
    pub timers: BTreeMap<AttemptId, Timer>,
    /// The host of each attempt that may be alive: the host of the entry that started it. A person's entry starts an
    /// attempt only if the command was also the engine, so its host is right, too.
    pub hosts: BTreeMap<AttemptId, String>,
    /// The time of the last entry.
    pub at: Stamp,
}

impl<P: Protocol> RunState<P> {
    /// Returns the state before the first entry.
    pub fn blank(definition: &P::Definition, at: Stamp) -> Self {
        Self { run: Run::blank(definition), timers: BTreeMap::new(), hosts: BTreeMap::new(), at }
    }

    /// Applies an entry that was read from the journal.
    pub fn fold(&mut self, entry: &Entry<P>) {
        for change in &entry.changes {
            self.run.apply(change);
        }
        self.fold_context(entry);
    }

    /// Applies the clock, the timers and the hosts of an entry whose changes the run already has.
    pub fn fold_context(&mut self, entry: &Entry<P>) {
        self.at = self.at.max(entry.at);
        for change in &entry.changes {
            match change {
                Change::BackoffElapsed { step } | Change::Dequeued { step } => {
                    let step = P::step_id(step);
                    self.timers.retain(|attempt, _| attempt.step != step);
                }
                Change::Queued { step, .. } => {
                    let step = P::step_id(step);
                    self.hosts.retain(|attempt, _| attempt.step != step);
                }
                Change::Started { attempt, .. } => {
                    self.hosts.insert(Run::<P>::id(attempt), entry.by.host().to_owned());
                }
                Change::Ended { attempt, .. } => {
                    self.hosts.remove(&Run::<P>::id(attempt));
                }
                Change::Status { .. } | Change::Protocol { .. } | Change::StopRequested { .. } => {}
            }
        }
        self.timers.extend(entry.timers.iter().map(|timer| (timer.attempt.clone(), timer.clone())));
        if let Input::Recovered { source: RecoverySource::Archive { .. } } = &entry.input {
            // An archive brings the directories of its attempts along, so the importing host owns the open ones.
            self.hosts.values_mut().for_each(|host| entry.by.host().clone_into(host));
        }
    }

    /// Returns the attempts that may be alive on hosts other than `local_host`, each with its host.
    pub fn remote<'a>(&'a self, local_host: &'a str) -> impl Iterator<Item = (Attempt<P::Step>, &'a str)> {
        self.run.live_attempts().filter_map(move |(attempt, _)| {
            let host = self.hosts.get(&Run::<P>::id(&attempt))?;
            (host != local_host).then_some((attempt, host.as_str()))
        })
    }
}
