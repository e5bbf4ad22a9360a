//! Small file systems, for [isolated](crate::isolated()) tests.

use std::fs::{self, File};
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;

/// A mount over a directory, until it is dropped: a tmpfs, or the directory itself.
#[derive(Debug)]
pub struct Disk {
    root: PathBuf,
}

impl Disk {
    /// Creates the directory and mounts an empty tmpfs there, with options such as `size=2m` or `nr_inodes=40`.
    #[track_caller]
    pub fn mount(root: impl AsRef<Path>, options: &str) -> Self {
        let root = root.as_ref().to_owned();
        fs::create_dir_all(&root).expect("a directory can be made");
        mount(&["-t", "tmpfs", "-o", &format!("{options},mode=0700"), "tmpfs"], &root);
        Self { root }
    }

    /// Mounts the directory over itself, so that it can be made read-only.
    #[track_caller]
    pub fn bind_mount(root: impl AsRef<Path>) -> Self {
        let root = root.as_ref().to_owned();
        mount(&["--bind", root.to_str().expect("our paths are UTF-8")], &root);
        Self { root }
    }

    #[track_caller]
    pub fn make_read_only(&self) {
        mount(&["-o", "remount,bind,ro"], &self.root);
    }

    #[track_caller]
    pub fn make_writable(&self) {
        mount(&["-o", "remount,bind,rw"], &self.root);
    }

    /// Uses all the free space. Can be called again after some was freed.
    #[track_caller]
    pub fn fill(&self) {
        let ballast = File::options().create(true).append(true).open(self.ballast());
        let mut ballast = ballast.expect("a file can be made");
        for block in [1 << 16, 1 << 12, 1] {
            while ballast.write_all(&vec![b'.'; block]).is_ok() {}
        }
    }

    /// Uses all the free space but this many bytes.
    #[track_caller]
    pub fn fill_but(&self, room: u64) {
        self.fill();
        let ballast = File::options().write(true).open(self.ballast()).expect("it was just made");
        let length = ballast.metadata().expect("as above").len();
        ballast.set_len(length.checked_sub(room).expect("there was room")).expect("a file can be cut");
    }

    /// Uses all inodes: a disk may have free space and no inode.
    pub fn use_all_inodes(&self) {
        let names = self.root.join("names");
        fs::create_dir(&names).expect("there is one left");
        (0..).take_while(|number| File::create(names.join(format!("{number}"))).is_ok()).for_each(drop);
    }

    /// Frees what [`fill`](Self::fill) or [`use_all_inodes`](Self::use_all_inodes) has used.
    pub fn free(&self) {
        let freed = fs::remove_file(self.ballast()).or_else(|_| fs::remove_dir_all(self.root.join("names")));
        freed.expect("the disk was filled");
    }

    /// The file that takes up the space.
    fn ballast(&self) -> PathBuf {
        self.root.join("ballast")
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        // Lazily, because a process may still have a file open there.
        let _ = Command::new("umount").arg("--lazy").arg(&self.root).output();
    }
}

#[track_caller]
fn mount(arguments: &[&str], root: &Path) {
    let output = Command::new("mount").args(arguments).arg(root).output().expect("there is mount");
    assert!(output.status.success(), "mount: {}", String::from_utf8_lossy(&output.stderr));
}
