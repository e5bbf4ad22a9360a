//! The configuration: effective values and their origins.
//!
//! Sources, strongest first: flags, `CALLBOARD_*` in the environment, `callboard.toml` at the project root, the user's
//! `callboard/config.toml`. A stronger value replaces a weaker one. An adapter, a role or a check is replaced as a whole, because
//! a mixture of two would start something that neither file describes.
//!
//! An unknown key is an error. All errors are reported at once, each with its position.

mod adapter;
mod checks;
mod detect;
mod environment;
mod error;
mod file;
mod origin;
mod role;
mod rows;
mod store;
#[cfg(test)]
mod tests;
mod worktree;

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::num::NonZeroU32;
use std::path::{Path, PathBuf};
use std::time::Duration;

use ::store::{NatsSettings, NatsSettingsError};
use etcetera::BaseStrategy as _;
use protocol::protocol_trait::DEFAULT_MAX_ATTEMPTS;
use runner::{Role, RoleName};

pub(crate) use adapter::{Adapter, Launch};
use checks::Checks;
use error::ErrorLocation;
pub(crate) use error::{ConfigError, ConfigErrors};
pub(crate) use origin::{Origin, Sourced};
pub(crate) use rows::Row;
use store::NatsOptions;
pub(crate) use store::StoreAddress;
use worktree::Worktree;

const PROJECT_FILE: &str = "callboard.toml";

const DEFAULT_BACKOFF: Duration = Duration::from_secs(2);

/// The effective configuration.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Config {
    /// The number of attempts that may run at once. `None` means the number of processors.
    jobs: Option<Sourced<NonZeroU32>>,
    pub(crate) max_attempts: Sourced<NonZeroU32>,
    /// The longest back-off before the second attempt of a step. It doubles with each further attempt. Each back-off is cut by up
    /// to half at random.
    pub(crate) backoff: Sourced<Duration>,
    /// `None` means the default directory of the repository.
    store: Option<Sourced<StoreAddress>>,
    /// Options of a store on NATS. They are already applied to `store`; other addresses need them, too.
    nats: NatsOptions,
    /// The command that is run for each new item of the inbox.
    pub(crate) notify: Option<Sourced<Vec<String>>>,
    /// Adapters by the name in a step's `agent`.
    pub(crate) adapters: BTreeMap<String, Sourced<Adapter>>,
    pub(crate) worktree: Worktree,
    pub(crate) roles: BTreeMap<RoleName, Sourced<Role>>,
    pub(crate) checks: Checks,
}

/// The sources of values.
#[derive(Debug, Clone, Default)]
pub(crate) struct Sources {
    pub(crate) flags: Flags,
    pub(crate) env: Vec<(OsString, OsString)>,
    /// A missing file is ignored; an unreadable one is an error.
    pub(crate) project_file: Option<PathBuf>,
    pub(crate) user_file: Option<PathBuf>,
}

/// Values of the command line.
#[derive(Debug, Clone, Default)]
pub(crate) struct Flags {
    pub(crate) jobs: Option<NonZeroU32>,
    pub(crate) max_attempts: Option<NonZeroU32>,
    pub(crate) store: Option<PathBuf>,
}

impl Sources {
    /// The environment of this process, the project's file and the user's file.
    fn standard(flags: Flags, project_root: &Path) -> Self {
        let user_file = Config::user_directory().map(|directory| directory.join("config.toml"));
        Self {
            flags,
            env: std::env::vars_os().collect(),
            project_file: Some(project_root.join(PROJECT_FILE)),
            user_file,
        }
    }
}

impl Config {
    /// Reads the standard sources of the project at `root`.
    pub(crate) fn find(root: &Path, flags: Flags) -> Result<Self, ConfigErrors> {
        Self::load(Sources::standard(flags, root))
    }

    /// Reads the configuration of a process with an empty environment, started with this `--store`.
    pub(crate) fn without_environment(root: &Path, store: Option<PathBuf>) -> Result<Self, ConfigErrors> {
        let flags = Flags { store, ..Flags::default() };
        Self::load(Sources { env: Vec::new(), ..Sources::standard(flags, root) })
    }

    /// Returns the directory of the user's file.
    pub(crate) fn user_directory() -> Option<PathBuf> {
        let directories = etcetera::choose_base_strategy().ok()?;
        Some(directories.config_dir().join("callboard"))
    }

    /// Returns the number of attempts that may run at once. Counts processors only on demand, because that reads a dozen
    /// files and most commands do not need it.
    pub(crate) fn jobs(&self) -> Sourced<NonZeroU32> {
        self.jobs.clone().unwrap_or_else(|| Sourced::new(cpus(), Origin::Default))
    }

    /// Returns the store that a source sets.
    pub(crate) fn store(&self) -> Option<&StoreAddress> {
        self.store.as_ref().map(|store| &store.value)
    }

    /// Returns the settings of a store on NATS at an address that is not part of the configuration.
    pub(crate) fn nats_settings_for(&self, address: &str) -> Result<NatsSettings, NatsSettingsError> {
        let mut settings = address.parse()?;
        self.nats.apply_to(&mut settings);
        Ok(settings)
    }

    /// Returns the origin of the store.
    pub(crate) fn store_origin(&self) -> Option<&Origin> {
        self.store.as_ref().map(|store| &store.origin)
    }

