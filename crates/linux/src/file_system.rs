//! File systems: identity of files, network file systems, free space, permissions.

use std::fs::Metadata;
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

/// Identifies a file for as long as it exists.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FileIdentity {
    device: u64,
    inode: u64,
}

impl FileIdentity {
    pub fn of(metadata: &Metadata) -> Self {
        Self { device: metadata.dev(), inode: metadata.ino() }
    }
}

/// Returns the name of the network file system that holds `path`, or `None` on a local one.
pub fn network_file_system(path: &Path) -> io::Result<Option<&'static str>> {
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

/// Fails if this process may not write to `path`, because of its mode or because it is mounted read-only.
pub fn check_writable(path: &Path) -> io::Result<()> {
    Ok(rustix::fs::access(path, rustix::fs::Access::WRITE_OK)?)
}

/// Whether the disk that holds `path` has no free blocks, or no free inodes if it counts them.
pub fn is_full(path: &Path) -> bool {
    rustix::fs::statvfs(path).is_ok_and(|disk| {
        (disk.f_blocks > 0 && disk.f_bavail == 0) || (disk.f_files > 0 && disk.f_favail == 0)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_local_directory_is_not_on_a_network_file_system() {
        assert_eq!(network_file_system(Path::new("/proc")).unwrap(), None);
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
