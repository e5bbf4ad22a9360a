//! Files that appear with their complete content, because readers may open them at any time.

use std::fs::{self, File};
use std::io::{self, Write};
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use rustix::fs::{FallocateFlags, FlockOperation};
use rustix::io::Errno;
use tempfile::NamedTempFile;

/// Replaces a file of an attempt by a rename. Does not sync: a power failure interrupts the attempt in any case.
pub fn replace_file(path: &Path, bytes: &[u8]) -> io::Result<()> {
    write_temporary(path, bytes)?.persist(path)?;
    Ok(())
}

/// Replaces a file that is read after a power failure, too: without the sync it could be empty.
pub fn replace_synced_file(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let temp = write_temporary(path, bytes)?;
    temp.as_file().sync_all()?;
    temp.persist(path)?;
    Ok(())
}

/// Creates a file that is read after a power failure, too. Returns `false` if the path exists.
pub fn create_synced_file(path: &Path, bytes: &[u8]) -> io::Result<bool> {
    let temp = write_temporary(path, bytes)?;
    temp.as_file().sync_all()?;
    match temp.persist_noclobber(path) {
        Ok(_) => Ok(true),
        Err(error) if error.error.kind() == io::ErrorKind::AlreadyExists => Ok(false),
        Err(error) => Err(error.error),
    }
}

/// Replaces the content of a file that others may read: keeps its mode, and gives a new file the default one.
pub fn replace_file_keeping_mode(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let mode = match fs::metadata(path) {
        Ok(existing) => Some(existing.permissions()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => None,
        Err(error) => return Err(error),
    };
    let dir = path.parent().ok_or(io::ErrorKind::InvalidInput)?;
    // The umask applies to a new file.
    let default = fs::Permissions::from_mode(0o666);
    let mut temp = tempfile::Builder::new().prefix(".new-").permissions(default).tempfile_in(dir)?;
    temp.write_all(bytes)?;
    if let Some(mode) = mode {
        temp.as_file().set_permissions(mode)?;
    }
    temp.as_file().sync_all()?;
    temp.persist(path)?;
    Ok(())
}

/// Makes `path` a symbolic link to `target`, atomically.
pub fn replace_link(path: &Path, target: &Path) -> io::Result<()> {
    let link = |path: &Path| std::os::unix::fs::symlink(target, path);
    match link(path) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
        linked => return linked,
    }
    let dir = path.parent().unwrap_or(Path::new("."));
    tempfile::Builder::new().prefix(".link-").make_in(dir, link)?.persist(path)?;
    Ok(())
}

/// A file with reserved disk space, to be written when the disk may be full.
#[derive(Debug)]
pub(crate) struct ReservedFile(NamedTempFile);

/// Enough for an exit record; a block on most disks.
const RESERVED_SIZE: u64 = 4096;

impl ReservedFile {
    /// Reserves space for a file in this directory.
    pub(crate) fn in_dir(dir: &Path) -> io::Result<Self> {
        let temp = tempfile::Builder::new().prefix(".reserved-").tempfile_in(dir)?;
        match rustix::fs::fallocate(&temp, FallocateFlags::empty(), 0, RESERVED_SIZE) {
            // Not every file system can reserve space.
            Ok(()) | Err(Errno::OPNOTSUPP | Errno::NOSYS) => Ok(Self(temp)),
            Err(error) => Err(error.into()),
        }
    }

    /// Writes the content and renames the file to `path`.
    pub(crate) fn persist(mut self, path: &Path, bytes: &[u8]) -> io::Result<()> {
        self.0.write_all(bytes)?;
        self.0.as_file().set_len(bytes.len().try_into().map_err(io::Error::other)?)?;
        self.0.persist(path)?;
        Ok(())
    }
}

/// Creates `path` with its content, or returns `None` if it exists. The file is written under another name and then
/// linked, so it is never visible without its content, unlike with `O_EXCL`. The returned file is locked until it is
/// dropped or its process ends, so that other processes can tell whether its creator is alive.
pub(crate) fn create_locked(path: &Path, bytes: &[u8]) -> io::Result<Option<File>> {
    let temp = write_temporary(path, bytes)?;
    rustix::fs::flock(temp.as_file(), FlockOperation::NonBlockingLockExclusive)?;
    match fs::hard_link(temp.path(), path) {
        Ok(()) => Ok(Some(temp.into_file())),
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(None),
        Err(error) => Err(error),
    }
}

/// Whether the process that created the file with [`create_locked`] still has it open.
pub(crate) fn is_locked(path: &Path) -> io::Result<bool> {
    match rustix::fs::flock(File::open(path)?, FlockOperation::NonBlockingLockShared) {
        Ok(()) => Ok(false),
        Err(Errno::WOULDBLOCK) => Ok(true),
        Err(error) => Err(error.into()),
    }
}

/// Writes a temporary file in the same directory, accessible to its owner only.
fn write_temporary(path: &Path, bytes: &[u8]) -> io::Result<NamedTempFile> {
    let dir = path.parent().ok_or(io::ErrorKind::InvalidInput)?;
    let mut temp = tempfile::Builder::new().prefix(".new-").tempfile_in(dir)?;
    temp.write_all(bytes)?;
    Ok(temp)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reserved_file_has_the_length_of_its_content() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("exit.json");
        let reserved = ReservedFile::in_dir(dir.path()).unwrap();
        assert!(!path.exists());
        reserved.persist(&path, b"short").unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"short");
        drop(ReservedFile::in_dir(dir.path()).unwrap());
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1, "dropping a reserved file deletes it");
    }

    #[test]
    fn a_file_is_created_once_and_stays_locked_while_its_creator_has_it_open() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("claim");
        let locked = create_locked(&path, b"first").unwrap().expect("the file did not exist");
        assert!(create_locked(&path, b"second").unwrap().is_none());
        assert_eq!(fs::read(&path).unwrap(), b"first");
        assert!(is_locked(&path).unwrap());
        drop(locked);
        assert!(!is_locked(&path).unwrap());
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1, "no temporary file is left");
    }
}
