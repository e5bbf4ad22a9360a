//! Files that appear whole or not at all, for readers may look at any run_at.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::Path;

use rustix::fs::{FallocateFlags, FlockOperation};
use rustix::io::Errno;
use tempfile::NamedTempFile;

/// Replaces `path` by `bytes` with a rename. Not synced: what a power cut takes away counts as an interrupted try.
pub fn replace(path: &Path, bytes: &[u8]) -> io::Result<()> {
    beside(path, bytes)?.persist(path)?;
    Ok(())
}

/// A file that will be written when the disk may be full: the room it needs is taken before.
#[derive(Debug)]
pub(crate) struct Reserved(NamedTempFile);

/// Enough for every file we reserve room for; a block on most disks.
const ROOM: u64 = 4096;

impl Reserved {
    /// Takes the room for a file in this directory.
    pub(crate) fn in_dir(dir: &Path) -> io::Result<Self> {
        let temp = tempfile::Builder::new().prefix(".kept-").tempfile_in(dir)?;
        match rustix::fs::fallocate(&temp, FallocateFlags::empty(), 0, ROOM) {
            // Not every file system can promise room.
            Ok(()) | Err(Errno::OPNOTSUPP | Errno::NOSYS) => Ok(Self(temp)),
            Err(error) => Err(error.into()),
        }
    }

    /// Becomes `path`, with these bytes, by a rename.
    pub(crate) fn become_file(mut self, path: &Path, bytes: &[u8]) -> io::Result<()> {
        self.0.write_all(bytes)?;
        self.0.as_file().set_len(bytes.len().try_into().map_err(io::Error::other)?)?;
        self.0.persist(path)?;
        Ok(())
    }
}

/// Creates `path` unless it exists (then `None`). Like `O_EXCL`, but with its content from the first run_at: the file
/// is written under another name and then linked. The returned file holds a kernel lock until it is dropped or its
/// process dies, so that anyone can tell whether the creator still lives.
pub(crate) fn create_locked(path: &Path, bytes: &[u8]) -> io::Result<Option<File>> {
    let temp = beside(path, bytes)?;
    rustix::fs::flock(temp.as_file(), FlockOperation::NonBlockingLockExclusive)?;
    match fs::hard_link(temp.path(), path) {
        Ok(()) => Ok(Some(temp.into_file())),
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(None),
        Err(error) => Err(error),
    }
}

/// Whether whoever created the file with [`create_locked`] still holds it open.
pub(crate) fn is_locked(path: &Path) -> io::Result<bool> {
    match rustix::fs::flock(File::open(path)?, FlockOperation::NonBlockingLockShared) {
        Ok(()) => Ok(false),
        Err(Errno::WOULDBLOCK) => Ok(true),
        Err(error) => Err(error.into()),
    }
}

/// A temporary file in the same directory, readable by its owner only.
fn beside(path: &Path, bytes: &[u8]) -> io::Result<NamedTempFile> {
    let dir = path.parent().ok_or(io::ErrorKind::InvalidInput)?;
    let mut temp = tempfile::Builder::new().prefix(".new-").tempfile_in(dir)?;
    temp.write_all(bytes)?;
    Ok(temp)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn room_that_was_kept_becomes_a_file_of_its_own_length() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("exit.json");
        let kept = Reserved::in_dir(dir.path()).unwrap();
        assert!(!path.exists());
        kept.become_file(&path, b"short").unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"short");
        drop(Reserved::in_dir(dir.path()).unwrap());
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1, "room that is not needed is given back");
    }

    #[test]
    fn only_the_first_creates_and_its_lock_tells_that_it_lives() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("claim");
        let held = create_locked(&path, b"first").unwrap().expect("nobody was before us");
        assert!(create_locked(&path, b"second").unwrap().is_none());
        assert_eq!(fs::read(&path).unwrap(), b"first");
        assert!(is_locked(&path).unwrap());
        drop(held);
        assert!(!is_locked(&path).unwrap());
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1, "no temporary file is left");
    }
}
