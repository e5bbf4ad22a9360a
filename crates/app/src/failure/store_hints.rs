//! Codes and hints for a store that cannot be used.

use linux::ProcessInfo;
use store::{NatsConnectError, Unavailable};

use super::{Code, Failure};

/// Says what to do about a server that cannot be used as a store.
fn connect_hint(fault: &NatsConnectError) -> &'static str {
    match fault {
        NatsConnectError::TooOld(_) => "upgrade the server; 2.12 or later is recommended",
        NatsConnectError::NoJetStream => "enable JetStream, then run the same command again; nothing is lost",
        NatsConnectError::UnreadableFile { .. } => "run `callboard config` to see where this was set",
        NatsConnectError::Unauthorized(_) | NatsConnectError::SigningFailed(_) => {
            "set NATS_USER and NATS_PASSWORD, NATS_TOKEN, NATS_CREDS or NATS_NKEY, or the same keys in `[store]`"
        }
        NatsConnectError::NoTls(_) => "write `nats://` instead of `tls://`, or give the server a certificate",
        NatsConnectError::TlsFailed(_) => {
            "set NATS_CA to the certificate authority of the server, and NATS_CERT and NATS_KEY if it asks for a client certificate; or the same keys in `[store]`"
        }
        NatsConnectError::UnknownHost(_) => {
            "check the host name; run `callboard config` to see where it was set"
        }
        NatsConnectError::TimedOut(_) => {
            "check that the server runs and that no firewall blocks it, then run the same command again; nothing is lost"
        }
        NatsConnectError::Other(_) => {
            "start the server with its data directory (`nats-server -js -sd DIR`), then run the same command again; nothing is lost"
        }
    }
}

impl Failure {
    /// Adds the code and the hint for a store that cannot be used.
    pub(super) fn with_store_hint(self, unavailable: &Unavailable) -> Self {
        match unavailable {
            Unavailable::Gone { .. } => {
                self.code(Code::StoreGone).hint("run `callboard doctor` to find copies of it and the next command")
            }
            Unavailable::Upgraded { .. } => self.code(Code::Newer),
            Unavailable::Damaged { .. } => self.code(Code::Damaged),
            Unavailable::Full { .. } => self.disk_full(),
            Unavailable::NotWritable { .. } => {
                self.hint("make it writable; `callboard ls`, `show` and `log` work without")
            }
            Unavailable::Held { holder: Some(ProcessInfo { pid, stopped: true, .. }), .. } => {
                self.code(Code::EngineLockHeld).hint(format!(
                    "run `kill -CONT {pid}` to continue it, then run the same command again; nothing is lost"
                ))
            }
            Unavailable::Held { .. } => self
                .code(Code::EngineLockHeld)
                .hint("run the same command again when that process has exited; nothing is lost"),
            Unavailable::WriteLost { .. } | Unavailable::FalseConflict { .. } => {
                self.hint("run the same command again when the store answers; nothing is lost")
            }
            Unavailable::Server { source, .. } => {
                // Drop the code that was set by the kind of the error: that of a host name that cannot be resolved looks like a
                // resource limit.
                let without_code = Self { code: None, ..self };
                let hint = match source.downcast_ref::<NatsConnectError>() {
                    Some(fault) => connect_hint(fault),
                    None => "run the same command again when the servers answer; nothing is lost",
                };
                without_code.code(Code::NoServer).hint(hint)
            }
            Unavailable::StreamDeleted { .. } => self.code(Code::NoStream).hint(
                "run `callboard recover` to see what it contained and what can be restored; nothing was created in its place",
            ),
            Unavailable::StoreReplaced { .. } => self
                .code(Code::NoStream)
                .hint("restart the server with its former data directory (`nats-server -js -sd DIR`), then run `callboard resume`")
                .hint("nothing is lost: agents continue, and nothing was written to the other store"),
            Unavailable::BadJournal { .. } => self
                .code(Code::Damaged)
                .hint("run `callboard recover` to move the message that callboard did not write out of the journal; other runs are not affected"),
            Unavailable::NewerWriter { .. } => self
                .code(Code::Newer)
                .hint("use that version for this run; nothing was changed, and other runs are not affected"),
            Unavailable::Io { .. } | Unavailable::Database { .. } => self,
        }
    }

    /// Adds the code and the hint for a full disk, unless the failure has them.
    pub(super) fn disk_full(self) -> Self {
        if self.code == Some(Code::DiskFull) {
            return self;
        }
        self.code(Code::DiskFull).hint(
            "free space on that disk, then run `callboard resume`; nothing is lost, and agents continue",
        )
    }
}
