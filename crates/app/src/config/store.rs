//! The address of the store: a directory, or NATS servers with their credentials.

use std::ffi::OsStr;
use std::fmt;
use std::num::NonZeroU32;
use std::path::PathBuf;
use std::time::Duration;

use store::{NatsAuth, NatsSettings, NatsSettingsError};
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

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum StoreAddress {
    Directory(PathBuf),
    Nats(Box<NatsSettings>),
}

impl StoreAddress {
    /// Parses a directory or an address. A relative directory stays relative.
    pub(crate) fn read(text: &OsStr) -> Result<Self, NatsSettingsError> {
        match text.to_str() {
            Some(text) if text.contains("://") => Ok(Self::Nats(Box::new(text.parse()?))),
            Some(text) if lacks_scheme(text) => Err(NatsSettingsError::MissingScheme),
            Some(_) | None => Ok(Self::Directory(text.into())),
        }
    }
}

/// Whether the text is an address without `://`: a host and a port, or a scheme.
fn lacks_scheme(text: &str) -> bool {
    let has_port =
        text.rsplit_once(':').is_some_and(|(host, port)| !host.is_empty() && port.parse::<u16>().is_ok());
    !text.contains('/') && (has_port || text.starts_with("nats:") || text.starts_with("tls:"))
}

/// Says how to write an address that could not be parsed.
pub(super) fn address_hint(error: &NatsSettingsError) -> &'static str {
    match error {
        NatsSettingsError::NoServer
        | NatsSettingsError::Scheme { .. }
        | NatsSettingsError::Address { .. } => {
            "write `nats://127.0.0.1:4222` or `tls://host:4222`; separate several servers by commas"
        }
        NatsSettingsError::MissingScheme => {
            "write `nats://` before it; write `./NAME` for a directory of that name"
        }
        NatsSettingsError::DifferentCredentials => {
            "use the same user for all servers, or no user and set NATS_USER and NATS_PASSWORD"
        }
    }
}

/// A text that is never printed.
#[derive(Clone, PartialEq, Eq)]
pub(super) struct Secret(pub(super) String);

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("***")
    }
}

/// The options of a store on NATS besides its address.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct NatsOptions {
    pub(super) replicas: Option<Sourced<NonZeroU32>>,
    pub(super) lease: Option<Sourced<Duration>>,
    /// How long a commit is retried after conflicts with other writers.
    pub(super) conflicts: Option<Sourced<Duration>>,
    /// How long to wait for servers that do not answer.
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

