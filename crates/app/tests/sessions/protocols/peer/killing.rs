//! The engine of a cycle is killed: during an attempt, and after each of its commits and starts.

use std::path::Path;
use std::process::Command;

use protocol::peer::{Peer, PeerCycleStatus, Phase};
use protocol::protocol_kind;
use runner::{Clock, Engine, EngineRequest, Notice, Observer};
use rustix::process::{Signal, getpid, kill_process};
use store::LockPurpose;
use testkit::{ProcessHandle, TestEnv, harness};

use super::{SUCCESS_TRANSITIONS, document, peer, transitions};
use crate::sessions::test_env;

const CYCLE: &str = "peer:spec:x:cycle:1";

#[test]
fn an_agent_outlives_its_engine_and_its_phase_is_completed_once() {
    let test_env = test_env();
    test_env.script_agent(&["execute * wait barrier"]);
    let mut barrier = test_env.barrier("barrier");
    let running = peer(&test_env, &["create-spec", "--spec", "x"]).start();
    let agent = ProcessHandle::of(test_env.agent_log().wait_for_start("execute#1.1")).expect("at work");
    running.kill();
    assert_eq!(running.wait().code, -1);
    assert!(!agent.has_ended(), "the agent keeps working");
    let resumed = test_env.callboard(&["peer", "--continue"]).start();
    resumed.wait_for_stderr("execute#1.1 is still running: adopted");
    barrier.open();
    let session = resumed.wait();
    assert_eq!(session.code, 0, "{}", session.transcript());
    expect_each_phase_once(&test_env);
}

/// The test binary starts itself as the engine that is killed. `KILL_AFTER` says after how many commits and starts; `REPO` and
/// `CALLBOARD_STORE` say where.
#[test]
fn killed_after_any_commit_or_start_the_cycle_continues_and_repeats_nothing() {
    if let Ok(kill_after) = std::env::var("KILL_AFTER") {
        return drive_until_killed(kill_after.parse().unwrap());
    }
    for kill_after in 1.. {
        let test_env = test_env();
        open_cycle(&test_env);
        let engine = Command::new(std::env::current_exe().unwrap())
            .args([
                "--exact",
                "sessions::protocols::peer::killing::killed_after_any_commit_or_start_the_cycle_continues_and_repeats_nothing",
            ])
            .env("KILL_AFTER", kill_after.to_string())
            .env("REPO", test_env.repo())
            .envs(test_env.backend().address().map(|address| ("CALLBOARD_STORE", address)))
            .output()
            .unwrap();
        let after_kill = document(&test_env, CYCLE);
        if after_kill.metadata.status == PeerCycleStatus::Completed {
            assert!(kill_after > 14, "a commit for each write at least, and four starts: {engine:?}");
            expect_each_phase_once(&test_env);
            return;
        }
        assert_eq!(engine.status.code(), None, "it was not killed at {kill_after}: {engine:?}");
        let session = test_env.callboard(&["peer", "--continue"]).run();
        assert_eq!(session.code, 0, "killed at {kill_after}: {}", session.transcript());
        expect_each_phase_once(&test_env);
    }
}

#[track_caller]
fn expect_each_phase_once(test_env: &TestEnv) {
    assert_eq!(transitions(&document(test_env, CYCLE)), SUCCESS_TRANSITIONS);
    assert_eq!(test_env.agent_log().started(), ["plan#1.1", "execute#1.1", "express#1.1", "review#1.1"]);
    for phase in Phase::ALL {
        assert_eq!(test_env.agent_log().count_ends(phase.as_str()), 1, "{phase}");
    }
    test_env.expect_no_orphans();
}

/// Creates a cycle for the scripted agent without driving it.
fn open_cycle(test_env: &TestEnv) {
    let definition = harness::new_peer_cycle(CYCLE);
    let (run, profile) = (harness::run_of(&definition), harness::wrapper(&test_env.agent_path()));
    let spec = harness::run_spec(&definition, &run, test_env.repo(), Some(profile));
    let store = test_env.open_store();
    harness::block_on(runner::open(
        &store,
        &Clock::system(),
        protocol_kind::<Peer>(),
        harness::test_author(),
        spec,
    ))
    .unwrap();
}

/// Drives the cycle, and kills this process after this many commits and starts of attempts.
fn drive_until_killed(kill_after: u32) {
    let repo = std::path::PathBuf::from(std::env::var_os("REPO").unwrap());
    let address = std::env::var("CALLBOARD_STORE").ok();
    let store = harness::block_on(harness::open_store(&repo, address.as_deref()));
    let engine_config = harness::engine_config(&store, Path::new(env!("CARGO_BIN_EXE_callboard")));
    let run = harness::run_of(&harness::new_peer_cycle(CYCLE));
    let mut observer = KillAfter { remaining: kill_after };
    harness::block_on(async {
        let engine =
            Engine::lock(&store, engine_config, &run, LockPurpose::Engine, &mut observer).await.unwrap();
        let (_sender, interrupts) = tokio::sync::mpsc::unbounded_channel();
        engine.drive(EngineRequest::to_resume(None), interrupts).await.unwrap();
    });
}

/// Kills its own process after `remaining` commits and starts. At a notice, the commit is in the store, or the process
/// of the attempt is about to be started.
struct KillAfter {
    remaining: u32,
}

impl Observer for KillAfter {
    fn notice(&mut self, notice: Notice<'_>) {
        match notice {
            Notice::Committed { .. } | Notice::StartingOrAdopting { .. } => self.remaining -= 1,
            _ => {}
        }
        if self.remaining == 0 {
            kill_process(getpid(), Signal::KILL).unwrap();
        }
    }
}
