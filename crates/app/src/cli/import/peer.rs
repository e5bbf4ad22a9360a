//! `callboard import --peer`: peer cycles of older formats become runs.

use std::collections::BTreeMap;
use std::path::PathBuf;

use protocol::entry::{Entry, Input, RecoverySource};
use protocol::peer::migrate::{MigratedCycle, OldCycles, Origin};
use protocol::peer::{Continued, Definition, Document, Peer, WholeSecond};
use protocol::run::RunStatus;
use protocol::{Revision, RunId, RunLocation, Timestamp, TypedMachine, protocol_kind};
use runner::{DocumentImportError, Journal, LoadError, Migration, RunOptions, RunSpec};
use store::AnyStore;

use super::bucket::{Bucket, DeletedKeys};
use super::dump::Dump;
use super::report::{CycleReport, ImportReport, ImportResult};
use crate::cli::block_on;
use crate::failure::{Exit, Failure};
use crate::present::run_status;
use crate::workspace::{self, Workspace};

#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Older formats of `peer`")]
pub(super) struct PeerFlags {
    /// Import the peer cycles of this dump: a directory with a file per key, lines of `{"key": …, "value": …}`, `-` for standard
    /// input, or `nats://HOST:PORT` for the bucket itself
    #[arg(long, value_name = "DUMP|URL", conflicts_with_all = ["file", "name"])]
    pub(super) peer: Option<PathBuf>,

    /// Import the cycles that are new; without this, only print what would be imported
    #[arg(long, requires = "peer")]
    write: bool,

    /// Delete the old keys of imported cycles from the bucket; the bucket keeps their history
    #[arg(long, requires = "write")]
    delete_old: bool,
}

pub(super) fn run(workspace: &Workspace, flags: &PeerFlags, json: bool) -> Result<Exit, Failure> {
    let path = flags.peer.clone().expect("BUG: `--peer` was not given");
    block_on(async {
        let bucket = Bucket::read(workspace, &path).await?;
        let dump = match &bucket {
            Some(bucket) => bucket.dump(),
            None if flags.delete_old => {
                return Err(Failure::usage("`--delete-old` needs a bucket, not a dump")
                    .hint("give its server: `--peer nats://HOST:PORT`"));
            }
            None => Dump::read(&path)?,
        };
        let Dump { items, unreadable } = dump;
        let old = OldCycles::read(items);
        let from = bucket.as_ref().map_or_else(|| path.display().to_string(), Bucket::address);
        // Without `--write` no store is created.
        let store =
            if flags.write { Some(workspace.store().await?) } else { workspace.existing_store().await? };
        let (now, write) = (workspace.clock.now(), flags.write);
        let (store, bucket) = (store.as_ref(), bucket.as_ref());
        let import = Import { workspace, store, old: &old, bucket, from: from.clone(), now, write };
        let cycles = import.import_all().await?;
        let deleted = match bucket {
            Some(bucket) if flags.delete_old => bucket.delete_old(&cycles).await?,
            Some(_) | None => DeletedKeys::default(),
        };
        let skipped = old.skipped;
        Ok(ImportReport { dump: from.into(), write, cycles, skipped, unreadable, deleted }.print(json))
    })
}

/// An import of the peer cycles of a dump or a bucket.
struct Import<'a> {
    workspace: &'a Workspace,
    store: Option<&'a AnyStore>,
    old: &'a OldCycles,
    bucket: Option<&'a Bucket>,
    from: String,
    now: Timestamp,
    write: bool,
}

/// The result for one peer cycle, and the status of its run.
struct CycleResult {
    result: ImportResult,
    status: Option<RunStatus>,
    error: Option<String>,
}

