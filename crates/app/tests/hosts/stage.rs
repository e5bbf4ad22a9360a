//! One repository, one server, and commands typed on hosts of any name.

use std::fs;
use std::path::PathBuf;

use testkit::{Callboard, Gate, Held, Scene};

use crate::servers::Server;

pub(crate) struct Stage {
    pub(crate) scene: Scene,
    _server: Server,
}

impl Stage {
    /// Leases are short: whoever takes over from a host that is gone waits for one.
    pub(crate) fn new() -> Self {
        Self::with_lease("1s")
    }

    pub(crate) fn with_lease(lease: &str) -> Self {
        let scene = Scene::new(env!("CARGO_BIN_EXE_callboard"));
        let server = Server::start();
        let store = format!(
            "[store]\naddress = \"nats://{}\"\nreplicas = 1\nlease = \"{lease}\"\n",
            server.address()
        );
        scene.write("callboard.toml", &store);
        Self { scene, _server: server }
    }

    /// A command on that host.
    pub(crate) fn on(&self, host: &str, arguments: &[&str]) -> Callboard<'_> {
        self.scene.callboard(arguments).env("CALLBOARD_HOST", host)
    }

    /// `callboard run` of `wf.yaml` on that host.
    pub(crate) fn run_on(&self, host: &str, more: &[&str]) -> Callboard<'_> {
        self.scene.run(more).env("CALLBOARD_HOST", host)
    }

    /// A run of two steps, of which the first was at work on host `a` when its engine was killed. Its agent works on,
    /// and waits at the gate.
    pub(crate) fn deserted() -> (Self, Held, Gate) {
        Self::deserted_with_lease("1s")
    }

    pub(crate) fn deserted_with_lease(lease: &str) -> (Self, Held, Gate) {
        let stage = Self::with_lease(lease);
        let gate = stage.scene.gate("gate");
        stage.scene.workflow(&["first", "second"]);
        stage.scene.plan(&["first 1 wait gate"]);
        let engine = stage.run_on("a", &["--jobs", "1"]).start();
        let agent = Held::of(stage.scene.ledger().wait_for_begin("first#1.1")).expect("at work");
        engine.kill();
        engine.wait();
        (stage, agent, gate)
    }

    /// Where the attempts of this store are; hosts of any name share it, as they share the repository.
    fn premises(&self) -> Vec<PathBuf> {
        let stores = fs::read_dir(self.scene.store().join("nats")).into_iter().flatten();
        stores.filter_map(|entry| Some(entry.ok()?.path())).collect()
    }

    /// Fails if anything of an attempt is alive.
    #[track_caller]
    pub(crate) fn expect_no_orphans(&self) {
        let premises = self.premises();
        assert_eq!(premises.len(), 1, "one server, one store");
        testkit::expect_no_orphans(&premises[0]);
    }

    /// The run as `show --json` tells it on a host.
    pub(crate) fn shown_on(&self, host: &str) -> serde_json::Value {
        let shown = self.on(host, &["show", "trial", "--json"]).run();
        assert_eq!(shown.code, 0, "{}", shown.transcript());
        shown.json()
    }
}

impl Drop for Stage {
    /// As the scene does for a store of its own.
    fn drop(&mut self) {
        if std::thread::panicking() {
            let orphans = self.premises().into_iter().flat_map(|premises| testkit::orphans(&premises));
            orphans.for_each(|orphan| orphan.kill());
        }
    }
}
