//! The repository, configuration and store that the checks examine.
//!
//! Unlike [`Workspace`](crate::workspace::Workspace) it exists even if parts of it are broken: each part that could not be
//! determined holds its failure, and the checks report it.

use std::path::{Path, PathBuf};

use store::{Location, NatsSettings, Repository};

use crate::config::{Config, ConfigErrors, Flags, StoreAddress};
use crate::failure::Failure;
use crate::output::location_flags;
use crate::workspace::{self, LocationArgs};

#[derive(Debug)]
pub(crate) struct DoctorContext {
    pub(crate) repo: PathBuf,
    pub(crate) repository: Result<Option<Repository>, Failure>,
    pub(crate) config: Result<Config, ConfigErrors>,
    /// Where the embedded store is or would be. Once a store on NATS is connected, its local directory.
    pub(crate) location: Result<Location, Failure>,
    /// The servers, if the store is on NATS.
    pub(crate) nats: Option<Box<NatsSettings>>,
    /// What chose this store: `set by …`, or where the default is. Printed after its address.
    pub(crate) store_reason: String,
    /// The flags that a suggested command needs to reach the same store.
    pub(crate) flags: String,
}

impl DoctorContext {
    /// Collects what the checks examine. Fails only if the directory itself does not exist.
    pub(crate) fn find(args: &LocationArgs) -> Result<Self, Failure> {
        let start = match &args.repo {
            Some(path) => path.clone(),
            None => std::env::current_dir().map_err(|error| {
                Failure::usage("cannot determine the current directory").because(Some(&error))
            })?,
        };
        let start = start.canonicalize().map_err(|error| {
            Failure::usage(format!("cannot read directory `{}`", start.display()))
                .because(Some(&error))
                .hint("name an existing directory with `--repo DIR`")
        })?;
        let repository = store::repository(&start).map_err(Failure::from);
        let repo = match (&args.repo, &repository) {
            (None, Ok(Some(Repository { work_tree: Some(top), .. }))) => top.clone(),
            (Some(_) | None, _) => start,
        };
        let config = Config::find(&repo, Flags { store: args.store.clone(), ..Flags::default() });
        let store_reason = match &config {
            Ok(config) => config.store_origin().map(|origin| format!("set by {origin}")),
            Err(_) => match (&args.store, store_variable()) {
                (Some(_), _) => Some("set by --store".to_owned()),
                (None, Some(_)) => Some("set by CALLBOARD_STORE".to_owned()),
                (None, None) => None,
            },
        };
        let store_reason = store_reason.unwrap_or_else(|| match &repository {
            Ok(Some(_)) => "in the git directory".to_owned(),
            Ok(None) | Err(_) => "outside git".to_owned(),
        });
        let (location, nats) = match &config {
            Ok(config) => match workspace::locate(&repo, config) {
                Ok((location, nats)) => (Ok(location), nats),
                Err(failure) => (Err(failure), None),
            },
            Err(_) => {
                let store = args.store.clone().or_else(store_variable);
                (location_without_config(&repo, store.as_deref()), None)
            }
        };
        // From here on, the commands in printed hints get these flags, too.
        location_flags::set_for_hints(args, nats.as_deref());
        let flags = location_flags::of(args, nats.as_deref());
        Ok(Self { repo, repository, config, location, nats, store_reason, flags })
    }

    /// Whether a flag, a variable or a file sets the store.
    pub(crate) fn has_configured_store(&self) -> bool {
        self.config.as_ref().is_ok_and(|config| config.store().is_some())
    }

    /// Whether the store is set by the address of its servers, not by a directory.
    pub(crate) fn has_server_address(&self) -> bool {
        self.config.as_ref().is_ok_and(|config| matches!(config.store(), Some(StoreAddress::Nats(_))))
    }

    /// Returns the value for `--store`, without secrets, if the store could be located.
    pub(crate) fn store(&self) -> Option<PathBuf> {
        match &self.nats {
            Some(settings) => Some(settings.server().into()),
            None => self.store_dir().map(Path::to_owned),
        }
    }

    /// Returns the directory of the store, if it could be located.
    pub(crate) fn store_dir(&self) -> Option<&Path> {
        self.location.as_ref().ok().map(Location::root)
    }
}

fn store_variable() -> Option<PathBuf> {
    std::env::var_os("CALLBOARD_STORE").filter(|value| !value.is_empty()).map(PathBuf::from)
}

/// Locates the store by `--store` or `CALLBOARD_STORE`, because the configuration could not be read. The error does not
/// quote an address, which may contain a password.
fn location_without_config(repo: &Path, store: Option<&Path>) -> Result<Location, Failure> {
    match store.map(|store| StoreAddress::read(store.as_os_str())) {
        Some(Ok(StoreAddress::Nats(_)) | Err(_)) => {
            Err(Failure::usage("cannot connect to the servers: the configuration has errors")
                .hint("correct the configuration, then run the same command again"))
        }
        Some(Ok(StoreAddress::Directory(_))) => {
            let store = store.map(std::path::absolute).transpose().map_err(|error| {
                Failure::usage("cannot determine the current directory").because(Some(&error))
            })?;
            Ok(Location::find(repo, store)?)
        }
        None => {
            let default = Location::find(repo, None)?;
            match default.root().exists() {
                true => Ok(default),
                // The configuration may name another one.
                false => Err(Failure::usage("cannot tell which store is used: the configuration has errors")
                    .hint("correct the configuration, or name the store with `--store`")),
            }
        }
    }
}
