//! Attempts that take longer than usual. The journal is written with chosen times, so that no test waits.

use std::fs::{self, File};
use std::num::NonZeroU32;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use protocol::entry::{Author, ENTRY_VERSION, Entry, Evidence, Input};
use protocol::run::{AttemptConsequence, Change, Ending, Fact};
use protocol::steps::{Change as StepsChange, Definition, Steps, Verdict};
use protocol::{AttemptId, AttemptNo, RunId, StepId, StepKind, Timestamp, Turn, protocol_kind};
use runner::{AgentProfile, Clock};
use store::{AnyStore, EngineLock};
use supervisor::adapter::{Adapter, RehearsalScript};
use testkit::{TestEnv, harness};

use crate::sessions::test_env;

fn minutes_ago(minutes: u32) -> Timestamp {
    Timestamp::from_micros(Clock::system().now().as_micros() - 60_000_000 * i64::from(minutes))
}

/// Writes a run of one step. Its only attempt started `started_min_ago` minutes ago; it ended after `took_min` minutes,
/// or is running.
async fn write_run(
    store: &AnyStore,
    test_env: &TestEnv,
    run: &str,
    started_min_ago: u32,
    took_min: Option<u32>,
    profile: Option<AgentProfile>,
) -> anyhow::Result<()> {
    let step = StepId::new("build")?;
    let definition = Definition::from(harness::one_step("build", NonZeroU32::MIN));
    let spec = harness::run_spec(&definition, &RunId::new(run)?, test_env.repo(), profile);
    let clock = Clock::from_fn(move || minutes_ago(started_min_ago));
    let by = Author::Engine { host: linux::host_name(), boot_id: "none".to_owned(), pid: 1 };
    let mut journal = runner::open(store, &clock, protocol_kind::<Steps>(), by.clone(), spec).await?;
    let attempt = AttemptId { step: step.clone(), turn: Turn(1), attempt_no: AttemptNo(1) };
    let entry = |at, input, changes| Entry {
        v: ENTRY_VERSION,
        at,
        by: by.clone(),
        input,
        changes,
        actions: Vec::new(),
        timers: Vec::new(),
    };
    let started =
        vec![Change::Started { attempt: attempt.clone(), counted_attempt: 1, kind: StepKind::Agent }];
    harness::append(
        &mut journal,
        store.as_ref(),
        &entry(minutes_ago(started_min_ago), Input::Deferred, started),
    )
    .await?;
    if let Some(took_min) = took_min {
        let evidence = Evidence { duration_ms: Some(60_000 * u64::from(took_min)), ..Evidence::default() };
        let fact = Fact::Ended {
            attempt: attempt.clone(),
            ending: Ending::Reported(serde_json::to_value(Verdict::Done)?),
        };
        let input = Input::Fact { fact, evidence: Some(Arc::new(evidence)) };
        let ended = vec![
            Change::Ended { attempt, consequence: AttemptConsequence::Reported, kind: StepKind::Agent },
            Change::Protocol { transition: serde_json::to_value(StepsChange::Done(step))? },
        ];
        harness::append(
            &mut journal,
            store.as_ref(),
            &entry(minutes_ago(started_min_ago - took_min), input, ended),
        )
        .await?;
    }
    Ok(())
}

/// Writes a finished run for each length in minutes, and the run `now`, whose attempt has been running for
/// `running_min` minutes. Returns the engine lock of `now`, so that the run is not shown as interrupted.
fn write_runs(test_env: &TestEnv, finished_min: &[u32], running_min: u32) -> anyhow::Result<EngineLock> {
    write_runs_with_profile(test_env, None, finished_min, running_min)
}

/// Writes these runs; the finished ones have a profile.
fn write_runs_with_profile(
    test_env: &TestEnv,
    profile: Option<AgentProfile>,
    finished_min: &[u32],
    running_min: u32,
) -> anyhow::Result<EngineLock> {
    let store = test_env.open_store();
    harness::block_on(async {
        for (number, took_min) in finished_min.iter().enumerate() {
            let earlier = format!("earlier-{number}");
            write_run(&store, test_env, &earlier, 600, Some(*took_min), profile.clone()).await?;
        }
        write_run(&store, test_env, "now", running_min, None, None).await?;
        Ok(store.lock_engine(&RunId::new("now")?).await?)
    })
}

