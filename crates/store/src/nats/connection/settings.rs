//! Addresses of servers, credentials and options of a store.

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use super::timeouts::Timeouts;

/// What is needed to reach a store on NATS. `Debug` shows no secret.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NatsSettings {
    /// `nats://host:port` or `tls://host:port`, without user and password.
    pub servers: Vec<String>,
    pub auth: NatsAuth,
    pub tls: Tls,
    /// The number of replicas of each stream. With too few servers it is 1, and [`NatsWarning`](crate::NatsWarning)
    /// says so.
    pub replicas: usize,
    /// How long the lease of an engine lasts without renewal.
    pub lease: Duration,
    /// The KV bucket of documents, which other clients may read and write.
    pub bucket: String,
    pub timeouts: Timeouts,
}

/// How to authenticate.
#[derive(Clone, Default, PartialEq, Eq)]
pub enum NatsAuth {
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

impl fmt::Debug for NatsAuth {
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

impl NatsAuth {
    /// Returns the credentials in the form of a URL's userinfo, to be passed to a child process through a pipe. `None`
    /// if there are none, or if they are in a file.
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

    /// Parses the userinfo of a URL: a user and a password, or a token alone.
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

/// When to use TLS, and with which certificates.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Tls {
    pub required: bool,
    /// Certificate authorities to trust instead of the system's.
    pub roots: Option<PathBuf>,
    /// Our certificate and its key, for servers that verify clients.
    pub identity: Option<(PathBuf, PathBuf)>,
}

/// An address that cannot be used. The message does not repeat it, because it may hold a password.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NatsSettingsError {
    #[error("no server is given; write nats://host:port")]
    NoServer,
    #[error("the address of server {number} begins with `{scheme}://`; use nats:// or tls://")]
    Scheme { number: usize, scheme: String },
    #[error("the address of server {number} is not a host and port")]
    Address { number: usize },
    /// Not found by the parser here, but where a store may also be a directory: there it would be taken for one.
    #[error("it looks like the address of a server without nats:// or tls://")]
    MissingScheme,
    #[error("the addresses have different credentials")]
    DifferentCredentials,
}

/// The default duration of a lease: longer than a restart of a server.
const LEASE: Duration = Duration::from_secs(20);

/// The default bucket: the name that the original of `peer` uses.
const BUCKET: &str = "agent-os-peer-state";

/// The usual size of a NATS cluster.
const REPLICAS: usize = 3;

impl FromStr for NatsSettings {
    type Err = NatsSettingsError;

    /// Parses `[nats://|tls://][user:password@|token@]host[:port][,…]`. One `tls://` requires TLS for all servers.
    fn from_str(text: &str) -> Result<Self, NatsSettingsError> {
        let mut settings = Self {
            servers: Vec::new(),
            auth: NatsAuth::default(),
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
            let (userinfo, host) = match rest.rsplit_once('@') {
                Some((userinfo, host)) => (Some(userinfo), host),
                None => (None, rest),
            };
            let host = host.trim_end_matches('/');
            let address = format!("{scheme}://{host}");
            if host.is_empty() || address.parse::<async_nats::ServerAddr>().is_err() {
                return Err(NatsSettingsError::Address { number });
            }
            settings.servers.push(address);
            if let Some(userinfo) = userinfo {
                let auth = NatsAuth::from_userinfo(userinfo);
                if settings.auth != NatsAuth::Anonymous && settings.auth != auth {
                    return Err(NatsSettingsError::DifferentCredentials);
                }
                settings.auth = auth;
            }
        }
        if settings.servers.is_empty() { Err(NatsSettingsError::NoServer) } else { Ok(settings) }
    }
}

impl NatsSettings {
    /// Returns the servers as errors name them.
    #[must_use]
    pub fn server(&self) -> String {
        self.servers.join(",")
    }
}

/// Escapes every byte except ASCII letters and digits.
fn percent_encode(text: &str) -> String {
    let escaped = text.bytes().map(|byte| match byte {
        b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' => char::from(byte).to_string(),
        byte => format!("%{byte:02X}"),
    });
    escaped.collect()
}

/// Decodes `%3A` and the like. An invalid escape is copied unchanged.
fn percent_decode(text: &str) -> String {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let [first, after @ ..] = rest {
        let escaped = match (first, after) {
            (b'%', [high, low, ..]) if high.is_ascii_hexdigit() => {
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
    fn an_address_is_parsed_and_debug_hides_its_secret() {
        let settings: NatsSettings = "nats://ann:s%40cret@one:4222,nats://ann:s%40cret@two".parse().unwrap();
        assert_eq!(settings.servers, ["nats://one:4222", "nats://two"]);
        let password = NatsAuth::Password { user: "ann".to_owned(), password: "s@cret".to_owned() };
        assert_eq!(settings.auth, password);
        assert!(!format!("{settings:?}").contains("s@cret") && !settings.server().contains("cret"));
        let settings: NatsSettings = "tls://tok%zz@one".parse().unwrap();
        assert_eq!((settings.auth, settings.tls.required), (NatsAuth::Token("tok%zz".to_owned()), true));
        assert_eq!("127.0.0.1:4222".parse::<NatsSettings>().unwrap().servers, ["nats://127.0.0.1:4222"]);
    }

    #[test]
    fn userinfo_survives_a_round_trip() {
        let odd = "a:b@c%41/ü\n";
        let password = NatsAuth::Password { user: odd.to_owned(), password: odd.to_owned() };
        for auth in [password, NatsAuth::Token(odd.to_owned())] {
            assert_eq!(NatsAuth::from_userinfo(&auth.userinfo().unwrap()), auth);
        }
        assert_eq!(NatsAuth::Nkey("/seed".into()).userinfo(), None);
    }

    #[test]
    fn an_invalid_address_is_refused_without_repeating_it() {
        let refused = |text: &str| text.parse::<NatsSettings>().unwrap_err();
        assert_eq!(refused(" , "), NatsSettingsError::NoServer);
        assert_eq!(refused("a,http://b"), NatsSettingsError::Scheme { number: 2, scheme: "http".to_owned() });
        assert_eq!(refused("nats://u:p@h:port"), NatsSettingsError::Address { number: 1 });
        assert_eq!(refused("nats://u:p@"), NatsSettingsError::Address { number: 1 });
        assert_eq!(refused("nats://a:b@one,nats://c:d@two"), NatsSettingsError::DifferentCredentials);
    }
}
