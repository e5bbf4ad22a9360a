//! What depends on the operating system. Everything else in this crate is portable to any Unix.

#[path = "linux/holder.rs"]
mod holder;
#[path = "linux/open_files.rs"]
mod open_files;
#[path = "linux/process.rs"]
mod process;

use std::ffi::OsString;
use std::fs::Metadata;
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

use inotify::{Inotify, WatchMask};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

pub use holder::Holder;
pub use open_files::{HeldLock, held_locks, inotify_instances};
pub(crate) use open_files::{holder, holds_lock};
pub(crate) use process::Process;

/// Tells two files apart for as long as both exist.
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

/// The user whose rights this process has.
pub(crate) fn effective_user() -> u32 {
    rustix::process::geteuid().as_raw()
}

/// Names this machine among those that share a store: `CALLBOARD_HOST`, or what the system calls itself.
///
/// Attempts are looked for on the host of this name, so it must stay, and no other machine may have it: a container that
/// gets a new name with every start needs the variable.
pub fn host_name() -> String {
    host_named(std::env::var_os("CALLBOARD_HOST"))
}

fn host_named(variable: Option<OsString>) -> String {
    let given = variable.map(|name| name.to_string_lossy().trim().to_owned());
    let given = given.filter(|name| !name.is_empty() && !name.contains(char::is_control));
    given.unwrap_or_else(|| rustix::system::uname().nodename().to_string_lossy().into_owned())
}

/// The name of the network file system that holds `path`, `None` on a local one.
pub(crate) fn network_file_system(path: &Path) -> io::Result<Option<&'static str>> {
    let statfs = rustix::fs::statfs(path)?;
    Ok(network_magic(statfs.f_type as u32))
}

/// Magic numbers of `statfs(2)`. FUSE is among them for sshfs and its like; what else it carries cannot be told.
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

/// Rings whenever somebody who had a file open for writing closes it, and when the file or its directory is
/// taken away.
///
/// The kernel closes the files of a killed process too, so no writer can leave without ringing.
#[derive(Debug)]
pub(crate) struct Wakeup(AsyncFd<Inotify>);

impl Wakeup {
    /// Every close after this call is heard.
    pub(crate) fn hang(file: &Path) -> io::Result<Self> {
        let inotify = Inotify::init()?;
        let mask = WatchMask::CLOSE_WRITE | WatchMask::ATTRIB | WatchMask::DELETE_SELF | WatchMask::MOVE_SELF;
        inotify.watches().add(file, mask)?;
        // A file does not hear that its directory is moved. One further up is noticed at the next change.
        if let Some(directory) = file.parent() {
            inotify.watches().add(directory, WatchMask::MOVE_SELF | WatchMask::DELETE_SELF)?;
        }
        #[expect(
            deprecated,
            reason = "its successor is `unsafe`: the caller promises an owned descriptor, and Inotify owns its own"
        )]
        let readiness = AsyncFd::with_interest(inotify, Interest::READABLE)?;
        Ok(Self(readiness))
    }

    /// Waits until it has rung since the last call. Many rings count as one. May be dropped at any time.
    pub(crate) async fn rung(&mut self) -> io::Result<()> {
        let mut buffer = [0; 4096];
        let mut guard = self.0.readable_mut().await?;
        loop {
            // What the events say does not matter, not even an overflow: each of them means "look again".
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

/// Whether we may write there, by its mode and by how it is mounted; if not, why.
pub(crate) fn writable(path: &Path) -> io::Result<()> {
    Ok(rustix::fs::access(path, rustix::fs::Access::WRITE_OK)?)
}

/// Whether the disk below `path` has no room left: no blocks, or no inodes where they are counted.
pub(crate) fn is_full(path: &Path) -> bool {
    rustix::fs::statvfs(path).is_ok_and(|disk| {
        (disk.f_blocks > 0 && disk.f_bavail == 0) || (disk.f_files > 0 && disk.f_favail == 0)
    })
}

/// Whether a process with this number exists on this machine.
pub(crate) fn is_alive(pid: u32) -> bool {
    Path::new("/proc").join(pid.to_string()).exists()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_local_directory_is_on_no_network() {
        assert_eq!(network_file_system(Path::new("/proc")).unwrap(), None);
    }

    #[test]
    fn a_host_has_the_name_it_was_given_or_the_system_s() {
        let system = host_named(None);
        assert!(!system.is_empty());
        assert_eq!(host_named(Some(" a ".into())), "a");
        for none in ["", "  ", "two\nlines"] {
            assert_eq!(host_named(Some(none.into())), system);
        }
    }

    /// From `linux/magic.h`, and from the sources of those that are not in it.
    #[test]
    fn network_file_systems_are_known_by_their_magic() {
        let refused = [
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
        for (magic, name) in refused {
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