impl Import<'_> {
    async fn import_all(self) -> Result<Vec<CycleReport>, Failure> {
        let mut reports = Vec::new();
        for migrated in self.old.cycles(WholeSecond::from(self.now)) {
            reports.push(self.import_or_compare(migrated).await?);
        }
        Ok(reports)
    }

    async fn import_or_compare(&self, migrated: MigratedCycle) -> Result<CycleReport, Failure> {
        let run = RunId::new(migrated.cycle.key()).expect("BUG: the key of a cycle is not a run id");
        let found = match self.compare_with_existing(&run, &migrated).await {
            Some(existing) => existing,
            None => self.import(&run, &migrated).await?,
        };
        let CycleResult { result, status, error } = found;
        Ok(CycleReport { run, result, status: status.map(run_status::name), error, migrated })
    }

    /// Imports the cycle. Without `--write`, only determines the status that its run would have.
    async fn import(&self, run: &RunId, migrated: &MigratedCycle) -> Result<CycleResult, Failure> {
        let (store, result) =
            if self.write { (self.store, ImportResult::Imported) } else { (None, ImportResult::New) };
        let by = workspace::person_author();
        let migration = Migration {
            from: self.from.clone(),
            document: migrated.document.to_value(),
            // The bucket may have an older document under the key of the run.
            replaces: self.bucket.and_then(|bucket| bucket.entry(run.as_str()).cloned()),
        };
        let spec = self.spec(run, &migrated.document)?;
        let kind = protocol_kind::<Peer>();
        let error = match runner::migrate(store, &by, self.now, kind, spec, migration).await {
            Ok(status) => return Ok(CycleResult { result, status: Some(status), error: None }),
            Err(error) => error,
        };
        // Another client has imported it meanwhile.
        if let (DocumentImportError::Exists(_), Some(existing)) =
            (&error, self.compare_with_existing(run, migrated).await)
        {
            return Ok(existing);
        }
        let exit = match error {
            DocumentImportError::Store(_) | DocumentImportError::Exists(_) => Exit::Store,
            DocumentImportError::Refused(_) => Exit::Bug,
        };
        Err(Failure::from_error(exit, &error)
            .context(format_args!("cannot import peer cycle `{}`", migrated.cycle))
            .hint("run the same command again to import the rest; what was imported stays"))
    }

    /// Compares the cycle with its run, if there is one. A run that cannot be read does not stop the import of the others.
    async fn compare_with_existing(&self, run: &RunId, migrated: &MigratedCycle) -> Option<CycleResult> {
        let unreadable = |error: LoadError| CycleResult {
            result: ImportResult::Differs,
            status: None,
            error: Some(runner::with_causes(&error)),
        };
        let workspace = self.workspace;
        let journal = match Journal::load(self.store?, &workspace.clock, workspace.protocols, run).await {
            Ok(journal) => journal?,
            Err(error) => return Some(unreadable(error)),
        };
        // If the bucket is that of the store, it has the run's own document, which may be newer than the imported one.
        let current = TypedMachine::<Peer>::of(journal.machine()).map(|typed| &*typed.document);
        let is_current = migrated.origin == Origin::Current && current == Some(&migrated.document);
        // An import writes two entries: the first opens the run, the second has the imported document.
        let is_same = match journal.entry(Revision(2)).await.map(|entry| entry.and_then(imported_document)) {
            Ok(Some(imported)) => is_current || self.reproduces(migrated, &imported),
            // The run was not imported: Callboard has opened another cycle of that number.
            Ok(None) => is_current,
            Err(error) => return Some(unreadable(error)),
        };
        let result = if is_same { ImportResult::Exists } else { ImportResult::Differs };
        Some(CycleResult { result, status: Some(journal.state.run.status), error: None })
    }

    /// Returns whether the dump is the same as at the earlier import. The document of an older format contains the time of its
    /// migration, so it is migrated again with the time of that import.
    fn reproduces(&self, migrated: &MigratedCycle, imported: &Document) -> bool {
        match migrated.origin {
            Origin::Current => migrated.document == *imported,
            Origin::Migrated => {
                let at = imported.history.last().map(|entry| entry.timestamp);
                let migrated_again = at.and_then(|at| self.old.cycle(&migrated.cycle, at));
                migrated_again.is_some_and(|cycle| cycle.document == *imported)
            }
        }
    }

    fn spec(&self, run: &RunId, document: &Document) -> Result<RunSpec, Failure> {
        let Document { metadata, context, cycle_id, .. } = document;
        let definition = Definition {
            cycle: cycle_id.clone(),
            instruction: metadata.instruction.clone(),
            mode: context.peer_mode,
            instruction_args: context.instruction_args.clone(),
            user_requirements: context.user_requirements.clone(),
            // The document already has the outputs that it reuses.
            continues: context.continues.clone().map(|cycle| Continued { cycle, outputs: Vec::new() }),
            earlier_review: None,
            max_attempts: self.workspace.config.max_attempts.value,
            timeout: None,
            prompts: BTreeMap::new(),
        };
        let options = RunOptions {
            location: RunLocation::new(run.clone(), self.workspace.repo_dir()?),
            workdir: self.workspace.repo.clone(),
            // `resume` or the configuration chooses the agents.
            profile: None,
            env: Vec::new(),
            worktrees: None,
            checks: Vec::new(),
            roles: BTreeMap::new(),
        };
        Ok(RunSpec::new(metadata.instruction.clone(), &definition, options))
    }
}

/// Returns the document that an earlier import wrote in this entry.
fn imported_document(entry: Entry) -> Option<Document> {
    let Input::Recovered { source: RecoverySource::Migrated { document, .. } } = entry.input else {
        return None;
    };
    serde_json::from_value(document).ok()
}