    /// Reads all sources and takes the strongest value of each key.
    pub(crate) fn load(sources: Sources) -> Result<Self, ConfigErrors> {
        let mut errors = vec![];
        let mut layer = flags(sources.flags, &mut errors);
        layer.merge_weaker(environment::read(&sources.env, &mut errors));
        if let Some(path) = sources.project_file {
            layer.merge_weaker(file::read(&path, Origin::ProjectFile(path.clone()), &mut errors));
        }
        if let Some(path) = sources.user_file {
            layer.merge_weaker(file::read(&path, Origin::UserFile(path.clone()), &mut errors));
        }
        // `file::read` has reported what is incomplete within one file, with its position. This is about all sources together.
        if errors.is_empty() {
            errors.extend(layer.incomplete_settings());
        }
        if errors.is_empty() { Ok(layer.with_defaults()) } else { Err(ConfigErrors(errors)) }
    }
}

fn flags(flags: Flags, errors: &mut Vec<ConfigError>) -> Layer {
    let store = flags.store.and_then(|value| match parse_store_flag(&value) {
        Ok(address) => Some(Sourced::new(address, Origin::Flag("--store"))),
        Err((message, hint)) => {
            errors.push(ConfigError { location: ErrorLocation::Flag("--store"), message, hint });
            None
        }
    });
    Layer {
        jobs: flags.jobs.map(|jobs| Sourced::new(jobs, Origin::Flag("--jobs"))),
        max_attempts: flags.max_attempts.map(|limit| Sourced::new(limit, Origin::Flag("--max-attempts"))),
        store,
        ..Layer::default()
    }
}

/// Parses the value of `--store`. A relative directory starts at the current directory. Fails with a message and a hint.
fn parse_store_flag(value: &Path) -> Result<StoreAddress, (String, Option<String>)> {
    let invalid =
        |error: NatsSettingsError| (error.to_string(), Some(store::address_hint(&error).to_owned()));
    match StoreAddress::read(value.as_os_str()).map_err(invalid)? {
        StoreAddress::Directory(directory) => std::path::absolute(&directory)
            .map(StoreAddress::Directory)
            .map_err(|error| (format!("cannot determine the current directory: {error}"), None)),
        nats @ StoreAddress::Nats(_) => Ok(nats),
    }
}

/// The values of one source, or of several merged ones.
#[derive(Debug, Default)]
struct Layer {
    jobs: Option<Sourced<NonZeroU32>>,
    max_attempts: Option<Sourced<NonZeroU32>>,
    backoff: Option<Sourced<Duration>>,
    store: Option<Sourced<StoreAddress>>,
    nats: NatsOptions,
    notify: Option<Sourced<Vec<String>>>,
    adapters: BTreeMap<String, Sourced<Adapter>>,
    worktree: Worktree,
    roles: BTreeMap<RoleName, Sourced<Role>>,
    checks: Checks,
}

impl Layer {
    /// Fills values that this layer does not set from a weaker one.
    fn merge_weaker(&mut self, weaker: Self) {
        self.jobs = self.jobs.take().or(weaker.jobs);
        self.max_attempts = self.max_attempts.take().or(weaker.max_attempts);
        self.backoff = self.backoff.take().or(weaker.backoff);
        self.store = self.store.take().or(weaker.store);
        self.nats.merge_weaker(weaker.nats);
        self.notify = self.notify.take().or(weaker.notify);
        self.worktree.merge_weaker(weaker.worktree);
        self.checks.merge_weaker(weaker.checks);
        for (name, adapter) in weaker.adapters {
            self.adapters.entry(name).or_insert(adapter);
        }
        for (name, role) in weaker.roles {
            self.roles.entry(name).or_insert(role);
        }
    }

    /// Reports settings that have no effect because their counterpart is missing.
    fn incomplete_settings(&self) -> Vec<ConfigError> {
        let Some(Sourced { value: StoreAddress::Nats(settings), .. }) = &self.store else {
            return Vec::new();
        };
        let error = |origin: &Origin, message: &str, hint: &str| {
            let location = match origin {
                Origin::ProjectFile(path) | Origin::UserFile(path) => ErrorLocation::WholeFile(path.clone()),
                Origin::Environment(name) => ErrorLocation::Environment(name),
                Origin::Flag(_) | Origin::Default | Origin::Detected(_) => return None,
            };
            Some(ConfigError { location, message: message.to_owned(), hint: Some(hint.to_owned()) })
        };
        let password = self.nats.password_without_user(settings).and_then(|origin| {
            let hint = "set NATS_USER, or `user` in `[store]`; set a token with NATS_TOKEN";
            error(origin, "there is a password but no user", hint)
        });
        let tls = self.nats.unpaired_tls_file().and_then(|origin| {
            let hint = "set NATS_CERT and NATS_KEY, or `cert` and `key` in `[store]`";
            error(origin, "a client certificate needs both a certificate and a key; one is missing", hint)
        });
        password.into_iter().chain(tls).collect()
    }

    fn with_defaults(mut self) -> Config {
        if let Some(Sourced { value: StoreAddress::Nats(settings), .. }) = &mut self.store {
            self.nats.apply_to(settings);
        }
        Config {
            jobs: self.jobs,
            max_attempts: self.max_attempts.unwrap_or_else(|| default(DEFAULT_MAX_ATTEMPTS)),
            backoff: self.backoff.unwrap_or_else(|| default(DEFAULT_BACKOFF)),
            store: self.store,
            nats: self.nats,
            notify: self.notify,
            adapters: self.adapters,
            worktree: self.worktree,
            roles: self.roles,
            checks: self.checks,
        }
    }
}

fn default<T>(value: T) -> Sourced<T> {
    Sourced::new(value, Origin::Default)
}

fn cpus() -> NonZeroU32 {
    let cpus = std::thread::available_parallelism().ok();
    cpus.and_then(|cpus| NonZeroU32::try_from(cpus).ok()).unwrap_or(NonZeroU32::MIN)
}
