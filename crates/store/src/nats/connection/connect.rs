//! From settings to a connection: authentication, TLS and the server's version.

use std::error::Error as _;
use std::io;
use std::path::PathBuf;
use std::time::Duration;

use async_nats::jetstream::{Context, ContextBuilder};
use async_nats::{Client, ConnectError, ConnectErrorKind, ConnectOptions, ServerInfo, rustls};

use super::outage::{NoticeHandler, report_slow_connect};
use super::settings::{NatsAuth, NatsSettings};
use crate::error::Unavailable;

/// Older servers have a broken compare-and-set with replicas, or lose whole streams when they are killed.
pub const MIN_VERSION: [u64; 3] = [2, 10, 25];
/// Servers from here on have had every feature we use for several releases.
pub(super) const RECOMMENDED_VERSION: [u64; 3] = [2, 12, 0];

/// Why a server cannot be used as a store.
#[derive(Debug, thiserror::Error)]
pub enum NatsConnectError {
    #[error(transparent)]
    Other(ConnectError),
    #[error("no answer within {} seconds", .0.as_secs_f32())]
    TimedOut(Duration),
    #[error("its host name cannot be resolved")]
    UnknownHost(#[source] ConnectError),
    #[error(
        "it runs version {0}; at least 2.10.25 is needed: older versions lose or duplicate writes with replicas, \
         or lose streams when they are killed"
    )]
    TooOld(String),
    #[error("JetStream is not enabled; start the server with `nats-server -js`")]
    NoJetStream,
    /// The server gives no reason, so the message names the credentials that it refused.
    #[error("authorization failed: {}", rejection(.0))]
    Unauthorized(NatsAuth),
    /// The client could not sign the server's challenge with our key.
    #[error(transparent)]
    SigningFailed(ConnectError),
    #[error("the server does not speak TLS")]
    NoTls(#[source] ConnectError),
    /// The server speaks TLS, and one side does not trust the other's certificate.
    #[error(transparent)]
    TlsFailed(ConnectError),
    #[error("could not read `{}`", path.display())]
    UnreadableFile { path: PathBuf, source: io::Error },
}

impl NatsConnectError {
    fn from_client(error: ConnectError, settings: &NatsSettings) -> Self {
        match (error.kind(), tls_error(&error)) {
            (ConnectErrorKind::AuthorizationViolation, _) => Self::Unauthorized(settings.auth.clone()),
            (ConnectErrorKind::Authentication, _) => Self::SigningFailed(error),
            (ConnectErrorKind::Dns, _) => Self::UnknownHost(error),
            (ConnectErrorKind::TimedOut, _) => Self::TimedOut(total_timeout(settings)),
            (_, Some(rustls::Error::InvalidMessage(_))) => Self::NoTls(error),
            (ConnectErrorKind::Tls, _) | (_, Some(_)) => Self::TlsFailed(error),
            (_, None) => Self::Other(error),
        }
    }
}

/// Returns the TLS error in the chain of causes, if there is one.
fn tls_error(error: &ConnectError) -> Option<&rustls::Error> {
    let mut next = error.source();
    while let Some(error) = next {
        // `io::Error::source` skips the error it wraps.
        let wrapped = error.downcast_ref::<io::Error>().and_then(io::Error::get_ref);
        let found = wrapped.and_then(|wrapped| wrapped.downcast_ref()).or_else(|| error.downcast_ref());
        if found.is_some() {
            return found;
        }
        next = error.source();
    }
    None
}

/// Describes the credentials that the server did not accept.
fn rejection(auth: &NatsAuth) -> String {
    match auth {
        NatsAuth::Anonymous => "the server requires credentials, and none are configured".to_owned(),
        NatsAuth::Password { user, .. } => format!("the server rejected user `{user}` with this password"),
        NatsAuth::Token(_) => "the server rejected this token".to_owned(),
        NatsAuth::Credentials(path) => format!("the server rejected the user in `{}`", path.display()),
        NatsAuth::Nkey(path) => format!("the server rejected the key in `{}`", path.display()),
    }
}

