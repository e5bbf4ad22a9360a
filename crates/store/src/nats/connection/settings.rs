//! Where the servers are and how to be let in.

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use super::timeouts::Timeouts;

/// What is needed to reach a store on NATS. Its `Debug` shows no secret.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NatsSettings {
    /// `nats://host:port` or `tls://host:port`, without user and password.
    pub servers: Vec<String>,
    pub access: Access,
    pub tls: Tls,
    /// How many servers shall keep each message. Where there are fewer, one does, and [`Note`](super::Note) says so.
    pub replicas: usize,
    /// How long an engine that is not heard of keeps its run.
    pub lease: Duration,
    /// The bucket in which documents are kept that others may read and write.
    pub bucket: String,
    pub timeouts: Timeouts,
}

/// How we are let in.
#[derive(Clone, Default, PartialEq, Eq)]
pub enum Access {
    #[default]
    Anonymous,
    Password {
        user: String,
        password: String,
    },
    Token(String),
    /// A file with a user's JWT and seed, as `nsc` writes it.
    Credentials(PathBuf),
    /// A file with the seed of an nkey.
    Nkey(PathBuf),
}

impl fmt::Debug for Access {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Anonymous => f.write_str("Anonymous"),
            Self::Password { user, .. } => write!(f, "Password({user:?}, …)"),
            Self::Token(_) => f.write_str("Token(…)"),
            Self::Credentials(path) => write!(f, "Credentials({path:?})"),
            Self::Nkey(path) => write!(f, "Nkey({path:?})"),
        }
    }
}

impl Access {
    /// What has to be said to be let in, as it stands in an address, for a process of our own: by a pipe, where nobody else
    /// reads it. `None` where nothing has to be said, or a file says it.
    #[must_use]
    pub fn userinfo(&self) -> Option<String> {
        match self {
            Self::Password { user, password } => {
                Some(format!("{}:{}", percent_encode(user), percent_encode(password)))
            }
            Self::Token(token) => Some(percent_encode(token)),
            Self::Anonymous | Self::Credentials(_) | Self::Nkey(_) => None,
        }
    }

    /// Reads what stands before the `@` of an address: a user and a password, or a token alone.
    #[must_use]
    pub fn from_userinfo(text: &str) -> Self {
        match text.split_once(':') {
            Some((user, password)) => {
                Self::Password { user: percent_decode(user), password: percent_decode(password) }
            }
            None => Self::Token(percent_decode(text)),
        }
    }
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Tls {
    pub required: bool,
    /// Authorities to trust, and then only these; without it those of the system.
    pub roots: Option<PathBuf>,
    /// Our certificate and its key, for servers that want to see one.
    pub identity: Option<(PathBuf, PathBuf)>,
}

/// An address that cannot be used. It is not repeated here: it may hold a password.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NatsSettingsError {
    #[error("no server is named; write nats://host:port")]
    NoServer,
    #[error("the address of server {number} begins with `{scheme}://`; nats:// and tls:// are known")]
    Scheme { number: usize, scheme: String },
    #[error("the address of server {number} is no host and port")]
    Address { number: usize },
    /// A directory of such a name would be made, and nobody would find the runs in it.
    #[error("it looks like the address of a server, and does not begin with nats:// or tls://")]
    MissingScheme,
    #[error("the addresses name different users")]
    TwoUsers,
}

/// How long an engine keeps its run unheard, unless set: more than a server's restart takes, less than a coffee.
const LEASE: Duration = Duration::from_secs(20);

/// The name that the format of these documents prescribes.
const BUCKET: &str = "agent-os-peer-state";

/// The number of servers a cluster of NATS begins with.
const REPLICAS: usize = 3;

impl FromStr for NatsSettings {
    type Err = NatsSettingsError;

