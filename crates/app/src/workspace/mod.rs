//! Where we are: the repository, its configuration, its store.

pub(crate) mod definition;
pub(crate) mod traces;

use std::path::{Path, PathBuf};

use protocol::RunId;
use protocol::entry::Author;
use protocol::peer::CycleId;
use protocol::run::RunStatus;
use runner::{Clock, Journal, Summary};
use store::{AnyStore, Location, NatsSettings, NatsWarning, RunRow, SqliteStore, Store as _};

use crate::config::{Config, Flags, StoreAddress};
use crate::failure::{Code, Exit, Failure};
use crate::output;
use crate::output::paste;
use crate::present::{self, Deed, Presentation};
use crate::workspace::traces::Traces;

/// The place a command works in.
#[derive(Debug, Clone)]
pub(crate) struct Workspace {
    pub(crate) repo: PathBuf,
    /// Where the embedded store is, or would be.
    pub(crate) location: Location,
    /// The servers, if the store is on NATS.
    pub(crate) nats: Option<Box<NatsSettings>>,
    pub(crate) config: Config,
    pub(crate) clock: Clock,
}

/// The flags that choose the repository and the store of a command.
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
    /// Finds the repository from `--repo` or the current directory.
    pub(crate) fn find(args: &LocationArgs, flags: Flags) -> Result<Self, Failure> {
        let repo = args.repo.as_deref();
        let start = match repo {
            Some(path) => path.to_owned(),
            None => std::env::current_dir()
                .map_err(|error| Failure::usage("cannot tell the current directory").because(Some(&error)))?,
        };
        let start = start.canonicalize().map_err(|error| {
            Failure::usage(format!("cannot use `{}` as the repository", start.display()))
                .because(Some(&error))
                .hint("give an existing directory with `--repo`")
        })?;
        let repo = match repo {
            Some(_) => start.clone(),
            None => {
                store::repository(&start)?.and_then(|found| found.work_tree).unwrap_or_else(|| start.clone())
            }
        };
        let config = Config::find(&repo, Flags { store: args.store.clone(), ..flags })?;
        let (location, nats) = locate(&repo, &config)?;
        paste::remember(args, nats.as_deref());
        // Both go into documents and environments, which are text.
        crate::engine::profiles::utf8(&repo)?;
        crate::engine::profiles::utf8(location.root())?;
        Ok(Self { repo, location, nats, config, clock: Clock::system() })
    }

    /// The same place with another store.
    pub(crate) fn with_store_at(self, directory: &Path) -> Result<Self, Failure> {
        let location = Location::find(&self.repo, Some(directory.to_owned()))?;
        Ok(Self { location, ..self })
    }

    /// The repository's path as text: it goes into the document.
    pub(crate) fn repo_dir(&self) -> Result<String, Failure> {
        let text = self.repo.to_str().map(str::to_owned);
        text.ok_or_else(|| Failure::usage(format!("the path `{}` is not UTF-8", self.repo.display())))
    }

    /// Opens the store, making it if there is none.
    pub(crate) async fn store(&self) -> Result<AnyStore, Failure> {
        match &self.nats {
            Some(settings) => self.connect(settings).await,
            None => Ok(SqliteStore::open(&self.location)?.into()),
        }
    }

    /// Opens the store, if there is one. On NATS there is one wherever servers answer.
    pub(crate) async fn existing_store(&self) -> Result<Option<AnyStore>, Failure> {
        match &self.nats {
            Some(settings) => Ok(Some(self.connect(settings).await?)),
            None => Ok(SqliteStore::open_existing(&self.location)?.map(AnyStore::from)),
        }
    }

    async fn connect(&self, settings: &NatsSettings) -> Result<AnyStore, Failure> {
        let store = AnyStore::connect(settings.clone(), &self.location, output::waiting).await?;
        if let AnyStore::Nats(nats, _) = &store
            && nats.is_new().await?
        {
            output::note(format_args!("a new store was made at `{}`", settings.server()));
            if let Some(former) = store.local_dir().of_former_shared(&settings.server()) {
                output::note(format_args!(
                    "there was another before, whose attempts are in `{}`: was the server started with its directory?",
                    former.display()
                ));
            }
            let mut is_told = false;
            for note in nats.open().await? {
                // Streams that are made together have as many replicas as there were servers; to say it once will do.
                if !(matches!(note, NatsWarning::FewerReplicas { .. })
                    && std::mem::replace(&mut is_told, true))
                {
                    output::note(note);
                }
            }
        }
        Ok(store)
    }

    /// Opens the store for a command that names a run.
    pub(crate) async fn store_with(&self, run: &str) -> Result<AnyStore, Failure> {
        self.existing_store().await?.ok_or_else(|| self.without_store(self.no_such_run(run)))
    }

    /// Whether the store was given by the address of its servers, and not by a directory.
    pub(crate) fn has_address(&self) -> bool {
        matches!(self.config.store(), Some(StoreAddress::Nats(_)))
    }

    /// The store as people write it.
    pub(crate) fn store_name(&self) -> String {
        match &self.nats {
            Some(settings) => settings.server(),
            None => self.location.root().display().to_string(),
        }
    }

    /// What is about the file of an embedded store is of no use for one on NATS.
    pub(crate) fn embedded_only(&self, doing: &str) -> Result<(), Failure> {
        match &self.nats {
            None => Ok(()),
            Some(settings) => Err(Failure::usage(format!(
                "{doing} is for an embedded store; this one is on NATS at `{}`",
                settings.server()
            ))),
        }
    }

    /// A failure because there is no store, with what is left of one.
    pub(crate) fn without_store(&self, failure: Failure) -> Failure {
        self.traces().into_iter().fold(failure, Failure::hint)
    }

    /// What to say of a store that has been here; nothing if there is one, or never was.
    pub(crate) fn traces(&self) -> Vec<String> {
        if self.nats.is_some() || self.location.root().exists() {
            Vec::new()
        } else {
            Traces::of(&self.repo).sentences()
        }
    }

    pub(crate) fn no_such_run(&self, run: &str) -> Failure {
        Failure::usage(format!("there is no run `{run}` in `{}`", self.store_name()))
            .code(Code::NoSuchRun)
            .hint("`callboard ls` lists the runs of this repository")
    }

    /// Does something with a run, by the rules of that run's protocol.
    pub(crate) async fn with_run<D: Deed>(
        &self,
        store: &AnyStore,
        run: &RunId,
        deed: D,
    ) -> Result<D::Done, Failure> {
        let protocol = store.protocol(run).await?.ok_or_else(|| self.no_such_run(run.as_str()))?;
        present::by_name(&protocol, run, deed).await
    }

    /// Loads a run whose protocol is known.
    pub(crate) async fn load<P: Presentation>(
        &self,
        store: &AnyStore,
        run: &RunId,
    ) -> Result<Journal<P, AnyStore>, Failure> {
        Journal::load(store, &self.clock, run).await?.ok_or_else(|| self.no_such_run(run.as_str()))
    }

    /// The run that somebody named, and the store it is in.
    pub(crate) async fn find_run(&self, run: &str) -> Result<(AnyStore, RunId), Failure> {
        let store = self.store_with(run).await?;
        let run = self.resolve(&store, run).await?;
        Ok((store, run))
    }

    /// The same, or if nobody named one the only run that is unfinished.
    pub(crate) async fn find_run_or_only(
        &self,
        run: Option<&str>,
        command: &str,
    ) -> Result<(AnyStore, RunId), Failure> {
        if let Some(run) = run {
            return self.find_run(run).await;
        }
        let store = self.existing_store().await?;
        let store = store.ok_or_else(|| self.without_store(nothing_unfinished()))?;
        let run = only_unfinished(&store, command).await?;
        Ok((store, run))
    }

    /// The run of that name, or with a name that begins so and only one does. A cycle's id names the run that plays it.
    pub(crate) async fn resolve(&self, store: &AnyStore, run: &str) -> Result<RunId, Failure> {
        let id = name_of_run(run)?;
        let is_cycle = run.parse::<CycleId>().is_ok();
        // Whoever gives a whole name is answered by one look, however many runs there are; it sorts first.
        let matching = store.runs_beginning(id.as_str(), LONGEST_CHOICE + 1).await?;
        match matching.as_slice() {
            [] => Err(self.no_such_run(run)),
            [first, ..] if *first == id => Ok(id),
            // The first cycle is not the beginning of the tenth.
            _ if is_cycle => Err(self.no_such_run(run)),
            [one] => Ok(one.clone()),
            [_, _, ..] => {
                let shown = matching.iter().take(LONGEST_CHOICE).map(|name| format!("`{name}`"));
                let more = (matching.len() > LONGEST_CHOICE).then(|| "another".to_owned());
                let names: Vec<_> = shown.chain(more).collect();
                Err(Failure::usage(format!("`{run}` could be {}", names.join(" or ")))
                    .code(Code::NoSuchRun)
                    .hint("give more of the name"))
            }
        }
    }
}