/// Connects, and applies the request timeout to the connection.
pub(in crate::nats) async fn connect(
    settings: &NatsSettings,
    notify: NoticeHandler,
) -> Result<(Client, Context), Unavailable> {
    let client = client(settings, notify).await.map_err(|failure| Unavailable::Server {
        server: settings.server(),
        doing: "connect to",
        source: failure.into(),
    })?;
    let request_timeout = settings.timeouts.request;
    let context =
        ContextBuilder::new().timeout(request_timeout).ack_timeout(request_timeout).build(client.clone());
    Ok((client, context))
}

async fn client(settings: &NatsSettings, notify: NoticeHandler) -> Result<Client, NatsConnectError> {
    let request_timeout = settings.timeouts.request;
    let options = options(settings).await?;
    let options = options.connection_timeout(request_timeout).request_timeout(Some(request_timeout));
    // The client reconnects to another server after two unanswered pings.
    let options = options.ping_interval(request_timeout);
    let timeout = total_timeout(settings);
    let connecting = report_slow_connect(settings, timeout, notify, options.connect(&settings.servers));
    let connected = tokio::time::timeout(timeout, connecting).await;
    let client = connected.map_err(|_| NatsConnectError::TimedOut(timeout))?;
    let client = client.map_err(|error| NatsConnectError::from_client(error, settings))?;
    let info = client.server_info();
    check_version(&info)?;
    if !info.jetstream {
        return Err(NatsConnectError::NoJetStream);
    }
    Ok(client)
}

/// Fails if the server is older than [`MIN_VERSION`]. A version that is not three numbers is accepted.
pub(super) fn check_version(server: &ServerInfo) -> Result<(), NatsConnectError> {
    match version(&server.version) {
        Some(version) if version < MIN_VERSION => Err(NatsConnectError::TooOld(server.version.clone())),
        Some(_) | None => Ok(()),
    }
}

/// The time for one connect: each server in the address may take the whole request timeout.
fn total_timeout(settings: &NatsSettings) -> Duration {
    settings.timeouts.request * u32::try_from(settings.servers.len()).unwrap_or(1)
}

async fn options(settings: &NatsSettings) -> Result<ConnectOptions, NatsConnectError> {
    let unreadable = |path: &PathBuf| {
        let path = path.clone();
        move |source| NatsConnectError::UnreadableFile { path, source }
    };
    let options = ConnectOptions::new().name("callboard").require_tls(settings.tls.required);
    let mut options = match &settings.auth {
        NatsAuth::Anonymous => options,
        NatsAuth::Password { user, password } => options.user_and_password(user.clone(), password.clone()),
        NatsAuth::Token(token) => options.token(token.clone()),
        NatsAuth::Credentials(path) => options.credentials_file(path).await.map_err(unreadable(path))?,
        NatsAuth::Nkey(path) => {
            let seed = tokio::fs::read_to_string(path).await.map_err(unreadable(path))?;
            let seed = seed.trim();
            if !is_nkey_seed(seed) {
                let source = io::Error::new(io::ErrorKind::InvalidData, "it does not hold an nkey seed");
                return Err(NatsConnectError::UnreadableFile { path: path.clone(), source });
            }
            options.nkey(seed.to_owned())
        }
    };
    // The client's error does not name the missing file.
    let tls = &settings.tls;
    for path in tls.roots.iter().chain(tls.identity.iter().flat_map(|(certificate, key)| [certificate, key]))
    {
        tokio::fs::File::open(path).await.map_err(unreadable(path))?;
    }
    if let Some(roots) = &settings.tls.roots {
        options = options.add_root_certificates(roots.clone());
    }
    if let Some((certificate, key)) = &settings.tls.identity {
        options = options.add_client_certificate(certificate.clone(), key.clone());
    }
    Ok(options)
}

/// Whether the text has the form of an nkey seed. The client would only report that it could not sign.
fn is_nkey_seed(text: &str) -> bool {
    let base32 = |byte: u8| matches!(byte, b'A'..=b'Z' | b'2'..=b'7');
    text.len() == 58 && text.starts_with('S') && text.bytes().all(base32)
}

/// Returns the three numbers of a version without its suffix (`-beta.1`), or `None` if the text is not a version.
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
