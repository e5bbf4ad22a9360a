//! Runs the engine of a run, in the foreground or in the background.

pub(crate) mod notify;
pub(crate) mod process;
pub(crate) mod profiles;
pub(crate) mod progress;
pub(crate) mod start;
pub(crate) mod watcher;

use std::cell::Cell;
use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::num::NonZeroU32;
use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use protocol::entry::Author;
use protocol::run::{Refusal, RunStatus, RunStopCause};
use protocol::{Outcome, ProtocolInfo, Revision, RunId, StepId, StepKind, closest};
use runner::{
    Assigned, DEFAULT_ROLE, Effects, Engine, EngineConfig, EngineError, EngineExit, EngineRequest, Journal,
    Overrides, Role, RoleQuery, RunOptions,
};
use serde::Deserialize;
use store::{AnyStore, Backend, LockPurpose, StoredEntry};
use supervisor::ShimProgram;
use tokio::io::AsyncWriteExt as _;
use tokio::process::Command;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::mpsc;

use crate::control::emergency_copy::save_if_store_is_gone;
use crate::engine::notify::{EngineObserver, Notifier};
use crate::engine::progress::Progress;
use crate::failure::{Code, Exit, Failure};
use crate::learnings;
use crate::output;
use crate::query::inbox;
use crate::workspace::{self, Workspace};

/// The flags of commands that run an engine.
#[derive(Debug, Clone, clap::Args)]
pub(crate) struct EngineArgs {
    /// How many attempts may run at once [default: number of CPUs]
    #[arg(long, short, value_name = "N")]
    pub(crate) jobs: Option<NonZeroU32>,

    /// Exit with code 4 when only the answer of a person can move the run
    #[arg(long)]
    pub(crate) exit_when_waiting: bool,

    /// Print one JSON event per line
    #[arg(long)]
    pub(crate) json: bool,
}

/// How long an agent may run after its report.
const LINGER_TIMEOUT: Duration = Duration::from_secs(30);

/// After this many interrupts the engine no longer waits for its agents: it exits and leaves them running.
const FORCED_EXIT_INTERRUPTS: usize = 3;
/// How long the engine may take to exit after the last of them. Then the program exits without it.
const FORCED_EXIT_DELAY: Duration = Duration::from_secs(2);

/// Builds the configuration of an engine for this workspace.
pub(crate) fn engine_config(workspace: &Workspace, overrides: Overrides) -> Result<EngineConfig, Failure> {
    let program = std::env::current_exe().map_err(|error| {
        Failure::new(Exit::Bug, "cannot determine the path of this program").because(Some(&error))
    })?;
    let author = workspace::engine_author()?;
    let boot_id = match &author {
        Author::Engine { boot_id, .. } => boot_id.clone(),
        Author::Person { .. } | Author::BucketClient { .. } => String::new(),
    };
    let profiles: Result<BTreeMap<_, _>, Failure> = workspace
        .config
        .adapters
        .iter()
        .map(|(name, adapter)| Ok((name.clone(), profiles::profile_of_adapter(name, &adapter.value)?)))
        .collect();
    Ok(EngineConfig {
        overrides,
        profiles: profiles?,
        roles: workspace.config.roles.iter().map(|(name, role)| (name.clone(), role.value.clone())).collect(),
        slots: usize::try_from(workspace.config.jobs().value.get()).unwrap_or(usize::MAX),
        backoff: workspace.config.backoff.value,
        linger_timeout: LINGER_TIMEOUT,
        shim: ShimProgram { program, args: vec!["__shim".into()] },
        local_dir: workspace.location.root().to_owned(),
        clock: workspace.clock.clone(),
        protocols: workspace.protocols,
        effects: effects(),
        boot_id,
        agent_open_files_limit: linux::raise_descriptor_limit(),
        author,
    })
}

/// Returns the built-in effects, and those that this program adds or puts in their place ([`Program`](crate::Program)).
fn effects() -> Effects {
    crate::effects().into_iter().chain(crate::program().effects.clone()).collect()
}

/// Sets the local directory of the store, and creates it.
pub(crate) fn with_local_dir(engine_config: EngineConfig, store: &AnyStore) -> Result<EngineConfig, Failure> {
    store.prepare_local_dir()?;
    Ok(with_local_dir_path(engine_config, store))
}

/// Sets the local directory of the store without creating it, for a command that starts no attempt.
pub(crate) fn with_local_dir_path(engine_config: EngineConfig, store: &AnyStore) -> EngineConfig {
    EngineConfig { local_dir: store.local_dir().root().to_owned(), ..engine_config }
}

