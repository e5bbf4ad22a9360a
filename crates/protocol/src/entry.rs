//! The journal: one entry per commit, with the input *and* the result of the decision.
//!
//! Replaying an entry never calls `decide`, so a fix to a protocol's transitions does not change the past of a run, and
//! a paused run survives an upgrade.

use std::sync::Arc;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::people::Answer;
use crate::protocol_trait::{Erased, Payload, Protocol};
use crate::report::Report;
use crate::run::{Action, Change, Ending, Fact, Request};
use crate::{AttemptId, Revision, Timestamp};

/// The version of entries that this program reads and writes. [`Entry::decode`] refuses newer ones.
pub const ENTRY_VERSION: u32 = 1;

/// The record of one commit. What belongs to the protocol is JSON, and [typed](Entry::typed) inside the protocol.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(bound = "")]
pub struct Entry<T: Payload = Erased> {
    /// The version of the entry: [`ENTRY_VERSION`], or an older one.
    pub v: u32,
    /// The run's own time, which never goes backwards.
    pub at: Timestamp,
    pub by: Author,
    pub input: Input<T>,
    pub changes: Vec<Change<T::Change>>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub actions: Vec<Action>,
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
    BucketClient { bucket: String, sequence: u64 },
}

impl Author {
    /// Returns the host the entry was written on; empty for another client, whose host is unknown.
    pub fn host(&self) -> &str {
        match self {
            Self::Engine { host, .. } | Self::Person { host, .. } => host,
            Self::BucketClient { .. } => "",
        }
    }
}

/// What caused an entry.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", bound = "")]
pub enum Input<T: Payload = Erased> {
    /// The run was opened with the run spec that has this digest.
    Opened { spec_digest: String },
    Fact {
        #[serde(flatten)]
        fact: Fact<T::Verdict>,
        #[serde(skip_serializing_if = "Option::is_none")]
        evidence: Option<Arc<Evidence>>,
    },
    Request {
        request: Request<T::Request>,
        #[serde(skip_serializing_if = "Option::is_none")]
        reason: Option<String>,
    },
    /// An attempt made a request that only a person may make.
    Refused {
        request: Request<T::Request>,
        /// The attempt that made the request.
        attempt: String,
    },
    /// The document was edited. The state of the run does not change.
    Edited {
        edit: T::Edit,
        /// The attempt that wrote the edit, if one did.
        #[serde(skip_serializing_if = "Option::is_none")]
        from: Option<AttemptId>,
    },
    /// No input: the protocol's deferred transition was applied, or queued steps were started in free slots.
    Deferred,
    /// The run was restored after damage, or created from data of another store.
    Recovered { source: RecoverySource },
}

impl<T: Payload> Input<T> {
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
    /// A damaged store, whose journal ends with the entry before this one. `reason` says why.
    Journal {
        reason: String,
        /// The last readable revision, and the newest one that is known to have existed.
        #[serde(skip_serializing_if = "Option::is_none")]
        gap: Option<(Revision, Revision)>,
    },
    /// A document that replaces a broken one.
    Document {
        document: Value,
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
    View { path: String, document: Value },
    /// An archive written on another host.
    Archive { host: String },
    /// A document of the original program, read from a dump of its key-value store.
    Migrated { from: String, document: Value },
}

impl std::fmt::Display for RecoverySource {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Journal { reason, .. } => write!(f, "recovered from a damaged store: {reason}"),
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

/// How an attempt or a question ended, in detail. Shown to people and recorded in the document; `decide` does not read
/// it.
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
    /// The answer of a person.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub answer: Option<Answer>,
    /// A sentence for each field or edit that was removed from the report because the step had no right to it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub refused_edits: Vec<String>,
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
    /// The effect could not be performed.
    EffectFailed,
    /// It exceeded its timeout.
    Timeout,
    /// It wrote no output for too long.
    Silence,
    /// It was cut short: killed by something other than the engine, lost with its shim or host, never begun, or ended
    /// because the run was paused or stopped.
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
            Self::EffectFailed => "effect_failed",
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
    pub fires_at: Timestamp,
    /// Its whole duration. If `fires_at` is further ahead than this, the clock was changed.
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

impl Entry {
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

    /// Reads the payload as that of a protocol. Shares the evidence. Fails if the payload is of another protocol.
    pub fn typed<P: Protocol>(&self) -> Result<Entry<P>, BadEntry> {
        let changes = self.changes.iter().map(|change| change.try_map(read));
        Ok(Entry {
            v: self.v,
            at: self.at,
            by: self.by.clone(),
            input: self.input.typed()?,
            changes: changes.collect::<Result<_, _>>()?,
            actions: self.actions.clone(),
            timers: self.timers.clone(),
        })
    }
}

impl Input {
    fn typed<P: Protocol>(&self) -> Result<Input<P>, BadEntry> {
        Ok(match self {
            Self::Opened { spec_digest } => Input::Opened { spec_digest: spec_digest.clone() },
            Self::Fact { fact, evidence } => {
                let fact = match fact {
                    Fact::Ended { attempt, ending } => {
                        let ending = match ending {
                            Ending::Reported(verdict) => Ending::Reported(read(verdict)?),
                            Ending::Failed => Ending::Failed,
                            Ending::Interrupted => Ending::Interrupted,
                            Ending::Stopped => Ending::Stopped,
                        };
                        Fact::Ended { attempt: attempt.clone(), ending }
                    }
                    Fact::BackoffElapsed { attempt } => Fact::BackoffElapsed { attempt: attempt.clone() },
                    Fact::Answered { step, turn, verdict } => {
                        Fact::Answered { step: step.clone(), turn: *turn, verdict: read(verdict)? }
                    }
                };
                Input::Fact { fact, evidence: evidence.clone() }
            }
            Self::Request { request, reason } => {
                Input::Request { request: request.try_map(read)?, reason: reason.clone() }
            }
            Self::Refused { request, attempt } => {
                Input::Refused { request: request.try_map(read)?, attempt: attempt.clone() }
            }
            Self::Edited { edit, from } => Input::Edited { edit: read(edit)?, from: from.clone() },
            Self::Deferred => Input::Deferred,
            Self::Recovered { source } => Input::Recovered { source: source.clone() },
        })
    }
}

/// Reads JSON as the type of a protocol.
fn read<T: DeserializeOwned>(value: &Value) -> Result<T, serde_json::Error> {
    T::deserialize(value)
}