    /// Reads `nats://[user:password@]host[:port][,…]`.
    fn from_str(text: &str) -> Result<Self, NatsSettingsError> {
        let mut settings = Self {
            servers: Vec::new(),
            access: Access::default(),
            tls: Tls::default(),
            replicas: REPLICAS,
            lease: LEASE,
            bucket: BUCKET.to_owned(),
            timeouts: Timeouts::default(),
        };
        for (text, number) in text.split(',').map(str::trim).filter(|text| !text.is_empty()).zip(1..) {
            let (scheme, rest) = text.split_once("://").unwrap_or(("nats", text));
            match scheme {
                "nats" => {}
                "tls" => settings.tls.required = true,
                scheme => return Err(NatsSettingsError::Scheme { number, scheme: scheme.to_owned() }),
            }
            let (user, host) = match rest.rsplit_once('@') {
                Some((user, host)) => (Some(user), host),
                None => (None, rest),
            };
            let host = host.trim_end_matches('/');
            let address = format!("{scheme}://{host}");
            if host.is_empty() || address.parse::<async_nats::ServerAddr>().is_err() {
                return Err(NatsSettingsError::Address { number });
            }
            settings.servers.push(address);
            if let Some(user) = user {
                let access = Access::from_userinfo(user);
                if settings.access != Access::Anonymous && settings.access != access {
                    return Err(NatsSettingsError::TwoUsers);
                }
                settings.access = access;
            }
        }
        if settings.servers.is_empty() { Err(NatsSettingsError::NoServer) } else { Ok(settings) }
    }
}

impl NatsSettings {
    /// The servers as errors name them.
    #[must_use]
    pub fn server(&self) -> String {
        self.servers.join(",")
    }
}

/// Escapes all that could be taken for something else.
fn percent_encode(text: &str) -> String {
    let escaped = text.bytes().map(|byte| match byte {
        b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' => char::from(byte).to_string(),
        byte => format!("%{byte:02X}"),
    });
    escaped.collect()
}

/// Undoes `%3A` and its like. What is no escape stands for itself.
fn percent_decode(text: &str) -> String {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let [first, after @ ..] = rest {
        let escaped = match (first, after) {
            (b'%', [high, low, ..]) => {
                std::str::from_utf8(&[*high, *low]).ok().and_then(|hex| u8::from_str_radix(hex, 16).ok())
            }
            _ => None,
        };
        bytes.push(escaped.unwrap_or(*first));
        rest = if escaped.is_some() { &after[2..] } else { after };
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_taken_apart_and_its_secret_kept_out_of_sight() {
        let settings: NatsSettings = "nats://ann:s%40cret@one:4222,nats://ann:s%40cret@two".parse().unwrap();
        assert_eq!(settings.servers, ["nats://one:4222", "nats://two"]);
        let password = Access::Password { user: "ann".to_owned(), password: "s@cret".to_owned() };
        assert_eq!(settings.access, password);
        assert!(!format!("{settings:?}").contains("s@cret") && !settings.server().contains("cret"));
        let settings: NatsSettings = "tls://tok%zz@one".parse().unwrap();
        assert_eq!((settings.access, settings.tls.required), (Access::Token("tok%zz".to_owned()), true));
        assert_eq!("127.0.0.1:4222".parse::<NatsSettings>().unwrap().servers, ["nats://127.0.0.1:4222"]);
    }

    #[test]
    fn words_that_let_us_in_are_read_back_whatever_is_in_them() {
        let odd = "a:b@c%41/ü\n";
        let password = Access::Password { user: odd.to_owned(), password: odd.to_owned() };
        for access in [password, Access::Token(odd.to_owned())] {
            assert_eq!(Access::from_userinfo(&access.userinfo().unwrap()), access);
        }
        assert_eq!(Access::Nkey("/seed".into()).userinfo(), None);
    }

    #[test]
    fn an_address_that_is_none_is_refused_without_repeating_it() {
        let refused = |text: &str| text.parse::<NatsSettings>().unwrap_err();
        assert_eq!(refused(" , "), NatsSettingsError::NoServer);
        assert_eq!(refused("a,http://b"), NatsSettingsError::Scheme { number: 2, scheme: "http".to_owned() });
        assert_eq!(refused("nats://u:p@h:port"), NatsSettingsError::Address { number: 1 });
        assert_eq!(refused("nats://u:p@"), NatsSettingsError::Address { number: 1 });
        assert_eq!(refused("nats://a:b@one,nats://c:d@two"), NatsSettingsError::TwoUsers);
    }
}
