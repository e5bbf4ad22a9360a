//! `callboard import --peer`: cycles of older formats become runs.

use std::path::PathBuf;

use protocol::entry::{Entry, Input, RecoverySource};
use protocol::peer::migrate::{Migrated, Old, Origin};
use protocol::peer::{Continued, Definition, Document, Peer, Second};
use protocol::run::RunStatus;
use protocol::{Revision, RunId, RunLocation, Stamp};
use runner::{DocumentImportError, Journal, LoadError, Migrating, RunOptions, RunSpec};
use store::AnyStore;

use super::dump::Dump;
use super::live::{Deleted, Live};
use super::told::{CycleTold, Fate, Told};
use crate::cli::block_on;
use crate::failure::{Exit, Failure};
use crate::present::run_status;
use crate::workspace::{self, Workspace};

/// What is to be imported.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Older formats of `peer`")]
pub(super) struct PeerFlags {
    /// Take the cycles of this dump: a directory with a file per key, or lines of `{"key": …, "value": …}`; `-` is
    /// standard input, and `nats://HOST:PORT` the bucket itself
    #[arg(long, value_name = "DUMP|URL", conflicts_with_all = ["file", "name"])]
    pub(super) peer: Option<PathBuf>,

    /// Read the temp files of the scripts of old from here, too
    #[arg(long, value_name = "DIR", requires = "peer")]
    temp_files: Option<PathBuf>,

    /// Enter what is new; without this it is only told
    #[arg(long, requires = "peer")]
    write: bool,

    /// Delete the old keys of cycles that are entered from the bucket; their history there stays
    #[arg(long, requires = "write")]
    delete_old: bool,
}

pub(super) fn run(workspace: &Workspace, flags: &PeerFlags, json: bool) -> Result<Exit, Failure> {
    let path = flags.peer.clone().expect("BUG: we are here because of it");
    block_on(async {
        let live = Live::find(workspace, &path).await?;
        let mut dump = match &live {
            Some(live) => live.dump(),
            None if flags.delete_old => {
                return Err(Failure::usage("`--delete-old` is for a bucket that is in use")
                    .hint("give its servers: `--peer nats://HOST:PORT`; a dump stays as it is"));
            }
            None => Dump::read(&path)?,
        };
        if let Some(directory) = &flags.temp_files {
            dump.add_temp_files(directory)?;
        }
        let Dump { items, unread } = dump;
        let old = Old::read(items);
        let from = live.as_ref().map_or_else(|| path.display().to_string(), Live::name);
        // A look leaves no store where there was none.
        let store =
            if flags.write { Some(workspace.store().await?) } else { workspace.existing_store().await? };
        let (now, write) = (workspace.clock.now(), flags.write);
        let (store, live) = (store.as_ref(), live.as_ref());
        let import = Import { workspace, store, old: &old, live, from: from.clone(), now, write };
        let cycles = import.all().await?;
        let deleted = match live {
            Some(live) if flags.delete_old => live.delete_old(&cycles).await?,
            Some(_) | None => Deleted::default(),
        };
        Ok(Told { dump: from.into(), write, cycles, ignored: old.ignored, unread, deleted }.tell(json))
    })
}

struct Import<'a> {
    workspace: &'a Workspace,
    store: Option<&'a AnyStore>,
    old: &'a Old,
    live: Option<&'a Live>,
    from: String,
    now: Stamp,
    write: bool,
}

/// How it is with a cycle.
struct Found {
    fate: Fate,
    phase: Option<RunStatus>,
    why: Option<String>,
}

