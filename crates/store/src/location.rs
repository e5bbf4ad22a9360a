//! Where the embedded store lives, and which places are refused.

use std::fs::{self, DirBuilder};
use std::io;
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};

use protocol::RunId;

use crate::error::Unavailable;
use crate::git::Repository;
use crate::{git, os};

/// A directory for the embedded store that may be used; it need not exist yet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Location {
    root: PathBuf,
}

const DATABASE: &str = "callboard.db";

/// The directory beside the database for stores that are elsewhere, and the file in each that says where.
const SHARED: &str = "nats";
const SERVER: &str = "server";

/// How the name of an engine's lock ends.
const LOCK: &str = ".lock";

/// The database, its log and its index of the log, by name.
pub(crate) const DATABASE_FILES: [&str; 3] = [DATABASE, "callboard.db-wal", "callboard.db-shm"];

/// Where SQLite keeps the log of a database.
pub(crate) fn log_of(database: &Path) -> PathBuf {
    let mut name = database.as_os_str().to_owned();
    name.push("-wal");
    name.into()
}

/// Why no place for the store could be settled on.
#[derive(Debug, thiserror::Error)]
pub enum LocateError {
    #[error("the store `{}` belongs to user {owner}, this is user {us}", path.display())]
    AnotherUsers { path: PathBuf, owner: u32, us: u32 },
    /// SQLite's shared memory does not work there. `CALLBOARD_STORE` moves the store to a local disk.
    #[error(
        "the store `{}` would lie on a network file system ({kind}); set CALLBOARD_STORE to a local directory",
        path.display()
    )]
    Network { path: PathBuf, kind: &'static str },
    #[error("git tracks files in the store `{}`; set CALLBOARD_STORE to another directory", path.display())]
    Tracked { path: PathBuf },
    #[error("`{}` exists and is not a directory", path.display())]
    NotADirectory { path: PathBuf },
    #[error("`{}` does not lead to a git repository", path.display())]
    BrokenGit { path: PathBuf, source: io::Error },
    #[error("could not ask git whether it tracks the store `{}`", path.display())]
    AskGit { path: PathBuf, source: io::Error },
    #[error("could not look at `{}`", path.display())]
    Io { path: PathBuf, source: io::Error },
}

/// The git repository around a directory, if there is one.
pub fn repository(start: &Path) -> Result<Option<Repository>, LocateError> {
    git::find(&absolute(start)?).map_err(broken_git)
}

impl Location {
    /// Settles where the store of whoever works in `start` is.
    ///
    /// An explicit place (`CALLBOARD_STORE`, relative to `start`) wins. In a git repository it is `callboard` in the
    /// directory all worktrees share, where `git clean` cannot reach it; else the nearest `.callboard` above, else a
    /// new one in `start`.
    pub fn find(start: &Path, explicit: Option<PathBuf>) -> Result<Self, LocateError> {
        let start = absolute(start)?;
        let root = match explicit {
            Some(path) => {
                let root = absolute(&start.join(path))?;
                refuse_tracked(&root)?;
                root
            }
            None => match git::find(&start).map_err(broken_git)? {
                Some(repository) => repository.common_dir.join("callboard"),
                None => nearest_dot_callboard(&start),
            },
        };
        refuse_stranger(&root)?;
        refuse_network(&root)?;
        Ok(Self { root })
    }

    /// Where a machine keeps what it needs for a shared store: beside its embedded one.
    pub(crate) fn of_shared(&self, id: &str) -> Self {
        Self { root: self.root.join(SHARED).join(id) }
    }

    /// Where the same shared store would be kept beside this place.
    pub(crate) fn of_same_shared(&self, local_dir: &Self) -> Self {
        let id = local_dir.root.file_name().expect("BUG: the local_dir of a shared store are named after it");
        Self { root: self.root.join(SHARED).join(id) }
    }

    /// Makes the directories of a shared store, and notes its servers there.
    pub(crate) fn prepare_shared(&self, server: &str) -> Result<(), Unavailable> {
        let failed = |action, path: &Path| {
            let path = path.to_owned();
            move |source| Unavailable::io(action, path, source)
        };
        for directory in [self.root.clone(), self.engines_dir(), self.attempts_dir()] {
            let mut builder = DirBuilder::new();
            builder.recursive(true).mode(0o700).create(&directory).map_err(failed("create", &directory))?;
        }
        let note = self.root.join(SERVER);
        let text = format!("{server}\n");
        if fs::read_to_string(&note).is_ok_and(|noted| noted == text) {
            return Ok(());
        }
        // Agents may be reading it.
        let draft = self.root.join(format!("{SERVER}.{}", std::process::id()));
        fs::write(&draft, text).map_err(failed("write", &draft))?;
        fs::rename(&draft, &note).map_err(failed("write", &note))
    }

    /// The servers of the shared store whose local_dir these are, and the place of the embedded one; `None` for an embedded
    /// store.
    #[must_use]
    pub fn shared(&self) -> Option<(String, Self)> {
        let server = fs::read_to_string(self.root.join(SERVER)).ok()?;
        let beside = self.root.parent().filter(|parent| parent.ends_with(SHARED))?.parent()?;
        Some((server.trim().to_owned(), Self { root: beside.to_owned() }))
    }

