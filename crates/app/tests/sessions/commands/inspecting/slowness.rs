//! Attempts that take longer than their baseline. The journal is written with chosen times, so that no test waits.

use std::fs::{self, File};
use std::num::NonZeroU32;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use protocol::entry::{Author, ENTRY_VERSION, Entry, Evidence, Input};
use protocol::run::{Change, Ending, Exit, Fact};
use protocol::steps::{Change as Play, Definition, Steps, Verdict};
use protocol::{AttemptId, AttemptNo, KindOf, RunId, Stamp, StepId, StepKind, Turn};
use runner::Clock;
use store::{AnyStore, EngineLock};
use testkit::{TestEnv, harness};

use crate::sessions::test_env;

fn ago(minutes: u32) -> Stamp {
    Stamp::from_micros(Clock::system().now().as_micros() - 60_000_000 * i64::from(minutes))
}

/// Writes a run of one step whose only attempt started `ago` minutes ago, and took this long if it has ended.
async fn written(
    store: &AnyStore,
    test_env: &TestEnv,
    run: &str,
    began: u32,
    took: Option<u32>,
) -> anyhow::Result<()> {
    let step = StepId::new("build")?;
    let definition = Definition::from(harness::one_step("build", NonZeroU32::MIN));
    let spec = harness::spec(&definition, &RunId::new(run)?, test_env.repo(), None);
    let clock = Clock::from_fn(move || ago(began));
    let by = Author::Engine { host: store::host_name(), boot_id: "none".to_owned(), pid: 1 };
    let mut journal = runner::open(store, &clock, KindOf::<Steps>::STATIC, by.clone(), spec).await?;
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
    let begun = vec![Change::Started { attempt: attempt.clone(), counted_attempt: 1, kind: StepKind::Agent }];
    harness::append(&mut journal, store.as_ref(), &entry(ago(began), Input::Deferred, begun)).await?;
    if let Some(took) = took {
        let evidence = Evidence { duration_ms: Some(60_000 * u64::from(took)), ..Evidence::default() };
        let fact = Fact::Ended {
            attempt: attempt.clone(),
            ending: Ending::Reported(serde_json::to_value(Verdict::Done)?),
        };
        let input = Input::Fact { fact, evidence: Some(Arc::new(evidence)) };
        let over = vec![
            Change::Ended { attempt, exit: Exit::Reported, kind: StepKind::Agent },
            Change::Protocol { transition: serde_json::to_value(Play::Done(step))? },
        ];
        harness::append(&mut journal, store.as_ref(), &entry(ago(began - took), input, over)).await?;
    }
    Ok(())
}

/// Writes finished runs, and the run `now`, whose engine lock this process holds.
fn written_runs(test_env: &TestEnv, finished: &[u32], at_work: u32) -> anyhow::Result<EngineLock> {
    let store = test_env.open_store();
    harness::wait(async {
        for (number, took) in finished.iter().enumerate() {
            written(&store, test_env, &format!("earlier-{number}"), 600, Some(*took)).await?;
        }
        written(&store, test_env, "now", at_work, None).await?;
        Ok(store.lock_engine(&RunId::new("now")?).await?)
    })
}

#[test]
fn an_attempt_that_takes_longer_than_in_earlier_runs_is_marked_slow() {
    let test_env = test_env();
    let _engine = written_runs(&test_env, &[4, 3, 90, 4, 5], 11).unwrap();
    let shown = test_env.callboard(&["show", "now"]).run();
    assert!(shown.stdout.contains("slow: 11 min 0"), "{}", shown.stdout);
    let slow = test_env.callboard(&["show", "now", "--json"]).run().json()["steps"]["build"]["slow"].clone();
    assert_eq!((&slow["baseline_ms"], &slow["samples"]), (&240_000.into(), &5.into()));
    // It was not slow when it had just started.
    let then = test_env.callboard(&["show", "now", "--at", "2"]).run();
    assert!(then.stdout.contains("running build  for 0.0 s\n"), "{}", then.stdout);
}

#[test]
fn without_enough_earlier_attempts_or_at_a_normal_length_nothing_is_marked() {
    for (finished, at_work) in [(&[4, 4][..], 600), (&[4, 4, 4][..], 5), (&[30, 40, 50, 20][..], 60)] {
        let test_env = test_env();
        let _engine = written_runs(&test_env, finished, at_work).unwrap();
        let shown = test_env.callboard(&["show", "now"]).run();
        assert!(shown.stdout.contains("running build") && !shown.stdout.contains("slow"), "{}", shown.stdout);
    }
}

#[test]
fn a_running_agent_is_shown_with_its_last_output_and_its_silence() {
    let test_env = test_env();
    let _engine = written_runs(&test_env, &[], 11).unwrap();
    let shown = test_env.callboard(&["show", "now"]).run().stdout;
    assert!(shown.contains("running build  for 11 min 0") && shown.contains("  no output yet\n"), "{shown}");

    let dir = test_env.attempt("now", "build", "1.1");
    fs::create_dir_all(&dir).unwrap();
    fs::write(dir.join("stderr.log"), "warming up\n").unwrap();
    fs::write(dir.join("stdout.log"), "first\nasking \u{1b}[31mthe model\n\n").unwrap();
    for (file, minutes) in [("stderr.log", 9), ("stdout.log", 7)] {
        let then = SystemTime::now() - Duration::from_secs(60 * minutes);
        File::options().append(true).open(dir.join(file)).unwrap().set_modified(then).unwrap();
    }
    let shown = test_env.callboard(&["show", "now"]).run().stdout;
    assert!(shown.contains("  last output 7 min 0"), "{shown}");
    assert!(shown.contains(" ago: asking [31mthe model\n"), "{shown}");
    let heard =
        test_env.callboard(&["show", "now", "--json"]).run().json()["steps"]["build"]["last_output"].clone();
    assert_eq!(heard["log"], dir.join("stdout.log").to_str().unwrap());
    // The files' earlier contents are not recorded.
    let then = test_env.callboard(&["show", "now", "--at", "2"]).run().stdout;
    assert!(!then.contains("output"), "{then}");
}
