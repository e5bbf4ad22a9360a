//! Archive → run: checked to the last byte before anything of it is in the store.

use std::cell::Cell;
use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, BufRead as _, BufReader, Read};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use protocol::entry::{Author, RecoverySource};
use protocol::run::{Run, RunStatus};
use protocol::{Protocol, Revision, RunId, Stamp};
use store::{
    AnyStore, COMMIT_LIMIT, CommitError, Digest, ReadError, RunWriteError, RunWriter, Store as _, WriteId,
};
use supervisor::AttemptDir;
use tar::{Archive, EntryType};
use tempfile::TempDir;

use super::{DEFINITION, FORMAT, JOURNAL, Listed, MANIFEST, Manifest, paper};
use crate::opening::RunSpec;
use crate::rebuild::{Rebuild, Unfit, definition_of, epoch_at};

/// Where a run that comes from elsewhere is to be.
#[derive(Debug, Clone)]
pub struct ImportTarget {
    /// Its name here, if not its own.
    pub name: Option<RunId>,
    pub repo_dir: String,
    pub by: Author,
    pub now: Stamp,
}

/// What was taken.
#[derive(Debug)]
pub struct Imported {
    pub run: RunId,
    pub manifest: Manifest,
    pub revision: Revision,
    pub status: RunStatus,
    /// Attempts that were open where it comes from. Workspace they count as interrupted.
    pub open: Vec<String>,
}

