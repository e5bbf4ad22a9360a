//! The journal: one subject per run, one message per commit.
//!
//! * `message`, `trailer`, `wire`: the content of a message and its encoding
//! * `records`: subjects of runs, and how messages are found on them
//! * `commit`, `import`, `resolve`: writing a commit, a whole run, and finding out whether a write landed
//! * `read`, `watch`: reading a run and following it
//! * `index`, `cache`: what the messages of a run add up to, and what this process remembers of runs

mod cache;
mod commit;
mod import;
mod index;
mod message;
mod read;
mod records;
mod remove;
mod resolve;
mod trailer;
mod watch;
mod wire;

pub(in crate::nats) use cache::{JournalEnd, RunCache};
pub(in crate::nats) use commit::{CommitOptions, CommitPlan, MAX_INLINE_DELTA, check_epoch};
pub(in crate::nats) use message::{
    CommitMessage, Content, DeltaLocation, EntryRef, Head, OutgoingCommit, OutgoingDelta, Record,
};
#[cfg(test)]
pub(in crate::nats) use message::{Delta, checksum};
pub(in crate::nats) use read::CONCURRENCY;
pub(in crate::nats) use records::{RUN_SUBJECT_PREFIX, escape, is_unreadable, run_of, subject};
pub(in crate::nats) use resolve::WriteIndex;
pub(crate) use watch::Watch;
pub(in crate::nats) use wire::{MessageError, decode, encode, json};
