//! The clock is set while a run is active: first the engine's own clock, then the system's.

use std::fs;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use protocol::Outcome;
use protocol::Timestamp;
use protocol::entry::Entry;
use protocol::run::{AttemptConsequence, Change};
use runner::{Clock, EngineExit, Notice};
use testkit::TestEnv;
use tokio::sync::Notify;

use crate::faults::c_sources::compile_c;
use crate::faults::in_process_run::InProcessRun;
use crate::faults::test_env;

/// In microseconds, like [`Timestamp`].
const DAY: i64 = 24 * 60 * 60 * 1_000_000;
const YEAR: i64 = 365 * DAY;

/// A wall clock that moves only when it is set.
#[derive(Clone)]
struct ManualClock(Arc<AtomicI64>);

impl ManualClock {
    fn new() -> Self {
        Self(Arc::new(AtomicI64::new(50 * YEAR)))
    }

    fn clock(&self) -> Clock {
        let micros = self.0.clone();
        Clock::from_fn(move || Timestamp::from_micros(micros.load(Ordering::Relaxed)))
    }

    fn shift(&self, by: i64) {
        self.0.fetch_add(by, Ordering::Relaxed);
    }
}

/// Returns whether the entry ends an attempt that will be retried.
fn ends_with_retry(entry: &Entry) -> bool {
    entry.changes.iter().any(|change| {
        matches!(change, Change::Ended { consequence: AttemptConsequence::WillRetry { .. }, .. })
    })
}

/// Counts the back-offs that elapsed.
fn elapsed_backoffs(entries: &[Entry]) -> usize {
    let changes = entries.iter().flat_map(|entry| &entry.changes);
    changes.filter(|change| matches!(change, Change::BackoffElapsed { .. })).count()
}

#[tokio::test]
async fn a_runs_time_never_runs_backwards_and_every_back_off_elapses_once() {
    let test_env = test_env();
    test_env.script_agent(&["a 1 exit 1", "a 2 exit 1"]);
    let manual_clock = ManualClock::new();
    let run = InProcessRun::open(&test_env, manual_clock.clock()).await;
    let mut jumps = [-DAY, YEAR, -2 * DAY, 1, -YEAR].into_iter().cycle();
    let jump_on_commit = |notice: Notice<'_>| {
        if let Notice::Committed { .. } = notice {
            manual_clock.shift(jumps.next().expect("it goes round"));
        }
    };
    assert_eq!(run.drive(jump_on_commit).await.unwrap(), EngineExit::Finished(Outcome::Succeeded));
    let journal = run.journal().await;
    assert!(
        journal.is_sorted_by_key(|entry| entry.at),
        "{:?}",
        journal.iter().map(|e| e.at).collect::<Vec<_>>()
    );
    assert_eq!(elapsed_backoffs(&journal), 2);
    assert_eq!(test_env.agent_log().started(), ["a#1.1", "a#1.2", "a#1.3"]);
    let document = test_env.document("trial");
    let time = |name: &str| document["steps"]["a"][name].as_str().unwrap().parse::<Timestamp>().unwrap();
    assert!(time("started_at") <= time("ended_at"), "{document:#}");
}

/// Drops an engine while a back-off is pending, shifts the clock, and drives the run to its end with another engine.
async fn resume_after_clock_shift(backoff: Duration, by: i64) -> (TestEnv, InProcessRun) {
    let test_env = test_env();
    test_env.script_agent(&["a 1 exit 1"]);
    let manual_clock = ManualClock::new();
    let mut run = InProcessRun::open(&test_env, manual_clock.clock()).await;
    run.engine_config.backoff = backoff;
    let failed = Notify::new();
    let notify_failure = |notice: Notice<'_>| {
        if let Notice::Committed { entry, .. } = notice
            && ends_with_retry(entry)
        {
            failed.notify_one();
        }
    };
    tokio::select! {
        exit = run.drive(notify_failure) => panic!("it ended too early: {exit:?}"),
        () = failed.notified() => {}
    }
    manual_clock.shift(by);
    assert_eq!(run.drive(|_| ()).await.unwrap(), EngineExit::Finished(Outcome::Succeeded));
    let journal = run.journal().await;
    assert!(journal.is_sorted_by_key(|entry| entry.at));
    assert_eq!(elapsed_backoffs(&journal), 1);
    assert_eq!(test_env.agent_log().started(), ["a#1.1", "a#1.2"]);
    (test_env, run)
}