/// Why an archive was not taken. Nothing of it was.
#[derive(Debug, thiserror::Error)]
pub enum ImportError {
    #[error("it is not an archive of a run: {0}")]
    NotAnArchive(String),
    #[error("it has format {found}, written by a newer callboard; this one knows {FORMAT}")]
    Newer { found: u32 },
    #[error("it holds a `{found}` run, which this program does not know")]
    OtherProtocol { found: String },
    #[error("`{path}` in it {fault}")]
    Foul { path: String, fault: &'static str },
    #[error("entry {revision} of its journal cannot be taken")]
    Entry { revision: Revision, source: Unfit },
    #[error("a run named `{0}` exists already")]
    Exists(RunId),
    #[error("`{}` holds attempts, though the store knows no such run", path.display())]
    Strays { path: PathBuf },
    #[error("could not read the archive")]
    Read(#[source] io::Error),
    #[error("could not write `{}`", path.display())]
    Write { path: PathBuf, source: io::Error },
    #[error("could not make its open attempts void")]
    Void(#[from] supervisor::ClaimError),
    #[error(transparent)]
    Store(#[from] RunWriteError),
    #[error(transparent)]
    Look(#[from] ReadError),
}

/// An archive that was unpacked beside the runs of a store, and checked against its manifest. Nothing of it is in the
/// store yet: which protocol it is to be taken by, only its manifest says.
#[derive(Debug)]
pub struct Unpacked {
    pub manifest: Manifest,
    options: TempDir,
}

/// Unpacks an archive, and says what it is.
pub fn unpack(store: &AnyStore, archive: impl Read) -> Result<Unpacked, ImportError> {
    store.prepare_local_dir().map_err(RunWriteError::from)?;
    let root = store.local_dir().root();
    let options = tempfile::Builder::new().prefix("import-").tempdir_in(root);
    let options = options.map_err(|source| ImportError::Write { path: root.to_owned(), source })?;
    let manifest = take_all_out(archive, options.path())?;
    Ok(Unpacked { manifest, options })
}

/// Takes a run out of an archive: all of it, or nothing.
pub async fn import<P: Protocol>(
    store: &AnyStore,
    unpacked: Unpacked,
    import_target: &ImportTarget,
) -> Result<Imported, ImportError> {
    let Unpacked { manifest, options } = unpacked;
    if manifest.protocol != P::NAME {
        return Err(ImportError::OtherProtocol { found: manifest.protocol });
    }
    let blob = fs::read(options.path().join(DEFINITION)).map_err(ImportError::Read)?;
    let first = |source| ImportError::Entry { revision: Revision(1), source };
    let mut spec: RunSpec<P> = serde_json::from_slice(&blob).map_err(|error| first(error.into()))?;
    let moved = restage(&mut spec, import_target);
    let run = spec.options.location.run.clone();
    let _until_the_run_is_there = alone(store)?;
    // Before anything is put where its own papers are.
    if store.newest(&run).await?.is_some() {
        return Err(ImportError::Exists(run));
    }
    let home = store.local_dir().attempts_dir().join(run.as_str());
    let placed = Cell::new(false);
    let options = options.path();
    let taking =
        Taking { options, manifest: &manifest, blob, moved, import_target, home: &home, placed: &placed };
    let mut rebuild = Rebuild::begin(spec);
    rebuild.shows = store.keeps_documents();
    let taken = store.put_run(|writer| taking.take::<P>(rebuild, writer)).await;
    let (revision, status, open) = match taken {
        Ok(taken) => {
            // Should it stay behind it means nothing: the run is there.
            let _ = fs::remove_file(home.join(IMPORTING));
            taken
        }
        Err(error) => {
            // Whether a commit that failed is there after all is for the next import to see: it finds the mark.
            let settled = !matches!(
                error,
                ImportError::Store(
                    RunWriteError::Unavailable(_)
                        | RunWriteError::Refused(CommitError::Unknown { .. } | CommitError::Unavailable(_))
                )
            );
            if placed.get() && settled {
                let _ = fs::remove_dir_all(&home);
            }
            return Err(match error {
                ImportError::Store(RunWriteError::Refused(CommitError::Conflict { .. })) => {
                    ImportError::Exists(run)
                }
                other => other,
            });
        }
    };
    Ok(Imported { run, manifest, revision, status, open })
}

/// Waits until nobody else on this machine takes a run out of an archive, where the store does not see to it: on NATS the
/// papers are in their place before anybody knows who brings the run, and the one who does not would take them away.
fn alone(store: &AnyStore) -> Result<Option<File>, ImportError> {
    let AnyStore::Nats(..) = store else { return Ok(None) };
    let path = store.local_dir().root().join("imports.lock");
    let lock = OpenOptions::new().create(true).append(true).mode(0o600).open(&path);
    let lock = lock.and_then(|lock| lock.lock().map(|()| lock));
    lock.map(Some).map_err(|source| ImportError::Write { path, source })
}

/// Gives the run its name and place here. Says whether that changed anything.
fn restage<P: Protocol>(spec: &mut RunSpec<P>, import_target: &ImportTarget) -> bool {
    let options = &mut spec.options;
    let there = options.location.repo_dir.clone();
    let name = import_target.name.clone().unwrap_or_else(|| options.location.run.clone());
    if name == options.location.run && there == import_target.repo_dir {
        return false;
    }
    options.workdir = match options.workdir.strip_prefix(&there) {
        Ok(inside) => Path::new(&import_target.repo_dir).join(inside),
        Err(_) => PathBuf::from(&import_target.repo_dir),
    };
    options.location.run = name;
    options.location.repo_dir.clone_from(&import_target.repo_dir);
    true
}

struct Taking<'a> {
    options: &'a Path,
    manifest: &'a Manifest,
    blob: Vec<u8>,
    moved: bool,
    import_target: &'a ImportTarget,
    home: &'a Path,
    /// Whether what is in its home came from us.
    placed: &'a Cell<bool>,
}

/// In the home of a run's papers until the run is in the store: whoever finds it, and no run, finds what a killed import
/// left.
const IMPORTING: &str = ".importing";

impl Taking<'_> {
    /// Writes the journal, and puts the attempts' papers in their place as the last thing before the commit.
    fn take<P: Protocol>(
        &self,
        mut rebuild: Rebuild<P>,
        writer: &mut RunWriter<'_>,
    ) -> Result<(Revision, RunStatus, Vec<String>), ImportError> {
        let path = self.options.join(JOURNAL);
        let mut journal = BufReader::new(File::open(&path).map_err(ImportError::Read)?);
        let mut line = String::new();
        loop {
            line.clear();
            let limit = COMMIT_LIMIT as u64 + 1;
            if journal.by_ref().take(limit).read_line(&mut line).map_err(ImportError::Read)? == 0 {
                break;
            }
            let revision = rebuild.revision().next();
            let failed = |source| ImportError::Entry { revision, source };
            let mut body = line.trim_end_matches('\n').to_owned();
            if revision == Revision(1) {
                body = self.first(&rebuild, body, writer).map_err(|error| match error {
                    Refused::Unfit(source) => failed(source),
                    Refused::Store(error) => error.into(),
                })?;
            }
            let commit = rebuild.add(&body, WriteId::new()).map_err(failed)?;
            rebuild.position = writer.append(&commit)?;
        }
        if rebuild.revision() == Revision(0) || rebuild.revision().0 != self.manifest.entries {
            return Err(ImportError::Foul {
                path: JOURNAL.to_owned(),
                fault: "does not have all its entries",
            });
        }
        let ImportTarget { by, now, .. } = self.import_target;
        let source = RecoverySource::Archive { host: self.manifest.host.clone() };
        let note = rebuild.note(source, by.clone(), *now);
        let commit = rebuild.add(&note.encode(), WriteId::new()).expect("BUG: a note always fits");
        rebuild.position = writer.append(&commit)?;
        let created = self.manifest.created_at.timestamp().unwrap_or_default();
        writer.set_origin(&rebuild.run, created, epoch_at(*now))?;
        let open = self.place::<P>(&rebuild)?;
        Ok((rebuild.revision(), rebuild.state.run.status, open))
    }

    /// Keeps what the run was opened with, under the digest that its first entry names.
    fn first<P: Protocol>(
        &self,
        rebuild: &Rebuild<P>,
        body: String,
        writer: &mut RunWriter<'_>,
    ) -> Result<String, Refused> {
        if definition_of::<P>(&body)? != Digest::of(&self.blob) {
            return Err(Unfit::NoDefinition.into());
        }
        if !self.moved {
            writer.put_blob(&self.blob)?;
            return Ok(body);
        }
        let blob = serde_json::to_vec(&rebuild.spec).expect("BUG: a definition is plain data");
        let digest = writer.put_blob(&blob)?;
        let mut entry: serde_json::Value = serde_json::from_str(&body).map_err(Unfit::from)?;
        entry["input"]["opened"]["definition"] = digest.as_str().into();
        Ok(entry.to_string())
    }

    /// Voids what was open, so that nobody starts or adopts it here, and moves the papers to where they are looked for.
    fn place<P: Protocol>(&self, rebuild: &Rebuild<P>) -> Result<Vec<String>, ImportError> {
        let papers = self.options.join(super::ATTEMPTS);
        let failed = |path: &Path| {
            let path = path.to_owned();
            move |source| ImportError::Write { path, source }
        };
        // The store took the run's first entry a run_at ago, and nobody else writes: it has no such run.
        if self.home.join(IMPORTING).exists() {
            fs::remove_dir_all(self.home).map_err(failed(self.home))?;
        } else if self.home.exists() {
            return Err(ImportError::Strays { path: self.home.to_owned() });
        }
        DirBuilder::new().recursive(true).mode(0o700).create(&papers).map_err(failed(&papers))?;
        File::create_new(papers.join(IMPORTING)).map_err(failed(&papers))?;
        fs::rename(&papers, self.home).map_err(failed(self.home))?;
        self.placed.set(true);
        let attempts = self.home.parent().unwrap_or(self.home);
        File::open(attempts).and_then(|directory| directory.sync_all()).map_err(failed(attempts))?;
        let mut open = Vec::new();
        for attempt in rebuild.live_attempts() {
            let id = Run::<P>::id(&attempt);
            supervisor::void(&AttemptDir::new(attempts, &rebuild.run, &id))?;
            open.push(id.to_string());
        }
        Ok(open)
    }
}

enum Refused {
    Unfit(Unfit),
    Store(RunWriteError),
}

impl From<Unfit> for Refused {
    fn from(unfit: Unfit) -> Self {
        Self::Unfit(unfit)
    }
}

impl From<RunWriteError> for Refused {
    fn from(error: RunWriteError) -> Self {
        Self::Store(error)
    }
}

/// Largest manifest: it lists every file.
const MANIFEST_LIMIT: u64 = 64 * 1024 * 1024;

/// Unpacks what the manifest lists, and nothing else, into an empty directory.
fn take_all_out(archive: impl Read, into: &Path) -> Result<Manifest, ImportError> {
    let no_archive = |error: io::Error| ImportError::NotAnArchive(error.to_string());
    let mut archive = Archive::new(archive);
    let mut entries = archive.entries().map_err(no_archive)?;
    let first = entries.next().ok_or_else(|| ImportError::NotAnArchive("it is empty".to_owned()))?;
    let first = first.map_err(no_archive)?;
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
        let foul = |fault| ImportError::Foul { path: path.clone(), fault };
        let expected = listed.next().ok_or_else(|| foul("is not in its manifest"))?;
        if expected.path != path {
            return Err(foul("is not what its manifest lists here"));
        }
        if entry.header().entry_type() != EntryType::Regular {
            return Err(foul("is not a plain file"));
        }
        if entry.size() != expected.bytes {
            return Err(foul("does not have the size its manifest says"));
        }
        take_out(entry, expected, into)?;
    }
    match listed.next() {
        Some(missing) => Err(ImportError::Foul { path: missing.path.clone(), fault: "is missing" }),
        None => Ok(manifest),
    }
}

fn read_manifest(text: &[u8]) -> Result<Manifest, ImportError> {
    #[derive(serde::Deserialize)]
    struct Format {
        callboard_archive: u32,
    }
    let no_archive = |error: serde_json::Error| ImportError::NotAnArchive(error.to_string());
    let Format { callboard_archive: found } = serde_json::from_slice(text).map_err(no_archive)?;
    if found > FORMAT {
        return Err(ImportError::Newer { found });
    }
    let manifest: Manifest = serde_json::from_slice(text).map_err(no_archive)?;
    let mut paths: Vec<_> = manifest.files.iter().map(|file| file.path.as_str()).collect();
    if paths.len() < 2 || paths[..2] != [DEFINITION, JOURNAL] {
        return Err(ImportError::NotAnArchive("definition and journal do not come first".to_owned()));
    }
    paths.drain(..2);
    match paths.iter().find(|path| paper(path).is_none()) {
        Some(path) => {
            Err(ImportError::Foul { path: (*path).to_owned(), fault: "is no file that an attempt leaves" })
        }
        None => Ok(manifest),
    }
}

/// Writes one file whose path was checked before, and compares its digest.
fn take_out(mut from: impl Read, listed: &Listed, into: &Path) -> Result<(), ImportError> {
    let path = into.join(&listed.path);
    let failed = |source| ImportError::Write { path: path.clone(), source };
    let directory = path.parent().unwrap_or(into);
    DirBuilder::new().recursive(true).mode(0o700).create(directory).map_err(failed)?;
    let file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&path);
    let mut file = file.map_err(failed)?;
    let foul = |fault| ImportError::Foul { path: listed.path.clone(), fault };
    let copied = io::copy(&mut from, &mut file).map_err(failed)?;
    let found = File::open(&path).and_then(Digest::of_reader).map_err(failed)?;
    if copied != listed.bytes || found != listed.sha256 {
        return Err(foul("does not have the content its manifest says"));
    }
    file.sync_all().map_err(failed)
}