/// Where the embedded store is, or would be, and the servers if the store is on NATS. The local_dir of a store on NATS stand
/// for that store.
pub(crate) fn locate(repo: &Path, config: &Config) -> Result<(Location, Option<Box<NatsSettings>>), Failure> {
    match config.store() {
        Some(StoreAddress::Nats(settings)) => Ok((Location::find(repo, None)?, Some(settings.clone()))),
        Some(StoreAddress::Directory(directory)) => {
            let location = Location::find(repo, Some(directory.clone()))?;
            match location.shared() {
                None => Ok((location, None)),
                Some((servers, beside)) => {
                    let settings = config.settings_for(&servers).map_err(|error| {
                        let server = location.root().join("server");
                        Failure::new(Exit::Store, format!("cannot read `{}`", server.display()))
                            .because(Some(&error))
                    })?;
                    Ok((beside, Some(Box::new(settings))))
                }
            }
        }
        None => Ok((Location::find(repo, None)?, None)),
    }
}

/// What somebody typed, as the whole name of a run. A cycle's id names the run that plays it.
pub(crate) fn name_of_run(typed: &str) -> Result<RunId, Failure> {
    let cycle = typed.parse::<CycleId>().ok().map(|cycle| cycle.key());
    RunId::new(cycle.as_deref().unwrap_or(typed))
        .map_err(|error| Failure::usage(format!("`{typed}` cannot be a run")).because(Some(&error)))
}

