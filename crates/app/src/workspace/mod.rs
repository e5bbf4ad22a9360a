//! The repository a command works in, its configuration and its store.

pub(crate) mod definition;
pub(crate) mod lost_store;
pub(crate) mod prompts;
pub(crate) mod view_paths;
pub(crate) mod worktrees;

use std::path::{Path, PathBuf};

use protocol::checks::CheckSpec;
use protocol::entry::Author;
use protocol::peer::PeerCycleId;
use protocol::run::RunStatus;
use protocol::{ProtocolKind, Protocols, RunId};
use runner::{Clock, Journal, Summary};
use store::{AnyStore, Backend, Location, NatsSettings, NatsWarning, RunListing, SqliteStore};

use crate::config::{Config, Flags, StoreAddress};
use crate::failure::{Code, Exit, Failure};
use crate::output::{self, location_flags};
use crate::present;
use crate::workspace::lost_store::LostStore;

#[derive(Debug, Clone)]
pub(crate) struct Workspace {
    pub(crate) repo: PathBuf,
    /// The directory of the embedded store, which may not exist yet.
    pub(crate) location: Location,
    /// The servers, if the store is on NATS.
    pub(crate) nats: Option<Box<NatsSettings>>,
    pub(crate) config: Config,
    pub(crate) clock: Clock,
    /// The protocols that this program knows.
    pub(crate) protocols: Protocols,
}

/// The flags that locate the repository and the store.
#[derive(Debug, Clone, Default, clap::Args)]
#[command(next_help_heading = "Location")]
pub(crate) struct LocationArgs {
    /// The repository [default: the one around the current directory]
    #[arg(long, value_name = "DIR")]
    pub(crate) repo: Option<PathBuf>,

    /// The store: a directory, or `nats://HOST:PORT` [default: `callboard` in the repository's git directory]
    #[arg(long, value_name = "DIR|URL")]
    pub(crate) store: Option<PathBuf>,
}

impl Workspace {
    /// Finds the repository from `--repo` or the current directory, and its store.
    pub(crate) fn find(args: &LocationArgs, flags: Flags) -> Result<Self, Failure> {
        let repo = args.repo.as_deref();
        let start = match repo {
            Some(path) => path.to_owned(),
            None => std::env::current_dir().map_err(|error| {
                Failure::usage("cannot determine the current directory").because(Some(&error))
            })?,
        };
        let start = start.canonicalize().map_err(|error| {
            Failure::usage(format!("cannot use `{}` as the repository", start.display()))
                .because(Some(&error))
                .hint("name an existing directory with `--repo DIR`")
        })?;
        let repo = match repo {
            Some(_) => start.clone(),
            None => {
                store::repository(&start)?.and_then(|found| found.work_tree).unwrap_or_else(|| start.clone())
            }
        };
        let config = Config::find(&repo, Flags { store: args.store.clone(), ..flags })?;
        let (location, nats) = locate(&repo, &config)?;
        location_flags::set_for_hints(args, nats.as_deref());
        // Documents and environments contain both paths as text.
        crate::engine::profiles::utf8(&repo)?;
        crate::engine::profiles::utf8(location.root())?;
        Ok(Self {
            repo,
            location,
            nats,
            config,
            clock: Clock::system(),
            protocols: crate::program().protocols,
        })
    }

    /// Returns this workspace with the embedded store at another directory.
    pub(crate) fn with_store_at(self, directory: &Path) -> Result<Self, Failure> {
        let location = Location::find(&self.repo, Some(directory.to_owned()))?;
        Ok(Self { location, ..self })
    }

    /// Returns the path of the repository as text, for the document.
    pub(crate) fn repo_dir(&self) -> Result<String, Failure> {
        let text = self.repo.to_str().map(str::to_owned);
        text.ok_or_else(|| Failure::usage(format!("the path `{}` is not UTF-8", self.repo.display())))
    }

