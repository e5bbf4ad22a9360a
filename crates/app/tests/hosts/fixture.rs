//! One repository, one server, and commands typed on hosts of any name.

use std::time::Duration;

use store::{NatsSettings, NatsStore};
use testkit::nats::Server;
use testkit::{AgentBarrier, Callboard, ProcessHandle, Running, TestEnv};

/// The lease length for tests that wait until a lease expires.
const SHORT_LEASE: Duration = Duration::from_secs(1);
/// The lease length for tests that must not wait until a lease expires.
pub(crate) const LONG_LEASE: Duration = Duration::from_secs(600);

/// A repository whose runs are on a NATS server of its own.
pub(crate) struct Fixture {
    pub(crate) test_env: TestEnv,
}

impl Fixture {
    /// Uses short leases: a host that takes over from a dead one waits until the lease expires.
    pub(crate) fn new() -> Self {
        Self::with_lease(SHORT_LEASE)
    }

    pub(crate) fn with_lease(lease: Duration) -> Self {
        let server = Server::start();
        // The client that creates the streams fixes the lease length.
        let store = NatsStore::new(NatsSettings { lease, ..server.settings() });
        testkit::harness::block_on(store.open()).unwrap();
        Self { test_env: TestEnv::on(server, env!("CARGO_BIN_EXE_callboard")) }
    }

    /// Prepares a command that runs as on `host`.
    pub(crate) fn on(&self, host: &str, arguments: &[&str]) -> Callboard<'_> {
        self.test_env.callboard(arguments).env("CALLBOARD_HOST", host)
    }

    /// Prepares `callboard run wf.yaml` that runs as on `host`.
    pub(crate) fn run_on(&self, host: &str, flags: &[&str]) -> Callboard<'_> {
        self.test_env.run(flags).env("CALLBOARD_HOST", host)
    }

    /// Starts a run of one step on host `a`; its agent waits until the pipe `barrier` is opened.
    pub(crate) fn start_waiting_run(&self) -> (Running<'_>, ProcessHandle, AgentBarrier) {
        let barrier = self.test_env.barrier("barrier");
        self.test_env.workflow(&["first"]);
        self.test_env.script_agent(&["first 1 wait barrier"]);
        let engine = self.run_on("a", &[]).start();
        let agent =
            ProcessHandle::of(self.test_env.agent_log().wait_for_start("first#1.1")).expect("at work");
        (engine, agent, barrier)
    }

    /// Starts a run of one step on host `a` and interrupts its engine. Attempts after that succeed at once.
    pub(crate) fn run_and_interrupt(&self, flags: &[&str]) {
        self.test_env.workflow(&["first"]);
        self.test_env.script_agent(&["first 1 hang"]);
        let engine = self.run_on("a", flags).start();
        self.test_env.agent_log().wait_for_start("first#1.1");
        engine.interrupt();
        assert_eq!(engine.wait().code, 130);
        self.test_env.script_agent(&[]);
    }

    /// Starts a run of two steps on host `a` and kills its engine during the first. The agent keeps running and waits
    /// until the pipe `barrier` is opened.
    pub(crate) fn with_killed_engine() -> (Self, ProcessHandle, AgentBarrier) {
        Self::with_killed_engine_and_lease(SHORT_LEASE)
    }

    pub(crate) fn with_killed_engine_and_lease(lease: Duration) -> (Self, ProcessHandle, AgentBarrier) {
        let fixture = Self::with_lease(lease);
        let barrier = fixture.test_env.barrier("barrier");
        fixture.test_env.workflow(&["first", "second"]);
        fixture.test_env.script_agent(&["first 1 wait barrier"]);
        let engine = fixture.run_on("a", &["--jobs", "1"]).start();
        let agent =
            ProcessHandle::of(fixture.test_env.agent_log().wait_for_start("first#1.1")).expect("at work");
        engine.kill();
        engine.wait();
        (fixture, agent, barrier)
    }

    /// Returns the run as `show --json` prints it on a host.
    pub(crate) fn show_json_on(&self, host: &str) -> serde_json::Value {
        let shown = self.on(host, &["show", "trial", "--json"]).run();
        assert_eq!(shown.code, 0, "{}", shown.transcript());
        shown.json()
    }
}