impl NatsOptions {
    /// Fills options that are not set from a weaker source.
    pub(super) fn merge_weaker(&mut self, weaker: Self) {
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

    /// Applies the options. A user in the address wins; credential files win over passwords and tokens.
    pub(super) fn apply_to(&self, settings: &mut NatsSettings) {
        if let Some(replicas) = &self.replicas {
            settings.replicas = usize::try_from(replicas.value.get()).unwrap_or(usize::MAX);
        }
        set(&mut settings.lease, self.lease.as_ref());
        set(&mut settings.timeouts.conflict, self.conflicts.as_ref());
        set(&mut settings.timeouts.outage, self.outages.as_ref());
        // Leave time for at least two requests within the outage timeout.
        settings.timeouts.request = settings.timeouts.request.min(settings.timeouts.outage / 2);
        set(&mut settings.bucket, self.bucket.as_ref());
        if settings.auth == NatsAuth::Anonymous {
            settings.auth = self.auth();
        }
        settings.tls.roots = value(self.ca.as_ref());
        settings.tls.identity = value(self.cert.as_ref()).zip(value(self.key.as_ref()));
    }

    /// Returns the origin of a password that has no user.
    pub(super) fn password_without_user(&self, settings: &NatsSettings) -> Option<&Origin> {
        let password = self.password.as_ref().filter(|_| settings.auth == NatsAuth::Anonymous)?;
        (self.auth() == NatsAuth::Anonymous).then_some(&password.origin)
    }

    /// Returns the origin of a certificate without a key, or of a key without a certificate.
    pub(super) fn unpaired_tls_file(&self) -> Option<&Origin> {
        match (&self.cert, &self.key) {
            (Some(unpaired), None) | (None, Some(unpaired)) => Some(&unpaired.origin),
            (Some(_), Some(_)) | (None, None) => None,
        }
    }

    fn auth(&self) -> NatsAuth {
        if let Some(creds) = value(self.creds.as_ref()) {
            NatsAuth::Credentials(creds)
        } else if let Some(nkey) = value(self.nkey.as_ref()) {
            NatsAuth::Nkey(nkey)
        } else if let Some(token) = &self.token {
            NatsAuth::Token(token.value.0.clone())
        } else if let Some(user) = value(self.user.as_ref()) {
            let password = self.password.as_ref().map(|password| password.value.0.clone());
            NatsAuth::Password { user, password: password.unwrap_or_default() }
        } else {
            NatsAuth::Anonymous
        }
    }

    /// Returns the effective options as rows of `callboard config`. Secrets are masked.
    pub(super) fn rows(&self, settings: &NatsSettings) -> Vec<Row> {
        let mut rows = vec![
            option_row("replicas", settings.replicas.to_string(), self.replicas.as_ref()),
            option_row("lease", rows::seconds(settings.lease), self.lease.as_ref()),
            option_row("conflicts", rows::seconds(settings.timeouts.conflict), self.conflicts.as_ref()),
            option_row("outages", rows::seconds(settings.timeouts.outage), self.outages.as_ref()),
            option_row("bucket", rows::quoted(&settings.bucket), self.bucket.as_ref()),
        ];
        rows.extend(self.user.iter().map(|user| option_row("user", rows::quoted(&user.value), Some(user))));
        for (key, secret) in [("password", &self.password), ("token", &self.token)] {
            rows.extend(secret.iter().map(|secret| option_row(key, "***".to_owned(), Some(secret))));
        }
        let files = [
            ("creds", &self.creds),
            ("nkey", &self.nkey),
            ("ca", &self.ca),
            ("cert", &self.cert),
            ("key", &self.key),
        ];
        for (key, file) in files {
            rows.extend(file.iter().map(|file| option_row(key, rows::path(&file.value), Some(file))));
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

fn option_row<T>(key: &str, value: String, sourced: Option<&Sourced<T>>) -> Row {
    let origin = sourced.map_or(Origin::Default, |sourced| sourced.origin.clone());
    Row { key: format!("store.{key}"), value, origin }
}

/// Reads `store = "…"` or `[store]`.
pub(super) fn read(
    reader: &mut Reader<'_>,
    value: &Value<'_>,
    origin: &Origin,
) -> (Option<Sourced<StoreAddress>>, NatsOptions) {
    if value.get_ref().as_str().is_some() {
        let address = reader.store("store", value);
        return (address.map(|address| Sourced::new(address, origin.clone())), NatsOptions::default());
    }
    let Some(table) = value.get_ref().as_table() else {
        reader.wrong_type("store", value, "a directory, an address or a table");
        return (None, NatsOptions::default());
    };
    reader.check_keys("store.", table, &KEYS);
    let mut store_table = StoreTable { reader, table, origin };
    let address = store_table.read("address", Reader::store);
    let options = NatsOptions {
        replicas: store_table.read("replicas", replicas),
        lease: store_table.read("lease", Reader::duration),
        conflicts: store_table.read("conflicts", Reader::duration),
        outages: store_table.read("outages", Reader::duration),
        bucket: store_table.read("bucket", bucket),
        user: store_table.read("user", Reader::string),
        password: store_table.read("password", secret),
        token: store_table.read("token", secret),
        creds: store_table.read("creds", Reader::path),
        nkey: store_table.read("nkey", Reader::path),
        ca: store_table.read("ca", Reader::path),
        cert: store_table.read("cert", Reader::path),
        key: store_table.read("key", Reader::path),
    };
    if let (Some(unpaired), None) | (None, Some(unpaired)) = (table.get("cert"), table.get("key")) {
        reader.error(unpaired.span(), "`store.cert` and `store.key` must both be set; one is missing");
    }
    (address, options)
}

/// Reads the keys of the table `[store]`.
struct StoreTable<'r, 'f, 't> {
    reader: &'r mut Reader<'f>,
    table: &'r DeTable<'t>,
    origin: &'r Origin,
}

impl<'f> StoreTable<'_, 'f, '_> {
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
    if replicas.get() > 5 {
        reader.error(value.span(), format!("`{key}` is more than 5, the limit of NATS"));
    }
    Some(replicas)
}

fn bucket(reader: &mut Reader<'_>, key: &str, value: &Value<'_>) -> Option<String> {
    let bucket = reader.string(key, value)?;
    let is_plain = |letter: char| letter.is_ascii_alphanumeric() || matches!(letter, '-' | '_');
    if !bucket.chars().all(is_plain) {
        reader.error(
            value.span(),
            format!("`{key}` is not a valid bucket name: use letters, digits, `-` and `_`"),
        );
    }
    Some(bucket)
}

fn secret(reader: &mut Reader<'_>, key: &str, value: &Value<'_>) -> Option<Secret> {
    reader.string(key, value).map(Secret)
}

/// Reads the variables that the NATS tools use, too.
pub(super) fn read_environment<'a>(get: impl Fn(&'static str) -> Option<&'a OsStr>) -> NatsOptions {
    let text = |name| {
        let value = get(name)?.to_string_lossy().into_owned();
        Some(Sourced::new(value, Origin::Environment(name)))
    };
    let secret = |name| text(name).map(|text| Sourced::new(Secret(text.value), text.origin));
    let file = |name| get(name).map(|path| Sourced::new(PathBuf::from(path), Origin::Environment(name)));
    NatsOptions {
        user: text("NATS_USER"),
        password: secret("NATS_PASSWORD"),
        token: secret("NATS_TOKEN"),
        creds: file("NATS_CREDS"),
        nkey: file("NATS_NKEY"),
        ca: file("NATS_CA"),
        cert: file("NATS_CERT"),
        key: file("NATS_KEY"),
        ..NatsOptions::default()
    }
}
