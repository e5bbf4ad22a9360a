//! Salvages the runs of a damaged store: whole, truncated, or unreadable.

use protocol::entry::{Author, RecoverySource};
use protocol::run::RunStatus;
use protocol::{Epoch, ProtocolKind, Protocols, Revision, RunId, Timestamp};
use store::{
    FoundRun, ReplacementDatabase, RunWriteError, RunWriter, Salvage, SalvageError, SqliteStore, WriteId,
};

use crate::error_chain::with_causes;
use crate::recovery::{Replay, ReplayError, recovery_epoch, spec_digest};

/// A run that was found in a damaged store.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Salvaged {
    /// Its name. If the name was lost with the spec, the number that its entries carry.
    pub run: Result<RunId, i64>,
    pub outcome: SalvageOutcome,
}

/// How much of a run was salvaged.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SalvageOutcome {
    /// All entries were found, and none is known to be missing.
    Whole { revision: Revision, status: RunStatus },
    /// The journal is truncated after `revision`, although it went up to `newest`. The `later_entries` later
    /// entries that could be read are only in the backup of the damaged store.
    Truncated { revision: Revision, status: RunStatus, newest: Revision, later_entries: u64, why: String },
    /// Nothing of it is in the new store.
    Unreadable { newest: Revision, why: String },
}

