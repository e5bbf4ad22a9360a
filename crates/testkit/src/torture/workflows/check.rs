//! What must hold after a tortured workflow.

use std::collections::BTreeMap;

use super::super::run_history::{RunHistory, StepHistory};
use super::random::{Behaviour, RandomWorkflow, Step};
use crate::test_env::TestEnv;
use crate::view_reader::ReadStats;

/// Panics at the first guarantee that does not hold. Returns the history of the run.
pub(super) fn check(
    test_env: &TestEnv,
    workflow: &RandomWorkflow,
    shim_kills: &BTreeMap<(String, String), u32>,
    reads: &ReadStats,
    seed: u64,
) -> RunHistory {
    let run_history = RunHistory::read(&test_env.journal("trial"));
    let histories = &run_history.steps;
    let agent_log = test_env.agent_log();
    agent_log.started_once(format_args!("seed {seed}"));
    let document = test_env.document("trial");
    let any_exhausted = histories.values().any(|history| history.exhausted > 0);
    for step in &workflow.steps {
        let id = step.id.as_str();
        let about = format!(
            "seed {seed}, step {step:?}, {:?}, agent log {:?}",
            histories.get(id),
            agent_log.starts_and_ends()
        );
        let history = histories.get(id).unwrap_or_else(|| panic!("it never started: {about}"));
        let kills = shim_kills.get(&("trial".to_owned(), id.to_owned())).copied().unwrap_or_default();
        check_step(step, history, kills, any_exhausted, &about);
        assert!(
            agent_log.count_ends(id) as u32 >= history.reported,
            "it reported without having ended: {about}"
        );
        let shown = &document["steps"][id];
        assert_eq!(shown["status"], "COMPLETED", "{about}");
        assert_eq!(
            shown["iteration_count"], history.loop_backs,
            "its iterations are not those of the document: {about}"
        );
        let report = shown["report_path"].as_str().unwrap_or_default();
        assert!(std::path::Path::new(report).is_file(), "no report at `{report}`: {about}");
    }
    test_env.expect_no_orphans();
    assert!(reads.bad.is_empty(), "seed {seed}: a reader saw bad views: {:#?}", reads.bad);
    let quarantine = test_env.store_dir().join("quarantine");
    assert!(!quarantine.exists(), "seed {seed}: a view of our own was quarantined");
    run_history
}

fn check_step(step: &Step, history: &StepHistory, kills: u32, any_exhausted: bool, about: &str) {
    assert!(history.done, "it was never done: {about}");
    assert!(history.restarted_without_reason.is_empty(), "it was done and started again: {about}");
    history.check_attempts(about);
    // Every accepted report but the last one was followed by a loop-back.
    assert!(
        history.reported <= 1 + history.loop_backs,
        "more reports were accepted than turns were started: {about}"
    );
    assert!(
        history.interrupted <= kills,
        "interrupted more often than its shim was killed ({kills}): {about}"
    );
    assert!(history.without_result == 0 || any_exhausted, "ended without a result for no reason: {about}");
    match step.behaviour {
        Behaviour::FailsFirst { .. } => {
            assert!(history.exhausted == 0, "it was exhausted unexpectedly: {about}");
        }
        Behaviour::ExhaustsOnce => {
            assert!(history.exhausted <= 1, "it was exhausted more than once: {about}");
        }
        Behaviour::Works { .. } | Behaviour::Gate { .. } => {
            assert_eq!((history.retries, history.exhausted), (0, 0), "it failed unexpectedly: {about}");
        }
    }
}
