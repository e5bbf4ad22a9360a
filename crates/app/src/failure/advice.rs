//! What a store that cannot be used now is called, and what to do about it.

use store::{NatsConnectError, ProcessInfo, Unavailable};

use super::{Code, Failure};

/// What to do about a server that cannot be used as a store.
fn connecting(fault: &NatsConnectError) -> &'static str {
    match fault {
        NatsConnectError::TooOld(_) => "start a newer one; 2.12 or later is recommended",
        NatsConnectError::NoJetStream => "nothing is lost: type the same again when it has JetStream",
        NatsConnectError::UnreadableFile { .. } => "`callboard config` shows where this was set",
        NatsConnectError::Unauthorized(_) | NatsConnectError::SigningFailed(_) => {
            "NATS_USER and NATS_PASSWORD, NATS_TOKEN, NATS_CREDS or NATS_NKEY, or the same in `[store]`, say who you are"
        }
        NatsConnectError::NoTls(_) => "write `nats://` instead of `tls://`, or give the server a certificate",
        NatsConnectError::TlsFailed(_) => {
            "NATS_CA names a file with the authority to trust, NATS_CERT and NATS_KEY show who we are; or the same in `[store]`"
        }
        NatsConnectError::UnknownHost(_) => {
            "is it spelt as its machine is called? `callboard config` shows where it was set"
        }
        NatsConnectError::TimedOut(_) => {
            "it is stopped, overloaded or behind a wall, or another program is there; nothing is lost: type the same again when it answers"
        }
        NatsConnectError::Other(_) => {
            "`nats-server -js -sd DIR` starts one, with the directory it had; nothing is lost: type the same again when it answers"
        }
    }
}

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
            Unavailable::Held { holder: Some(ProcessInfo { pid, stopped: true, .. }), .. } => self
                .code(Code::Held)
                .hint(format!("`kill -CONT {pid}` lets it go on; nothing is lost, type the same again then")),
            Unavailable::Held { .. } => {
                self.code(Code::Held).hint("nothing is lost: type the same again when it has ended")
            }
            Unavailable::Lost { .. } | Unavailable::Unmoved { .. } => {
                self.hint("nothing is lost: type the same again when the store answers")
            }
            Unavailable::Server { source, .. } => {
                // A name that cannot be looked up has no kind of its own, and passes for a shortage.
                let without = Self { code: None, ..self };
                let hint = match source.downcast_ref::<NatsConnectError>() {
                    Some(fault) => connecting(fault),
                    None => "nothing is lost: type the same again when the servers answer",
                };
                without.code(Code::NoServer).hint(hint)
            }
            Unavailable::NoStream { .. } => self.code(Code::NoStream).hint(
                "nothing was put in its place; `callboard recover` tells what was in it and what can be brought back",
            ),
            Unavailable::OtherStore { .. } => self
                .code(Code::NoStream)
                .hint("was it started with another directory? start it with the one it had (`nats-server -js -sd DIR`); then `callboard resume` goes on with a run")
                .hint("nothing is lost: agents work on, and nothing was written to the other store"),
            Unavailable::NotUnderstood { .. } => self
                .code(Code::Damaged)
                .hint("`callboard recover` sets aside what somebody else has put there, and tells what else is wrong; other runs go on"),
            Unavailable::NewerWriter { .. } => {
                self.code(Code::Newer).hint("it was left as it is; use that version for this run, other runs go on")
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
