//! Being the engine of a run, in front of a person or in the background.

pub(crate) mod process;
pub(crate) mod profiles;
pub(crate) mod progress;
pub(crate) mod watcher;

use std::cell::Cell;
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::num::NonZeroU32;
use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use protocol::entry::Author;
use protocol::run::{Refusal, StopCause};
use protocol::{Outcome, Revision, RunId};
use runner::{Engine, EngineConfig, EngineError, EngineExit, EngineRequest, Overrides, RunAt, RunOptions};
use serde::Deserialize;
use store::{AnyStore, Store as _, StoredEntry, Tenure};
use supervisor::ShimProgram;
use tokio::io::AsyncWriteExt as _;
use tokio::process::Command;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::mpsc;

use crate::control::emergency_copy::rescue;
use crate::engine::progress::Progress;
use crate::failure::{Code, Exit, Failure};
use crate::output;
use crate::present::Presentation;
use crate::workspace::{self, Workspace};

/// The flags of commands that play a run.
#[derive(Debug, Clone, clap::Args)]
pub(crate) struct Show {
    /// The number of agents that run at the same time [default: number of CPUs]
    #[arg(long, short, value_name = "N")]
    pub(crate) jobs: Option<NonZeroU32>,

    /// Print one JSON event per line
    #[arg(long)]
    pub(crate) json: bool,
}

/// How long an agent may live on after its report.
const LINGERING: Duration = Duration::from_secs(30);

/// After so many interrupts an engine leaves at once, and its agents alone; and how long it may take to do so.
const INSISTING: usize = 3;
const LEAVING: Duration = Duration::from_secs(2);

/// What an engine of this place works with.
pub(crate) fn engine_config(workspace: &Workspace, again: Overrides) -> Result<EngineConfig, Failure> {
    let program = std::env::current_exe().map_err(|error| {
        Failure::new(Exit::Bug, "cannot tell which program this is").because(Some(&error))
    })?;
    let author = workspace::engine()?;
    let boot_id = match &author {
        Author::Engine { boot_id, .. } => boot_id.clone(),
        Author::Person { .. } | Author::Client { .. } => String::new(),
    };
    let by_agent: Result<BTreeMap<_, _>, Failure> = workspace
        .config
        .adapters
        .iter()
        .map(|(name, adapter)| Ok((name.clone(), profiles::configured(name, &adapter.value)?)))
        .collect();
    Ok(EngineConfig {
        overrides: again,
        by_agent: by_agent?,
        slots: usize::try_from(workspace.config.jobs().value.get()).unwrap_or(usize::MAX),
        backoff: workspace.config.backoff.value,
        linger_timeout: LINGERING,
        shim: ShimProgram { program, args: vec!["__shim".into()] },
        store_root: workspace.location.root().to_owned(),
        clock: workspace.clock.clone(),
        boot_id,
        descriptors: supervisor::raise_descriptor_limit(),
        author,
    })
}

/// The same, in the local_dir of the store that it works for.
pub(crate) fn at_home(engine_config: EngineConfig, store: &AnyStore) -> Result<EngineConfig, Failure> {
    store.prepare_local_dir()?;
    Ok(as_guest(engine_config, store))
}

/// The same for whoever starts nobody, and leaves no trace on a machine that has nothing of the run.
pub(crate) fn as_guest(engine_config: EngineConfig, store: &AnyStore) -> EngineConfig {
    EngineConfig { store_root: store.local_dir().root().to_owned(), ..engine_config }
}

pub(crate) fn no_profile(agent: &str, step: &str) -> Failure {
    EngineError::NoProfile { agent: agent.to_owned(), step: step.to_owned() }.into()
}

