//! Where the store is: a directory, or servers of NATS with what it takes to be let in.

use std::ffi::OsStr;
use std::fmt;
use std::num::NonZeroU32;
use std::path::PathBuf;
use std::time::Duration;

use store::{Access, BadSettings, NatsSettings};

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
pub(crate) enum StorePlace {
    Directory(PathBuf),
    Nats(Box<NatsSettings>),
}

impl StorePlace {
    /// Reads what somebody typed. A relative directory stays as it is.
    pub(super) fn read(text: &OsStr) -> Result<Self, BadSettings> {
        match text.to_str() {
            Some(text) if text.contains("://") => Ok(Self::Nats(Box::new(text.parse()?))),
            Some(_) | None => Ok(Self::Directory(text.into())),
        }
    }
}

/// How an address is to be written that was not understood.
pub(super) fn how_to_write(error: &BadSettings) -> &'static str {
    match error {
        BadSettings::NoServer | BadSettings::Scheme { .. } | BadSettings::Address { .. } => {
            "write nats://127.0.0.1:4222, or tls://host:4222; several are separated by commas"
        }
        BadSettings::TwoUsers => "name one user in all of them, or none, and set NATS_USER and NATS_PASSWORD",
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
        let Self {
            replicas,
            lease,
            conflicts,
            outages,
            bucket,
            user,
            password,
            token,
            creds,
            nkey,
            ca,
            cert,
            key,
        } = self;
        fill(replicas, weaker.replicas);
        fill(lease, weaker.lease);
        fill(conflicts, weaker.conflicts);
        fill(outages, weaker.outages);
        fill(bucket, weaker.bucket);
        fill(user, weaker.user);
        fill(password, weaker.password);
        fill(token, weaker.token);
        fill(creds, weaker.creds);
        fill(nkey, weaker.nkey);
        fill(ca, weaker.ca);
        fill(cert, weaker.cert);
        fill(key, weaker.key);
    }

    /// Says all of it to a store on NATS. Who the address names is let in as that; else files come before words.
    pub(super) fn settle(&self, settings: &mut NatsSettings) {
        if let Some(replicas) = &self.replicas {
            settings.replicas = usize::try_from(replicas.value.get()).unwrap_or(usize::MAX);
        }
        set(&mut settings.lease, self.lease.as_ref());
        set(&mut settings.patience.conflict, self.conflicts.as_ref());
        set(&mut settings.patience.outage, self.outages.as_ref());
        // Nobody waits longer for one answer than for all of an outage.
        settings.patience.answer = settings.patience.answer.min(settings.patience.outage);
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
            shown("conflicts", rows::seconds(settings.patience.conflict), self.conflicts.as_ref()),
            shown("outages", rows::seconds(settings.patience.outage), self.outages.as_ref()),
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

fn fill<T>(stronger: &mut Option<T>, weaker: Option<T>) {
    *stronger = stronger.take().or(weaker);
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
) -> (Option<Sourced<StorePlace>>, Shared) {
    let sourced = |place| Sourced::new(place, origin.clone());
    if value.get_ref().as_str().is_some() {
        return (reader.store("store", value).map(sourced), Shared::default());
    }
    let Some(table) = value.get_ref().as_table() else {
        reader.wrong_type("store", value, "a directory, an address or a table");
        return (None, Shared::default());
    };
    reader.check_keys("store.", table, &KEYS);
    let place = table.get("address").and_then(|value| reader.store("store.address", value)).map(sourced);
    let get = |key: &str| table.get(key);
    let mut length = |key: &str| {
        let length = get(key).and_then(|value| reader.duration(&format!("store.{key}"), value));
        length.map(|length| Sourced::new(length, origin.clone()))
    };
    let (lease, conflicts, outages) = (length("lease"), length("conflicts"), length("outages"));
    let mut text = |key: &str| {
        let text = get(key).and_then(|value| reader.string(&format!("store.{key}"), value));
        text.map(|text| Sourced::new(text, origin.clone()))
    };
    let (bucket, user) = (text("bucket"), text("user"));
    let is_plain = |letter: char| letter.is_ascii_alphanumeric() || matches!(letter, '-' | '_');
    let odd = bucket.as_ref().is_some_and(|bucket| !bucket.value.chars().all(is_plain));
    let secret = |text: Sourced<String>| Sourced::new(Secret(text.value), text.origin);
    let (password, token) = (text("password").map(secret), text("token").map(secret));
    let mut file = |key: &str| {
        let path = get(key).and_then(|value| reader.path(&format!("store.{key}"), value));
        path.map(|path| Sourced::new(path, origin.clone()))
    };
    let (creds, nkey) = (file("creds"), file("nkey"));
    let (ca, cert, key) = (file("ca"), file("cert"), file("key"));
    let replicas = get("replicas").and_then(|value| reader.positive("store.replicas", value));
    if let Some(value) = get("bucket").filter(|_| odd) {
        reader.fault(value.span(), "`store.bucket` is no name of a bucket: letters, digits, - and _");
    }
    // Servers refuse more.
    if let Some(value) = get("replicas").filter(|_| replicas.is_some_and(|replicas| replicas.get() > 5)) {
        reader.fault(value.span(), "`store.replicas` is more than 5, which is all that NATS keeps");
    }
    if let (Some(alone), None) | (None, Some(alone)) = (get("cert"), get("key")) {
        reader.fault(alone.span(), "`store.cert` and `store.key` belong together; one of them is missing");
    }
    let shared = Shared {
        replicas: replicas.map(|replicas| Sourced::new(replicas, origin.clone())),
        lease,
        conflicts,
        outages,
        bucket,
        user,
        password,
        token,
        creds,
        nkey,
        ca,
        cert,
        key,
    };
    (place, shared)
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
