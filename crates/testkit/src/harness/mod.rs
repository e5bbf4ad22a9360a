//! Runs on a real store, opened and driven in the test's own process.

mod faulty_store;
pub mod peer_cycle;

use std::collections::BTreeMap;
use std::num::NonZeroU32;
use std::path::Path;
use std::sync::LazyLock;
use std::time::Duration;

use protocol::entry::{Author, ENTRY_VERSION, Entry, Input};
use protocol::protocol_trait::DEFAULT_MAX_ATTEMPTS;
use protocol::run::{Action, Decision};
use protocol::steps::{self, DEFAULT_MAX_ITERATIONS, OnFailure, StepSpec, Workflow};
use protocol::{PROTOCOLS, RunId, RunLocation, StepId, peer};
use runner::{AgentProfile, Clock, EngineConfig, GRACE, Journal, Overrides, RunOptions, RunSpec};
use serde::Serialize;
use store::{AnyStore, Commit, CommitError, Location, OutboxItem, Part, Position, Store, WriteId};
use supervisor::ShimProgram;
use supervisor::adapter::{Adapter, EnvPolicy, ReportRule, Wrapper};
use supervisor::git::{MergeStrategy, WorktreeOptions};
use tokio::runtime::Handle;

pub use faulty_store::{CommitFault, FaultyStore};

use crate::test_env::TestEnv;

impl TestEnv {
    /// Opens the repository's store, and creates it if necessary.
    pub fn open_store(&self) -> AnyStore {
        block_on(open_store(self.repo(), self.backend().address().as_deref()))
    }
}

/// Opens the NATS store at an address, or without one the repository's own.
pub async fn open_store(repo: &Path, address: Option<&str>) -> AnyStore {
    let location = Location::find(repo, None).expect("a repository has a location for the store");
    crate::test_env::open(&location, address).await
}

/// Waits for a future in a test without a runtime.
///
/// All such futures share one runtime, and a thread drives it: a connection to a server belongs to the runtime that
/// made it, and is active between two calls.
pub fn block_on<T>(future: impl Future<Output = T>) -> T {
    static RUNTIME: LazyLock<Handle> = LazyLock::new(|| {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let runtime = runtime.expect("there can be a runtime");
        let handle = runtime.handle().clone();
        std::thread::spawn(move || runtime.block_on(std::future::pending::<()>()));
        handle
    });
    RUNTIME.block_on(future)
}

pub fn test_author() -> Author {
    Author::Person { name: "tester".to_owned(), host: "here".to_owned() }
}

/// A workflow of one step.
pub fn one_step(step: &str, max_attempts: NonZeroU32) -> steps::StoredDefinition {
    independent_steps(&[step], max_attempts)
}

/// A workflow of steps that do not depend on each other.
pub fn independent_steps(steps: &[&str], max_attempts: NonZeroU32) -> steps::StoredDefinition {
    let steps: Vec<_> = steps.iter().map(|step| StepId::new(*step).expect("a name")).collect();
    let workflow = Workflow {
        name: "trial".to_owned(),
        description: String::new(),
        metadata: serde_json::Map::new(),
        steps: steps.iter().map(|step| StepSpec::new(step.clone(), "coder", "task.md")).collect(),
    };
    steps::StoredDefinition {
        workflow,
        source: String::new(),
        prompts: steps.into_iter().map(|step| (step, "Do it.".to_owned())).collect(),
        max_attempts,
        max_iterations: DEFAULT_MAX_ITERATIONS,
        on_failure: OnFailure::Stop,
        gate_state_file: None,
        memory: Default::default(),
        report_schema: None,
    }
}

/// The definition of a new peer cycle.
pub fn new_peer_cycle(id: &str) -> peer::Definition {
    peer::Definition {
        cycle: id.parse().expect("a cycle's id"),
        instruction: "create-spec".to_owned(),
        mode: peer::Mode::New,
        instruction_args: String::new(),
        user_requirements: "People can log in".to_owned(),
        continues: None,
        earlier_review: None,
        max_attempts: DEFAULT_MAX_ATTEMPTS,
        timeout: None,
        prompts: BTreeMap::new(),
    }
}

/// The run id of a peer cycle.
pub fn run_of(definition: &peer::Definition) -> RunId {
    RunId::new(definition.cycle.key()).expect("a key is a name")
}

/// The run spec of a run in that directory.
pub fn run_spec(
    definition: impl Serialize,
    run: &RunId,
    directory: &Path,
    profile: Option<AgentProfile>,
) -> RunSpec {
    let location = RunLocation::new(run.clone(), directory.display().to_string());
    let options = RunOptions {
        location,
        workdir: directory.to_owned(),
        profile,
        env: Vec::new(),
        roles: BTreeMap::new(),
        worktrees: None,
        checks: Vec::new(),
    };
    RunSpec::new("trial".to_owned(), &definition, options)
}