    /// Returns the checks of the repository: those of `[checks]`, or else those that its files suggest.
    pub(crate) fn checks(&self) -> Vec<CheckSpec> {
        self.config.checks.resolve(&self.repo).into_iter().map(|check| check.value).collect()
    }

    /// Opens the store. Creates it if it does not exist.
    pub(crate) async fn store(&self) -> Result<AnyStore, Failure> {
        match &self.nats {
            Some(settings) => self.connect(settings).await,
            None => Ok(SqliteStore::open(&self.location)?.into()),
        }
    }

    /// Opens the store if it exists. On NATS it exists as soon as a server answers.
    pub(crate) async fn existing_store(&self) -> Result<Option<AnyStore>, Failure> {
        match &self.nats {
            Some(settings) => Ok(Some(self.connect(settings).await?)),
            None => Ok(SqliteStore::open_existing(&self.location)?.map(AnyStore::from)),
        }
    }

    async fn connect(&self, settings: &NatsSettings) -> Result<AnyStore, Failure> {
        let store = AnyStore::connect(settings.clone(), &self.location, output::print_nats_notice).await?;
        if let Backend::Nats(nats, _) = store.backend()
            && nats.is_new().await?
        {
            output::note(format_args!("created a new store at `{}`", settings.server()));
            if let Some(former) = store.local_dir().former_local_dir(&settings.server()) {
                output::note(format_args!(
                    "this machine used another store there before (its attempts are in `{}`); \
                     check that the server was started with its data directory",
                    former.display()
                ));
            }
            // `open` returns the warnings of the connection. All streams were created now, so they have the same number
            // of replicas: print that note once.
            let mut has_replica_note = false;
            for note in nats.open().await? {
                let is_repeated = matches!(note, NatsWarning::FewerReplicas { .. })
                    && std::mem::replace(&mut has_replica_note, true);
                if !is_repeated {
                    output::note(note);
                }
            }
        }
        Ok(store)
    }

    /// Opens the store for a command that names a run.
    pub(crate) async fn store_for_run(&self, run: &str) -> Result<AnyStore, Failure> {
        self.existing_store().await?.ok_or_else(|| self.with_lost_store_hints(self.no_such_run(run)))
    }

    /// Whether the store is set by the address of its servers, not by a directory.
    pub(crate) fn has_server_address(&self) -> bool {
        matches!(self.config.store(), Some(StoreAddress::Nats(_)))
    }

    /// Returns the address or directory of the store, for messages.
    pub(crate) fn store_name(&self) -> String {
        match &self.nats {
            Some(settings) => settings.server(),
            None => self.location.root().display().to_string(),
        }
    }

    /// Fails if the store is on NATS.
    pub(crate) fn require_embedded_store(&self, feature: &str) -> Result<(), Failure> {
        match &self.nats {
            None => Ok(()),
            Some(settings) => Err(Failure::usage(format!(
                "{feature} works with an embedded store only; this store is on NATS at `{}`",
                settings.server()
            ))),
        }
    }

    /// Adds hints about a store that was here before to a failure.
    pub(crate) fn with_lost_store_hints(&self, failure: Failure) -> Failure {
        self.lost_store_hints().into_iter().fold(failure, Failure::hint)
    }

    /// Returns hints about a store that was here before. Empty if there is a store, or never was one.
    pub(crate) fn lost_store_hints(&self) -> Vec<String> {
        if self.nats.is_some() || self.location.root().exists() {
            Vec::new()
        } else {
            LostStore::find(&self.repo).hints()
        }
    }

    pub(crate) fn no_such_run(&self, run: &str) -> Failure {
        Failure::usage(format!("there is no run `{run}` in `{}`", self.store_name()))
            .code(Code::NoSuchRun)
            .hint("run `callboard ls` to list the runs of this repository")
    }

