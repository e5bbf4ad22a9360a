//! Private copies: files that an attempt finds in its worktree and may edit instead of reporting.
//!
//! [`write()`] puts them there before the attempt starts, and [`collect`] compares them when it has ended. Both can be repeated
//! after a crash: each ends by writing its record (`copies.json`, `copy-edits.json`), and does nothing if that exists.
//! No path leads out of the worktree, even through a symbolic link that an agent has put there.

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
use super::report::{MAX_REPORT_SIZE, open_agent_file_at, read_whole};
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
pub fn write(dir: &AttemptDir, worktree: &Path, copies: &[PrivateCopy]) -> Result<(), CopyError> {
    let record = dir.copies();
    if copies.is_empty() || record.exists() {
        return Ok(());
    }
    for PrivateCopy { path, body } in copies {
        let path = Path::new(path);
        write_copy(worktree, path, body).map_err(CopyError::of(path))?;
    }
    let given_copies: BTreeMap<_, _> = copies.iter().map(|copy| (&copy.path, &copy.body)).collect();
    let given_copies = serde_json::to_vec(&given_copies).expect("BUG: paths and texts are plain data");
    replace_file(&record, &given_copies).map_err(CopyError::of(&record))
}

/// Compares the copies with the content that [`write()`] gave them, and saves the changed ones. After that they can be
/// removed from the worktree.
pub fn collect(dir: &AttemptDir, worktree: &Path) -> Result<(), CopyError> {
    let record = dir.copies();
    let given_copies: BTreeMap<String, String> = match read_json(&record) {
        Ok(given_copies) => given_copies.unwrap_or_default(),
        Err(error) => return Err(CopyError::of(&record)(error)),
    };
    let edits_record = dir.copy_edits();
    if !given_copies.is_empty() && !edits_record.exists() {
        let mut edits = BTreeMap::new();
        for (path, base) in &given_copies {
            let current = read_copy(worktree, Path::new(path));
            let bytes = current.as_ref().map(|current| current.as_deref()).map_err(Clone::clone);
            let Some(edit) = CopyEdit::between(base, bytes) else { continue };
            save_edited(dir, worktree, Path::new(path)).map_err(CopyError::of(Path::new(path)))?;
            edits.insert(path, edit);
        }
        let edits = serde_json::to_vec(&edits).expect("BUG: an edit is plain data");
        replace_file(&edits_record, &edits).map_err(CopyError::of(&edits_record))?;
    }
    Ok(())
}

/// Returns how the copies of an ended attempt were changed, by path, as [`collect`] has recorded it.
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

fn write_copy(worktree: &Path, path: &Path, body: &str) -> io::Result<()> {
    let (parent, name) = open_parent(worktree, path, true)?;
    // Replaces what is there instead of opening it: it may be a symbolic link.
    unlink(&parent, name)?;
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let file = rustix::fs::openat(&parent, name, flags, Mode::from_raw_mode(0o644))?;
    File::from(file).write_all(body.as_bytes())
}

fn open_copy(worktree: &Path, path: &Path) -> Result<Option<(File, u64)>, String> {
    match open_parent(worktree, path, false) {
        Ok((parent, name)) => open_agent_file_at(parent.as_fd(), Path::new(name)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error.to_string()),
    }
}

fn read_copy(worktree: &Path, path: &Path) -> Result<Option<Vec<u8>>, String> {
    open_copy(worktree, path)?.map(|(file, size)| read_whole(file, size)).transpose()
}

/// Saves what the agent left: the whole file, or the beginning of one that is too large.
fn save_edited(dir: &AttemptDir, worktree: &Path, path: &Path) -> io::Result<()> {
    let Ok(Some((file, _))) = open_copy(worktree, path) else { return Ok(()) };
    let saved = dir.edited_copies().join(path);
    fs::create_dir_all(saved.parent().ok_or(io::ErrorKind::InvalidInput)?)?;
    io::copy(&mut file.take(MAX_REPORT_SIZE), &mut File::create(saved)?)?;
    Ok(())
}

/// Removes a copy from the worktree, if it is there.
pub(crate) fn remove(worktree: &Path, path: &str) -> io::Result<()> {
    match open_parent(worktree, Path::new(path), false) {
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
fn open_parent<'p>(worktree: &Path, path: &'p Path, create: bool) -> io::Result<(OwnedFd, &'p OsStr)> {
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
    let mut dir = rustix::fs::open(worktree, flags, Mode::empty())?;
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
