//! Finds the directory of the embedded store, and refuses unsuitable ones.

mod git;

use std::fs::{self, DirBuilder};
use std::io;
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};

use protocol::RunId;

use crate::error::Unavailable;

pub use git::Repository;

/// A suitable directory for the embedded store, or the local directory of a shared store. It need not exist yet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Location {
    root: PathBuf,
}

const DATABASE: &str = "callboard.db";

/// The directory next to the database with the local directories of shared stores, each named after the store's id.
const LOCAL_DIRS: &str = "nats";

/// The file in such a local directory that names the servers.
const SERVER_FILE: &str = "server";

/// The suffix of engine lock files.
const LOCK_SUFFIX: &str = ".lock";

/// The names of the database, its write-ahead log (WAL) and the index of the WAL.
pub(crate) const DATABASE_FILES: [&str; 3] = [DATABASE, "callboard.db-wal", "callboard.db-shm"];

/// Returns the path of a database's write-ahead log (WAL).
pub(crate) fn wal_of(database: &Path) -> PathBuf {
    let mut name = database.as_os_str().to_owned();
    name.push("-wal");
    name.into()
}

/// Why no suitable directory was found.
#[derive(Debug, thiserror::Error)]
pub enum LocateError {
    #[error("the store `{}` belongs to user {owner}, this is user {us}", path.display())]
    OtherOwner { path: PathBuf, owner: u32, us: u32 },
    /// SQLite's shared memory does not work there. `CALLBOARD_STORE` moves the store to a local disk.
    #[error(
        "the store `{}` would be on a network file system ({kind}); set CALLBOARD_STORE to a local directory",
        path.display()
    )]
    NetworkFileSystem { path: PathBuf, kind: &'static str },
    #[error("git tracks files in the store `{}`; set CALLBOARD_STORE to another directory", path.display())]
    Tracked { path: PathBuf },
    #[error("`{}` exists and is not a directory", path.display())]
    NotADirectory { path: PathBuf },
    #[error("`{}` does not point to a git repository", path.display())]
    BrokenGit { path: PathBuf, source: io::Error },
    #[error("could not ask git whether it tracks the store `{}`", path.display())]
    AskGit { path: PathBuf, source: io::Error },
    #[error("could not look at `{}`", path.display())]
    Io { path: PathBuf, source: io::Error },
}

/// Finds the git repository around a directory.
pub fn repository(start: &Path) -> Result<Option<Repository>, LocateError> {
    git::find(&absolute(start)?).map_err(broken_git)
}