/// Plays a run until it rests, and tells how it ended.
pub(crate) async fn drive<P: Presentation>(
    workspace: &Workspace,
    store: &AnyStore,
    engine_config: EngineConfig,
    run: &RunId,
    asked: EngineRequest<P::Step>,
    show: &Show,
) -> Result<Exit, Failure> {
    // Whoever reads our output may go; the run does not.
    output::go_on_when_nobody_reads();
    let mut progress = Progress::new(workspace, run, show.json);
    let other_profile = engine_config.overrides.profile.is_some();
    let engine_config = at_home(engine_config, store)?;
    let engine = Engine::<P, _>::lock(store, engine_config, run, Tenure::Engine, &mut progress).await;
    let engine = engine?;
    let rehearsed =
        engine.journal().spec.options.profile.as_ref().is_some_and(|profile| profile.adapter.is_rehearsal());
    if rehearsed && other_profile {
        engine.release().await;
        return Err(Failure::new(Exit::Refused, format!("run `{run}` is a rehearsal and stays one"))
            .hint(format_args!("`{}` with the same {} starts a real one", P::OPENED_BY, P::OPENED_WITH)));
    }
    let after_failure = P::after_failure(run, &engine.journal().document);
    let interrupted = Cell::new(false);
    let (told, insisted) = insisting(interrupts()?, &interrupted);
    let rest = tokio::select! {
        rest = engine.drive(asked, told) => rest,
        () = insisted => {
            progress.clear();
            return Err(left_behind(run));
        }
    };
    progress.clear();
    let rest = rest.map_err(|error| {
        let failure = rescue(workspace, store, resumable(run, refused::<P>(run, error, after_failure)));
        if interrupted.get() { unwritten(run, failure) } else { failure }
    })?;
    let run_at =
        RunAt::<P>::at(store, run, None).await?.ok_or_else(|| workspace.no_such_run(run.as_str()))?;
    progress.conclude(store, &run_at, rest);
    Ok(exit_of(rest))
}

/// Agents work in the repository, and what they make lies there: a host that does not have it cannot play the run. A run
/// that only this machine can have was opened here.
pub(crate) fn is_staged_here(
    workspace: &Workspace,
    store: &AnyStore,
    run: &RunId,
    options: &RunOptions,
) -> Result<(), Failure> {
    if !store.is_shared() {
        return Ok(());
    }
    let (host, repository) = (store::host_name(), &options.location.repo_dir);
    if !Path::new(repository).is_dir() {
        let what = format!("run `{run}` takes place in `{repository}`, which is not on `{host}`");
        return Err(Failure::usage(what)
            .hint(format_args!(
                "every host that plays it has the repository at that path: clone or mount it there, then type the same again"
            ))
            .hint(format_args!("`callboard watch {run}`, `show`, `pause` and `stop` work without")));
    }
    if !options.workdir.is_dir() {
        let workdir = options.workdir.display();
        let what = format!("agents of run `{run}` start in `{workdir}`, which is not on `{host}`");
        return Err(Failure::usage(what).hint("`--workdir DIR` names another directory"));
    }
    is_kept_here(workspace, store, run, options)
}

/// Attempts on a shared store are kept beside the repository. From another one of the same machine nothing of them can be
/// seen: an engine would begin again what is at work, and what it began would be lost on the next.
pub(crate) fn is_kept_here(
    workspace: &Workspace,
    store: &AnyStore,
    run: &RunId,
    options: &RunOptions,
) -> Result<(), Failure> {
    let repository = Path::new(&options.location.repo_dir);
    // Whoever names the local_dir themselves knows which they are, and a repository that is not there has none.
    if !workspace.has_address() || !repository.is_dir() {
        return Ok(());
    }
    if is_kept_beside(store, repository)? {
        return Ok(());
    }
    let repository = repository.display();
    let what = format!("run `{run}` takes place in `{repository}`; what its agents leave is kept there");
    Err(Failure::usage(what).hint(format_args!("type the same there, or add `--repo {repository}`")))
}

/// Whether the local_dir that we look at are those of a run that takes place in that repository of this machine.
pub(crate) fn is_kept_beside(store: &AnyStore, repository: &Path) -> Result<bool, Failure> {
    let real = |path: &Path| path.canonicalize().unwrap_or_else(|_| path.to_owned());
    let kept = store.local_dir_beside(repository)?;
    Ok(real(kept.root()) == real(store.local_dir().root()))
}

