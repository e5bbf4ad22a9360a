//! What to do about a store that cannot be used now.

use store::{Holder, Unavailable};

use super::Failure;

impl Failure {
    pub(super) fn advised(self, unavailable: &Unavailable) -> Self {
        match unavailable {
            Unavailable::Full { .. } => self.hint(FULL),
            Unavailable::NotWritable { .. } => self
                .hint("`callboard ls`, `show` and `log` can look all the same; make it writable to do more"),
            Unavailable::Held { holder: Some(Holder { pid, stopped: true, .. }), .. } => self
                .hint(format!("`kill -CONT {pid}` lets it go on; nothing is lost, type the same again then")),
            Unavailable::Held { .. } => self.hint("nothing is lost: type the same again when it has ended"),
            Unavailable::Gone { .. }
            | Unavailable::Upgraded { .. }
            | Unavailable::Damaged { .. }
            | Unavailable::Io { .. }
            | Unavailable::Database { .. } => self,
        }
    }
}

/// For every error that says the disk is full.
pub(super) const FULL: &str =
    "nothing is lost: agents work on; make room on that disk, then `callboard resume` goes on";
