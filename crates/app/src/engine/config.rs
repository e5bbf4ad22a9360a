//! How the engine of this process is configured, and whether it is at the right place.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use protocol::RunId;
use protocol::entry::Author;
use runner::{Effects, EngineConfig, Overrides, RunOptions};
use store::AnyStore;
use supervisor::ShimProgram;

use super::profiles;
use crate::failure::{Exit, Failure};
use crate::output;
use crate::workspace::{self, Workspace};

/// How long an agent may run after its report.
const LINGER_TIMEOUT: Duration = Duration::from_secs(30);

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