    /// Returns the kind of a run. Fails if there is no such run, or this version does not have its protocol.
    pub(crate) async fn kind(
        &self,
        store: &AnyStore,
        run: &RunId,
    ) -> Result<&'static dyn ProtocolKind, Failure> {
        let protocol = store.protocol(run).await?.ok_or_else(|| self.no_such_run(run.as_str()))?;
        present::kind(self.protocols, &protocol, run)
    }

    /// Loads a run.
    pub(crate) async fn load(&self, store: &AnyStore, run: &RunId) -> Result<Journal, Failure> {
        let journal = Journal::load(store, &self.clock, self.protocols, run).await?;
        journal.ok_or_else(|| self.no_such_run(run.as_str()))
    }

    /// Finds the run that the user named, and opens its store.
    pub(crate) async fn find_run(&self, run: &str) -> Result<(AnyStore, RunId), Failure> {
        let store = self.store_for_run(run).await?;
        let run = self.resolve(&store, run).await?;
        Ok((store, run))
    }

    /// Finds the named run, or the only unfinished one if none is named.
    pub(crate) async fn find_run_or_only(
        &self,
        run: Option<&str>,
        command: &str,
    ) -> Result<(AnyStore, RunId), Failure> {
        if let Some(run) = run {
            return self.find_run(run).await;
        }
        let store = self.existing_store().await?;
        let store = store.ok_or_else(|| self.with_lost_store_hints(nothing_unfinished()))?;
        let run = only_unfinished(&store, command).await?;
        Ok((store, run))
    }

    /// Finds a run by its name, a unique prefix of it, or the id of a peer cycle.
    pub(crate) async fn resolve(&self, store: &AnyStore, run: &str) -> Result<RunId, Failure> {
        let id = parse_run_name(run)?;
        let is_peer_cycle = run.parse::<PeerCycleId>().is_ok();
        // A whole name sorts before the names it is a prefix of, so one query answers both cases.
        let matching = store.runs_with_prefix(id.as_str(), MAX_MATCHES + 1).await?;
        match matching.as_slice() {
            [] => Err(self.no_such_run(run)),
            [first, ..] if *first == id => Ok(id),
            // Peer cycle 1 is not a prefix of peer cycle 10.
            _ if is_peer_cycle => Err(self.no_such_run(run)),
            [one] => Ok(one.clone()),
            [_, _, ..] => {
                let shown = matching.iter().take(MAX_MATCHES).map(|name| format!("`{name}`"));
                let more = (matching.len() > MAX_MATCHES).then(|| "others".to_owned());
                let names: Vec<_> = shown.chain(more).collect();
                Err(Failure::usage(format!("`{run}` is ambiguous: it matches {}", names.join(", ")))
                    .code(Code::NoSuchRun)
                    .hint("type more characters of the name"))
            }
        }
    }
}

/// Returns where the embedded store is or would be, and the servers if the store is on NATS. If the configured directory is the
/// local directory of a store on NATS, that store is meant.
pub(crate) fn locate(repo: &Path, config: &Config) -> Result<(Location, Option<Box<NatsSettings>>), Failure> {
    match config.store() {
        Some(StoreAddress::Nats(settings)) => Ok((Location::find(repo, None)?, Some(settings.clone()))),
        Some(StoreAddress::Directory(directory)) => {
            let location = Location::find(repo, Some(directory.clone()))?;
            match location.shared() {
                None => Ok((location, None)),
                Some((servers, embedded)) => {
                    let settings = config.nats_settings_for(&servers).map_err(|error| {
                        let server = location.root().join("server");
                        Failure::new(Exit::Store, format!("cannot read `{}`", server.display()))
                            .because(Some(&error))
                    })?;
                    Ok((embedded, Some(Box::new(settings))))
                }
            }
        }
        None => Ok((Location::find(repo, None)?, None)),
    }
}

/// Parses a run's name as the user typed it. The id of a peer cycle names its run.
pub(crate) fn parse_run_name(typed: &str) -> Result<RunId, Failure> {
    let cycle = typed.parse::<PeerCycleId>().ok().map(|cycle| cycle.key());
    RunId::new(cycle.as_deref().unwrap_or(typed))
        .map_err(|error| Failure::usage(format!("`{typed}` is not a valid run name")).because(Some(&error)))
}

