//! What is not as it should be with the servers and their streams, though they can be used.

use std::time::Duration;

/// What somebody who runs the store should know.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NatsWarning {
    /// The server works, a newer one works better.
    OldServer { version: String },
    /// The loss of one server is the loss of what it keeps. One that is alone cannot have more.
    FewerReplicas { stream: String, wanted: usize, found: usize, single_server: bool },
    /// Whoever made the stream settled how long a lease is; here it is set to something else.
    LeaseDiffers { stream: String, wanted: Duration, found: Duration },
    /// Something else than we would have set. It is used as it is.
    ConfigDiffers { stream: String, setting: &'static str, found: String },
    /// Somebody deleted it. It is not made again; what needs it cannot go on.
    StreamDeleted { stream: String },
}

impl NatsWarning {
    /// What the loss of servers means for what is kept so many times.
    #[must_use]
    pub fn failure_tolerance(replicas: usize) -> &'static str {
        // More than half of them have to be there.
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
                write!(
                    f,
                    "a lease ends after {found} s, as stream `{stream}` says, not after {wanted} s as it is set here"
                )
            }
            Self::ConfigDiffers { stream, setting, found } => {
                write!(f, "stream `{stream}` is not as we make it: its {setting} is {found}")
            }
            Self::StreamDeleted { stream } => {
                write!(f, "stream `{stream}` was deleted: the runs whose documents it kept cannot go on")
            }
        }
    }
}