/// Fails with every step whose agent has no adapter, or else with the first adapter whose program does not exist. Checked
/// before a run is opened.
pub(crate) fn require_profiles<'a>(
    engine_config: &EngineConfig,
    options: &RunOptions,
    protocol: &str,
    steps: impl IntoIterator<Item = (&'a StepId, &'a str)>,
) -> Result<(), Failure> {
    let (mut missing, mut no_program) = (Vec::new(), None);
    for (step, agent) in steps {
        match engine_config.assign(options, RoleQuery { protocol, step, agent, model: None }) {
            Ok(Assigned { profile, .. }) => {
                no_program = no_program
                    .or_else(|| profiles::missing_program(agent, &profile, &options.env, &options.workdir));
            }
            Err(error) => missing.push(error),
        }
    }
    match (missing.is_empty(), no_program) {
        (false, _) => Err(EngineError::NoAdapter(missing).into()),
        (true, Some(failure)) => Err(failure),
        (true, None) => Ok(()),
    }
}

/// Fails if `--role` or `--model` names neither a step nor an agent of the run.
pub(crate) fn require_known_roles<'a>(
    roles: &BTreeMap<String, Role>,
    steps: impl IntoIterator<Item = (&'a StepId, &'a str)>,
) -> Result<(), Failure> {
    require_known(roles, steps.into_iter().flat_map(|(step, agent)| [step.as_str(), agent]).collect())
}

/// Fails if `--role` or `--model` names neither a step nor an agent of an existing run, nor an agent that its
/// protocol may ask later.
pub(crate) fn require_known_roles_of_run(
    engine_config: &EngineConfig,
    journal: &Journal,
) -> Result<(), Failure> {
    let machine = journal.machine();
    // A step of `steps` with an agent is of the kind `Command` while its checks run.
    let may_have_agent = |step: &StepId| match machine.step_kind(step) {
        StepKind::Agent | StepKind::Command => true,
        StepKind::Person | StepKind::Effect => false,
    };
    let steps: Vec<_> = machine.steps().into_iter().filter(may_have_agent).collect();
    let agents: Vec<_> = steps.iter().map(|step| machine.agent(step)).collect();
    let present = steps.iter().map(StepId::as_str).chain(agents.iter().map(String::as_str));
    let known = present.chain(machine.kind().info().roles.iter().copied());
    require_known(&engine_config.overrides.roles, known.collect())
}

fn require_known(roles: &BTreeMap<String, Role>, known: BTreeSet<&str>) -> Result<(), Failure> {
    let known: Vec<_> = known.into_iter().chain([DEFAULT_ROLE]).collect();
    let Some(name) = roles.keys().find(|name| !known.contains(&name.as_str())) else { return Ok(()) };
    let hint = match closest(name, known.iter().copied()) {
        Some(meant) => format!("did you mean `{meant}`?"),
        None => format!(
            "use one of {}",
            known.iter().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ")
        ),
    };
    Err(Failure::usage(format!("`--role` or `--model` names `{name}`, which is no step and no agent"))
        .hint(hint))
}

/// Fails if the run is a rehearsal and the command sets other agents for it.
pub(crate) fn refuse_other_agents(overrides: &Overrides, journal: &Journal) -> Result<(), Failure> {
    let profile = journal.spec.options.profile.as_ref();
    let is_rehearsal = profile.is_some_and(|profile| profile.adapter.is_rehearsal());
    if !is_rehearsal || (overrides.profile.is_none() && overrides.roles.is_empty()) {
        return Ok(());
    }
    let info = journal.kind().info();
    let what = format!("cannot use another agent for run `{}`: it is a rehearsal", journal.run);
    Err(Failure::new(Exit::Refused, what).hint(format_args!(
        "run `{}` with the same {} to start a real run",
        info.start_command, info.start_argument
    )))
}