/// What a command says that saw a run come to rest.
pub(crate) fn exit_of(rest: EngineExit) -> Exit {
    match rest {
        EngineExit::Finished(Outcome::Succeeded) => Exit::Success,
        EngineExit::Finished(Outcome::Incomplete | Outcome::Failed) => Exit::Failed,
        EngineExit::Stopped(StopCause::Interrupted | StopCause::Requested) | EngineExit::Abandoned => {
            Exit::Interrupted
        }
        EngineExit::Remote => Exit::NeedsPerson,
    }
}

fn refused<P: Presentation>(run: &RunId, error: EngineError, after_failure: String) -> Failure {
    let doing = format!("cannot go on with run `{run}`");
    let hint = match &error {
        EngineError::Refused(Refusal::Incomplete | Refusal::Failed) => after_failure,
        EngineError::Refused(Refusal::NothingFailed | Refusal::NotFailed(_)) => {
            format!("`callboard show {run}` tells how it stands; `callboard resume {run}` goes on with it")
        }
        EngineError::Refused(_) => {
            format!("`callboard log {run}` shows what it did; `{}` starts a new one", P::OPENED_BY)
        }
        EngineError::NothingToAbandon { .. } => return Failure::from(error).while_doing(doing),
        _ => return error.into(),
    };
    Failure::from(error).while_doing(doing).hint(hint)
}

/// Whoever lost its servers in the middle of a run goes on with that run: to type the same again may start another.
fn resumable(run: &RunId, mut failure: Failure) -> Failure {
    if failure.code != Some(Code::NoServer) {
        return failure;
    }
    failure.hints.clear();
    failure.hint(format_args!(
        "nothing is lost: agents work on; `callboard resume {run}` goes on with it when the servers answer"
    ))
}

/// One message per Ctrl-C or SIGTERM.
pub(crate) fn interrupts() -> Result<mpsc::UnboundedReceiver<()>, Failure> {
    let (tell, told) = mpsc::unbounded_channel();
    for kind in [SignalKind::interrupt(), SignalKind::terminate()] {
        let mut signals = signal(kind)
            .map_err(|error| Failure::new(Exit::Bug, "cannot listen to signals").because(Some(&error)))?;
        let tell = tell.clone();
        tokio::spawn(async move { while signals.recv().await.is_some() && tell.send(()).is_ok() {} });
    }
    Ok(told)
}

/// Hands interrupts on and notes that there was one; says when somebody has insisted: an engine that waits for its store
/// does not hear them, and to be cut off is no more to it than to be killed.
fn insisting(
    mut interrupts: mpsc::UnboundedReceiver<()>,
    interrupted: &Cell<bool>,
) -> (mpsc::UnboundedReceiver<()>, impl Future<Output = ()>) {
    let (tell, told) = mpsc::unbounded_channel();
    let insisted = async move {
        for _ in 0..INSISTING {
            if interrupts.recv().await.is_none() || tell.send(()).is_err() {
                std::future::pending::<()>().await;
            }
            interrupted.set(true);
        }
        tokio::time::sleep(LEAVING).await;
    };
    (told, insisted)
}

/// An engine that was told to go, and whose store could not be told.
fn unwritten(run: &RunId, failure: Failure) -> Failure {
    match failure.code {
        Some(Code::NoServer | Code::NoStream) => failure.hint(format_args!(
            "that it was interrupted is not written: its agents work on, and `callboard resume {run}` adopts them"
        )),
        _ => failure,
    }
}

fn left_behind(run: &RunId) -> Failure {
    Failure::new(Exit::Interrupted, format_args!("left run `{run}` as it is: its store does not answer"))
        .hint(format_args!("its agents may be at work; `callboard resume {run}` adopts them"))
}

