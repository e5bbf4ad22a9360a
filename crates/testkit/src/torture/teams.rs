//! A run of `team`, tortured until its three groups are merged: one fails QA once, one plans to change a file of that group
//! and has to wait for it, one is blocked once.

use std::fs;

use fastrand::Rng;
use protocol::protocol_kind;
use protocol::team::Team;
use serde_json::Value;

use super::chaos::Chaos;
use super::development::run_to_success;
use super::run_history::RunHistory;
use super::{Tally, Torture};
use crate::test_env::TestEnv;

/// The agents, by attempt. With the verdict `BAZINGA` the project manager ends the run.
const AGENTS: &str = r#"
verdict() { extra_fields=", \"verdict\": \"$1\", \"summary\": \"s\", \"feedback\": \"f\", \"blocker\": \"b\"$2"; write_report COMPLETED "$1"; }
sleep 0.02
case $CALLBOARD_ATTEMPT in
pm.plan*) verdict PLANNING_COMPLETE ', "mode": "parallel", "mode_reasoning": "r",
  "all_tasks": [{"id": "T1", "description": "a"}, {"id": "T2", "description": "b"}, {"id": "T3", "description": "c"}],
  "task_groups": [
    {"id": "A", "name": "First", "tasks": ["T1"], "files_affected": ["a.txt"]},
    {"id": "B", "name": "Second", "tasks": ["T2"], "files_affected": ["a.txt", "b.txt"]},
    {"id": "C", "name": "Third", "tasks": ["T3"], "files_affected": ["c.txt"]}],
  "success_criteria": [{"id": "C1", "text": "t", "tasks": ["T1"], "command": "test -s a.txt -a -s b.txt -a -s c.txt"}]' ;;
C.developer#1.*) verdict BLOCKED ;;
*.developer*) file=$(echo "${STEP_ID%%.*}" | tr ABC abc).txt; echo "$STEP_ITERATION" >"$file"; verdict READY_FOR_QA ;;
A.qa#1.*) verdict FAIL ;;
*.qa*) verdict PASS ;;
C.tech_lead#1.*) verdict unblocked ;;
*.tech_lead*) verdict approved ;;
pm.check*) verdict BAZINGA ;;
esac
"#;

pub(super) fn torture(torture: &Torture, seed: u64, kills: u32, tally: &mut Tally) {
    let test_env = TestEnv::new(&torture.program);
    test_env.write("file", "content\n");
    test_env.git(&["add", "file"]);
    test_env.git(&["commit", "--quiet", "--message=start"]);
    fs::write(test_env.agent_dir().join("team.sh"), AGENTS).expect("the shared directory is writable");
    test_env.script_agent(&[r#"* * do . "$shared/team.sh""#]);
    let mut chaos = Chaos::new(&test_env, Rng::with_seed(seed), kills);
    let start = ["team", "Build it", "--run-id", "trial", "--jobs", "2"];
    let resumes = run_to_success(&mut chaos, &test_env, &start, seed);

    let run_history = RunHistory::read(&test_env.journal("trial"));
    for (step, history) in &run_history.steps {
        history.check_attempts(&format!("seed {seed}, step {step}, {history:?}"));
    }
    test_env.agent_log().started_once(format_args!("seed {seed}"));
    check_files(&test_env, seed);
    let merges = test_env.git(&["log", "--merges", "--format=%s", "main"]);
    assert_eq!(merges.lines().count(), 3, "seed {seed}: a merge is missing or repeated: {merges}");
    test_env.expect_no_orphans();
    tally.add(&chaos);
    tally.add_history(&run_history);
    tally.team_runs += 1;
    tally.resumes += resumes;
}

/// Checks that the files keep the rules of their formats, that no message is missing or repeated, and that QA and the tech
/// lead have read theirs. Developers need not: they do not start again after an approval.
fn check_files(test_env: &TestEnv, seed: u64) {
    let directory = test_env.repo().join("coordination");
    let read = |name: &str| -> Value {
        let text = fs::read_to_string(directory.join(name)).expect("the file is there");
        serde_json::from_str(&text).expect("the file is whole")
    };
    let mailboxes = ["dev_to_qa", "qa_to_techlead", "techlead_to_dev", "qa_to_dev"];
    let mailboxes = mailboxes.map(|name| format!("messages/{name}.json"));
    let files = ["pm_state.json", "group_status.json", "orchestrator_state.json"].map(str::to_owned);
    for name in files.iter().chain(&mailboxes) {
        let value = read(name);
        let format =
            protocol_kind::<Team>().info().formats.iter().find(|format| (format.matches)(name, &value));
        let violations = (format.expect("the format is known").check)(&value).violations;
        assert!(violations.is_empty(), "seed {seed}, {name}: {violations:?}");
    }
    assert_eq!(read("orchestrator_state.json")["status"], "completed", "seed {seed}");
    let count = |name: &str| read(name)["messages"].as_array().map_or(0, Vec::len);
    let sent = mailboxes.each_ref().map(|name| count(name));
    assert_eq!(sent, [4, 3, 4, 1], "seed {seed}: a message is missing or repeated");
    for name in &mailboxes[..2] {
        let messages = read(name);
        let unread =
            messages["messages"].as_array().into_iter().flatten().filter(|message| message["read"] != true);
        assert_eq!(unread.count(), 0, "seed {seed}: {name} has unread messages");
    }
}
