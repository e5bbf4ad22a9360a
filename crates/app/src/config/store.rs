//! Where the store is: a directory, or servers of NATS with what it takes to be let in.

use std::ffi::OsStr;
use std::fmt;
use std::num::NonZeroU32;
use std::path::PathBuf;
use std::time::Duration;

use store::{Access, NatsSettings, NatsSettingsError};
use toml::de::DeTable;

use super::file::{Reader, Value};
use super::rows::{self, Row};
use super::{Origin, Sourced};

const KEYS: [&str; 14] = [
    "address",
    "replicas",
    "lease",
    "conflicts",
    "outages",
    "bucket",
    "user",
    "password",
    "token",
    "creds",
    "nkey",
    "ca",
    "cert",
    "key",
];

/// Where the store is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum StoreAddress {
    Directory(PathBuf),
    Nats(Box<NatsSettings>),
}

impl StoreAddress {
    /// Reads what somebody typed. A relative directory stays as it is.
    pub(crate) fn read(text: &OsStr) -> Result<Self, NatsSettingsError> {
        match text.to_str() {
            Some(text) if text.contains("://") => Ok(Self::Nats(Box::new(text.parse()?))),
            Some(text) if is_bare(text) => Err(NatsSettingsError::MissingScheme),
            Some(_) | None => Ok(Self::Directory(text.into())),
        }
    }
}

/// Whether it is a host and a port, or begins as an address does.
fn is_bare(text: &str) -> bool {
    let has_port =
        text.rsplit_once(':').is_some_and(|(host, port)| !host.is_empty() && port.parse::<u16>().is_ok());
    !text.contains('/') && (has_port || text.starts_with("nats:") || text.starts_with("tls:"))
}

/// How an address is to be written that was not understood.
pub(super) fn how_to_write(error: &NatsSettingsError) -> &'static str {
    match error {
        NatsSettingsError::NoServer
        | NatsSettingsError::Scheme { .. }
        | NatsSettingsError::Address { .. } => {
            "write nats://127.0.0.1:4222, or tls://host:4222; several are separated by commas"
        }
        NatsSettingsError::MissingScheme => {
            "write nats:// before it; a directory that is called so is ./NAME"
        }
        NatsSettingsError::TwoUsers => {
            "name one user in all of them, or none, and set NATS_USER and NATS_PASSWORD"
        }
    }
}

/// A text that is never shown.
#[derive(Clone, PartialEq, Eq)]
pub(super) struct Secret(pub(super) String);

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("***")
    }
}

/// What is set for a store on NATS besides its address.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Shared {
    pub(super) replicas: Option<Sourced<NonZeroU32>>,
    pub(super) lease: Option<Sourced<Duration>>,
    pub(super) conflicts: Option<Sourced<Duration>>,
    pub(super) outages: Option<Sourced<Duration>>,
    pub(super) bucket: Option<Sourced<String>>,
    pub(super) user: Option<Sourced<String>>,
    pub(super) password: Option<Sourced<Secret>>,
    pub(super) token: Option<Sourced<Secret>>,
    pub(super) creds: Option<Sourced<PathBuf>>,
    pub(super) nkey: Option<Sourced<PathBuf>>,
    pub(super) ca: Option<Sourced<PathBuf>>,
    pub(super) cert: Option<Sourced<PathBuf>>,
    pub(super) key: Option<Sourced<PathBuf>>,
}

impl Shared {
    /// Fills what is left open from a weaker source.
    pub(super) fn lay_over(&mut self, weaker: Self) {
        let stronger = std::mem::take(self);
        *self = Self {
            replicas: stronger.replicas.or(weaker.replicas),
            lease: stronger.lease.or(weaker.lease),
            conflicts: stronger.conflicts.or(weaker.conflicts),
            outages: stronger.outages.or(weaker.outages),
            bucket: stronger.bucket.or(weaker.bucket),
            user: stronger.user.or(weaker.user),
            password: stronger.password.or(weaker.password),
            token: stronger.token.or(weaker.token),
            creds: stronger.creds.or(weaker.creds),
            nkey: stronger.nkey.or(weaker.nkey),
            ca: stronger.ca.or(weaker.ca),
            cert: stronger.cert.or(weaker.cert),
            key: stronger.key.or(weaker.key),
        };
    }

