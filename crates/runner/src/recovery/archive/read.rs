//! Archive → run: every byte is checked before the run is in the store.

use std::cell::Cell;
use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, BufRead as _, BufReader, Read};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use protocol::entry::{Author, RecoverySource};
use protocol::run::RunStatus;
use protocol::{Protocols, Revision, RunId, RunLocation, Timestamp};
use store::{
    AnyStore, Backend, COMMIT_LIMIT, CommitError, Digest, ReadError, RunWriteError, RunWriter, WriteId,
};
use supervisor::AttemptDir;
use supervisor::git::{self, RunWorktrees, WorktreeOptions};
use tar::{Archive, EntryType};
use tempfile::TempDir;

use super::{ArchivedFile, DEFINITION, FORMAT, JOURNAL, MANIFEST, Manifest, parse_attempt_path};
use crate::recovery::{Replay, ReplayError, recovery_epoch, spec_digest};
use crate::run::RunSpec;

/// Where to import a run to.
#[derive(Debug, Clone)]
pub struct ImportTarget {
    /// Its new name, or `None` to keep its own.
    pub name: Option<RunId>,
    pub repo_dir: String,
    /// The directory of the worktrees of all runs of the repository.
    pub worktrees_dir: PathBuf,
    pub by: Author,
    pub now: Timestamp,
}

/// A run that was imported.
#[derive(Debug)]
pub struct Imported {
    pub run: RunId,
    pub manifest: Manifest,
    pub revision: Revision,
    pub status: RunStatus,
    /// Attempts that were live when the archive was written. After the import they count as interrupted.
    pub interrupted: Vec<String>,
}

