//! From settings to an open store: connect, look at the version, find or make the streams.

use std::collections::HashMap;
use std::error::Error as _;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use async_nats::jetstream::stream::{self, DiscardPolicy, Stream};
use async_nats::jetstream::{Context, ContextBuilder};
use async_nats::{Client, ConnectError, ConnectErrorKind, ConnectOptions, rustls};
use uuid::Uuid;

use super::channel::Channel;
use super::fault::{Fault, NO_STREAM, TOO_MANY_REPLICAS, code};
use super::known::Known;
use super::note::Note;
use super::outage::{Outages, Tell, telling};
use super::patience::Budget;
use super::same::{Same, number_of};
use super::settings::{Access, NatsSettings};
use crate::Digest;
use crate::error::Unavailable;

/// Below it compare-and-set is broken with replicas, or whole streams were lost when a process was killed.
pub const LEAST_VERSION: [u64; 3] = [2, 10, 25];
/// From here on everything that we use has been there for a while.
const GOOD_VERSION: [u64; 3] = [2, 12, 0];

pub(super) const JOURNAL: &str = "callboard-journal";
/// Where the journal's settings say which store it is of.
const ID: &str = "callboard-store";
pub(super) const LEASES: &str = "callboard-leases";
/// The bucket of the object store, and the stream below it.
pub(super) const BLOBS: &str = "callboard-blobs";
pub const BLOB_STREAM: &str = "OBJ_callboard-blobs";

/// Pieces of a blob, unless the server takes only smaller messages.
const CHUNK: usize = 128 * 1024;
/// What of a message's size is not its payload.
pub(super) const HEADERS: usize = 4 * 1024;

/// Why a server could not be used as a store.
#[derive(Debug, thiserror::Error)]
pub enum ConnectFault {
    #[error(transparent)]
    Client(ConnectError),
    #[error("it did not answer within {} seconds", .0.as_secs_f32())]
    Silent(Duration),
    #[error("nobody knows its name")]
    NoName(#[source] ConnectError),
    #[error(
        "it is version {0}; at least 2.10.25 is needed: older ones lose or double writes when they have replicas, \
         or lose streams when they are killed"
    )]
    TooOld(String),
    #[error("JetStream is not enabled there; start it with `nats-server -js`")]
    NoJetStream,
    /// It says no more than that. What we said is known here.
    #[error("it does not let us in: {}", told(.0))]
    Refused(Access),
    /// Our own key did not serve to prove who we are.
    #[error(transparent)]
    Unproven(ConnectError),
    #[error("it does not speak TLS")]
    NoTls(#[source] ConnectError),
    /// It does, and one of us does not trust the other.
    #[error(transparent)]
    Untrusted(ConnectError),
    #[error("could not read `{}`", path.display())]
    Secret { path: PathBuf, source: io::Error },
}

impl ConnectFault {
    fn of(error: ConnectError, settings: &NatsSettings) -> Self {
        match (error.kind(), spoken(&error)) {
            (ConnectErrorKind::AuthorizationViolation, _) => Self::Refused(settings.access.clone()),
            (ConnectErrorKind::Authentication, _) => Self::Unproven(error),
            (ConnectErrorKind::Dns, _) => Self::NoName(error),
            (ConnectErrorKind::TimedOut, _) => Self::Silent(time_for_all(settings)),
            (_, Some(rustls::Error::InvalidMessage(_))) => Self::NoTls(error),
            (ConnectErrorKind::Tls, _) | (_, Some(_)) => Self::Untrusted(error),
            (_, None) => Self::Client(error),
        }
    }
}