#[test]
fn an_attempt_that_takes_longer_than_in_earlier_runs_is_marked_slow() {
    let test_env = test_env();
    let _engine = write_runs(&test_env, &[4, 3, 90, 4, 5], 11).unwrap();
    let shown = test_env.callboard(&["show", "now"]).run();
    assert!(shown.stdout.contains("slow: 11 min 0"), "{}", shown.stdout);
    let slow = test_env.callboard(&["show", "now", "--json"]).run().json()["steps"]["build"]["slow"].clone();
    assert_eq!((&slow["baseline_ms"], &slow["samples"]), (&240_000.into(), &5.into()));
    // It was not slow when it had just started.
    let at_start = test_env.callboard(&["show", "now", "--at", "2"]).run();
    assert!(at_start.stdout.contains("running build  for 0.0 s\n"), "{}", at_start.stdout);
}

#[test]
fn without_enough_earlier_attempts_or_at_a_normal_length_nothing_is_marked() {
    for (finished_min, running_min) in [(&[4, 4][..], 600), (&[4, 4, 4][..], 5), (&[30, 40, 50, 20][..], 60)]
    {
        let test_env = test_env();
        let _engine = write_runs(&test_env, finished_min, running_min).unwrap();
        let shown = test_env.callboard(&["show", "now"]).run();
        assert!(shown.stdout.contains("running build") && !shown.stdout.contains("slow"), "{}", shown.stdout);
    }
}

#[test]
fn an_attempt_is_not_slow_because_rehearsals_were_faster() {
    let test_env = test_env();
    let adapter = Adapter::Rehearsal(RehearsalScript::default());
    let rehearsal = AgentProfile { adapter, ..harness::wrapper(&test_env.agent_path()) };
    let _engine = write_runs_with_profile(&test_env, Some(rehearsal), &[0, 0, 0], 11).unwrap();
    let shown = test_env.callboard(&["show", "now"]).run();
    assert!(shown.stdout.contains("running build") && !shown.stdout.contains("slow"), "{}", shown.stdout);
}

#[test]
fn a_running_agent_is_shown_with_its_last_output_and_its_silence() {
    let test_env = test_env();
    let _engine = write_runs(&test_env, &[], 11).unwrap();
    let shown = test_env.callboard(&["show", "now"]).run().stdout;
    assert!(shown.contains("running build  for 11 min 0") && shown.contains("  no output yet\n"), "{shown}");

    let dir = test_env.attempt_dir("now", "build", "1.1");
    fs::create_dir_all(&dir).unwrap();
    fs::write(dir.join("stderr.log"), "warming up\n").unwrap();
    fs::write(dir.join("stdout.log"), "first\nasking \u{1b}[31mthe model\n\n").unwrap();
    for (file, minutes) in [("stderr.log", 9), ("stdout.log", 7)] {
        let modified = SystemTime::now() - Duration::from_secs(60 * minutes);
        File::options().append(true).open(dir.join(file)).unwrap().set_modified(modified).unwrap();
    }
    let shown = test_env.callboard(&["show", "now"]).run().stdout;
    assert!(shown.contains("  last output 7 min 0"), "{shown}");
    assert!(shown.contains(" ago: asking [31mthe model\n"), "{shown}");
    let last_output =
        test_env.callboard(&["show", "now", "--json"]).run().json()["steps"]["build"]["last_output"].clone();
    assert_eq!(last_output["log"], dir.join("stdout.log").to_str().unwrap());
    // `--at` shows no output, because earlier contents of the log files are not recorded.
    let at_start = test_env.callboard(&["show", "now", "--at", "2"]).run().stdout;
    assert!(!at_start.contains("output"), "{at_start}");
}