    /// Says all of it to a store on NATS. Who the address names is let in as that; else files come before words.
    pub(super) fn settle(&self, settings: &mut NatsSettings) {
        if let Some(replicas) = &self.replicas {
            settings.replicas = usize::try_from(replicas.value.get()).unwrap_or(usize::MAX);
        }
        set(&mut settings.lease, self.lease.as_ref());
        set(&mut settings.timeouts.conflict, self.conflicts.as_ref());
        set(&mut settings.timeouts.outage, self.outages.as_ref());
        // Whoever has little patience asks twice all the same.
        settings.timeouts.request = settings.timeouts.request.min(settings.timeouts.outage / 2);
        set(&mut settings.bucket, self.bucket.as_ref());
        if settings.access == Access::Anonymous {
            settings.access = self.access();
        }
        settings.tls.roots = value(self.ca.as_ref());
        settings.tls.identity = value(self.cert.as_ref()).zip(value(self.key.as_ref()));
    }

    /// A password that nobody gives: whose it is was not said.
    pub(super) fn idle_password(&self, settings: &NatsSettings) -> Option<&Origin> {
        let password = self.password.as_ref().filter(|_| settings.access == Access::Anonymous)?;
        (self.access() == Access::Anonymous).then_some(&password.origin)
    }

    /// A certificate without its key, or a key without its certificate: neither is shown to anybody.
    pub(super) fn lone_half(&self) -> Option<&Origin> {
        match (&self.cert, &self.key) {
            (Some(alone), None) | (None, Some(alone)) => Some(&alone.origin),
            (Some(_), Some(_)) | (None, None) => None,
        }
    }

    fn access(&self) -> Access {
        if let Some(creds) = value(self.creds.as_ref()) {
            Access::Credentials(creds)
        } else if let Some(nkey) = value(self.nkey.as_ref()) {
            Access::Nkey(nkey)
        } else if let Some(token) = &self.token {
            Access::Token(token.value.0.clone())
        } else if let Some(user) = value(self.user.as_ref()) {
            let password = self.password.as_ref().map(|password| password.value.0.clone());
            Access::Password { user, password: password.unwrap_or_default() }
        } else {
            Access::Anonymous
        }
    }

    /// What is in force, for people. Secrets are masked.
    pub(super) fn rows(&self, settings: &NatsSettings) -> Vec<Row> {
        let mut rows = vec![
            shown("replicas", settings.replicas.to_string(), self.replicas.as_ref()),
            shown("lease", rows::seconds(settings.lease), self.lease.as_ref()),
            shown("conflicts", rows::seconds(settings.timeouts.conflict), self.conflicts.as_ref()),
            shown("outages", rows::seconds(settings.timeouts.outage), self.outages.as_ref()),
            shown("bucket", rows::quoted(&settings.bucket), self.bucket.as_ref()),
        ];
        rows.extend(self.user.iter().map(|user| shown("user", rows::quoted(&user.value), Some(user))));
        for (key, secret) in [("password", &self.password), ("token", &self.token)] {
            rows.extend(secret.iter().map(|secret| shown(key, "***".to_owned(), Some(secret))));
        }
        let files = [
            ("creds", &self.creds),
            ("nkey", &self.nkey),
            ("ca", &self.ca),
            ("cert", &self.cert),
            ("key", &self.key),
        ];
        for (key, file) in files {
            rows.extend(file.iter().map(|file| shown(key, rows::path(&file.value), Some(file))));
        }
        rows
    }
}

fn set<T: Clone>(setting: &mut T, sourced: Option<&Sourced<T>>) {
    if let Some(sourced) = sourced {
        setting.clone_from(&sourced.value);
    }
}

fn value<T: Clone>(sourced: Option<&Sourced<T>>) -> Option<T> {
    sourced.map(|sourced| sourced.value.clone())
}

fn shown<T>(key: &str, value: String, sourced: Option<&Sourced<T>>) -> Row {
    let origin = sourced.map_or(Origin::Default, |sourced| sourced.origin.clone());
    Row { key: format!("store.{key}"), value, origin }
}