impl Location {
    /// Finds the store of a command that is run in `start`.
    ///
    /// An explicit path (`CALLBOARD_STORE`, relative to `start`) wins. In a git repository the store is `callboard` in
    /// the common directory of all worktrees, which `git clean` does not touch. Otherwise it is the nearest
    /// `.callboard` above, or a new one in `start`.
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
        refuse_other_owner(&root)?;
        refuse_network(&root)?;
        Ok(Self { root })
    }

    /// Returns the local directory of the shared store with this id, next to the embedded one.
    pub(crate) fn local_dir_of(&self, id: &str) -> Self {
        Self { root: self.root.join(LOCAL_DIRS).join(id) }
    }

    /// Returns the local directory of the same shared store as `local_dir`, but next to this embedded store.
    pub(crate) fn local_dir_of_same_store(&self, local_dir: &Self) -> Self {
        let id = local_dir
            .root
            .file_name()
            .expect("BUG: the local directory of a shared store is named after its id");
        Self { root: self.root.join(LOCAL_DIRS).join(id) }
    }

    /// Creates the local directory of a shared store, with a file that names its servers.
    pub(crate) fn prepare_local_dir(&self, server: &str) -> Result<(), Unavailable> {
        let failed = |action, path: &Path| {
            let path = path.to_owned();
            move |source| Unavailable::io(action, path, source)
        };
        for directory in [self.root.clone(), self.engines_dir(), self.attempts_dir()] {
            let mut builder = DirBuilder::new();
            builder.recursive(true).mode(0o700).create(&directory).map_err(failed("create", &directory))?;
        }
        let server_file = self.root.join(SERVER_FILE);
        let text = format!("{server}\n");
        if fs::read_to_string(&server_file).is_ok_and(|found| found == text) {
            return Ok(());
        }
        // By rename, because agents may be reading it.
        let temporary = self.root.join(format!("{SERVER_FILE}.{}", std::process::id()));
        fs::write(&temporary, text).map_err(failed("write", &temporary))?;
        fs::rename(&temporary, &server_file).map_err(failed("write", &server_file))
    }

    /// Returns the servers of the shared store whose local directory this is, and the location of the embedded store
    /// next to it. Returns `None` for an embedded store.
    #[must_use]
    pub fn shared(&self) -> Option<(String, Self)> {
        let server = fs::read_to_string(self.root.join(SERVER_FILE)).ok()?;
        let embedded = self.root.parent().filter(|parent| parent.ends_with(LOCAL_DIRS))?.parent()?;
        Some((server.trim().to_owned(), Self { root: embedded.to_owned() }))
    }

    /// Returns the newest local directory of another shared store at the same servers that has attempts. Store ids
    /// begin with their creation time, so they sort by age.
    #[must_use]
    pub fn former_local_dir(&self, server: &str) -> Option<PathBuf> {
        let embedded = Self { root: self.root.parent()?.parent()?.to_owned() };
        let others = embedded.local_dirs_at(server).into_iter().filter(|path| *path != self.root);
        let has_attempts = |path: &PathBuf| {
            let attempts = Self { root: path.clone() }.attempts_dir();
            fs::read_dir(attempts).is_ok_and(|mut runs| runs.next().is_some())
        };
        others.filter(has_attempts).max()
    }

    /// Returns the local directory of every shared store that was at these servers. There are several if the store at
    /// the servers was replaced.
    #[must_use]
    pub fn local_dirs_at(&self, server: &str) -> Vec<PathBuf> {
        let local_dirs = fs::read_dir(self.root.join(LOCAL_DIRS)).into_iter().flatten().flatten();
        let is_at_server = |path: &PathBuf| {
            fs::read_to_string(path.join(SERVER_FILE)).is_ok_and(|found| found.trim() == server)
        };
        local_dirs.map(|entry| entry.path()).filter(is_at_server).collect()
    }

    /// Whether a directory is the local directory of a shared store. Costs one system call.
    #[must_use]
    pub fn is_local_dir(local_dir: &Path) -> bool {
        local_dir.join(SERVER_FILE).is_file()
    }

    #[must_use]
    pub fn root(&self) -> &Path {
        &self.root
    }

    #[must_use]
    pub fn database(&self) -> PathBuf {
        self.root.join(DATABASE)
    }

    /// SQLite's write-ahead log (WAL): commits that are not in the database file yet.
    #[must_use]
    pub fn wal(&self) -> PathBuf {
        wal_of(&self.database())
    }

    /// The file on which writers queue, and whose closing wakes watchers.
    #[must_use]
    pub fn writer_lock(&self) -> PathBuf {
        self.root.join("writer.lock")
    }

    /// One directory per attempt, with what its agent writes before it is committed.
    #[must_use]
    pub fn attempts_dir(&self) -> PathBuf {
        self.root.join("attempts")
    }

    /// Backups of damaged databases, one directory each.
    #[must_use]
    pub fn backups_dir(&self) -> PathBuf {
        self.root.join("saved")
    }

    /// The locks of engines, and the logs of background engines.
    #[must_use]
    pub fn engines_dir(&self) -> PathBuf {
        self.root.join("engines")
    }

    /// The file that the engine of a run locks.
    pub(crate) fn engine_lock(&self, run: &RunId) -> PathBuf {
        self.engines_dir().join(format!("{run}{LOCK_SUFFIX}"))
    }

    /// Returns the run of an engine lock file, or `None` for any other file.
    #[must_use]
    pub fn run_of_lock(&self, file: &Path) -> Option<String> {
        let name = file.strip_prefix(self.engines_dir()).ok()?.to_str()?;
        name.strip_suffix(LOCK_SUFFIX).map(str::to_owned)
    }
}

fn absolute(path: &Path) -> Result<PathBuf, LocateError> {
    std::path::absolute(path).map_err(|source| LocateError::Io { path: path.to_owned(), source })
}

fn broken_git(git::BrokenDotGit { path, source }: git::BrokenDotGit) -> LocateError {
    LocateError::BrokenGit { path, source }
}

fn nearest_dot_callboard(start: &Path) -> PathBuf {
    let existing = start.ancestors().map(|directory| directory.join(".callboard")).find(|path| path.is_dir());
    existing.unwrap_or_else(|| start.join(".callboard"))
}

/// Applies to explicit stores only: git never tracks its own directory, nor anything outside a work tree.
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

fn refuse_other_owner(root: &Path) -> Result<(), LocateError> {
    match fs::metadata(root) {
        Ok(metadata) if !metadata.is_dir() => Err(LocateError::NotADirectory { path: root.to_owned() }),
        Ok(metadata) if metadata.uid() != linux::effective_user() => Err(LocateError::OtherOwner {
            path: root.to_owned(),
            owner: metadata.uid(),
            us: linux::effective_user(),
        }),
        Ok(_) => Ok(()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(source) => Err(LocateError::Io { path: root.to_owned(), source }),
    }
}

/// Checks the nearest existing directory: a new one will be on the same file system.
fn refuse_network(root: &Path) -> Result<(), LocateError> {
    let existing = root.ancestors().find(|path| path.exists()).unwrap_or(Path::new("/"));
    match linux::network_file_system(existing) {
        Ok(None) => Ok(()),
        Ok(Some(kind)) => Err(LocateError::NetworkFileSystem { path: root.to_owned(), kind }),
        Err(source) => Err(LocateError::Io { path: existing.to_owned(), source }),
    }
}