impl Import<'_> {
    async fn all(self) -> Result<Vec<CycleTold>, Failure> {
        let mut told = Vec::new();
        for migrated in self.old.cycles(Second::from(self.now)) {
            told.push(self.one(migrated).await?);
        }
        Ok(told)
    }

    async fn one(&self, migrated: Migrated) -> Result<CycleTold, Failure> {
        let run = RunId::new(migrated.cycle.key()).expect("BUG: the key of a cycle names a run");
        let found = match self.existing(&run, &migrated).await {
            Some(existing) => existing,
            None => self.enter(&run, &migrated).await?,
        };
        let Found { fate, phase, why } = found;
        Ok(CycleTold { run, fate, phase: phase.map(run_status::name), why, migrated })
    }

    /// Enters the cycle, or finds out where it would stand.
    async fn enter(&self, run: &RunId, migrated: &Migrated) -> Result<Found, Failure> {
        let (store, fate) = if self.write { (self.store, Fate::Entered) } else { (None, Fate::New) };
        let by = workspace::person();
        let from = Migrating {
            from: self.from.clone(),
            document: migrated.document.to_value(),
            over: self.live.and_then(|live| live.entry(run.as_str()).cloned()),
        };
        let spec = self.spec(run, &migrated.document)?;
        let error = match runner::migrate::<Peer>(store, &by, self.now, spec, from).await {
            Ok(stands) => return Ok(Found { fate, phase: Some(stands), why: None }),
            Err(error) => error,
        };
        // Somebody else was faster; what they have entered is what counts.
        if let (DocumentImportError::Exists(_), Some(existing)) = (&error, self.existing(run, migrated).await)
        {
            return Ok(existing);
        }
        let exit = match error {
            DocumentImportError::Store(_) | DocumentImportError::Exists(_) => Exit::Store,
            DocumentImportError::NotImportable(_) => Exit::Bug,
        };
        Err(Failure::from_error(exit, &error)
            .while_doing(format_args!("cannot enter cycle `{}`", migrated.cycle))
            .hint("what was entered before it stays; the same command goes on from there"))
    }

    /// What the store has of the cycle, if anything. A run that cannot be read is no reason to leave the others out.
    async fn existing(&self, run: &RunId, migrated: &Migrated) -> Option<Found> {
        let unreadable = |error: LoadError| Found {
            fate: Fate::Differs,
            phase: None,
            why: Some(runner::with_causes(&error)),
        };
        let journal = match Journal::<Peer, _>::load(self.store?, &self.workspace.clock, run).await {
            Ok(journal) => journal?,
            Err(error) => return Some(unreadable(error)),
        };
        // In a bucket in use stands what has become of it since.
        let same = migrated.origin == Origin::Current && journal.document == migrated.document;
        let same = match journal.entry(Revision(2)).await.map(|entry| entry.and_then(entered)) {
            Ok(Some(before)) => same || self.is_what_became_of(migrated, &before),
            // It was not imported: somebody's own cycle has that number.
            Ok(None) => same,
            Err(error) => return Some(unreadable(error)),
        };
        let fate = if same { Fate::There } else { Fate::Differs };
        Some(Found { fate, phase: Some(journal.state.run.status), why: None })
    }

    /// Whether the dump, read at the time of the earlier import, gives what was entered then.
    fn is_what_became_of(&self, migrated: &Migrated, before: &Document) -> bool {
        match migrated.origin {
            Origin::Current => migrated.document == *before,
            Origin::RunState => {
                let at = before.history.last().map(|entry| entry.timestamp);
                let again = at.and_then(|at| self.old.cycle(&migrated.cycle, at));
                again.is_some_and(|again| again.document == *before)
            }
        }
    }

    fn spec(&self, run: &RunId, document: &Document) -> Result<RunSpec<Peer>, Failure> {
        let Document { metadata, context, cycle_id, .. } = document;
        let definition = Definition {
            cycle: cycle_id.clone(),
            instruction: metadata.instruction.clone(),
            mode: context.peer_mode,
            instruction_args: context.instruction_args.clone(),
            user_requirements: context.user_requirements.clone(),
            // What was taken over from it is in the document; there is nothing left to take.
            continues: context.continues.clone().map(|cycle| Continued { cycle, outputs: Vec::new() }),
            advice: None,
            max_attempts: self.workspace.config.max_attempts.value,
            timeout: None,
        };
        let options = RunOptions {
            location: RunLocation { run: run.clone(), repo_dir: self.workspace.repo_dir()? },
            workdir: self.workspace.repo.clone(),
            // Whoever resumes it says who plays, or the configuration does.
            profile: None,
            env: Vec::new(),
        };
        Ok(RunSpec { title: metadata.instruction.clone(), definition, options })
    }
}

/// The document that an earlier import entered.
fn entered(entry: Entry<Peer>) -> Option<Document> {
    let Input::Recovered { source: RecoverySource::Migrated { document, .. } } = entry.input else {
        return None;
    };
    serde_json::from_value(document).ok()
}