/// Reads `store = "…"` or `[store]`.
pub(super) fn read(
    reader: &mut Reader<'_>,
    value: &Value<'_>,
    origin: &Origin,
) -> (Option<Sourced<StoreAddress>>, Shared) {
    if value.get_ref().as_str().is_some() {
        let place = reader.store("store", value);
        return (place.map(|place| Sourced::new(place, origin.clone())), Shared::default());
    }
    let Some(table) = value.get_ref().as_table() else {
        reader.wrong_type("store", value, "a directory, an address or a table");
        return (None, Shared::default());
    };
    reader.check_keys("store.", table, &KEYS);
    let mut settings = Settings { reader, table, origin };
    let place = settings.read("address", Reader::store);
    let shared = Shared {
        replicas: settings.read("replicas", replicas),
        lease: settings.read("lease", Reader::duration),
        conflicts: settings.read("conflicts", Reader::duration),
        outages: settings.read("outages", Reader::duration),
        bucket: settings.read("bucket", bucket),
        user: settings.read("user", Reader::string),
        password: settings.read("password", secret),
        token: settings.read("token", secret),
        creds: settings.read("creds", Reader::path),
        nkey: settings.read("nkey", Reader::path),
        ca: settings.read("ca", Reader::path),
        cert: settings.read("cert", Reader::path),
        key: settings.read("key", Reader::path),
    };
    if let (Some(alone), None) | (None, Some(alone)) = (table.get("cert"), table.get("key")) {
        reader.fault(alone.span(), "`store.cert` and `store.key` belong together; one of them is missing");
    }
    (place, shared)
}

/// The table `[store]` of a file.
struct Settings<'r, 'f, 't> {
    reader: &'r mut Reader<'f>,
    table: &'r DeTable<'t>,
    origin: &'r Origin,
}

impl<'f> Settings<'_, 'f, '_> {
    fn read<T>(
        &mut self,
        key: &str,
        read: impl FnOnce(&mut Reader<'f>, &str, &Value<'_>) -> Option<T>,
    ) -> Option<Sourced<T>> {
        let value = read(self.reader, &format!("store.{key}"), self.table.get(key)?)?;
        Some(Sourced::new(value, self.origin.clone()))
    }
}

fn replicas(reader: &mut Reader<'_>, key: &str, value: &Value<'_>) -> Option<NonZeroU32> {
    let replicas = reader.positive(key, value)?;
    // Servers refuse more.
    if replicas.get() > 5 {
        reader.fault(value.span(), format!("`{key}` is more than 5, which is all that NATS keeps"));
    }
    Some(replicas)
}

fn bucket(reader: &mut Reader<'_>, key: &str, value: &Value<'_>) -> Option<String> {
    let bucket = reader.string(key, value)?;
    let is_plain = |letter: char| letter.is_ascii_alphanumeric() || matches!(letter, '-' | '_');
    if !bucket.chars().all(is_plain) {
        reader.fault(value.span(), format!("`{key}` is no name of a bucket: letters, digits, - and _"));
    }
    Some(bucket)
}

fn secret(reader: &mut Reader<'_>, key: &str, value: &Value<'_>) -> Option<Secret> {
    reader.string(key, value).map(Secret)
}

/// The variables that other programs of NATS read, too.
pub(super) fn read_environment<'a>(get: impl Fn(&'static str) -> Option<&'a OsStr>) -> Shared {
    let text = |name| {
        let value = get(name)?.to_string_lossy().into_owned();
        Some(Sourced::new(value, Origin::Environment(name)))
    };
    let secret = |name| text(name).map(|text| Sourced::new(Secret(text.value), text.origin));
    let file = |name| get(name).map(|path| Sourced::new(PathBuf::from(path), Origin::Environment(name)));
    Shared {
        user: text("NATS_USER"),
        password: secret("NATS_PASSWORD"),
        token: secret("NATS_TOKEN"),
        creds: file("NATS_CREDS"),
        nkey: file("NATS_NKEY"),
        ca: file("NATS_CA"),
        cert: file("NATS_CERT"),
        key: file("NATS_KEY"),
        ..Shared::default()
    }
}