/// Why salvaging was aborted.
#[derive(Debug, thiserror::Error)]
pub enum SalvageRunError {
    #[error(transparent)]
    Read(#[from] SalvageError),
    #[error(transparent)]
    Write(#[from] RunWriteError),
}

/// A larger epoch is part of the damage.
const MAX_EPOCH: u64 = 1 << 40;

/// Where salvaged runs are written to.
pub trait SalvageTarget {
    /// Writes one run: everything that `fill` appends, or nothing.
    fn put_run<T>(
        &mut self,
        fill: impl FnOnce(&mut RunWriter<'_>) -> Result<T, SalvageRunError>,
    ) -> Result<T, SalvageRunError>;
}

impl SalvageTarget for ReplacementDatabase {
    fn put_run<T>(
        &mut self,
        fill: impl FnOnce(&mut RunWriter<'_>) -> Result<T, SalvageRunError>,
    ) -> Result<T, SalvageRunError> {
        Self::put_run(self, fill)
    }
}

impl SalvageTarget for &SqliteStore {
    fn put_run<T>(
        &mut self,
        fill: impl FnOnce(&mut RunWriter<'_>) -> Result<T, SalvageRunError>,
    ) -> Result<T, SalvageRunError> {
        SqliteStore::put_run(self, fill)
    }
}

/// Returns the kind of a run. Entries do not name their protocol, so its spec decides.
pub fn salvaged_kind(
    protocols: Protocols,
    salvage: &Salvage,
    found: &FoundRun,
) -> Result<Option<&'static dyn ProtocolKind>, SalvageRunError> {
    let Some(first) = salvage.entry(found, Revision(1))? else { return Ok(None) };
    let Ok(digest) = spec_digest(&first.body) else { return Ok(None) };
    let Some(blob) = salvage.blob(&digest)? else { return Ok(None) };
    Ok(protocols.0.iter().copied().find(|kind| Replay::begin_with_blob(*kind, &blob).is_ok()))
}

/// Returns the runs of the table of runs that are not in `found`. One of which `found` knows only the number is among them.
pub fn lost_runs(salvage: &Salvage, found: &[Salvaged]) -> Result<Vec<Salvaged>, SalvageRunError> {
    let seen = |run: &RunId| found.iter().any(|salvaged| salvaged.run.as_ref() == Ok(run));
    let lost = salvage.run_rows()?.into_iter().filter(|(run, _)| !seen(run)).map(|(run, newest)| {
        let why = "none of its entries could be read".to_owned();
        Salvaged { run: Ok(run), outcome: SalvageOutcome::Unreadable { newest, why } }
    });
    Ok(lost.collect())
}

/// Writes as much of a run as can be read into a replacement database or an intact store. A run that the target has is not
/// changed, and called unreadable.
pub fn salvage(
    kind: &'static dyn ProtocolKind,
    salvage: &Salvage,
    found: &FoundRun,
    target: &mut impl SalvageTarget,
    by: &Author,
    now: Timestamp,
) -> Result<Salvaged, SalvageRunError> {
    let unreadable = |run, why: String| Salvaged {
        run,
        outcome: SalvageOutcome::Unreadable { newest: found.newest, why },
    };
    let nameless = Err(found.number);
    let Some(first) = salvage.entry(found, Revision(1))? else {
        return Ok(unreadable(nameless, "its first entry is lost".to_owned()));
    };
    let digest = match spec_digest(&first.body) {
        Ok(digest) => digest,
        Err(error) => return Ok(unreadable(nameless, format!("entry 1: {}", with_causes(&error)))),
    };
    let Some(blob) = salvage.blob(&digest)? else {
        return Ok(unreadable(nameless, with_causes(&ReplayError::NoSpec)));
    };
    let replay = match Replay::begin_with_blob(kind, &blob) {
        Ok(replay) => replay,
        Err(error) => return Ok(unreadable(nameless, with_causes(&error))),
    };
    let run = replay.run.clone();
    let source = Source { kind, salvage, found, blob };
    match target.put_run(|writer| source.fill(replay, writer, by, now)) {
        Ok(outcome) => Ok(Salvaged { run: Ok(run), outcome }),
        // The target has a run of that name, or two in the source have it: the first one is kept.
        Err(SalvageRunError::Write(RunWriteError::Refused(refused))) => {
            Ok(unreadable(Ok(run), refused.to_string()))
        }
        Err(error) => Err(error),
    }
}

/// Where a run is read from.
struct Source<'s> {
    kind: &'static dyn ProtocolKind,
    salvage: &'s Salvage,
    found: &'s FoundRun,
    /// The bytes of its spec.
    blob: Vec<u8>,
}

impl Source<'_> {
    /// Writes the entries from the first one on, until one is missing or contradicts the others.
    fn fill(
        &self,
        mut replay: Replay,
        writer: &mut RunWriter<'_>,
        by: &Author,
        now: Timestamp,
    ) -> Result<SalvageOutcome, SalvageRunError> {
        writer.put_blob(&self.blob)?;
        let (mut cut_reason, mut first_entry_at) = (None, None);
        while cut_reason.is_none() && replay.revision() < self.found.newest {
            let next = replay.revision().next();
            let Some(entry) = self.salvage.entry(self.found, next)? else {
                let is_corrupt = self.salvage.is_corrupt(self.found, next)?;
                let how = if is_corrupt { "is not what was written" } else { "is lost" };
                cut_reason = Some(format!("entry {next} {how}"));
                continue;
            };
            match replay.add(&entry.body, entry.write_id) {
                Ok(commit) => {
                    replay.position = writer.append(&commit)?;
                    first_entry_at = first_entry_at.or_else(|| replay.state.at.to_jiff());
                }
                Err(error) => {
                    cut_reason = Some(format!("entry {next}: {}", with_causes(&error)));
                    replay = self.replay_valid(&replay)?;
                }
            }
        }
        let run = replay.run.clone();
        if let (Some(why), Revision(0)) = (&cut_reason, replay.revision()) {
            return Ok(SalvageOutcome::Unreadable { newest: self.found.newest, why: why.clone() });
        }
        let row = self.salvage.run_row(&run)?;
        let expected_newest = row.map_or(Revision(0), |(_, revision)| revision);
        let expected_newest =
            expected_newest.max(self.salvage.newest_part(self.found)?).max(self.found.newest);
        let revision = replay.revision();
        if cut_reason.is_none() && expected_newest > revision {
            cut_reason = Some(format!("entries {} to {expected_newest} are lost", revision.next()));
        }
        let created = row.map(|(created, _)| created).or(first_entry_at);
        writer.set_created_and_epoch(&run, created.unwrap_or_default(), self.epoch(&run, now)?)?;
        let Some(why) = cut_reason else {
            return Ok(SalvageOutcome::Whole { revision, status: replay.state.run.status });
        };
        let later_entries = self.salvage.count_after(self.found, revision)?;
        let reason = format!("{why}; {later_entries} later entries were set aside");
        let source = RecoverySource::Journal { reason, gap: Some((revision, expected_newest)) };
        let entry = replay.recovery_entry(source, by.clone(), now);
        let commit = replay.add(&entry.encode(), WriteId::new()).expect("BUG: the entry can always follow");
        writer.append(&commit)?;
        Ok(SalvageOutcome::Truncated {
            revision,
            status: replay.state.run.status,
            newest: expected_newest,
            later_entries,
            why,
        })
    }

    /// Replays the run up to the entry that contradicted it, because a failed replay cannot be used.
    fn replay_valid(&self, failed: &Replay) -> Result<Replay, SalvageRunError> {
        let mut replay = Replay::begin_with_blob(self.kind, &self.blob).expect("BUG: it was read before");
        for revision in 1..=failed.revision().0 {
            let entry = self.salvage.entry(self.found, Revision(revision))?;
            let entry = entry.expect("BUG: it was there before");
            replay.add(&entry.body, entry.write_id).expect("BUG: it was added before");
            replay.position.revision = Revision(revision);
        }
        replay.position = failed.position;
        Ok(replay)
    }

    fn epoch(&self, run: &RunId, now: Timestamp) -> Result<Epoch, SalvageRunError> {
        let counted = self.salvage.epoch(run)?.0;
        let counted = if counted < MAX_EPOCH { counted + 1 } else { 0 };
        Ok(Epoch(counted).max(recovery_epoch(now)))
    }
}