/// What went wrong in the talk about TLS, if there was any.
fn spoken(error: &ConnectError) -> Option<&rustls::Error> {
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
fn told(access: &Access) -> String {
    match access {
        Access::Anonymous => "it wants to know who we are, and nothing says so".to_owned(),
        Access::Password { user, .. } => format!("it does not know user `{user}` with this password"),
        Access::Token(_) => "it does not know this token".to_owned(),
        Access::Credentials(path) => format!("it does not know the user in `{}`", path.display()),
        Access::Nkey(path) => format!("it does not know the key in `{}`", path.display()),
    }
}

/// An open store.
#[derive(Debug)]
pub(super) struct Server {
    pub(super) id: String,
    pub(super) journal: Channel,
    pub(super) leases: Channel,
    pub(super) blobs: Channel,
    /// How long the server keeps a lease.
    pub(super) lease: Duration,
    /// The largest piece of a blob.
    pub(super) chunk: usize,
    /// The largest message that the server takes, without its headers.
    pub(super) largest: usize,
    pub(super) known: Known,
    pub(super) writes: super::settle::Writes,
    pub(super) notes: Vec<Note>,
    /// Whether we have made the journal just now.
    pub(super) is_new: bool,
    pub(super) settings: NatsSettings,
    pub(super) clustered: bool,
    pub(super) buckets: super::bucket::Buckets,
}

impl Server {
    /// Connects, and creates the streams where there are none.
    pub(super) async fn open(settings: &NatsSettings, tell: Tell) -> Result<Self, Unavailable> {
        let (mut opening, client) = Opening::begin(settings, tell).await?;
        let (info, connection) = (client.server_info(), number_of(&client.statistics()));
        if version(&info.version).is_none_or(|version| version < GOOD_VERSION) {
            opening.notes.push(Note::OldServer { version: info.version });
        }
        let [journal, blobs, leases] = opening.streams().await?;
        opening.look_at_bucket(&journal).await?;
        // Where the server would keep a lease for ever we still say goodbye, and wait for that as long as the settings say.
        let lease = Some(leases.cached_info().config.max_age).filter(|age| !age.is_zero());
        let lease = lease.unwrap_or(settings.lease);
        let id = id_of(journal.cached_info());
        opening.same = Some(Arc::new(Same::new(client, opening.context.clone(), id.clone(), connection)));
        let largest = info.max_payload.saturating_sub(HEADERS);
        Ok(Self {
            id,
            journal: opening.channel(journal),
            leases: opening.channel(leases),
            blobs: opening.channel(blobs),
            lease,
            chunk: CHUNK.min(largest / 2),
            largest,
            known: Known::default(),
            writes: super::settle::Writes::default(),
            clustered: opening.clustered,
            notes: opening.notes,
            is_new: opening.is_new,
            settings: settings.clone(),
            buckets: super::bucket::Buckets::default(),
        })
    }
}

/// The id that the journal got when it was made; one that was made by hand is known by when it was.
pub(super) fn id_of(journal: &stream::Info) -> String {
    match journal.config.metadata.get(ID) {
        Some(id) if !id.is_empty() && id.bytes().all(|byte| byte.is_ascii_alphanumeric()) => id.clone(),
        _ => Digest::of(journal.created.unix_timestamp_nanos().to_string()).as_str()[..32].to_owned(),
    }
}

pub(super) async fn connect(settings: &NatsSettings, tell: Tell) -> Result<Client, ConnectFault> {
    let answer = settings.patience.answer;
    let options = options(settings).await?.connection_timeout(answer).request_timeout(Some(answer));
    // A server that vanished without a word is noticed after two of these, and another one is taken.
    let options = options.ping_interval(answer);
    let all = time_for_all(settings);
    let connecting = telling(settings, all, tell, options.connect(&settings.servers));
    let connected = tokio::time::timeout(all, connecting).await;
    let client = connected.map_err(|_| ConnectFault::Silent(all))?;
    let client = client.map_err(|error| ConnectFault::of(error, settings))?;
    let info = client.server_info();
    if version(&info.version).is_some_and(|version| version < LEAST_VERSION) {
        return Err(ConnectFault::TooOld(info.version));
    }
    if !info.jetstream {
        return Err(ConnectFault::NoJetStream);
    }
    Ok(client)
}

/// How long a connection may take: the first server may be silent and the last one well.
fn time_for_all(settings: &NatsSettings) -> Duration {
    settings.patience.answer * u32::try_from(settings.servers.len()).unwrap_or(1)
}

async fn options(settings: &NatsSettings) -> Result<ConnectOptions, ConnectFault> {
    let secret = |path: &PathBuf| {
        let path = path.clone();
        move |source| ConnectFault::Secret { path, source }
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
            if !looks_like_a_seed(seed) {
                let source = io::Error::new(io::ErrorKind::InvalidData, "it holds no seed of an nkey");
                return Err(ConnectFault::Secret { path: path.clone(), source });
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
fn looks_like_a_seed(text: &str) -> bool {
    let base32 = |byte: u8| matches!(byte, b'A'..=b'Z' | b'2'..=b'7');
    text.len() == 58 && text.starts_with('S') && text.bytes().all(base32)
}

/// Three numbers of a version; what follows them (`-beta.1`) does not matter. `None` for what is no version.
fn version(text: &str) -> Option<[u64; 3]> {
    let numbers = text.trim_start_matches('v').split(['-', '+']).next()?;
    let mut numbers = numbers.split('.').map(|number| number.parse().ok());
    Some([numbers.next()??, numbers.next()??, numbers.next()??])
}

/// The way from a connection to the streams.
pub(super) struct Opening<'s> {
    pub(super) settings: &'s NatsSettings,
    pub(super) outages: Arc<Outages>,
    pub(super) context: Context,
    pub(super) clustered: bool,
    pub(super) notes: Vec<Note>,
    /// The journal was made just now.
    pub(super) is_new: bool,
    /// Known when all streams are there.
    pub(super) same: Option<Arc<Same>>,
}

impl<'s> Opening<'s> {
    /// Connects.
    pub(super) async fn begin(settings: &'s NatsSettings, tell: Tell) -> Result<(Self, Client), Unavailable> {
        let client = connect(settings, tell).await.map_err(|fault| Unavailable::Server {
            server: settings.server(),
            doing: "connect to",
            source: fault.into(),
        })?;
        let info = client.server_info();
        let answer = settings.patience.answer;
        let context = ContextBuilder::new().timeout(answer).ack_timeout(answer).build(client.clone());
        let (outages, notes) = (Outages::new(settings, tell), Vec::new());
        let clustered = info.cluster.is_some();
        Ok((Self { settings, outages, context, clustered, notes, is_new: false, same: None }, client))
    }

    /// Finds the journal, the blobs and the leases, or makes them.
    ///
    /// What was deleted under us is not made again as if nothing had been in it. The journal is made first and looked
    /// for last, the leases the other way round: so whoever finds blobs or leases without a journal, or a journal with
    /// entries without blobs, finds a loss.
    async fn streams(&mut self) -> Result<[Stream; 3], Unavailable> {
        let leases = self.find(LEASES).await?;
        let mut blobs = self.find(BLOB_STREAM).await?;
        let journal = self.find(JOURNAL).await?;
        if blobs.is_none() && journal.is_some() {
            // Somebody may have been just making them.
            blobs = self.find(BLOB_STREAM).await?;
        }
        let journal = match (journal, &blobs) {
            (Some(journal), _) => journal,
            (None, Some(_)) => return Err(self.gone(JOURNAL)),
            (None, None) if leases.is_some() => return Err(self.gone(JOURNAL)),
            (None, None) => {
                self.is_new = true;
                let subjects = vec!["callboard.run.*".to_owned()];
                let metadata = HashMap::from([(ID.to_owned(), Uuid::now_v7().simple().to_string())]);
                self.create(stream::Config { name: JOURNAL.to_owned(), subjects, metadata, ..endless() })
                    .await?
            }
        };
        let blobs = match blobs {
            Some(blobs) => blobs,
            None if journal.cached_info().state.last_sequence > 0 => return Err(self.gone(BLOB_STREAM)),
            None => {
                let subjects = ["C", "M"].map(|kind| format!("$O.{BLOBS}.{kind}.>")).to_vec();
                let name = BLOB_STREAM.to_owned();
                let config =
                    stream::Config { name, subjects, allow_rollup: true, allow_direct: true, ..endless() };
                self.create(config).await?
            }
        };
        // Whoever held a lease that is gone is fenced off by the epoch in the journal.
        let leases = match leases {
            Some(leases) => leases,
            None => {
                let config = stream::Config {
                    name: LEASES.to_owned(),
                    subjects: vec!["callboard.lease.*".to_owned()],
                    max_age: self.settings.lease,
                    duplicate_window: self.settings.lease.min(Duration::from_secs(1)),
                    max_messages_per_subject: 1,
                    ..endless()
                };
                self.create(config).await?
            }
        };
        for stream in [&journal, &blobs, &leases] {
            self.note(&stream.cached_info().config);
        }
        Ok([journal, blobs, leases])
    }

    /// A cluster that has just begun has no leader yet, and is waited for.
    pub(super) async fn find(&self, name: &str) -> Result<Option<Stream>, Unavailable> {
        find_stream(&self.context, &self.outages, name, "open the streams of").await
    }

    /// With as many replicas as there can be. Another process that makes the same stream at the same time is no harm.
    pub(super) async fn create(&self, mut config: stream::Config) -> Result<Stream, Unavailable> {
        config.num_replicas = self.settings.replicas;
        let (doing, answer) = ("create the streams of", self.settings.patience.answer);
        let mut outage = self.outages.writes(&config.name).budget(doing);
        let mut peers = Budget::new(&self.settings.server(), doing, answer);
        loop {
            let error = match self.context.create_stream(&config).await {
                Ok(stream) => {
                    self.outages.answered(&config.name, true);
                    return Ok(stream);
                }
                Err(error) => error,
            };
            let too_many = code(&error).is_some_and(|code| TOO_MANY_REPLICAS.contains(&code));
            let fault = Fault::of_question(error, &config.name);
            if too_many && config.num_replicas > 1 {
                // A single server stays alone; the others of a cluster may be on their way.
                if !self.clustered || peers.bear(fault).await.is_err() {
                    config.num_replicas = 1;
                }
            } else if let Some(stream) = self.find(&config.name).await? {
                // Made meanwhile, by somebody with other settings.
                return Ok(stream);
            } else {
                outage.bear(fault).await?;
            }
        }
    }

    /// Says what is not as it should be.
    pub(super) fn note(&mut self, config: &stream::Config) {
        let stream = &config.name;
        if config.num_replicas < self.settings.replicas {
            let (wanted, found) = (self.settings.replicas, config.num_replicas);
            let (stream, alone) = (stream.clone(), !self.clustered);
            self.notes.push(Note::FewerReplicas { stream, wanted, found, alone });
        }
        let (wanted, found) = (self.settings.lease, config.max_age);
        if stream == LEASES && found != wanted && !found.is_zero() {
            self.notes.push(Note::OtherLease { stream: stream.clone(), wanted, found });
        }
        let mut other = |setting, found: String| {
            self.notes.push(Note::OtherSettings { stream: stream.clone(), setting, found });
        };
        if config.storage != stream::StorageType::File {
            other("storage", format!("{:?}", config.storage));
        }
        if config.discard != DiscardPolicy::New {
            other("discard policy", format!("{:?}", config.discard));
        }
        // A lease has to end by itself, and nothing else may.
        if (stream == LEASES) == config.max_age.is_zero() {
            other("maximum age", format!("{} s", config.max_age.as_secs()));
        }
    }

    pub(super) fn channel(&self, stream: Stream) -> Channel {
        Channel {
            server: self.settings.server(),
            context: self.context.clone(),
            name: stream.cached_info().config.name.clone(),
            stream,
            patience: self.settings.patience,
            outages: Arc::clone(&self.outages),
            same: self.same.clone(),
        }
    }

    pub(super) fn gone(&self, stream: &str) -> Unavailable {
        Unavailable::NoStream { server: self.settings.server(), stream: stream.to_owned() }
    }
}

/// Looks for a stream until the servers say whether there is one.
pub(super) async fn find_stream(
    context: &Context,
    outages: &Arc<Outages>,
    name: &str,
    doing: &'static str,
) -> Result<Option<Stream>, Unavailable> {
    let ask = || async {
        match context.get_stream(name).await {
            Ok(stream) => Ok(Some(stream)),
            Err(error) if code(&error) == Some(NO_STREAM) => Ok(None),
            Err(error) => Err(Fault::of_question(error, name)),
        }
    };
    outages.reads(name).insist(doing, ask).await
}

/// A stream that keeps what it has, and refuses what does not fit.
pub(super) fn endless() -> stream::Config {
    stream::Config {
        storage: stream::StorageType::File,
        discard: DiscardPolicy::New,
        ..stream::Config::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_compared_by_their_numbers() {
        assert_eq!(version("2.10.25"), Some(LEAST_VERSION));
        assert_eq!(version("v2.12.0-beta.1"), Some(GOOD_VERSION));
        assert!(version("2.9.10") < Some(LEAST_VERSION) && version("2.10.9") < Some(LEAST_VERSION));
        assert_eq!(version("main"), None);
    }
}