/// Starts an engine in the background and returns when it has taken the run.
pub(crate) async fn detach(
    workspace: &Workspace,
    store: &AnyStore,
    run: &RunId,
    show: &Show,
    profiles: Vec<OsString>,
) -> Result<Exit, Failure> {
    let program = std::env::current_exe().map_err(|error| {
        Failure::new(Exit::Bug, "cannot tell which program this is").because(Some(&error))
    })?;
    let mut command = Command::new(program);
    command.arg("resume").arg(run.as_str()).arg("--at-once").arg("--repo").arg(&workspace.repo);
    command.arg("--store").arg(store.local_dir().root()).args(profiles);
    if let Some(jobs) = show.jobs {
        command.arg("--jobs").arg(jobs.to_string());
    }
    store.prepare_local_dir()?;
    let log = store.local_dir().engines_dir().join(format!("{run}.log"));
    let output = std::fs::File::options().create(true).append(true).open(&log);
    let output = output.and_then(|file| Ok((file.try_clone()?, file)));
    let (out, err) = output.map_err(|error| {
        Failure::new(Exit::Store, format!("cannot write `{}`", log.display())).because(Some(&error))
    })?;
    let words = access_of(store);
    if words.is_some() {
        command.arg("--access-from-stdin");
    }
    let mut watch = store.watch(run, Revision(0)).await?;
    let mut child = command
        .stdin(if words.is_some() { Stdio::piped() } else { Stdio::null() })
        .stdout(out)
        .stderr(err)
        .process_group(0)
        .spawn()
        .map_err(|error| Failure::new(Exit::Bug, "cannot start the engine").because(Some(&error)))?;
    if let (Some(mut stdin), Some(words)) = (child.stdin.take(), words) {
        // One that has ended already says itself why.
        let _heard = stdin.write_all(words.as_bytes()).await;
    }
    let pid = child.id().unwrap_or_default();
    tokio::select! {
        begun = first_entry_by(&mut watch, pid) => begun?,
        ended = child.wait() => {
            // It may have been quick; else it says itself what was wrong.
            let quick = entries_by(&store.entries(run, Revision(0)).await?, pid)?;
            if !quick {
                return Err(ended_at_once(run, &log, ended.ok().and_then(|status| status.code())));
            }
        }
    }
    if show.json {
        output::json(&serde_json::json!({ "event": "detached", "run": run, "pid": pid }));
    } else {
        output::data(run);
        output::note(format_args!("`callboard watch {run}` follows it, `callboard stop {run}` stops it"));
    }
    Ok(Exit::Success)
}

/// What an engine in the background has to say to its store. On its command line everybody could read it, and of its variables
/// agents are told.
fn access_of(store: &AnyStore) -> Option<String> {
    match store {
        AnyStore::Nats(store, _) => store.settings().access.userinfo(),
        AnyStore::Embedded(_) => None,
    }
}

fn ended_at_once(run: &RunId, log: &Path, code: Option<i32>) -> Failure {
    let exit = [Exit::Failed, Exit::Usage, Exit::Refused, Exit::Interrupted]
        .into_iter()
        .find(|exit| Some(i32::from(exit.code())) == code)
        .unwrap_or(Exit::Store);
    Failure::new(exit, format!("the engine of run `{run}` ended at once"))
        .hint(format!("`{}` says why; `callboard show {run}` shows the run", log.display()))
}

/// Waits until the engine with this pid has written to the journal.
async fn first_entry_by(watch: &mut store::Watch, engine: u32) -> Result<(), Failure> {
    while !entries_by(&watch.next().await?, engine)? {}
    Ok(())
}

/// All of an entry that concerns us here; it is the same in every protocol.
#[derive(Deserialize)]
struct Signed {
    by: Author,
}

/// Whether any of the entries is by the engine with this pid.
fn entries_by(entries: &[StoredEntry], engine: u32) -> Result<bool, Failure> {
    for entry in entries {
        let entry: Signed =
            serde_json::from_str(&entry.body).map_err(|error| Failure::from_error(Exit::Store, &error))?;
        if matches!(&entry.by, Author::Engine { pid, host, .. } if *pid == engine && *host == store::host_name())
        {
            return Ok(true);
        }
    }
    Ok(false)
}
