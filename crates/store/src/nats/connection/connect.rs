//! From settings to a connection: who we are, which certificates we trust, and whether the server is fit to be a store.

use std::error::Error as _;
use std::io;
use std::path::PathBuf;
use std::time::Duration;

use async_nats::jetstream::{Context, ContextBuilder};
use async_nats::{Client, ConnectError, ConnectErrorKind, ConnectOptions, ServerInfo, rustls};

use super::outage::{Notify, report_slow_connect};
use super::settings::{Access, NatsSettings};
use crate::error::Unavailable;

/// Below it compare-and-set is broken with replicas, or whole streams were lost when a process was killed.
pub const MIN_VERSION: [u64; 3] = [2, 10, 25];
/// From here on everything that we use has been there for a while.
pub(in crate::nats) const RECOMMENDED_VERSION: [u64; 3] = [2, 12, 0];

/// Why a server could not be used as a store.
#[derive(Debug, thiserror::Error)]
pub enum NatsConnectError {
    #[error(transparent)]
    Other(ConnectError),
    #[error("it did not answer within {} seconds", .0.as_secs_f32())]
    TimedOut(Duration),
    #[error("nobody knows its name")]
    UnknownHost(#[source] ConnectError),
    #[error(
        "it is version {0}; at least 2.10.25 is needed: older ones lose or double writes when they have replicas, \
         or lose streams when they are killed"
    )]
    TooOld(String),
    #[error("JetStream is not enabled there; start it with `nats-server -js`")]
    NoJetStream,
    /// It says no more than that. What we said is known here.
    #[error("it does not let us in: {}", rejection(.0))]
    Unauthorized(Access),
    /// Our own key did not serve to prove who we are.
    #[error(transparent)]
    SigningFailed(ConnectError),
    #[error("it does not speak TLS")]
    NoTls(#[source] ConnectError),
    /// It does, and one of us does not trust the other.
    #[error(transparent)]
    TlsFailed(ConnectError),
    #[error("could not read `{}`", path.display())]
    UnreadableFile { path: PathBuf, source: io::Error },
}

impl NatsConnectError {
    fn from_client(error: ConnectError, settings: &NatsSettings) -> Self {
        match (error.kind(), tls_error(&error)) {
            (ConnectErrorKind::AuthorizationViolation, _) => Self::Unauthorized(settings.access.clone()),
            (ConnectErrorKind::Authentication, _) => Self::SigningFailed(error),
            (ConnectErrorKind::Dns, _) => Self::UnknownHost(error),
            (ConnectErrorKind::TimedOut, _) => Self::TimedOut(total_timeout(settings)),
            (_, Some(rustls::Error::InvalidMessage(_))) => Self::NoTls(error),
            (ConnectErrorKind::Tls, _) | (_, Some(_)) => Self::TlsFailed(error),
            (_, None) => Self::Other(error),
        }
    }
}

/// What went wrong in the talk about TLS, if there was any.
fn tls_error(error: &ConnectError) -> Option<&rustls::Error> {
    let mut next = error.source();
    while let Some(error) = next {
        // An error of the system passes over what it holds when it is asked for its cause.
        let held = error.downcast_ref::<io::Error>().and_then(io::Error::get_ref);
        let found = held.and_then(|held| held.downcast_ref()).or_else(|| error.downcast_ref());
        if found.is_some() {
            return found;
        }
        next = error.source();
    }
    None
}

/// What we said about ourselves.
fn rejection(access: &Access) -> String {
    match access {
        Access::Anonymous => "it wants to know who we are, and nothing says so".to_owned(),
        Access::Password { user, .. } => format!("it does not know user `{user}` with this password"),
        Access::Token(_) => "it does not know this token".to_owned(),
        Access::Credentials(path) => format!("it does not know the user in `{}`", path.display()),
        Access::Nkey(path) => format!("it does not know the key in `{}`", path.display()),
    }
}

/// Connects, and asks from then on with as much patience as is set.
pub(in crate::nats) async fn connect(
    settings: &NatsSettings,
    notify: Notify,
) -> Result<(Client, Context), Unavailable> {
    let client = client(settings, notify).await.map_err(|failure| Unavailable::Server {
        server: settings.server(),
        doing: "connect to",
        source: failure.into(),
    })?;
    let request = settings.timeouts.request;
    let context = ContextBuilder::new().timeout(request).ack_timeout(request).build(client.clone());
    Ok((client, context))
}

