//! What a store that cannot be used now is called, and what to do about it.

use store::{Holder, Unavailable};

use super::{Code, Failure};

impl Failure {
    pub(super) fn advised(self, unavailable: &Unavailable) -> Self {
        match unavailable {
            Unavailable::Gone { .. } => {
                self.code(Code::Gone).hint("`callboard doctor` tells what is left of it and what to type")
            }
            Unavailable::Upgraded { .. } => self.code(Code::Newer),
            Unavailable::Damaged { .. } => self.code(Code::Damaged),
            Unavailable::Full { .. } => self.for_want_of_room(),
            Unavailable::NotWritable { .. } => self
                .hint("`callboard ls`, `show` and `log` can look all the same; make it writable to do more"),
            Unavailable::Held { holder: Some(Holder { pid, stopped: true, .. }), .. } => self
                .code(Code::Held)
                .hint(format!("`kill -CONT {pid}` lets it go on; nothing is lost, type the same again then")),
            Unavailable::Held { .. } => {
                self.code(Code::Held).hint("nothing is lost: type the same again when it has ended")
            }
            Unavailable::Server { .. } | Unavailable::Lost { .. } | Unavailable::Unmoved { .. } => {
                self.hint("nothing is lost: type the same again when the store answers")
            }
            Unavailable::NoStream { .. } => {
                self.hint("nothing was put in its place; bring it back from a copy, then type the same again")
            }
            Unavailable::Io { .. } | Unavailable::Database { .. } => self,
        }
    }

    /// The disk is full: said once, whoever notices it first.
    pub(super) fn for_want_of_room(self) -> Self {
        if self.code == Some(Code::DiskFull) {
            return self;
        }
        self.code(Code::DiskFull)
            .hint("nothing is lost: agents work on; make room on that disk, then `callboard resume` goes on")
    }
}
