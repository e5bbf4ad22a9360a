//! Two features in worktrees of their own that change the same file, tortured until both are merged.

use std::collections::BTreeSet;

use fastrand::Rng;

use super::super::chaos::Chaos;
use super::super::run_history::RunHistory;
use super::super::{Tally, Torture};
use super::Trial;
use crate::test_env::TestEnv;

/// Two features, each a step in a worktree of its own, and a step that reads the result.
const STEPS: [&str; 3] = ["id: a, worktree: true", "id: b, worktree: true", "id: read, needs: [a, b]"];

/// A feature adds its line to the lines of its own branch and of the integration branch, and merges the latter. It reads and
/// merges the same commit, because the engine may merge the other feature meanwhile. A killed attempt may have left a merge
/// unfinished in the worktree.
const AGENTS: [&str; 2] = [
    r#"read * do cp page.txt "$shared/read"; write_report COMPLETED "read it""#,
    r#"* * do tip=$(git rev-parse callboard/trial); { git show HEAD:page.txt; git show "$tip:page.txt"; echo "by $STEP_ID"; } | sort -u >"$shared/page-$STEP_ID"; git merge --quiet --no-edit "$tip" >/dev/null 2>&1; sleep 0.02; cp "$shared/page-$STEP_ID" page.txt; write_report COMPLETED "wrote it""#,
];

pub(in crate::torture) fn torture(torture: &Torture, seed: u64, kills: u32, tally: &mut Tally) {
    let test_env = TestEnv::new(&torture.program);
    test_env.write("page.txt", "");
    test_env.git(&["add", "page.txt"]);
    test_env.git(&["commit", "--quiet", "--message=page"]);
    test_env.workflow_yaml(&STEPS);
    test_env.script_agent(&AGENTS);
    let chaos = Chaos::new(&test_env, Rng::with_seed(seed), kills);
    let mut trial = Trial { chaos, flags: &[], seed, resumes: 0, retries: 0 };
    trial.run_to_success();
    let run_history = RunHistory::read(&test_env.journal("trial"));
    for (step, history) in &run_history.steps {
        let about = format!("seed {seed}, step {step}, {history:?}");
        history.check_attempts(&about);
        assert!(history.restarted_without_reason.is_empty(), "it was done and started again: {about}");
        assert_eq!((history.exhausted, history.done), (0, true), "{about}");
    }
    test_env.agent_log().started_once(format_args!("seed {seed}"));
    check(&test_env, seed);
    tally.add(&trial.chaos);
    tally.add_history(&run_history);
    tally.worktree_runs += 1;
    tally.steps += run_history.steps.len();
    tally.resumes += trial.resumes;
}

/// Both features are in the base branch, each was merged once, and nothing is left but the integration branch.
fn check(test_env: &TestEnv, seed: u64) {
    assert_eq!(test_env.git(&["show", "main:page.txt"]), "by a\nby b\n", "seed {seed}");
    let read =
        std::fs::read_to_string(test_env.agent_dir().join("read")).expect("the last step has copied it");
    assert_eq!(read, "by a\nby b\n", "seed {seed}: the last step works on the merged tree");
    let format = "--format=%(trailers:key=Callboard-Effect,valueonly,separator=%x2C)";
    let log = test_env.git(&["log", format, "main"]);
    let merges: Vec<_> = log.lines().filter(|line| !line.is_empty()).collect();
    let steps: BTreeSet<_> =
        merges.iter().filter_map(|key| key.split_once('#')).map(|(step, _)| step).collect();
    assert_eq!(merges.len(), 2, "seed {seed}: a merge is missing or repeated: {merges:?}");
    assert_eq!(steps.into_iter().collect::<Vec<_>>(), ["trial/a.merge", "trial/b.merge"], "seed {seed}");
    assert_eq!(test_env.git(&["branch", "--list", "callboard/*"]).trim(), "callboard/trial", "seed {seed}");
    assert_eq!(test_env.git(&["worktree", "list"]).lines().count(), 1, "seed {seed}: a worktree is left");
    test_env.expect_no_orphans();
}
