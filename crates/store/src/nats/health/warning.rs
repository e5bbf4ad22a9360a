//! Problems of servers and streams that do not keep the store from opening.

use std::time::Duration;

/// A warning for the operator of a store.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NatsWarning {
    /// The server works; a newer one is recommended.
    OldServer { version: String },
    /// The stream has fewer replicas than configured. A single server cannot have more than one.
    FewerReplicas { stream: String, wanted: usize, found: usize, single_server: bool },
    /// The maximum age of the lease stream differs from the configured lease. That of the stream is used.
    LeaseDiffers { stream: String, wanted: Duration, found: Duration },
    /// A setting is not the one with which Callboard creates this stream. The stream is used as it is.
    ConfigDiffers { stream: String, setting: &'static str, found: String },
    /// The stream was deleted. It is not created again, and runs that need it cannot continue.
    StreamDeleted { stream: String },
}

impl NatsWarning {
    /// Says which failures a stream survives that has fewer than the configured replicas, so at most four.
    #[must_use]
    pub fn failure_tolerance(replicas: usize) -> &'static str {
        // A majority of the replicas must be up.
        match replicas.saturating_sub(1) / 2 {
            0 => "does not survive the loss of a server",
            _ => "survives the loss of one server, not of two",
        }
    }
}

impl std::fmt::Display for NatsWarning {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::OldServer { version } => {
                write!(f, "the NATS server is version {version}; 2.12 or later is recommended")
            }
            Self::FewerReplicas { stream, wanted, found, .. } => {
                let tolerance = Self::failure_tolerance(*found);
                write!(f, "stream `{stream}` has {found} of {wanted} replicas: it {tolerance}")
            }
            Self::LeaseDiffers { stream, wanted, found } => {
                let (wanted, found) = (wanted.as_secs_f64(), found.as_secs_f64());
                write!(f, "leases last {found} s, as set in stream `{stream}`, not {wanted} s as configured")
            }
            Self::ConfigDiffers { stream, setting, found } => {
                write!(f, "stream `{stream}` has an unexpected {setting}: {found}")
            }
            Self::StreamDeleted { stream } => {
                write!(f, "stream `{stream}` was deleted: runs whose documents it held cannot continue")
            }
        }
    }
}