/// The options of a run that works in worktrees beside the repository, from its present commit on.
pub fn worktrees(test_env: &TestEnv, run: &RunId) -> WorktreeOptions {
    let (base, start) = supervisor::git::head(test_env.repo()).expect("the repository has a commit");
    let dir = test_env.repo().with_file_name("trees").join(run.as_str());
    let parent = dir.parent().expect("BUG: the path ends with `trees` and the run");
    std::fs::create_dir_all(parent).expect("a directory can be made");
    WorktreeOptions {
        dir,
        base,
        start,
        strategy: MergeStrategy::Merge,
        setup: Vec::new(),
        no_merge: true,
        integration: None,
        no_commit: false,
        integration_dir: None,
        keep: false,
    }
}

/// The agent profile of `--wrapper PROGRAM`.
pub fn wrapper(program: &Path) -> AgentProfile {
    let program = program.to_str().expect("our paths are UTF-8").to_owned();
    AgentProfile {
        adapter: Adapter::Wrapper(Wrapper { program, args: Vec::new() }),
        report: ReportRule::Required,
        env_policy: EnvPolicy::InheritAll,
        env: Vec::new(),
        timeout: None,
        silence: None,
        grace: GRACE,
    }
}

/// The configuration of an engine in this process; `program` is the built `callboard`.
pub fn engine_config(store: &AnyStore, program: &Path) -> EngineConfig {
    store.prepare_local_dir().expect("directories can be made");
    engine_config_at(store.local_dir().root(), program)
}

/// The configuration of an engine with that local directory.
pub fn engine_config_at(local_dir: &Path, program: &Path) -> EngineConfig {
    let boot_id = linux::boot_id().expect("the kernel tells");
    let (host, pid) = (linux::host_name(), std::process::id());
    EngineConfig {
        protocols: PROTOCOLS,
        effects: runner::Effects::new(),
        overrides: Overrides::default(),
        profiles: BTreeMap::new(),
        roles: BTreeMap::new(),
        slots: 1,
        backoff: Duration::from_millis(1),
        linger_timeout: Duration::from_secs(30),
        shim: ShimProgram { program: program.to_owned(), args: vec!["__shim".into()] },
        local_dir: local_dir.to_owned(),
        clock: Clock::system(),
        boot_id: boot_id.clone(),
        agent_open_files_limit: None,
        author: Author::Engine { host, boot_id, pid },
    }
}

fn outbox_item(action: &Action) -> OutboxItem {
    OutboxItem { id: action.id(), body: serde_json::to_string(action).expect("an action is plain data") }
}

/// A commit of an entry and nothing else.
pub fn entry_commit(run: &RunId, expected: Position, entry: &str) -> Commit {
    Commit {
        run: run.clone(),
        protocol: "steps".to_owned(),
        expected,
        epoch: None,
        write_id: WriteId::new(),
        entry: entry.to_owned(),
        parts: Vec::new(),
        document: None,
        outbox: Vec::new(),
        acknowledged: Vec::new(),
        views: Vec::new(),
        snapshot: None,
        summary: "{}".to_owned(),
    }
}

/// Commits an entry to the journal, with the time it has.
pub async fn append(journal: &mut Journal, store: &dyn Store, entry: &Entry) -> Result<(), CommitError> {
    journal.state.fold(entry).expect("the entry is of this protocol");
    let machine = &mut journal.state.run.machine;
    let parts = machine.record(entry).expect("the entry can be recorded").into_iter();
    let parts = parts.map(|path| Part { body: machine.part(&path), path });
    let kind = machine.kind().info();
    let commit = Commit {
        protocol: kind.name.to_owned(),
        parts: parts.collect(),
        document: (kind.publishes_document && store.has_public_documents())
            .then(|| journal.document().to_json()),
        outbox: entry.actions.iter().map(outbox_item).collect(),
        summary: serde_json::to_string(&journal.summary()).expect("a summary is plain data"),
        ..entry_commit(&journal.run, journal.position, &entry.encode())
    };
    journal.position = store.commit(commit).await?;
    Ok(())
}

/// Commits the decision of an engine on that host that was killed before it acted.
pub async fn commit_decision(
    journal: &mut Journal,
    store: &dyn Store,
    host: &str,
    Decision { changes, actions }: Decision,
) {
    let entry = Entry {
        v: ENTRY_VERSION,
        at: Clock::system().now().max(journal.state.at),
        by: Author::Engine { host: host.to_owned(), boot_id: "then".to_owned(), pid: 1 },
        input: Input::Deferred,
        changes,
        actions,
        timers: Vec::new(),
    };
    append(journal, store, &entry).await.expect("no other process writes");
}