/// Why an archive was not imported. Nothing has changed.
#[derive(Debug, thiserror::Error)]
pub enum ImportError {
    #[error("it is not an archive of a run: {0}")]
    NotAnArchive(String),
    #[error("it has format {found}, written by a newer callboard; this one knows {FORMAT}")]
    Newer { found: u32 },
    #[error("it holds a `{found}` run, which this program does not know")]
    UnknownProtocol { found: String },
    #[error("`{path}` in it {problem}")]
    BadFile { path: String, problem: &'static str },
    #[error("entry {revision} of its journal cannot be imported")]
    Entry { revision: Revision, source: ReplayError },
    #[error("a run named `{0}` exists already")]
    Exists(RunId),
    #[error("`{}` has attempt files, but the store has no such run", path.display())]
    LeftoverAttempts { path: PathBuf },
    #[error("cannot read the archive")]
    Read(#[source] io::Error),
    #[error("cannot write `{}`", path.display())]
    Write { path: PathBuf, source: io::Error },
    #[error("cannot void its live attempts")]
    VoidAttempts(#[from] supervisor::ClaimError),
    #[error(transparent)]
    Store(#[from] RunWriteError),
    #[error(transparent)]
    Query(#[from] ReadError),
}

/// An archive that was extracted to a temporary directory and checked against its manifest. The manifest names the
/// protocol to [`import`] it with.
#[derive(Debug)]
pub struct Unpacked {
    pub manifest: Manifest,
    directory: TempDir,
}

/// Extracts an archive and checks it.
pub fn unpack(store: &AnyStore, archive: impl Read) -> Result<Unpacked, ImportError> {
    store.prepare_local_dir().map_err(RunWriteError::from)?;
    let root = store.local_dir().root();
    let directory = tempfile::Builder::new().prefix("import-").tempdir_in(root);
    let directory = directory.map_err(|source| ImportError::Write { path: root.to_owned(), source })?;
    let manifest = extract_all(archive, directory.path())?;
    Ok(Unpacked { manifest, directory })
}

/// Imports a run from an archive: all of it, or nothing.
pub async fn import(
    store: &AnyStore,
    protocols: Protocols,
    unpacked: Unpacked,
    import_target: &ImportTarget,
) -> Result<Imported, ImportError> {
    let Unpacked { manifest, directory } = unpacked;
    let Some(kind) = protocols.find(&manifest.protocol) else {
        return Err(ImportError::UnknownProtocol { found: manifest.protocol });
    };
    let blob = fs::read(directory.path().join(DEFINITION)).map_err(ImportError::Read)?;
    let first_entry_error = |source| ImportError::Entry { revision: Revision(1), source };
    let mut spec: RunSpec = serde_json::from_slice(&blob).map_err(|error| first_entry_error(error.into()))?;
    let relocated = relocate(&mut spec, import_target);
    let run = spec.options.location.run.clone();
    let _lock = lock_imports(store)?;
    // This comes before the attempts directory is touched: it would be that of the existing run.
    if store.newest_revision(&run).await?.is_some() {
        return Err(ImportError::Exists(run));
    }
    let attempts_dir = store.local_dir().attempts_dir().join(run.as_str());
    let created = Cell::new(false);
    let extracted = directory.path();
    let archive = ArchiveImport {
        extracted,
        manifest: &manifest,
        blob,
        relocated,
        import_target,
        attempts_dir: &attempts_dir,
        created: &created,
    };
    let mut replay = Replay::begin(kind, spec).map_err(first_entry_error)?;
    replay.commits_whole_document = store.has_public_documents();
    let written = store.put_run(|writer| archive.write(replay, writer)).await;
    let (revision, status, interrupted) = match written {
        Ok(written) => {
            // A marker that stays behind is harmless, because the run exists.
            let _ = fs::remove_file(attempts_dir.join(IMPORTING));
            written
        }
        Err(error) => {
            // If it is unknown whether the commit succeeded, the next import decides: it finds the marker.
            let is_known = !matches!(
                error,
                ImportError::Store(
                    RunWriteError::Unavailable(_)
                        | RunWriteError::Refused(
                            CommitError::OutcomeUnknown { .. } | CommitError::Unavailable(_)
                        )
                )
            );
            if created.get() && is_known {
                let _ = fs::remove_dir_all(&attempts_dir);
            }
            return Err(match error {
                ImportError::Store(RunWriteError::Refused(CommitError::Conflict { .. })) => {
                    ImportError::Exists(run)
                }
                other => other,
            });
        }
    };
    Ok(Imported { run, manifest, revision, status, interrupted })
}

/// Locks imports on this machine if the store does not. On NATS, the attempt files are in place before the commit,
/// and an import that loses the race would remove those of the other.
fn lock_imports(store: &AnyStore) -> Result<Option<File>, ImportError> {
    let Backend::Nats(..) = store.backend() else { return Ok(None) };
    let path = store.local_dir().root().join("imports.lock");
    let lock = OpenOptions::new().create(true).append(true).mode(0o600).open(&path);
    let lock = lock.and_then(|lock| lock.lock().map(|()| lock));
    lock.map(Some).map_err(|source| ImportError::Write { path, source })
}

/// Gives the run its new name and repository. Returns whether anything changed.
fn relocate(spec: &mut RunSpec, import_target: &ImportTarget) -> bool {
    let options = &mut spec.options;
    let old_repo = options.location.repo_dir.clone();
    let name = import_target.name.clone().unwrap_or_else(|| options.location.run.clone());
    if name == options.location.run && old_repo == import_target.repo_dir {
        return false;
    }
    options.workdir = match options.workdir.strip_prefix(&old_repo) {
        Ok(inside) => Path::new(&import_target.repo_dir).join(inside),
        Err(_) => PathBuf::from(&import_target.repo_dir),
    };
    let old_run = std::mem::replace(&mut options.location.run, name);
    options.location.repo_dir.clone_from(&import_target.repo_dir);
    options.location.state_dir = None;
    if let Some(worktrees) = &mut options.worktrees {
        relocate_worktrees(worktrees, &old_run, &options.location, import_target);
        let path =
            options.run_worktrees().map(|run_worktrees| run_worktrees.path(None).display().to_string());
        options.location.worktree = path;
    }
    true
}

/// Makes the worktrees in the directory of this repository. A run with another name gets a branch of its own, which starts
/// where the old one is.
fn relocate_worktrees(
    worktrees: &mut WorktreeOptions,
    old_run: &RunId,
    location: &RunLocation,
    import_target: &ImportTarget,
) {
    let repo = Path::new(&location.repo_dir);
    worktrees.integration_dir = None;
    worktrees.dir = import_target.worktrees_dir.join(location.run.as_str());
    if worktrees.integration.is_none() && location.run != *old_run {
        let old = RunWorktrees::new(old_run.clone(), repo.to_owned(), worktrees.clone());
        if let Ok(tip) = git::commit_of(repo, &old.integration_branch()) {
            worktrees.start = tip;
        }
    }
}

/// An import in progress.
struct ArchiveImport<'a> {
    /// The directory with the extracted files.
    extracted: &'a Path,
    manifest: &'a Manifest,
    /// The bytes of the spec, as archived.
    blob: Vec<u8>,
    /// Whether the run has another name or repository than in the archive, so that its spec differs.
    relocated: bool,
    import_target: &'a ImportTarget,
    attempts_dir: &'a Path,
    /// Whether this import created the attempts directory.
    created: &'a Cell<bool>,
}

/// A marker in the run's attempts directory until the run is in the store. A marker without a run is left by a killed
/// import.
const IMPORTING: &str = ".importing";

impl ArchiveImport<'_> {
    /// Writes the journal, and moves the attempt files into place just before the commit.
    fn write(
        &self,
        mut replay: Replay,
        writer: &mut RunWriter<'_>,
    ) -> Result<(Revision, RunStatus, Vec<String>), ImportError> {
        let path = self.extracted.join(JOURNAL);
        let mut journal = BufReader::new(File::open(&path).map_err(ImportError::Read)?);
        let mut line = String::new();
        loop {
            line.clear();
            let limit = COMMIT_LIMIT as u64 + 1;
            if journal.by_ref().take(limit).read_line(&mut line).map_err(ImportError::Read)? == 0 {
                break;
            }
            let revision = replay.revision().next();
            let failed = |source| ImportError::Entry { revision, source };
            let mut body = line.trim_end_matches('\n').to_owned();
            if revision == Revision(1) {
                body = self.store_spec(&replay, body, writer).map_err(|error| match error {
                    FirstEntryError::Replay(source) => failed(source),
                    FirstEntryError::Store(error) => error.into(),
                })?;
            }
            let commit = replay.add(&body, WriteId::new()).map_err(failed)?;
            replay.position = writer.append(&commit)?;
        }
        if replay.revision() == Revision(0) || replay.revision().0 != self.manifest.entries {
            return Err(ImportError::BadFile {
                path: JOURNAL.to_owned(),
                problem: "does not have all its entries",
            });
        }
        let ImportTarget { by, now, .. } = self.import_target;
        let source = RecoverySource::Archive { host: self.manifest.host.clone() };
        let recovery_entry = replay.recovery_entry(source, by.clone(), *now);
        let commit =
            replay.add(&recovery_entry.encode(), WriteId::new()).expect("BUG: the entry always fits");
        replay.position = writer.append(&commit)?;
        let created = self.manifest.created_at.to_jiff().unwrap_or_default();
        writer.set_created_and_epoch(&replay.run, created, recovery_epoch(*now))?;
        let interrupted = self.move_attempt_files(&replay)?;
        Ok((replay.revision(), replay.state.run.status, interrupted))
    }

    /// Stores the spec. Returns the first entry with the digest of the stored spec.
    fn store_spec(
        &self,
        replay: &Replay,
        body: String,
        writer: &mut RunWriter<'_>,
    ) -> Result<String, FirstEntryError> {
        if spec_digest(&body)? != Digest::of(&self.blob) {
            return Err(ReplayError::NoSpec.into());
        }
        if !self.relocated {
            writer.put_blob(&self.blob)?;
            return Ok(body);
        }
        let blob = serde_json::to_vec(&replay.spec).expect("BUG: a definition is plain data");
        let digest = writer.put_blob(&blob)?;
        let mut entry: serde_json::Value = serde_json::from_str(&body).map_err(ReplayError::from)?;
        entry["input"]["opened"]["spec_digest"] = digest.as_str().into();
        Ok(entry.to_string())
    }

    /// Moves the attempt files into place, and voids the live attempts so that no engine starts or adopts them.
    fn move_attempt_files(&self, replay: &Replay) -> Result<Vec<String>, ImportError> {
        let files = self.extracted.join(super::ATTEMPTS);
        let failed = |path: &Path| {
            let path = path.to_owned();
            move |source| ImportError::Write { path, source }
        };
        // The store has accepted the run's first entry, so there is no other run of this name.
        if self.attempts_dir.join(IMPORTING).exists() {
            fs::remove_dir_all(self.attempts_dir).map_err(failed(self.attempts_dir))?;
        } else if self.attempts_dir.exists() {
            return Err(ImportError::LeftoverAttempts { path: self.attempts_dir.to_owned() });
        }
        DirBuilder::new().recursive(true).mode(0o700).create(&files).map_err(failed(&files))?;
        File::create_new(files.join(IMPORTING)).map_err(failed(&files))?;
        fs::rename(&files, self.attempts_dir).map_err(failed(self.attempts_dir))?;
        self.created.set(true);
        let attempts = self.attempts_dir.parent().unwrap_or(self.attempts_dir);
        File::open(attempts).and_then(|directory| directory.sync_all()).map_err(failed(attempts))?;
        let mut interrupted = Vec::new();
        for attempt in replay.live_attempts() {
            let id = attempt.clone();
            supervisor::void(&AttemptDir::new(attempts, &replay.run, &id))?;
            interrupted.push(id.to_string());
        }
        Ok(interrupted)
    }
}

enum FirstEntryError {
    Replay(ReplayError),
    Store(RunWriteError),
}

impl From<ReplayError> for FirstEntryError {
    fn from(error: ReplayError) -> Self {
        Self::Replay(error)
    }
}

impl From<RunWriteError> for FirstEntryError {
    fn from(error: RunWriteError) -> Self {
        Self::Store(error)
    }
}

/// The largest manifest: it lists every file.
const MANIFEST_LIMIT: u64 = 64 * 1024 * 1024;

/// Extracts exactly the files that the manifest lists into an empty directory.
fn extract_all(archive: impl Read, into: &Path) -> Result<Manifest, ImportError> {
    let not_an_archive = |error: io::Error| ImportError::NotAnArchive(error.to_string());
    let mut archive = Archive::new(archive);
    let mut entries = archive.entries().map_err(not_an_archive)?;
    let first = entries.next().ok_or_else(|| ImportError::NotAnArchive("it is empty".to_owned()))?;
    let first = first.map_err(not_an_archive)?;
    if first.path_bytes().as_ref() != MANIFEST.as_bytes() {
        return Err(ImportError::NotAnArchive(format!("it does not begin with `{MANIFEST}`")));
    }
    let mut text = Vec::new();
    first.take(MANIFEST_LIMIT).read_to_end(&mut text).map_err(ImportError::Read)?;
    let manifest = read_manifest(&text)?;
    let mut listed = manifest.files.iter();
    for entry in entries {
        let entry = entry.map_err(ImportError::Read)?;
        let path = String::from_utf8_lossy(&entry.path_bytes()).into_owned();
        let bad = |problem| ImportError::BadFile { path: path.clone(), problem };
        let expected = listed.next().ok_or_else(|| bad("is not in its manifest"))?;
        if expected.path != path {
            return Err(bad("is not what its manifest lists here"));
        }
        if entry.header().entry_type() != EntryType::Regular {
            return Err(bad("is not a plain file"));
        }
        if entry.size() != expected.bytes {
            return Err(bad("does not have the size its manifest says"));
        }
        extract_file(entry, expected, into)?;
    }
    match listed.next() {
        Some(missing) => Err(ImportError::BadFile { path: missing.path.clone(), problem: "is missing" }),
        None => Ok(manifest),
    }
}

fn read_manifest(text: &[u8]) -> Result<Manifest, ImportError> {
    #[derive(serde::Deserialize)]
    struct Format {
        callboard_archive: u32,
    }
    let not_an_archive = |error: serde_json::Error| ImportError::NotAnArchive(error.to_string());
    let Format { callboard_archive: found } = serde_json::from_slice(text).map_err(not_an_archive)?;
    if found > FORMAT {
        return Err(ImportError::Newer { found });
    }
    let manifest: Manifest = serde_json::from_slice(text).map_err(not_an_archive)?;
    let mut paths: Vec<_> = manifest.files.iter().map(|file| file.path.as_str()).collect();
    if paths.len() < 2 || paths[..2] != [DEFINITION, JOURNAL] {
        return Err(ImportError::NotAnArchive("definition and journal do not come first".to_owned()));
    }
    paths.drain(..2);
    match paths.iter().find(|path| parse_attempt_path(path).is_none()) {
        Some(path) => {
            Err(ImportError::BadFile { path: (*path).to_owned(), problem: "is not a file of an attempt" })
        }
        None => Ok(manifest),
    }
}

/// Extracts one file, whose path was checked before, and compares its digest.
fn extract_file(mut from: impl Read, listed: &ArchivedFile, into: &Path) -> Result<(), ImportError> {
    let path = into.join(&listed.path);
    let failed = |source| ImportError::Write { path: path.clone(), source };
    let directory = path.parent().unwrap_or(into);
    DirBuilder::new().recursive(true).mode(0o700).create(directory).map_err(failed)?;
    let file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&path);
    let mut file = file.map_err(failed)?;
    let bad = |problem| ImportError::BadFile { path: listed.path.clone(), problem };
    let copied = io::copy(&mut from, &mut file).map_err(failed)?;
    let found = File::open(&path).and_then(Digest::of_reader).map_err(failed)?;
    if copied != listed.bytes || found != listed.sha256 {
        return Err(bad("does not have the content its manifest says"));
    }
    file.sync_all().map_err(failed)
}