/// An error about an ambiguous name lists at most this many runs.
const MAX_MATCHES: usize = 5;

/// Decodes the summary of a run, if this version can read it.
pub(crate) fn summary(row: &RunListing) -> Option<Summary> {
    Summary::decode(&row.summary)
}

fn nothing_unfinished() -> Failure {
    Failure::usage("there is no unfinished run")
        .hint("run `callboard run WORKFLOW` to start one, or `callboard ls` to list all runs")
}

/// An error about several unfinished runs lists at most this many.
const MAX_UNFINISHED: usize = 10;

/// Returns the only unfinished run, for a command without a run.
async fn only_unfinished(store: &AnyStore, command: &str) -> Result<RunId, Failure> {
    let rows = store.runs().await?;
    let unfinished: Vec<_> = rows
        .iter()
        .filter(|row| !summary(row).is_some_and(|summary| matches!(summary.status, RunStatus::Finished(_))))
        .collect();
    match unfinished.as_slice() {
        [] => Err(nothing_unfinished()),
        [one] => Ok(one.run.clone()),
        [_, _, ..] => {
            let failure =
                Failure::usage(format!("{} runs are unfinished; name one of them", unfinished.len()));
            let failure = unfinished.iter().rev().take(MAX_UNFINISHED).rev().fold(failure, |failure, row| {
                let title = summary(row).map(|summary| summary.title).unwrap_or_default();
                failure.hint(format!("`callboard {command} {}`  {title}", row.run))
            });
            Err(match unfinished.len().checked_sub(MAX_UNFINISHED) {
                Some(1..) => {
                    failure.hint("these are the newest; run `callboard ls --unfinished` to list all")
                }
                Some(0) | None => failure,
            })
        }
    }
}

/// Returns the user of this command, for the journal.
pub(crate) fn person_author() -> Author {
    Author::Person { name: user_name(), host: linux::host_name() }
}

/// Returns the reason that the journal records for a request of the user.
pub(crate) fn request_reason(reason: Option<&str>) -> String {
    match reason {
        Some(reason) => format!("requested by {}: {reason}", user_name()),
        None => format!("requested by {}", user_name()),
    }
}

/// Returns the name of the user: from the environment, else from `/etc/passwd`, else the uid.
fn user_name() -> String {
    let non_empty = |variable| std::env::var(variable).ok().filter(|name| !name.is_empty());
    non_empty("USER").or_else(|| non_empty("LOGNAME")).unwrap_or_else(|| {
        let uid = rustix::process::getuid().as_raw();
        let passwd = std::fs::read_to_string("/etc/passwd").unwrap_or_default();
        user_name_in(&passwd, uid).unwrap_or_else(|| format!("uid {uid}"))
    })
}

/// Returns the name of a user in the text of `/etc/passwd`.
fn user_name_in(passwd: &str, uid: u32) -> Option<String> {
    passwd.lines().find_map(|line| {
        let mut fields = line.split(':');
        let (name, id) = (fields.next()?, fields.nth(1)?);
        (id.parse() == Ok(uid) && !name.is_empty()).then(|| name.to_owned())
    })
}

/// Returns this process as an engine, for the journal.
pub(crate) fn engine_author() -> Result<Author, Failure> {
    let boot_id = linux::boot_id().map_err(|error| {
        Failure::new(Exit::Bug, "cannot read the boot id of this machine").because(Some(&error))
    })?;
    Ok(Author::Engine { host: linux::host_name(), boot_id, pid: std::process::id() })
}

#[cfg(test)]
mod tests {
    use super::user_name_in;

    #[test]
    fn a_user_is_found_by_the_uid() {
        let passwd = "root:x:0:0:root:/root:/bin/sh\n+nis\nada:x:1000:100::/home/ada:/bin/sh\n";
        assert_eq!(user_name_in(passwd, 1000).as_deref(), Some("ada"));
        assert_eq!(user_name_in(passwd, 0).as_deref(), Some("root"));
        assert_eq!(user_name_in(passwd, 100), None, "that is a group");
    }
}
