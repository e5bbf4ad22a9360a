//! A development cycle of the protocol `cycle`, tortured until it has succeeded after three iterations: a test fails in the
//! first, and an extension opens the third.

use fastrand::Rng;
use serde_json::Value;

use super::chaos::{Chaos, server_was_down};
use super::run_history::RunHistory;
use super::{Tally, Torture};
use crate::test_env::TestEnv;

/// The agents of the steps `ra` (requirements), `ep` (exploration), `vas` (validation), `cd` (coding) and of single tasks.
/// `vas` finds a failing test in the first iteration.
const AGENTS: [&str; 5] = [
    r#"ra * do sleep 0.02; extra_fields=', "specification": "FR-00'$STEP_ITERATION'"'; write_report COMPLETED ok"#,
    r#"ep * do sleep 0.02; extra_fields=', "tasks": [{"id": "A'$STEP_ITERATION'", "description": "a", "files": ["a"]}, {"id": "B'$STEP_ITERATION'", "description": "b", "files": ["b"]}]'; write_report COMPLETED ok"#,
    r#"vas * do sleep 0.02; case $STEP_ITERATION in 1) extra_fields=', "failed_tests": ["it fails"]' ;; esac; write_report COMPLETED ok"#,
    r#"cd * do sleep 0.02; extra_fields=', "tasks_completed": ["A'$STEP_ITERATION'", "B'$STEP_ITERATION'"]'; write_report COMPLETED ok"#,
    r#"* * do sleep 0.02; echo $STEP_ITERATION >"$STEP_ID.txt"; extra_fields=', "tasks_completed": ["'${STEP_ID#cd.}'"]'; write_report COMPLETED ok"#,
];

pub(super) fn torture(torture: &Torture, seed: u64, kills: u32, tally: &mut Tally) {
    let test_env = TestEnv::new(&torture.program);
    test_env.write("file", "content\n");
    test_env.git(&["add", "file"]);
    test_env.git(&["commit", "--quiet", "--message=start"]);
    test_env.script_agent(&AGENTS);
    let mut chaos = Chaos::new(&test_env, Rng::with_seed(seed), kills);
    let mode: &[&str] = if (seed / 4).is_multiple_of(2) { &["--parallel", "2"] } else { &["--in-place"] };
    let start = [&["cycle", "Make it", "--run-id", "trial", "--jobs", "2"], mode].concat();
    let mut resumes = run_to_success(&mut chaos, &test_env, &start, seed);
    let extend = ["extend", "trial", "Make more", "--jobs", "2"];
    resumes += run_to_success(&mut chaos, &test_env, &extend, seed);

    let run_history = RunHistory::read(&test_env.journal("trial"));
    for (step, history) in &run_history.steps {
        history.check_attempts(&format!("seed {seed}, step {step}, {history:?}"));
    }
    test_env.agent_log().started_once(format_args!("seed {seed}"));
    let files = test_env.repo().join(".workflow/.cycle");
    let master = std::fs::read_to_string(files.join("trial.json")).expect("the run has a master file");
    let master: Value = serde_json::from_str(&master).expect("the master file is whole");
    let violations = protocol::cycle::check(&master);
    assert!(violations.is_empty(), "seed {seed}: {violations:?}");
    assert_eq!(
        (&master["status"], &master["current_iteration"]),
        (&"completed".into(), &3.into()),
        "seed {seed}"
    );
    let timeline = files.join("trial.progress/coordination/timeline.md");
    let timeline = std::fs::read_to_string(timeline).expect("iterations have ended");
    assert_eq!(timeline.matches("\n## Iteration ").count(), 3, "seed {seed}: {timeline}");
    test_env.expect_no_orphans();
    tally.add(&chaos);
    tally.add_history(&run_history);
    tally.cycle_runs += 1;
    tally.resumes += resumes;
}

/// Starts and kills engines until the run has succeeded, and returns how many it started. The first engine is that of the
/// command `first`, which is repeated until the store has what it asks for; the others are those of `resume`.
pub(super) fn run_to_success(chaos: &mut Chaos<'_>, test_env: &TestEnv, first: &[&str], seed: u64) -> u32 {
    let (mut engines, mut is_in_store) = (0, false);
    loop {
        let engine = if is_in_store {
            test_env.callboard(&["resume", "trial", "--jobs", "2"]).start()
        } else {
            test_env.with_agent(first).start()
        };
        engines += 1;
        if chaos.disturb(&engine) {
            chaos.wait_killed(engine, seed);
        } else {
            let session = engine.wait();
            let is_over = session.code == 3 && chaos.newest_status(seed).as_deref() == Some("succeeded");
            if session.code == 0 || is_in_store && is_over {
                return engines;
            }
            assert!(
                server_was_down(&session) || !is_in_store,
                "seed {seed}: failed:\n{}",
                session.transcript()
            );
        }
        is_in_store = store_has(chaos, first, seed);
    }
}

/// Returns whether the store has what the command `first` asks for: the run, or its extension.
fn store_has(chaos: &Chaos<'_>, first: &[&str], seed: u64) -> bool {
    match first.first() {
        Some(&"extend") => {
            let entries = chaos.test_env.journal("trial");
            entries.iter().any(|entry| entry.to_string().contains("Make more"))
        }
        Some(_) | None => !chaos.runs(seed).is_empty(),
    }
}