    /// The local_dir of another shared store beside these that was at the same servers, and has attempts. Of several the
    /// newest: ids begin with the time at which their store was made.
    #[must_use]
    pub fn of_former_shared(&self, server: &str) -> Option<PathBuf> {
        let beside = Self { root: self.root.parent()?.parent()?.to_owned() };
        let others = beside.local_dir_at(server).into_iter().filter(|path| *path != self.root);
        let has_attempts = |path: &PathBuf| {
            let attempts = Self { root: path.clone() }.attempts_dir();
            fs::read_dir(attempts).is_ok_and(|mut runs| runs.next().is_some())
        };
        others.filter(has_attempts).max()
    }

    /// The local_dir beside this place of every shared store that was at these servers: of one, unless somebody replaced it.
    #[must_use]
    pub fn local_dir_at(&self, server: &str) -> Vec<PathBuf> {
        let local_dir = fs::read_dir(self.root.join(SHARED)).into_iter().flatten().flatten();
        let is_there =
            |path: &PathBuf| fs::read_to_string(path.join(SERVER)).is_ok_and(|noted| noted.trim() == server);
        local_dir.map(|entry| entry.path()).filter(is_there).collect()
    }

    /// Whether a directory is the local_dir of a shared store: one look, for whoever must not be slow.
    #[must_use]
    pub fn is_of_shared(local_dir: &Path) -> bool {
        local_dir.join(SERVER).is_file()
    }

    #[must_use]
    pub fn root(&self) -> &Path {
        &self.root
    }

    #[must_use]
    pub fn database(&self) -> PathBuf {
        self.root.join(DATABASE)
    }

    /// What was committed and is not in the database file yet.
    #[must_use]
    pub fn log(&self) -> PathBuf {
        log_of(&self.database())
    }

    /// The file that writers queue on, and whose closing wakes the watchers.
    #[must_use]
    pub fn writer_lock(&self) -> PathBuf {
        self.root.join("ticket")
    }

    /// One directory per attempt: what agents write, before it is committed.
    #[must_use]
    pub fn attempts_dir(&self) -> PathBuf {
        self.root.join("attempts")
    }

    /// Damaged stores that were set aside, one directory each.
    #[must_use]
    pub fn saved_dir(&self) -> PathBuf {
        self.root.join("saved")
    }

    /// What belongs to the engines: their locks, and the logs of those in the background.
    #[must_use]
    pub fn engines_dir(&self) -> PathBuf {
        self.root.join("engines")
    }

    /// The file that the engine of a run holds locked.
    pub(crate) fn engine_lock(&self, run: &RunId) -> PathBuf {
        self.engines_dir().join(format!("{run}{LOCK}"))
    }

    /// The run whose engine's lock this file is, if it is one.
    #[must_use]
    pub fn run_of_lock(&self, file: &Path) -> Option<String> {
        let name = file.strip_prefix(self.engines_dir()).ok()?.to_str()?;
        name.strip_suffix(LOCK).map(str::to_owned)
    }
}

fn absolute(path: &Path) -> Result<PathBuf, LocateError> {
    std::path::absolute(path).map_err(|source| LocateError::Io { path: path.to_owned(), source })
}

fn broken_git(git::Broken { path, source }: git::Broken) -> LocateError {
    LocateError::BrokenGit { path, source }
}

fn nearest_dot_callboard(start: &Path) -> PathBuf {
    let existing = start.ancestors().map(|directory| directory.join(".callboard")).find(|path| path.is_dir());
    existing.unwrap_or_else(|| start.join(".callboard"))
}

/// Only an explicit store can be tracked: git never tracks its own directory, nor what is outside every work tree.
fn refuse_tracked(root: &Path) -> Result<(), LocateError> {
    let Ok(root) = root.canonicalize() else { return Ok(()) };
    let Some(repository) = git::find(&root).map_err(broken_git)? else { return Ok(()) };
    let Some(work_tree) = repository.work_tree.filter(|_| !root.starts_with(&repository.common_dir)) else {
        return Ok(());
    };
    match git::tracks(&work_tree, &root) {
        Ok(false) => Ok(()),
        Ok(true) => Err(LocateError::Tracked { path: root }),
        Err(source) => Err(LocateError::AskGit { path: root, source }),
    }
}

fn refuse_stranger(root: &Path) -> Result<(), LocateError> {
    match fs::metadata(root) {
        Ok(metadata) if !metadata.is_dir() => Err(LocateError::NotADirectory { path: root.to_owned() }),
        Ok(metadata) if metadata.uid() != os::effective_user() => Err(LocateError::AnotherUsers {
            path: root.to_owned(),
            owner: metadata.uid(),
            us: os::effective_user(),
        }),
        Ok(_) => Ok(()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(source) => Err(LocateError::Io { path: root.to_owned(), source }),
    }
}

/// Asks about the nearest directory that exists: what we create will be on the same file system.
fn refuse_network(root: &Path) -> Result<(), LocateError> {
    let existing = root.ancestors().find(|path| path.exists()).unwrap_or(Path::new("/"));
    match os::network_file_system(existing) {
        Ok(None) => Ok(()),
        Ok(Some(kind)) => Err(LocateError::Network { path: root.to_owned(), kind }),
        Err(source) => Err(LocateError::Io { path: existing.to_owned(), source }),
    }
}