async fn client(settings: &NatsSettings, notify: Notify) -> Result<Client, NatsConnectError> {
    let request = settings.timeouts.request;
    let options = options(settings).await?.connection_timeout(request).request_timeout(Some(request));
    // A server that vanished without a word is noticed after two of these, and another one is taken.
    let options = options.ping_interval(request);
    let all = total_timeout(settings);
    let connecting = report_slow_connect(settings, all, notify, options.connect(&settings.servers));
    let connected = tokio::time::timeout(all, connecting).await;
    let client = connected.map_err(|_| NatsConnectError::TimedOut(all))?;
    let client = client.map_err(|error| NatsConnectError::from_client(error, settings))?;
    let info = client.server_info();
    check_version(&info)?;
    if !info.jetstream {
        return Err(NatsConnectError::NoJetStream);
    }
    Ok(client)
}

/// Whether a server is fit to be a store, by its age.
pub(in crate::nats) fn check_version(server: &ServerInfo) -> Result<(), NatsConnectError> {
    match version(&server.version) {
        Some(version) if version < MIN_VERSION => Err(NatsConnectError::TooOld(server.version.clone())),
        Some(_) | None => Ok(()),
    }
}

/// How long a connection may take: the first server may be silent and the last one well.
fn total_timeout(settings: &NatsSettings) -> Duration {
    settings.timeouts.request * u32::try_from(settings.servers.len()).unwrap_or(1)
}

async fn options(settings: &NatsSettings) -> Result<ConnectOptions, NatsConnectError> {
    let secret = |path: &PathBuf| {
        let path = path.clone();
        move |source| NatsConnectError::UnreadableFile { path, source }
    };
    let options = ConnectOptions::new().name("callboard").require_tls(settings.tls.required);
    let mut options = match &settings.access {
        Access::Anonymous => options,
        Access::Password { user, password } => options.user_and_password(user.clone(), password.clone()),
        Access::Token(token) => options.token(token.clone()),
        Access::Credentials(path) => options.credentials_file(path).await.map_err(secret(path))?,
        Access::Nkey(path) => {
            let seed = tokio::fs::read_to_string(path).await.map_err(secret(path))?;
            let seed = seed.trim();
            if !is_nkey_seed(seed) {
                let source = io::Error::new(io::ErrorKind::InvalidData, "it holds no seed of an nkey");
                return Err(NatsConnectError::UnreadableFile { path: path.clone(), source });
            }
            options.nkey(seed.to_owned())
        }
    };
    // The client would say that a file is missing, and not which.
    let tls = &settings.tls;
    for path in tls.roots.iter().chain(tls.identity.iter().flat_map(|(certificate, key)| [certificate, key]))
    {
        tokio::fs::File::open(path).await.map_err(secret(path))?;
    }
    if let Some(roots) = &settings.tls.roots {
        options = options.add_root_certificates(roots.clone());
    }
    if let Some((certificate, key)) = &settings.tls.identity {
        options = options.add_client_certificate(certificate.clone(), key.clone());
    }
    Ok(options)
}

/// Whether the client can make a key of it, as far as one sees it: it would only say that it could not sign.
fn is_nkey_seed(text: &str) -> bool {
    let base32 = |byte: u8| matches!(byte, b'A'..=b'Z' | b'2'..=b'7');
    text.len() == 58 && text.starts_with('S') && text.bytes().all(base32)
}

/// Three numbers of a version; what follows them (`-beta.1`) does not matter. `None` for what is no version.
pub(in crate::nats) fn version(text: &str) -> Option<[u64; 3]> {
    let numbers = text.trim_start_matches('v').split(['-', '+']).next()?;
    let mut numbers = numbers.split('.').map(|number| number.parse().ok());
    Some([numbers.next()??, numbers.next()??, numbers.next()??])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_compared_by_their_numbers() {
        assert_eq!(version("2.10.25"), Some(MIN_VERSION));
        assert_eq!(version("v2.12.0-beta.1"), Some(RECOMMENDED_VERSION));
        assert!(version("2.9.10") < Some(MIN_VERSION) && version("2.10.9") < Some(MIN_VERSION));
        assert_eq!(version("main"), None);
    }
}
