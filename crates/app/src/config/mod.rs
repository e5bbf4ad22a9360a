//! The configuration: which value holds, and where it came from.
//!
//! Strongest first: flags, `CALLBOARD_*` in the environment, `callboard.toml` at the project root, the user's own
//! `callboard/config.toml`. A value of a stronger source replaces that of a weaker one; an adapter is replaced as a
//! whole, since half of one and half of another would start something that neither file describes.
//!
//! Files are read strictly: an unknown key is an error with its place, and all errors are reported at once.

mod adapter;
mod environment;
mod error;
mod file;
mod origin;
mod rows;
mod store;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::num::NonZeroU32;
use std::path::{Path, PathBuf};
use std::time::Duration;

use ::store::{NatsSettings, NatsSettingsError};
use etcetera::BaseStrategy as _;
use protocol::rules::DEFAULT_MAX_ATTEMPTS;

pub(crate) use adapter::{Adapter, Launch};
use error::Place;
pub(crate) use error::{ConfigErrors, Fault};
pub(crate) use origin::{Origin, Sourced};
use store::Shared;
pub(crate) use store::StoreAddress;

/// The name of the project's file.
const PROJECT_FILE: &str = "callboard.toml";

/// At most this long between the first attempt of a step and the second.
const DEFAULT_BACKOFF: Duration = Duration::from_secs(2);

/// The configuration in force.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Config {
    /// How many attempts may run at once; `None` leaves it to the number of processors.
    jobs: Option<Sourced<NonZeroU32>>,
    pub(crate) max_attempts: Sourced<NonZeroU32>,
    /// The longest wait before the second attempt of a step; it doubles with each further one.
    pub(crate) backoff: Sourced<Duration>,
    /// Where the store lives; `None` leaves it to the store, which looks for the repository.
    store: Option<Sourced<StoreAddress>>,
    /// What else is set for a store on NATS; its place has it all.
    shared: Shared,
    /// How agents are started, by the name that a step's `agent` gives.
    pub(crate) adapters: BTreeMap<String, Sourced<Adapter>>,
}

/// Where values may come from.
#[derive(Debug, Clone, Default)]
pub(crate) struct Sources {
    pub(crate) flags: Flags,
    pub(crate) env: Vec<(OsString, OsString)>,
    /// Files that do not exist say nothing; files that cannot be read are errors.
    pub(crate) project_file: Option<PathBuf>,
    pub(crate) user_file: Option<PathBuf>,
}

/// What was given on the command line.
#[derive(Debug, Clone, Default)]
pub(crate) struct Flags {
    pub(crate) jobs: Option<NonZeroU32>,
    pub(crate) max_attempts: Option<NonZeroU32>,
    pub(crate) store: Option<PathBuf>,
}

