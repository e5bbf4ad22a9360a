//! The engine of a cycle is killed: while an agent is at work, and after each of its commits and starts.

use std::collections::BTreeMap;
use std::process::Command;
use std::time::Duration;

use protocol::entry::Author;
use protocol::peer::{CycleId, CycleStatus, Definition, Mode, Peer, Phase};
use protocol::rules::DEFAULT_TRIES;
use protocol::{RunId, Stage};
use runner::{Again, Asked, Clock, Engine, Frozen, GRACE, House, Notice, Observer, Player, Staging};
use rustix::process::{Signal, getpid, kill_process};
use store::{Location, SqliteStore, Tenure};
use supervisor::ShimProgram;
use supervisor::adapter::{Adapter, Pass, ReportRule, Wrapper};
use testkit::{Held, Scene};

use super::{ALL, document, peer, transitions};
use crate::scene;

const CYCLE: &str = "peer:spec:x:cycle:1";

#[test]
fn an_agent_outlives_its_engine_and_its_phase_is_completed_once() {
    let scene = scene();
    scene.plan(&["execute * wait gate"]);
    let mut gate = scene.gate("gate");
    let running = peer(&scene, &["create-spec", "--spec", "x"]).start();
    let agent = Held::of(scene.ledger().wait_for_begin("execute#1.1")).expect("at work");
    running.kill();
    assert_eq!(running.wait().code, -1);
    assert!(!agent.has_ended(), "it works on");
    let resumed = scene.callboard(&["peer", "--continue"]).start();
    resumed.wait_until_it_says("execute#1.1 was found at work and adopted");
    gate.open();
    let session = resumed.wait();
    assert_eq!(session.code, 0, "{}", session.transcript());
    expect_each_phase_once(&scene);
}

/// A second life of this test is the engine that gets killed: it is told where and when by variables.
#[test]
fn killed_after_any_commit_or_start_it_goes_on_and_repeats_nothing() {
    if let Ok(notice) = std::env::var("KILLED_AT") {
        return be_killed_at(notice.parse().unwrap());
    }
    for notice in 1.. {
        let scene = scene();
        opened(&scene);
        let engine = Command::new(std::env::current_exe().unwrap())
            .args([
                "--exact",
                "peer::killing::killed_after_any_commit_or_start_it_goes_on_and_repeats_nothing",
            ])
            .env("KILLED_AT", notice.to_string())
            .env("REPO", scene.repo())
            .output()
            .unwrap();
        let left = document(&scene, CYCLE);
        if left.metadata.status == CycleStatus::Completed {
            assert!(notice > 14, "a commit for each write at least, and four starts: {engine:?}");
            expect_each_phase_once(&scene);
            return;
        }
        assert_eq!(engine.status.code(), None, "it was not killed at {notice}: {engine:?}");
        let session = scene.callboard(&["peer", "--continue"]).run();
        assert_eq!(session.code, 0, "killed at {notice}: {}", session.transcript());
        expect_each_phase_once(&scene);
    }
}

#[track_caller]
fn expect_each_phase_once(scene: &Scene) {
    assert_eq!(transitions(&document(scene, CYCLE)), ALL);
    assert_eq!(scene.ledger().begun(), ["plan#1.1", "execute#1.1", "express#1.1", "review#1.1"]);
    for phase in Phase::ALL {
        assert_eq!(scene.ledger().ends_of(phase.as_str()), 1, "{phase}");
    }
    scene.expect_no_orphans();
}

/// Opens a cycle that the scripted agent will play, and plays nothing of it.
fn opened(scene: &Scene) {
    let cycle: CycleId = CYCLE.parse().unwrap();
    let program = scene.agent().to_str().unwrap().to_owned();
    let player = Player {
        adapter: Adapter::Wrapper(Wrapper { program, args: Vec::new() }),
        report: ReportRule::Required,
        pass: Pass::Everything,
        env: Vec::new(),
        timeout: None,
        silence: None,
        grace: GRACE,
    };
    let staging = Staging {
        stage: Stage { run: run(), repo_dir: scene.repo().to_str().unwrap().to_owned() },
        workdir: scene.repo().to_owned(),
        player: Some(player),
        env: Vec::new(),
    };
    let definition = Definition {
        cycle,
        instruction: "create-spec".to_owned(),
        mode: Mode::New,
        instruction_args: String::new(),
        user_requirements: "dark mode".to_owned(),
        continues: None,
        advice: None,
        tries: DEFAULT_TRIES,
        timeout: None,
    };
    let frozen = Frozen::<Peer> { title: "create-spec".to_owned(), definition, staging };
    let store = SqliteStore::open(&Location::find(scene.repo(), None).unwrap()).unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let by = Author::Person { name: "tester".to_owned(), host: "here".to_owned() };
    runtime.block_on(runner::open(&store, &Clock::system(), by, frozen)).unwrap();
}

fn run() -> RunId {
    RunId::new(CYCLE.parse::<CycleId>().unwrap().key()).unwrap()
}

/// Is the engine, until it has told so many things.
fn be_killed_at(notice: u32) {
    let repo = std::path::PathBuf::from(std::env::var_os("REPO").unwrap());
    let location = Location::find(&repo, None).unwrap();
    let run = run();
    let boot_id = supervisor::boot_id().unwrap();
    let author =
        Author::Engine { host: "here".to_owned(), boot_id: boot_id.clone(), pid: std::process::id() };
    let program = env!("CARGO_BIN_EXE_callboard").into();
    let house = House {
        again: Again::default(),
        by_agent: BTreeMap::new(),
        places: 1,
        backoff: Duration::from_millis(1),
        lingering: Duration::from_secs(30),
        shim: ShimProgram { program, args: vec!["__shim".into()] },
        store_root: location.root().to_owned(),
        clock: Clock::system(),
        boot_id,
        descriptors: None,
        author,
    };
    let store = SqliteStore::open(&location).unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let mut killer = Killer { left: notice };
    runtime.block_on(async {
        let engine = Engine::<Peer, _>::lead(&store, house, &run, Tenure::Engine, &mut killer).await.unwrap();
        let (_keep, interrupts) = tokio::sync::mpsc::unbounded_channel();
        engine.play(Asked::to_resume(None), interrupts).await.unwrap();
    });
}

/// Kills its own process. What it is told of is done: a commit is in the store, an attempt has been started.
struct Killer {
    left: u32,
}

impl Observer<Peer> for Killer {
    fn notice(&mut self, notice: Notice<'_, Peer>) {
        match notice {
            Notice::Committed { .. } | Notice::Output { .. } => self.left -= 1,
            _ => {}
        }
        if self.left == 0 {
            kill_process(getpid(), Signal::KILL).unwrap();
        }
    }
}
