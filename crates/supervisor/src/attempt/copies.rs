//! Private copies: files that an attempt finds in its worktree and may edit instead of reporting.
//!
//! [`write()`] puts them there before the attempt starts, and [`collect`] compares them when it has ended. Both can be repeated
//! after a crash: `copies.json` and `copy-edits.json` are written last, and what they say is not written again. No path leads
//! out of the worktree, also if an agent has put a symbolic link into it.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::{self, Read as _, Write as _};
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Component, Path};

use protocol::brief::PrivateCopy;
use protocol::report::CopyEdit;
use rustix::fs::{AtFlags, Mode, OFlags};
use rustix::io::Errno;

use super::dir::AttemptDir;
use super::report::{MAX_REPORT_SIZE, open_at, read_whole};
use crate::atomic_file::replace_file;

/// Why the private copies of an attempt cannot be written or compared.
#[derive(Debug, thiserror::Error)]
#[error("cannot use the private copy `{path}`")]
pub struct CopyError {
    pub path: String,
    pub source: io::Error,
}

impl CopyError {
    fn of(path: &Path) -> impl Fn(io::Error) -> Self {
        move |source| Self { path: path.display().to_string(), source }
    }
}

/// Writes the copies into the worktree. Does nothing if they were written before: the attempt may have been started then.
pub fn write(dir: &AttemptDir, tree: &Path, copies: &[PrivateCopy]) -> Result<(), CopyError> {
    let record = dir.copies();
    if copies.is_empty() || record.exists() {
        return Ok(());
    }
    for PrivateCopy { path, body } in copies {
        let path = Path::new(path);
        write_copy(tree, path, body).map_err(CopyError::of(path))?;
    }
    let given: BTreeMap<_, _> = copies.iter().map(|copy| (&copy.path, &copy.body)).collect();
    let given = serde_json::to_vec(&given).expect("BUG: paths and texts are plain data");
    replace_file(&record, &given).map_err(CopyError::of(&record))
}

/// Compares the copies with what they were, and keeps what the agent left of them. They can be removed from the worktree then.
pub fn collect(dir: &AttemptDir, tree: &Path) -> Result<(), CopyError> {
    let record = dir.copies();
    let given: BTreeMap<String, String> = match read_json(&record) {
        Ok(given) => given.unwrap_or_default(),
        Err(error) => return Err(CopyError::of(&record)(error)),
    };
    let found = dir.copy_edits();
    if !given.is_empty() && !found.exists() {
        let mut edits = BTreeMap::new();
        for (path, base) in &given {
            let left = read_copy(tree, Path::new(path));
            let bytes = left.as_ref().map(|left| left.as_deref()).map_err(Clone::clone);
            let Some(edit) = CopyEdit::between(base, bytes) else { continue };
            keep(dir, tree, Path::new(path)).map_err(CopyError::of(Path::new(path)))?;
            edits.insert(path, edit);
        }
        let edits = serde_json::to_vec(&edits).expect("BUG: an edit is plain data");
        replace_file(&found, &edits).map_err(CopyError::of(&found))?;
    }
    Ok(())
}

/// Returns how the copies of an ended attempt were changed, by path, as [`collect`] has found it.
pub fn edits(dir: &AttemptDir) -> BTreeMap<String, CopyEdit> {
    read_json(&dir.copy_edits()).ok().flatten().unwrap_or_default()
}

fn read_json<T: serde::de::DeserializeOwned>(path: &Path) -> io::Result<Option<T>> {
    match fs::read(path) {
        Ok(bytes) => Ok(serde_json::from_slice(&bytes)?),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

fn write_copy(tree: &Path, path: &Path, body: &str) -> io::Result<()> {
    let (parent, name) = parent(tree, path, true)?;
    // Never into what is there: it may be a link.
    unlink(&parent, name)?;
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let file = rustix::fs::openat(&parent, name, flags, Mode::from_raw_mode(0o644))?;
    File::from(file).write_all(body.as_bytes())
}

fn open_copy(tree: &Path, path: &Path) -> Result<Option<(File, u64)>, String> {
    match parent(tree, path, false) {
        Ok((parent, name)) => open_at(parent.as_fd(), Path::new(name)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error.to_string()),
    }
}

fn read_copy(tree: &Path, path: &Path) -> Result<Option<Vec<u8>>, String> {
    open_copy(tree, path)?.map(|(file, size)| read_whole(file, size)).transpose()
}

/// Keeps what the agent left: the whole file, or the beginning of one that is too large.
fn keep(dir: &AttemptDir, tree: &Path, path: &Path) -> io::Result<()> {
    let Ok(Some((file, _))) = open_copy(tree, path) else { return Ok(()) };
    let kept = dir.copies_left().join(path);
    fs::create_dir_all(kept.parent().ok_or(io::ErrorKind::InvalidInput)?)?;
    io::copy(&mut file.take(MAX_REPORT_SIZE), &mut File::create(kept)?)?;
    Ok(())
}

/// Removes a copy from the worktree, if it is there.
pub(crate) fn remove(tree: &Path, path: &str) -> io::Result<()> {
    match parent(tree, Path::new(path), false) {
        Ok((parent, name)) => unlink(&parent, name),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(error) => Err(error),
    }
}

fn unlink(parent: &OwnedFd, name: &OsStr) -> io::Result<()> {
    match rustix::fs::unlinkat(parent, name, AtFlags::empty()) {
        Ok(()) | Err(Errno::NOENT) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

/// Opens the directory of a copy without following a symbolic link, and returns the name of the copy in it.
fn parent<'p>(tree: &Path, path: &'p Path, create: bool) -> io::Result<(OwnedFd, &'p OsStr)> {
    let invalid = |why: &str| io::Error::new(io::ErrorKind::InvalidInput, why.to_owned());
    let mut names = Vec::new();
    for component in path.components() {
        match component {
            Component::Normal(name) if name.eq_ignore_ascii_case(".git") => {
                return Err(invalid("it is inside of `.git`"));
            }
            Component::Normal(name) => names.push(name),
            Component::Prefix(_) | Component::RootDir | Component::CurDir | Component::ParentDir => {
                return Err(invalid("its path does not lead into the worktree"));
            }
        }
    }
    let name = names.pop().ok_or_else(|| invalid("its path is empty"))?;
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let mut dir = rustix::fs::open(tree, flags, Mode::empty())?;
    for name in names {
        if create {
            match rustix::fs::mkdirat(&dir, name, Mode::from_raw_mode(0o755)) {
                Ok(()) | Err(Errno::EXIST) => {}
                Err(error) => return Err(error.into()),
            }
        }
        dir = match rustix::fs::openat(&dir, name, flags | OFlags::NOFOLLOW, Mode::empty()) {
            Err(Errno::LOOP | Errno::NOTDIR) => {
                return Err(invalid("a part of its path is not a directory of the worktree"));
            }
            opened => opened?,
        };
    }
    Ok((dir, name))
}

#[cfg(test)]
mod tests;