impl Sources {
    /// The usual places: this process's environment, the project's file and the user's.
    fn usual(flags: Flags, project_root: &Path) -> Self {
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
    /// Reads the usual places for the project at `root`.
    pub(crate) fn find(root: &Path, flags: Flags) -> Result<Self, ConfigErrors> {
        Self::load(Sources::usual(flags, root))
    }

    /// The same for a process that has none of our variables, and is told this store or none.
    pub(crate) fn without_environment(root: &Path, store: Option<PathBuf>) -> Result<Self, ConfigErrors> {
        let flags = Flags { store, ..Flags::default() };
        Self::load(Sources { env: Vec::new(), ..Sources::usual(flags, root) })
    }

    /// The directory of the user's own file.
    pub(crate) fn user_directory() -> Option<PathBuf> {
        let directories = etcetera::choose_base_strategy().ok()?;
        Some(directories.config_dir().join("callboard"))
    }

    /// How many attempts may run at once. To count processors takes a look at a dozen files, and most commands never ask.
    pub(crate) fn jobs(&self) -> Sourced<NonZeroU32> {
        self.jobs.clone().unwrap_or_else(|| Sourced::new(cpus(), Origin::Default))
    }

    /// Where the store was told to live, if it was told.
    pub(crate) fn store(&self) -> Option<&StoreAddress> {
        self.store.as_ref().map(|store| &store.value)
    }

    /// What is set for stores on NATS, for one whose address comes from elsewhere.
    pub(crate) fn settings_for(&self, address: &str) -> Result<NatsSettings, NatsSettingsError> {
        let mut settings = address.parse()?;
        self.shared.settle(&mut settings);
        Ok(settings)
    }

    /// Who told it so.
    pub(crate) fn store_origin(&self) -> Option<&Origin> {
        self.store.as_ref().map(|store| &store.origin)
    }

    /// Reads all sources and takes the strongest value of each key.
    pub(crate) fn load(sources: Sources) -> Result<Self, ConfigErrors> {
        let mut faults = vec![];
        let mut layer = flags(sources.flags, &mut faults);
        layer.lay_over(environment::read(&sources.env, &mut faults));
        if let Some(path) = sources.project_file {
            layer.lay_over(file::read(&path, Origin::ProjectFile(path.clone()), &mut faults));
        }
        if let Some(path) = sources.user_file {
            layer.lay_over(file::read(&path, Origin::UserFile(path.clone()), &mut faults));
        }
        // In a file it was noticed where it stands.
        if faults.is_empty() {
            faults.extend(layer.idle());
        }
        if faults.is_empty() { Ok(layer.with_defaults()) } else { Err(ConfigErrors(faults)) }
    }
}

fn flags(flags: Flags, faults: &mut Vec<Fault>) -> Layer {
    let store = flags.store.and_then(|typed| match typed_store(&typed) {
        Ok(place) => Some(Sourced::new(place, Origin::Flag("--store"))),
        Err((message, hint)) => {
            faults.push(Fault { place: Place::Flag("--store"), message, hint });
            None
        }
    });
    Layer {
        jobs: flags.jobs.map(|jobs| Sourced::new(jobs, Origin::Flag("--jobs"))),
        max_attempts: flags.max_attempts.map(|tries| Sourced::new(tries, Origin::Flag("--max-attempts"))),
        store,
        ..Layer::default()
    }
}

/// A relative directory on the command line is meant from where the command is typed.
fn typed_store(typed: &Path) -> Result<StoreAddress, (String, Option<String>)> {
    let bad = |error: NatsSettingsError| (error.to_string(), Some(store::how_to_write(&error).to_owned()));
    match StoreAddress::read(typed.as_os_str()).map_err(bad)? {
        StoreAddress::Directory(directory) => std::path::absolute(&directory)
            .map(StoreAddress::Directory)
            .map_err(|error| (format!("cannot tell the current directory: {error}"), None)),
        nats @ StoreAddress::Nats(_) => Ok(nats),
    }
}

/// What one source says, or several laid over one another.
#[derive(Debug, Default)]
struct Layer {
    jobs: Option<Sourced<NonZeroU32>>,
    max_attempts: Option<Sourced<NonZeroU32>>,
    backoff: Option<Sourced<Duration>>,
    store: Option<Sourced<StoreAddress>>,
    shared: Shared,
    adapters: BTreeMap<String, Sourced<Adapter>>,
}

impl Layer {
    /// Fills what this layer leaves open from a weaker one.
    fn lay_over(&mut self, weaker: Self) {
        self.jobs = self.jobs.take().or(weaker.jobs);
        self.max_attempts = self.max_attempts.take().or(weaker.max_attempts);
        self.backoff = self.backoff.take().or(weaker.backoff);
        self.store = self.store.take().or(weaker.store);
        self.shared.lay_over(weaker.shared);
        for (name, adapter) in weaker.adapters {
            self.adapters.entry(name).or_insert(adapter);
        }
    }

    /// What would be left away in silence because its other half is missing: people would look for the fault elsewhere.
    fn idle(&self) -> Vec<Fault> {
        let Some(Sourced { value: StoreAddress::Nats(settings), .. }) = &self.store else {
            return Vec::new();
        };
        let fault = |origin: &Origin, message: &str, hint: &str| {
            let place = match origin {
                Origin::ProjectFile(path) | Origin::UserFile(path) => Place::WholeFile(path.clone()),
                Origin::Environment(name) => Place::Environment(name),
                Origin::Flag(_) | Origin::Default => return None,
            };
            Some(Fault { place, message: message.to_owned(), hint: Some(hint.to_owned()) })
        };
        let password = self.shared.idle_password(settings).and_then(|origin| {
            let hint = "set NATS_USER, or `user` in `[store]`; a token goes into NATS_TOKEN";
            fault(origin, "it has a password, and no user is named", hint)
        });
        let half = self.shared.lone_half().and_then(|origin| {
            let hint = "set NATS_CERT and NATS_KEY, or `cert` and `key` in `[store]`";
            fault(origin, "a certificate and its key belong together; one of them is missing", hint)
        });
        password.into_iter().chain(half).collect()
    }

    fn with_defaults(mut self) -> Config {
        if let Some(Sourced { value: StoreAddress::Nats(settings), .. }) = &mut self.store {
            self.shared.settle(settings);
        }
        Config {
            jobs: self.jobs,
            max_attempts: self.max_attempts.unwrap_or_else(|| default(DEFAULT_MAX_ATTEMPTS)),
            backoff: self.backoff.unwrap_or_else(|| default(DEFAULT_BACKOFF)),
            store: self.store,
            shared: self.shared,
            adapters: self.adapters,
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