/// Drives a run until it is stopped or finished, and prints the result.
pub(crate) async fn drive(
    workspace: &Workspace,
    store: &AnyStore,
    engine_config: EngineConfig,
    run: &RunId,
    request: EngineRequest,
    args: &EngineArgs,
) -> Result<Exit, Failure> {
    // The run continues if the reader of our output is gone.
    output::ignore_write_errors();
    let progress = Progress::new(workspace, run, args.json);
    let mut observer = EngineObserver { progress, notifier: Notifier::new(workspace, store) };
    let overrides = engine_config.overrides.clone();
    let mut engine_config = with_local_dir(engine_config, store)?;
    engine_config.overrides.exit_when_waiting = args.exit_when_waiting;
    let engine = Engine::lock(store, engine_config, run, LockPurpose::Engine, &mut observer).await;
    let engine = engine?;
    if let Err(failure) = refuse_other_agents(&overrides, engine.journal()) {
        engine.release().await;
        return Err(failure);
    }
    let info = engine.journal().kind().info();
    let options = engine.journal().spec.options.clone();
    let failure_hint = engine.journal().machine().failure_hint(run);
    let had_succeeded = engine.journal().state.run.status == RunStatus::Finished(Outcome::Succeeded);
    let was_interrupted = Cell::new(false);
    let (interrupts, forced_exit) = forward_interrupts(interrupts()?, &was_interrupted);
    let exit = tokio::select! {
        exit = engine.drive_to_exit(request, interrupts) => exit,
        () = forced_exit => {
            observer.progress.clear();
            return Err(forced_exit_failure(run));
        }
    };
    let EngineObserver { mut progress, mut notifier } = observer;
    progress.clear();
    let (exit, run_at) = match exit {
        Ok(exited) => exited,
        Err(error) => {
            notifier.finish().await;
            // The previous engine may have been killed between its last commit and the removal of the worktrees.
            if had_succeeded && matches!(error, EngineError::Refused(_)) {
                workspace::worktrees::clean_up(&options);
            }
            let failure = drive_failure(run, info, error, failure_hint);
            let failure = with_resume_hint(run, failure, was_interrupted.get());
            return Err(save_if_store_is_gone(workspace, store, failure));
        }
    };
    inbox::of_ended_run(&run_at).iter().for_each(|item| notifier.notify(item));
    progress.show_result(store, &run_at, exit);
    learnings::add_ended(store, &run_at);
    if exit == EngineExit::Finished(Outcome::Succeeded) {
        workspace::worktrees::clean_up(&options);
    }
    notifier.finish().await;
    Ok(exit_code(exit))
}

/// Checks that this host has the repository and the working directory of a run. Agents work there, so a host without them
/// cannot continue the run. An embedded store is always on the host of its runs.
pub(crate) fn check_repository_here(
    workspace: &Workspace,
    store: &AnyStore,
    run: &RunId,
    options: &RunOptions,
) -> Result<(), Failure> {
    if !store.is_shared() {
        return Ok(());
    }
    let (host, repository) = (linux::host_name(), &options.location.repo_dir);
    if !Path::new(repository).is_dir() {
        let message = format!(
            "cannot continue run `{run}` on `{host}`: its repository `{repository}` does not exist here"
        );
        return Err(Failure::usage(message)
            .hint("clone or mount the repository at that path, then run the same command again")
            .hint(format_args!("`callboard watch {run}`, `show`, `pause` and `stop` work without")));
    }
    if !options.workdir.is_dir() {
        let workdir = options.workdir.display();
        let message = format!(
            "cannot continue run `{run}` on `{host}`: the working directory `{workdir}` of its agents does not exist here"
        );
        return Err(Failure::usage(message).hint("name another directory with `--workdir DIR`"));
    }
    check_local_dir(workspace, store, run, options)
}

/// Checks that the command uses the local directory of the run's repository. The attempts of a store on NATS are in that
/// directory. From another repository of the machine an engine would not see them and would start them twice.
pub(crate) fn check_local_dir(
    workspace: &Workspace,
    store: &AnyStore,
    run: &RunId,
    options: &RunOptions,
) -> Result<(), Failure> {
    let repository = Path::new(&options.location.repo_dir);
    // A user who names a local directory with `--store` chooses it. A missing repository has no local directory.
    if !workspace.has_server_address() || !repository.is_dir() {
        return Ok(());
    }
    if uses_local_dir_of(store, repository)? {
        return Ok(());
    }
    let shown = repository.display();
    let message = format!("run `{run}` belongs to the repository `{shown}`, where its attempts are");
    let word = output::shell_word(repository);
    Err(Failure::usage(message).hint(format_args!("run the same command there, or add `--repo {word}`")))
}

/// Whether the local directory of the store is the one of that repository.
pub(crate) fn uses_local_dir_of(store: &AnyStore, repository: &Path) -> Result<bool, Failure> {
    let canonical = |path: &Path| path.canonicalize().unwrap_or_else(|_| path.to_owned());
    let local_dir = store.local_dir_for_repo(repository)?;
    Ok(canonical(local_dir.root()) == canonical(store.local_dir().root()))
}

