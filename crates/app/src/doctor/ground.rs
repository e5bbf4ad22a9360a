//! Where the doctor looks. Unlike [`Workspace`](crate::here::Workspace) it is found whatever is wrong: what cannot be settled is
//! kept as the failure it is.

use std::path::{Path, PathBuf};

use store::{Location, NatsSettings, Repository};

use crate::config::{Config, ConfigErrors, Flags, StoreAddress};
use crate::failure::Failure;
use crate::output::paste;
use crate::workspace::{self, LocationArgs};

#[derive(Debug)]
pub(crate) struct Ground {
    pub(crate) repo: PathBuf,
    pub(crate) repository: Result<Option<Repository>, Failure>,
    pub(crate) config: Result<Config, ConfigErrors>,
    /// Where the embedded store is, or what this machine needs for one on NATS.
    pub(crate) location: Result<Location, Failure>,
    /// The servers, if the store is on NATS.
    pub(crate) nats: Option<Box<NatsSettings>>,
    /// Who said that the store is there.
    pub(crate) chosen_by: String,
    /// What commands that we suggest need to look at the same place.
    pub(crate) flags: String,
}

impl Ground {
    /// Fails only where there is no place to look at.
    pub(crate) fn find(args: &LocationArgs) -> Result<Self, Failure> {
        let start = match &args.repo {
            Some(path) => path.clone(),
            None => std::env::current_dir()
                .map_err(|error| Failure::usage("cannot tell the current directory").because(Some(&error)))?,
        };
        let start = start.canonicalize().map_err(|error| {
            Failure::usage(format!("cannot look at `{}`", start.display()))
                .because(Some(&error))
                .hint("give an existing directory with `--repo`")
        })?;
        let repository = store::repository(&start).map_err(Failure::from);
        let repo = match (&args.repo, &repository) {
            (None, Ok(Some(Repository { work_tree: Some(top), .. }))) => top.clone(),
            (Some(_) | None, _) => start,
        };
        let config = Config::find(&repo, Flags { store: args.store.clone(), ..Flags::default() });
        let chosen_by = match &config {
            Ok(config) => config.store_origin().map(|origin| format!("set by {origin}")),
            Err(_) => args.store.is_some().then(|| "set by --store".to_owned()),
        };
        let chosen_by = chosen_by.unwrap_or_else(|| match &repository {
            Ok(Some(_)) => "in the git directory".to_owned(),
            Ok(None) | Err(_) => "outside git".to_owned(),
        });
        let (location, nats) = match &config {
            Ok(config) => match workspace::locate(&repo, config) {
                Ok((location, nats)) => (Ok(location), nats),
                Err(failure) => (Err(failure), None),
            },
            Err(_) => (typed_location(&repo, args.store.as_deref()), None),
        };
        paste::remember(args, nats.as_deref());
        let flags = paste::flags(args, nats.as_deref());
        Ok(Self { repo, repository, config, location, nats, chosen_by, flags })
    }

    /// Whether somebody said where the store is.
    pub(crate) fn is_told(&self) -> bool {
        self.config.as_ref().is_ok_and(|config| config.store().is_some())
    }

    /// Whether the store was given by the address of its servers, and not by a directory.
    pub(crate) fn has_address(&self) -> bool {
        self.config.as_ref().is_ok_and(|config| matches!(config.store(), Some(StoreAddress::Nats(_))))
    }

    /// The store as it is given to commands, if it could be settled. No secret is in it.
    pub(crate) fn store(&self) -> Option<PathBuf> {
        match &self.nats {
            Some(settings) => Some(settings.server().into()),
            None => self.root().map(Path::to_owned),
        }
    }

    /// The directory of the store, if it could be settled.
    pub(crate) fn root(&self) -> Option<&Path> {
        self.location.as_ref().ok().map(Location::root)
    }
}

/// The place that was typed, where nothing else that is set could be read. An address is not repeated: it may hold a password.
fn typed_location(repo: &Path, typed: Option<&Path>) -> Result<Location, Failure> {
    let place = typed.map(|typed| StoreAddress::read(typed.as_os_str()));
    match place {
        Some(Ok(StoreAddress::Nats(_)) | Err(_)) => Err(Failure::usage("the servers were not asked")
            .hint("the configuration says how; set it right first, then type the same again")),
        Some(Ok(StoreAddress::Directory(_))) | None => Ok(Location::find(repo, typed.map(Path::to_owned))?),
    }
}
