//! Linux-specific code: `/proc`, inotify, file systems. Everything else in this crate is portable to any Unix.

mod open_files;
mod process_identity;
mod process_info;

use std::ffi::OsString;
use std::fs::Metadata;
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

use inotify::{Inotify, WatchMask};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

pub use open_files::{HeldLock, held_locks, inotify_instances};
pub(crate) use open_files::{holds_lock, lock_holder};
pub(crate) use process_identity::ProcessIdentity;
pub use process_info::ProcessInfo;

/// Identifies a file for as long as it exists.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct FileIdentity {
    device: u64,
    inode: u64,
}

impl FileIdentity {
    pub(crate) fn of(metadata: &Metadata) -> Self {
        Self { device: metadata.dev(), inode: metadata.ino() }
    }
}

/// Returns the user whose rights this process has.
pub(crate) fn effective_user() -> u32 {
    rustix::process::geteuid().as_raw()
}

/// Returns the name of this machine among those that share a store: `CALLBOARD_HOST`, or the system's host name.
///
/// It must be unique and stable, because attempts belong to the host with this name. A container that gets a new host
/// name at every start needs the variable.
pub fn host_name() -> String {
    host_name_from(std::env::var_os("CALLBOARD_HOST"))
}

fn host_name_from(variable: Option<OsString>) -> String {
    let configured = variable.map(|name| name.to_string_lossy().trim().to_owned());
    let configured = configured.filter(|name| !name.is_empty() && !name.contains(char::is_control));
    configured.unwrap_or_else(|| rustix::system::uname().nodename().to_string_lossy().into_owned())
}

/// Returns the name of the network file system that holds `path`, or `None` on a local one.
pub(crate) fn network_file_system(path: &Path) -> io::Result<Option<&'static str>> {
    let statfs = rustix::fs::statfs(path)?;
    Ok(network_magic(statfs.f_type as u32))
}

/// Recognises the magic numbers of `statfs(2)`. FUSE counts as a network file system because of sshfs; the magic number
/// does not tell what is behind it.
fn network_magic(magic: u32) -> Option<&'static str> {
    Some(match magic {
        0x0000_6969 => "NFS",
        0x0000_517b | 0xfe53_4d42 => "SMB",
        0xff53_4d42 => "CIFS",
        0x0102_1997 => "9p",
        0x6573_5546 => "FUSE",
        0x5346_414f | 0x6b41_4653 => "AFS",
        0x7375_7245 => "Coda",
        0x0000_564c => "NCP",
        0x00c3_6400 => "Ceph",
        0x0bd0_0bd0 => "Lustre",
        0x4750_4653 => "GPFS",
        0x0116_1970 => "GFS2",
        0x7461_636f => "OCFS2",
        0x786f_4256 => "VirtualBox shared folder",
        _ => return None,
    })
}

/// Fires whenever a process closes a file that it had open for writing, and when the file or its directory is removed
/// or renamed.
///
/// The kernel closes the files of a killed process, too, so every writer triggers it.
#[derive(Debug)]
pub(crate) struct FileWatch(AsyncFd<Inotify>);

impl FileWatch {
    /// Subscribes to every close after this call.
    pub(crate) fn subscribe(file: &Path) -> io::Result<Self> {
        let inotify = Inotify::init()?;
        let mask = WatchMask::CLOSE_WRITE | WatchMask::ATTRIB | WatchMask::DELETE_SELF | WatchMask::MOVE_SELF;
        inotify.watches().add(file, mask)?;
        // Renaming the directory causes no event on the file. Renaming a directory above is noticed at the next write.
        if let Some(directory) = file.parent() {
            inotify.watches().add(directory, WatchMask::MOVE_SELF | WatchMask::DELETE_SELF)?;
        }
        #[expect(
            deprecated,
            reason = "its successor is `unsafe`: the caller must guarantee that Inotify owns its descriptor, which it does"
        )]
        let readiness = AsyncFd::with_interest(inotify, Interest::READABLE)?;
        Ok(Self(readiness))
    }

    /// Waits for an event since the last call. Several events count as one. Cancel-safe.
    pub(crate) async fn wait(&mut self) -> io::Result<()> {
        let mut buffer = [0; 4096];
        let mut guard = self.0.readable_mut().await?;
        loop {
            // The content of the events does not matter: each of them, even an overflow, means "read again".
            match guard.get_inner_mut().read_events(&mut buffer) {
                Ok(_events) => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                Err(error) => return Err(error),
            }
        }
        guard.clear_ready();
        Ok(())
    }
}

/// Fails if this process may not write to `path`, because of its mode or because it is mounted read-only.
pub(crate) fn check_writable(path: &Path) -> io::Result<()> {
    Ok(rustix::fs::access(path, rustix::fs::Access::WRITE_OK)?)
}

/// Whether the disk that holds `path` has no free blocks, or no free inodes if it counts them.
pub(crate) fn is_full(path: &Path) -> bool {
    rustix::fs::statvfs(path).is_ok_and(|disk| {
        (disk.f_blocks > 0 && disk.f_bavail == 0) || (disk.f_files > 0 && disk.f_favail == 0)
    })
}

/// Whether a process with this pid exists on this machine.
pub(crate) fn is_alive(pid: u32) -> bool {
    Path::new("/proc").join(pid.to_string()).exists()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_local_directory_is_not_on_a_network_file_system() {
        assert_eq!(network_file_system(Path::new("/proc")).unwrap(), None);
    }

    #[test]
    fn the_host_name_is_the_variable_or_the_name_of_the_system() {
        let system = host_name_from(None);
        assert!(!system.is_empty());
        assert_eq!(host_name_from(Some(" a ".into())), "a");
        for unusable in ["", "  ", "two\nlines"] {
            assert_eq!(host_name_from(Some(unusable.into())), system);
        }
    }

    /// The numbers are from `linux/magic.h`, or from the source of file systems that are not in it.
    #[test]
    fn network_file_systems_are_recognised_by_their_magic_number() {
        let network = [
            (0x0000_6969, "NFS"),
            (0x0000_517b, "SMB"),
            (0xfe53_4d42, "SMB"),
            (0xff53_4d42, "CIFS"),
            (0x0102_1997, "9p"),
            (0x6573_5546, "FUSE"),
            (0x5346_414f, "AFS"),
            (0x6b41_4653, "AFS"),
            (0x7375_7245, "Coda"),
            (0x0000_564c, "NCP"),
            (0x00c3_6400, "Ceph"),
            (0x0bd0_0bd0, "Lustre"),
            (0x4750_4653, "GPFS"),
            (0x0116_1970, "GFS2"),
            (0x7461_636f, "OCFS2"),
            (0x786f_4256, "VirtualBox shared folder"),
        ];
        for (magic, name) in network {
            assert_eq!(network_magic(magic), Some(name));
        }
        let (ext4, xfs, btrfs, tmpfs) = (0xef53, 0x5846_5342, 0x9123_683e, 0x0102_1994);
        let (overlay, f2fs, zfs, bcachefs, ecryptfs) =
            (0x794c_7630, 0xf2f5_2010, 0x2fc1_2fc1, 0xca45_1a4e, 0xf15f);
        for magic in [ext4, xfs, btrfs, tmpfs, overlay, f2fs, zfs, bcachefs, ecryptfs] {
            assert_eq!(network_magic(magic), None, "{magic:x}");
        }
    }
}
