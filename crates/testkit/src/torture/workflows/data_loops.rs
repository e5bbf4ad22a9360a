//! A workflow with data loops, checks, a condition and an approval. Its engines and shims are killed until it has succeeded,
//! while a thread acts as a person and writes the answer files.

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use fastrand::Rng;
use serde_json::Value;

use super::super::chaos::{Chaos, SetOnDrop};
use super::super::run_history::RunHistory;
use super::super::{Tally, Torture};
use super::Trial;
use crate::test_env::TestEnv;
use crate::view_reader::ViewReader;

/// The review sends the second item back once; `fix` is not to run; `release` waits for a condition and a person.
const STEPS: [&str; 5] = [
    "id: plan",
    "id: code, needs: [plan], loop: {items_from_step: plan, parallel: 2}, checks: [{run: [test, -e, list.json]}]",
    "id: review, needs: [code], loop_back_to: code, loop: {with: code}",
    "id: fix, needs: [review], when: {step: plan, metric: lines, above: 5}",
    "id: release, needs: [fix], gates: [ci], human_in_the_loop: true, checks: [{run: [\"true\"]}]",
];

/// Lines of the scripted agent: STEP ATTEMPT BEHAVIOUR ARGUMENT. `list.json` has the items of the data loop.
const AGENTS: [&str; 3] = [
    r#"plan * do echo '["a", "b"]' >list.json; mkdir -p made; cp list.json made/plan.txt; write_report COMPLETED planned"#,
    "review.2 * gate-failure 1",
    "* * work 0.02",
];

pub(in crate::torture) fn torture(torture: &Torture, seed: u64, kills: u32, tally: &mut Tally) {
    let test_env = TestEnv::new(&torture.program);
    test_env.workflow_yaml(&STEPS);
    test_env.script_agent(&AGENTS);
    let reader = ViewReader::start(&test_env.view_path("trial"));
    let chaos = Chaos::new(&test_env, Rng::with_seed(seed), kills);
    let mut trial =
        Trial { chaos, flags: &["--gate-state-file", "gates.json"], seed, resumes: 0, retries: 0 };
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !done.load(Ordering::Relaxed) {
                act_as_person(&test_env);
                // Some time between two actions, as with a person.
                std::thread::sleep(Duration::from_millis(15));
            }
        });
        let _end = SetOnDrop(&done);
        trial.run_to_success();
    });
    let reads = reader.finish();
    assert!(reads.bad.is_empty(), "seed {seed}: a reader saw bad views: {:#?}", reads.bad);
    let run_history = RunHistory::read(&test_env.journal("trial"));
    check(&test_env, &run_history, seed);
    tally.add(&trial.chaos);
    tally.add_history(&run_history);
    tally.data_loop_runs += 1;
    tally.steps += run_history.steps.len();
    tally.resumes += trial.resumes;
    tally.retries += trial.retries;
}

/// What the person does: the condition holds when the review is done, and the release is approved.
fn act_as_person(test_env: &TestEnv) {
    let Ok(text) = std::fs::read(test_env.view_path("trial")) else { return };
    let Ok(view) = serde_json::from_slice::<Value>(&text) else { return };
    if view["steps"]["review"]["status"] == "COMPLETED" {
        create_file(&test_env.repo().join("gates.json"), r#"{"ci": true}"#);
    }
    let release = &view["steps"]["release"];
    if let (Some("WAITING_ON_HUMAN"), Some(path)) =
        (release["status"].as_str(), release["manual_input_path"].as_str())
    {
        create_file(Path::new(path), r#"{"approved": true}"#);
    }
}

/// Creates a file with its complete content, unless it exists.
fn create_file(path: &Path, text: &str) {
    let new = path.with_extension("new");
    if !path.exists() && std::fs::write(&new, text).is_ok() {
        // The directory of a run that has ended since may be gone.
        let _ = std::fs::rename(&new, path);
    }
}

fn check(test_env: &TestEnv, run_history: &RunHistory, seed: u64) {
    for (step, history) in &run_history.steps {
        let about = format!("seed {seed}, step {step}, {history:?}");
        history.check_attempts(&about);
        assert!(history.restarted_without_reason.is_empty(), "it was done and started again: {about}");
        assert_eq!(history.exhausted, 0, "{about}");
        // The review loops back the second item, and with it the steps after the data loop.
        let loop_backs = u32::from(["code.2", "review.2", "fix", "release"].contains(&step.as_str()));
        assert_eq!(history.loop_backs, loop_backs, "{about}");
    }
    let started = test_env.agent_log().started_once(format_args!("seed {seed}"));
    assert!(!started.iter().any(|attempt| attempt.starts_with("fix#")), "seed {seed}: {started:?}");
    let view = test_env.document("trial");
    for (step, status) in [
        ("plan", "COMPLETED"),
        ("code", "COMPLETED"),
        ("review", "COMPLETED"),
        ("fix", "SKIPPED"),
        ("release", "COMPLETED"),
    ] {
        assert_eq!(view["steps"][step]["status"], status, "seed {seed}: {view:#}");
    }
    let logs = view["steps"]["release"]["logs"].to_string();
    assert_eq!(logs.matches("Approved by").count(), 1, "seed {seed}: approved once: {logs}");
    test_env.expect_no_orphans();
}