/// Returns the exit code for the result of a run.
pub(crate) fn exit_code(exit: EngineExit) -> Exit {
    match exit {
        EngineExit::Finished(Outcome::Succeeded) => Exit::Success,
        EngineExit::Finished(Outcome::Incomplete | Outcome::Failed) => Exit::Failed,
        EngineExit::Stopped(RunStopCause::EngineInterrupted | RunStopCause::Requested)
        | EngineExit::AttemptsLeftAlive => Exit::Interrupted,
        EngineExit::Remote | EngineExit::Waiting => Exit::NeedsPerson,
    }
}

fn drive_failure(run: &RunId, info: &ProtocolInfo, error: EngineError, failure_hint: String) -> Failure {
    let context = format!("cannot continue run `{run}`");
    let hint = match &error {
        EngineError::Refused(Refusal::Incomplete | Refusal::Failed) => failure_hint,
        EngineError::Refused(Refusal::NothingFailed | Refusal::NotFailed(_)) => {
            format!("run `callboard show {run}` to see its steps, or `callboard resume {run}` to continue")
        }
        EngineError::Refused(_) => {
            format!(
                "run `callboard log {run}` to see its journal, or `{}` to start a new run",
                info.start_command
            )
        }
        EngineError::NothingToAbandon { .. } => return Failure::from(error).context(context),
        _ => return error.into(),
    };
    Failure::from(error).context(context).hint(hint)
}

/// Suggests `resume` after the servers were lost during a run: repeating the command might start another run. Says
/// whether an interrupt could not be committed.
fn with_resume_hint(run: &RunId, mut failure: Failure, was_interrupted: bool) -> Failure {
    match failure.code {
        Some(Code::NoServer) => {
            failure.hints.clear();
            let agents = if was_interrupted {
                "the interrupt was not recorded, so agents continue"
            } else {
                "nothing is lost, and agents continue"
            };
            failure.hint(format_args!("run `callboard resume {run}` when the servers answer; {agents}"))
        }
        Some(Code::NoStream) if was_interrupted => {
            failure.hint("the interrupt was not recorded, so agents continue")
        }
        _ => failure,
    }
}

/// Returns a channel with one message per Ctrl-C or SIGTERM.
pub(crate) fn interrupts() -> Result<mpsc::UnboundedReceiver<()>, Failure> {
    let (sender, receiver) = mpsc::unbounded_channel();
    for kind in [SignalKind::interrupt(), SignalKind::terminate()] {
        let mut signals = signal(kind)
            .map_err(|error| Failure::new(Exit::Bug, "cannot handle signals").because(Some(&error)))?;
        let sender = sender.clone();
        tokio::spawn(async move { while signals.recv().await.is_some() && sender.send(()).is_ok() {} });
    }
    Ok(receiver)
}

/// Forwards interrupts to the engine. The returned future completes [`FORCED_EXIT_DELAY`] after the last of
/// [`FORCED_EXIT_INTERRUPTS`]: an engine that waits for its store does not receive interrupts, and dropping it is as safe as
/// killing it.
fn forward_interrupts(
    mut interrupts: mpsc::UnboundedReceiver<()>,
    was_interrupted: &Cell<bool>,
) -> (mpsc::UnboundedReceiver<()>, impl Future<Output = ()>) {
    let (sender, receiver) = mpsc::unbounded_channel();
    let forced_exit = async move {
        for _ in 0..FORCED_EXIT_INTERRUPTS {
            if interrupts.recv().await.is_none() || sender.send(()).is_err() {
                std::future::pending::<()>().await;
            }
            was_interrupted.set(true);
        }
        tokio::time::sleep(FORCED_EXIT_DELAY).await;
    };
    (receiver, forced_exit)
}

fn forced_exit_failure(run: &RunId) -> Failure {
    Failure::new(
        Exit::Interrupted,
        format_args!("exited without stopping run `{run}`: its store does not answer"),
    )
    .hint(format_args!("its agents may be running; run `callboard resume {run}` to adopt them"))
}