/// As many runs as an error names.
const LONGEST_CHOICE: usize = 5;

/// The summary beside a run, if this program can read it.
pub(crate) fn summary(row: &RunRow) -> Option<Summary> {
    Summary::decode(&row.summary)
}

fn nothing_unfinished() -> Failure {
    Failure::usage("no run is unfinished")
        .hint("`callboard run WORKFLOW` starts one; `callboard ls` lists all runs")
}

/// As many runs as an error names.
const NAMED: usize = 10;

/// The only unfinished run, for a command that was given none.
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
            let failure = Failure::usage(format!("{} runs are unfinished; name one", unfinished.len()));
            let failure = unfinished.iter().rev().take(NAMED).rev().fold(failure, |failure, row| {
                let title = summary(row).map(|summary| summary.title).unwrap_or_default();
                failure.hint(format!("`callboard {command} {}`  {title}", row.run))
            });
            Err(match unfinished.len().checked_sub(NAMED) {
                Some(1..) => failure.hint("these are the newest; `callboard ls --unfinished` lists all"),
                Some(0) | None => failure,
            })
        }
    }
}

/// Who types this command, for the journal.
pub(crate) fn person() -> Author {
    Author::Person { name: name(), host: store::host_name() }
}

/// Why an engine takes a run up: because a person said so.
pub(crate) fn asked_by_person(reason: Option<&str>) -> String {
    match reason {
        Some(reason) => format!("asked by {}: {reason}", name()),
        None => format!("asked by {}", name()),
    }
}

fn name() -> String {
    std::env::var("USER").or_else(|_| std::env::var("LOGNAME")).unwrap_or_else(|_| "somebody".to_owned())
}

/// This process as an engine, for the journal.
pub(crate) fn engine() -> Result<Author, Failure> {
    let boot_id = supervisor::boot_id().map_err(|error| {
        Failure::new(Exit::Bug, "cannot tell which boot of the machine this is").because(Some(&error))
    })?;
    Ok(Author::Engine { host: store::host_name(), boot_id, pid: std::process::id() })
}
