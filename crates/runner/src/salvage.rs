//! What becomes of each run of a damaged store: whole, cut, or not to be read.

use protocol::entry::{Author, RecoverySource};
use protocol::run::RunStatus;
use protocol::{Epoch, Protocol, Revision, RunId, Stamp};
use store::{
    FoundRun, ReplacementDatabase, RunWriteError, RunWriter, Salvage, SalvageError, SqliteStore, WriteId,
};

use crate::causes::with_causes;
use crate::rebuild::{Rebuild, Unfit, definition_of, epoch_at};

/// A run that was found in a damaged store.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Salvaged {
    /// Its name, unless that was lost with what it was opened with; then the number by which its entries name it.
    pub run: Result<RunId, i64>,
    pub outcome: SalvageOutcome,
}

/// What became of a run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SalvageOutcome {
    /// Every entry that was found, and none is known to be missing.
    Whole { revision: Revision, status: RunStatus },
    /// The journal ends early. What was found behind the gap is in the copy that was kept.
    Cut { revision: Revision, status: RunStatus, newest: Revision, beyond: u64, why: String },
    /// Nothing of it is in the new store.
    Unreadable { newest: Revision, why: String },
}

/// Why salvaging had to stop.
#[derive(Debug, thiserror::Error)]
pub enum SalvageRunError {
    #[error(transparent)]
    Read(#[from] SalvageError),
    #[error(transparent)]
    Write(#[from] RunWriteError),
}

/// Above this an epoch is not a count any more but damage.
const PLAUSIBLE: u64 = 1 << 40;

/// Where salvaged runs are written to.
pub trait Ground {
    /// Writes one run: all that `fill` appends, or nothing.
    fn put_run<T>(
        &mut self,
        fill: impl FnOnce(&mut RunWriter<'_>) -> Result<T, SalvageRunError>,
    ) -> Result<T, SalvageRunError>;
}

impl Ground for ReplacementDatabase {
    fn put_run<T>(
        &mut self,
        fill: impl FnOnce(&mut RunWriter<'_>) -> Result<T, SalvageRunError>,
    ) -> Result<T, SalvageRunError> {
        Self::put_run(self, fill)
    }
}

impl Ground for &SqliteStore {
    fn put_run<T>(
        &mut self,
        fill: impl FnOnce(&mut RunWriter<'_>) -> Result<T, SalvageRunError>,
    ) -> Result<T, SalvageRunError> {
        SqliteStore::put_run(self, fill)
    }
}

/// Whether a run was opened by this protocol: so says what it was opened with, for entries do not name their protocol.
pub fn was_opened_by<P: Protocol>(salvage: &Salvage, found: &FoundRun) -> Result<bool, SalvageRunError> {
    let Some(first) = salvage.entry(found, Revision(1))? else { return Ok(false) };
    let Ok(digest) = definition_of::<P>(&first.body) else { return Ok(false) };
    let Some(blob) = salvage.blob(&digest)? else { return Ok(false) };
    Ok(Rebuild::<P>::read(&blob).is_ok())
}

/// Runs that were listed, and not one entry of them was found.
pub fn lost(salvage: &Salvage, found: &[Salvaged]) -> Result<Vec<Salvaged>, SalvageRunError> {
    let seen = |run: &RunId| found.iter().any(|salvaged| salvaged.run.as_ref() == Ok(run));
    let lost = salvage.listed()?.into_iter().filter(|(run, _)| !seen(run)).map(|(run, newest)| {
        let why = "none of its entries could be read".to_owned();
        Salvaged { run: Ok(run), outcome: SalvageOutcome::Unreadable { newest, why } }
    });
    Ok(lost.collect())
}

/// Puts as much of a run as can be read into a draft or a sound store, and says what became of it. Nothing, if the run
/// is among those to be left out.
pub fn salvage<P: Protocol>(
    salvage: &Salvage,
    found: &FoundRun,
    ground: &mut impl Ground,
    but: &[RunId],
    by: &Author,
    now: Stamp,
) -> Result<Option<Salvaged>, SalvageRunError> {
    let unreadable = |run, why: String| {
        Some(Salvaged { run, outcome: SalvageOutcome::Unreadable { newest: found.newest, why } })
    };
    let nameless = Err(found.number);
    let Some(first) = salvage.entry(found, Revision(1))? else {
        return Ok(unreadable(nameless, "its first entry is lost".to_owned()));
    };
    let digest = match definition_of::<P>(&first.body) {
        Ok(digest) => digest,
        Err(unfit) => return Ok(unreadable(nameless, format!("entry 1: {}", with_causes(&unfit)))),
    };
    let Some(blob) = salvage.blob(&digest)? else {
        return Ok(unreadable(nameless, with_causes(&Unfit::NoDefinition)));
    };
    let rebuild = match Rebuild::<P>::read(&blob) {
        Ok(rebuild) => rebuild,
        Err(unfit) => return Ok(unreadable(nameless, with_causes(&unfit))),
    };
    let run = rebuild.run.clone();
    if but.contains(&run) {
        return Ok(None);
    }
    let from = Source { salvage, found, blob };
    match ground.put_run(|writer| from.fill(rebuild, writer, by, now)) {
        Ok(outcome) => Ok(Some(Salvaged { run: Ok(run), outcome })),
        // A second run of the same name: one of the two is a ghost, and the first one stands.
        Err(SalvageRunError::Write(RunWriteError::Refused(refused))) => {
            Ok(unreadable(Ok(run), refused.to_string()))
        }
        Err(error) => Err(error),
    }
}

/// Where one run is read from.
struct Source<'s> {
    salvage: &'s Salvage,
    found: &'s FoundRun,
    /// What it was opened with.
    blob: Vec<u8>,
}

impl Source<'_> {
    /// Writes the entries from the first one on, until one is missing or makes no sense.
    fn fill<P: Protocol>(
        &self,
        mut rebuild: Rebuild<P>,
        writer: &mut RunWriter<'_>,
        by: &Author,
        now: Stamp,
    ) -> Result<SalvageOutcome, SalvageRunError> {
        writer.put_blob(&self.blob)?;
        let (mut ends, mut began) = (None, None);
        while ends.is_none() && rebuild.revision() < self.found.newest {
            let next = rebuild.revision().next();
            let Some(entry) = self.salvage.entry(self.found, next)? else {
                let spoilt = self.salvage.is_corrupt(self.found, next)?;
                let how = if spoilt { "is not what was written" } else { "is lost" };
                ends = Some(format!("entry {next} {how}"));
                continue;
            };
            match rebuild.add(&entry.body, entry.write_id) {
                Ok(commit) => {
                    rebuild.position = writer.append(&commit)?;
                    began = began.or_else(|| rebuild.state.at.timestamp());
                }
                Err(unfit) => {
                    ends = Some(format!("entry {next}: {}", with_causes(&unfit)));
                    rebuild = self.again(&rebuild)?;
                }
            }
        }
        let run = rebuild.run.clone();
        if let (Some(why), Revision(0)) = (&ends, rebuild.revision()) {
            return Ok(SalvageOutcome::Unreadable { newest: self.found.newest, why: why.clone() });
        }
        let row = self.salvage.run_row(&run)?;
        let promised = row.map_or(Revision(0), |(_, revision)| revision);
        let promised = promised.max(self.salvage.newest_part(self.found)?).max(self.found.newest);
        let revision = rebuild.revision();
        if ends.is_none() && promised > revision {
            ends = Some(format!("entries {} to {promised} are lost", revision.next()));
        }
        let created = row.map(|(created, _)| created).or(began);
        writer.set_origin(&run, created.unwrap_or_default(), self.epoch(&run, now)?)?;
        let Some(why) = ends else {
            return Ok(SalvageOutcome::Whole { revision, status: rebuild.state.run.status });
        };
        let beyond = self.salvage.count_after(self.found, revision)?;
        let lost = format!("{why}; {beyond} later entries were set aside");
        let source = RecoverySource::Journal { lost, gap: Some((revision, promised)) };
        let entry = rebuild.note(source, by.clone(), now);
        let commit = rebuild.add(&entry.encode(), WriteId::new()).expect("BUG: a note always fits");
        writer.append(&commit)?;
        Ok(SalvageOutcome::Cut { revision, status: rebuild.state.run.status, newest: promised, beyond, why })
    }

    /// The run before an entry that contradicted it half-way.
    fn again<P: Protocol>(&self, spoilt: &Rebuild<P>) -> Result<Rebuild<P>, SalvageRunError> {
        let mut rebuild = Rebuild::read(&self.blob).expect("BUG: it was read a run_at ago");
        for revision in 1..=spoilt.revision().0 {
            let entry = self.salvage.entry(self.found, Revision(revision))?;
            let entry = entry.expect("BUG: it was there a run_at ago");
            rebuild.add(&entry.body, entry.write_id).expect("BUG: it fitted a run_at ago");
            rebuild.position.revision = Revision(revision);
        }
        rebuild.position = spoilt.position;
        Ok(rebuild)
    }

    fn epoch(&self, run: &RunId, now: Stamp) -> Result<Epoch, SalvageRunError> {
        let counted = self.salvage.epoch(run)?.0;
        let counted = if counted < PLAUSIBLE { counted + 1 } else { 0 };
        Ok(Epoch(counted).max(epoch_at(now)))
    }
}
