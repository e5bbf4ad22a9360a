//! The engine of a cycle is killed: during an attempt, and after each of its commits and starts.

use std::path::Path;
use std::process::Command;

use protocol::KindOf;
use protocol::peer::{CycleStatus, Peer, Phase};
use runner::{Clock, Engine, EngineRequest, Notice, Observer};
use rustix::process::{Signal, getpid, kill_process};
use store::LockPurpose;
use testkit::{ProcessHandle, TestEnv, harness};

use super::{ALL, document, peer, transitions};
use crate::sessions::test_env;

const CYCLE: &str = "peer:spec:x:cycle:1";

#[test]
fn an_agent_outlives_its_engine_and_its_phase_is_completed_once() {
    let test_env = test_env();
    test_env.plan(&["execute * wait gate"]);
    let mut gate = test_env.gate("gate");
    let running = peer(&test_env, &["create-spec", "--spec", "x"]).start();
    let agent = ProcessHandle::of(test_env.agent_log().wait_for_start("execute#1.1")).expect("at work");
    running.kill();
    assert_eq!(running.wait().code, -1);
    assert!(!agent.has_ended(), "it works on");
    let resumed = test_env.callboard(&["peer", "--continue"]).start();
    resumed.wait_until_it_says("execute#1.1 is still running: adopted");
    gate.open();
    let session = resumed.wait();
    assert_eq!(session.code, 0, "{}", session.transcript());
    expect_each_phase_once(&test_env);
}

/// The test binary starts itself as the engine that gets killed; variables say where and when.
#[test]
fn killed_after_any_commit_or_start_the_cycle_continues_and_repeats_nothing() {
    if let Ok(notice) = std::env::var("KILLED_AT") {
        return be_killed_at(notice.parse().unwrap());
    }
    for notice in 1.. {
        let test_env = test_env();
        opened(&test_env);
        let engine = Command::new(std::env::current_exe().unwrap())
            .args([
                "--exact",
                "sessions::protocols::peer::killing::killed_after_any_commit_or_start_the_cycle_continues_and_repeats_nothing",
            ])
            .env("KILLED_AT", notice.to_string())
            .env("REPO", test_env.repo())
            .envs(test_env.backend().address().map(|address| ("CALLBOARD_STORE", address)))
            .output()
            .unwrap();
        let left = document(&test_env, CYCLE);
        if left.metadata.status == CycleStatus::Completed {
            assert!(notice > 14, "a commit for each write at least, and four starts: {engine:?}");
            expect_each_phase_once(&test_env);
            return;
        }
        assert_eq!(engine.status.code(), None, "it was not killed at {notice}: {engine:?}");
        let session = test_env.callboard(&["peer", "--continue"]).run();
        assert_eq!(session.code, 0, "killed at {notice}: {}", session.transcript());
        expect_each_phase_once(&test_env);
    }
}

#[track_caller]
fn expect_each_phase_once(test_env: &TestEnv) {
    assert_eq!(transitions(&document(test_env, CYCLE)), ALL);
    assert_eq!(test_env.agent_log().started(), ["plan#1.1", "execute#1.1", "express#1.1", "review#1.1"]);
    for phase in Phase::ALL {
        assert_eq!(test_env.agent_log().ends_of(phase.as_str()), 1, "{phase}");
    }
    test_env.expect_no_orphans();
}

/// Creates a cycle for the scripted agent without driving it.
fn opened(test_env: &TestEnv) {
    let definition = harness::new_cycle(CYCLE);
    let (run, profile) = (harness::run_of(&definition), harness::wrapper(&test_env.agent()));
    let spec = harness::spec(&definition, &run, test_env.repo(), Some(profile));
    let store = test_env.open_store();
    harness::wait(runner::open(&store, &Clock::system(), KindOf::<Peer>::STATIC, harness::person(), spec))
        .unwrap();
}

/// Drives the run until this notice.
fn be_killed_at(notice: u32) {
    let repo = std::path::PathBuf::from(std::env::var_os("REPO").unwrap());
    let address = std::env::var("CALLBOARD_STORE").ok();
    let store = harness::wait(harness::open_store(&repo, address.as_deref()));
    let engine_config = harness::engine_config(&store, Path::new(env!("CARGO_BIN_EXE_callboard")));
    let run = harness::run_of(&harness::new_cycle(CYCLE));
    let mut killer = Killer { left: notice };
    harness::wait(async {
        let engine =
            Engine::lock(&store, engine_config, &run, LockPurpose::Engine, &mut killer).await.unwrap();
        let (_keep, interrupts) = tokio::sync::mpsc::unbounded_channel();
        engine.drive(EngineRequest::to_resume(None), interrupts).await.unwrap();
    });
}

/// Kills its own process. What the notice names is done: a commit is in the store, an attempt has been started.
struct Killer {
    left: u32,
}

impl Observer for Killer {
    fn notice(&mut self, notice: Notice<'_>) {
        match notice {
            Notice::Committed { .. } | Notice::Output { .. } => self.left -= 1,
            _ => {}
        }
        if self.left == 0 {
            kill_process(getpid(), Signal::KILL).unwrap();
        }
    }
}