/// Starts an engine in the background and returns after its first commit. `agent_flags` are passed on to it.
pub(crate) async fn detach(
    workspace: &Workspace,
    store: &AnyStore,
    run: &RunId,
    args: &EngineArgs,
    agent_flags: Vec<OsString>,
) -> Result<Exit, Failure> {
    let program = std::env::current_exe().map_err(|error| {
        Failure::new(Exit::Bug, "cannot determine the path of this program").because(Some(&error))
    })?;
    let mut command = Command::new(program);
    // `--at-once`: it must not follow an engine on another host, because we wait for its own first commit.
    command.arg("resume").arg(run.as_str()).arg("--at-once").arg("--repo").arg(&workspace.repo);
    command.arg("--store").arg(store.local_dir().root()).args(agent_flags);
    if args.exit_when_waiting {
        command.arg("--exit-when-waiting");
    }
    if let Some(jobs) = args.jobs {
        command.arg("--jobs").arg(jobs.to_string());
    }
    store.prepare_local_dir()?;
    let log = store.local_dir().engines_dir().join(format!("{run}.log"));
    let output = std::fs::File::options().create(true).append(true).open(&log);
    let output = output.and_then(|file| Ok((file.try_clone()?, file)));
    let (out, err) = output.map_err(|error| {
        Failure::new(Exit::Store, format!("cannot write `{}`", log.display())).because(Some(&error))
    })?;
    let credentials = credentials(store);
    if credentials.is_some() {
        command.arg("--access-from-stdin");
    }
    // Only entries after this one count: an earlier engine may have had the same process id.
    let before = store.newest_revision(run).await?.unwrap_or(Revision(0));
    let mut watch = store.watch(run, before).await?;
    linux::restore_descriptor_limit();
    let mut child = command
        .stdin(if credentials.is_some() { Stdio::piped() } else { Stdio::null() })
        .stdout(out)
        .stderr(err)
        .process_group(0)
        .spawn()
        .map_err(|error| Failure::new(Exit::Bug, "cannot start the engine").because(Some(&error)))?;
    if let (Some(mut stdin), Some(credentials)) = (child.stdin.take(), credentials) {
        // If the engine has exited already, its log has the reason.
        let _ = stdin.write_all(credentials.as_bytes()).await;
    }
    let pid = child.id().unwrap_or_default();
    tokio::select! {
        committed = wait_for_entry_by(&mut watch, pid) => committed?,
        exited = child.wait() => {
            // It may have finished the run already; otherwise its log has the reason.
            let has_committed = has_entry_by(&store.entries(run, before).await?, pid)?;
            if !has_committed {
                return Err(exited_at_start(run, &log, exited.ok().and_then(|status| status.code())));
            }
        }
    }
    if args.json {
        output::json(&serde_json::json!({ "event": "detached", "run": run, "pid": pid }));
    } else {
        output::data(run);
        output::note(format_args!(
            "run `callboard watch {run}` to follow it, `callboard stop {run}` to stop it"
        ));
    }
    Ok(Exit::Success)
}

/// Returns the credentials for the store, which the engine reads from stdin. Other users could read its command line, and
/// agents inherit its environment.
fn credentials(store: &AnyStore) -> Option<String> {
    match store.backend() {
        Backend::Nats(store, _) => store.settings().auth.userinfo(),
        Backend::Embedded(_) => None,
    }
}

fn exited_at_start(run: &RunId, log: &Path, code: Option<i32>) -> Failure {
    let exit = [Exit::Failed, Exit::Usage, Exit::Refused, Exit::NeedsPerson, Exit::Bug, Exit::Interrupted]
        .into_iter()
        .find(|exit| Some(i32::from(exit.code())) == code)
        .unwrap_or(Exit::Store);
    Failure::new(exit, format!("the engine of run `{run}` exited at start"))
        .hint(format!("read `{}` for the reason", output::shell_word(log)))
}

/// Waits until the engine with this pid has committed an entry.
async fn wait_for_entry_by(watch: &mut store::Watch, engine: u32) -> Result<(), Failure> {
    while !has_entry_by(&watch.next().await?, engine)? {}
    Ok(())
}

/// The author of an entry, which has the same form in every protocol.
#[derive(Deserialize)]
struct EntryAuthor {
    by: Author,
}

/// Whether any of the entries is by the engine with this pid.
fn has_entry_by(entries: &[StoredEntry], engine: u32) -> Result<bool, Failure> {
    for entry in entries {
        let entry: EntryAuthor =
            serde_json::from_str(&entry.body).map_err(|error| Failure::from_error(Exit::Store, &error))?;
        if matches!(&entry.by, Author::Engine { pid, host, .. } if *pid == engine && *host == linux::host_name())
        {
            return Ok(true);
        }
    }
    Ok(false)
}