#[tokio::test]
async fn a_back_off_far_in_the_future_lasts_no_longer_than_it_was_set_for() {
    resume_after_clock_shift(Duration::from_millis(100), -YEAR).await;
}

#[tokio::test]
async fn an_overdue_back_off_elapses_at_once() {
    // Longer than the test deadline.
    resume_after_clock_shift(Duration::from_secs(300), YEAR).await;
}

#[test]
fn the_system_clock_jumps_back_a_day_and_forward_a_year_during_a_run() {
    let test_env = test_env();
    let library = compile_c("clock.c", &["-shared", "-fPIC", "-O1"], &test_env.agent_dir());
    test_env.workflow(&["a", "b: a"]);
    // The attempts of `a` set the clock just before they fail, so it jumps while a back-off is pending.
    test_env.script_agent(&[
        r#"a 1 do echo -86400 >"$shared/offset"; log_event end "$CALLBOARD_ATTEMPT"; exit 1"#,
        r#"a 2 do echo 31536000 >"$shared/offset"; log_event end "$CALLBOARD_ATTEMPT"; exit 1"#,
        r#"b * do echo 0 >"$shared/offset"; write_report COMPLETED "did b""#,
    ]);
    let session = test_env
        .run(&["--max-attempts", "3"])
        .env("LD_PRELOAD", &library)
        .env("CLOCK_OFFSET", test_env.agent_dir().join("offset"))
        .env("CALLBOARD_BACKOFF", "200ms")
        .run();
    assert_eq!(session.code, 0, "{}", session.transcript());
    assert_eq!(test_env.agent_log().started(), ["a#1.1", "a#1.2", "a#1.3", "b#1.1"]);
    let journal = test_env.journal("trial");
    let times: Vec<Timestamp> =
        journal.iter().map(|entry| entry["entry"]["at"].as_str().unwrap().parse().unwrap()).collect();
    assert!(times.is_sorted(), "{times:?}");
    let length = times[times.len() - 1].since(times[0]);
    assert!(length > Duration::from_secs(360 * 24 * 3600), "the engine saw the clock jump: {times:?}");
}

#[tokio::test]
async fn the_length_of_an_attempt_does_not_depend_on_the_wall_clock() {
    let test_env = test_env();
    let library = compile_c("clock.c", &["-shared", "-fPIC", "-O1"], &test_env.agent_dir());
    test_env.script_agent(&[r#"a * do echo 31536000 >"$shared/offset"; write_report COMPLETED "did a""#]);
    let mut run = InProcessRun::open(&test_env, Clock::system()).await;
    // The engine clears the environment of the shim, so `env` sets the variables.
    let shim = &mut run.engine_config.shim;
    let program = std::mem::replace(&mut shim.program, "env".into());
    let offset = test_env.agent_dir().join("offset");
    let variables = [("LD_PRELOAD", &library), ("CLOCK_OFFSET", &offset)];
    let variables = variables.map(|(name, path)| format!("{name}={}", path.display()).into());
    shim.args.splice(0..0, variables.into_iter().chain([program.into()]));
    assert_eq!(run.drive(|_| ()).await.unwrap(), EngineExit::Finished(Outcome::Succeeded));
    let exit = fs::read_to_string(test_env.attempt_dir("trial", "a", "1.1").join("exit.json")).unwrap();
    let exit: serde_json::Value = serde_json::from_str(&exit).unwrap();
    let time = |name: &str| exit[name].as_str().unwrap().parse::<Timestamp>().unwrap();
    let length = time("ended_at").since(time("started_at"));
    assert!(length > Duration::from_secs(360 * 24 * 3600), "the shim saw the clock jump: {exit}");
    assert!(exit["duration_ms"].as_u64().unwrap() < 3_600_000, "it is measured by another clock: {exit}");
}
