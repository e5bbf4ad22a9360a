//! People: approvals, the inbox, answers, `[notify]`.

use serde_json::{Value, json};
use testkit::{CallOutput, ProcessHandle, Running, TestEnv};

use crate::sessions::{last_error, status, test_env};

/// `code`, then the approval of a person, then `ship`.
const APPROVAL: &str = "\
name: trial
steps:
  - {id: code, agent: coder, prompt: task.md}
  - {id: approve, agent: person, needs: [code]}
  - {id: ship, agent: coder, prompt: task.md, needs: [approve]}
";

/// `code`, then the approval of a person, whose rejection loops back to `code`, then `ship`.
const GATE: &str = "\
name: trial
steps:
  - {id: code, agent: coder, prompt: task.md}
  - {id: approve, agent: person, prompt: ask.md, needs: [code], loop_back_to: code}
  - {id: ship, agent: coder, prompt: task.md, needs: [approve]}
";

fn with_workflow(workflow: &str) -> TestEnv {
    let test_env = test_env();
    test_env.write("wf.yaml", workflow);
    test_env.write("ask.md", "Is it good enough to ship?\n");
    test_env
}

/// Waits until the step `approve` waits for a person. Returns the view.
fn wait_for_question(test_env: &TestEnv) -> Value {
    test_env.wait_for_view("trial", "it asks", |view| status(view, "approve") == "WAITING_ON_HUMAN")
}

/// Starts the run, and waits until it asks.
fn start_until_question(test_env: &TestEnv) -> Running<'_> {
    let engine = test_env.run(&[]).start();
    wait_for_question(test_env);
    engine
}

/// Runs `callboard answer`.
fn answer(test_env: &TestEnv, arguments: &[&str]) -> CallOutput {
    test_env.callboard(&[&["answer"], arguments].concat()).run()
}

#[test]
fn a_person_approves_and_the_run_continues() {
    let test_env = with_workflow(APPROVAL);
    let engine = start_until_question(&test_env);
    let view = test_env.document("trial");
    assert_eq!(status(&view, "ship"), "PENDING");
    assert!(view["steps"]["approve"]["manual_input_path"].as_str().is_some(), "{view:#}");
    let inbox = test_env.callboard(&["inbox"]).run();
    insta::assert_snapshot!(inbox.transcript(), @"
    $ callboard inbox
    trial/approve#1  approval  trial, [TIME] ago
      code
        file made/code.txt
        did code
      ? Do you approve what `code` did?
      `callboard answer trial/approve#1 approve`
      `callboard answer trial/approve#1 reject --reason WHY`
    [exit 0]
    ");
    let changed = test_env.callboard(&["diff", "trial", "1"]).run();
    assert!(changed.stdout.contains("~ status: \"running\" → \"waiting\""), "{}", changed.transcript());
    let answered = answer(&test_env, &["trial/approve#1", "approve"]);
    assert_eq!(answered.code, 0, "{}", answered.transcript());
    let ended = engine.wait();
    assert_eq!(ended.code, 0, "{}", ended.transcript());
    assert!(ended.stderr.contains("? Do you approve what `code` did?"), "{}", ended.transcript());
    assert!(ended.stderr.contains("`callboard answer trial/approve#1 approve`"), "{}", ended.transcript());
    let view = test_env.document("trial");
    assert_eq!(status(&view, "approve"), "COMPLETED");
    let log = view["steps"]["approve"]["logs"][0].as_str().unwrap();
    assert!(log.starts_with("Approved by "), "{log}");
    assert_eq!(test_env.callboard(&["inbox", "--json"]).run().json(), json!([]));
}

#[test]
fn the_inbox_shows_what_a_run_with_worktrees_has_changed() {
    let test_env = test_env();
    test_env.workflow_yaml(&["id: code, worktree: true"]);
    let workflow = std::fs::read_to_string(test_env.repo().join("wf.yaml")).unwrap();
    test_env.write("wf.yaml", &format!("{workflow}  - {{id: approve, agent: person, needs: [code]}}\n"));
    test_env.script_agent(&[r#"code * do seq 3 >numbers.txt; write_report COMPLETED "wrote three""#]);
    let engine = start_until_question(&test_env);
    let inbox = test_env.callboard(&["inbox"]).run();
    insta::assert_snapshot!(inbox.transcript(), @"
    $ callboard inbox
    trial/approve#1  approval  trial, [TIME] ago
      code
        file made/code.txt
        wrote three
        numbers.txt | 3 +++
        1 file changed, 3 insertions(+)
      `git diff main...callboard/trial`
      ? Do you approve what `code` did?
      `callboard answer trial/approve#1 approve`
      `callboard answer trial/approve#1 reject --reason WHY`
    [exit 0]
    ");
    let listed = test_env.callboard(&["inbox", "--json"]).run().json();
    let changes = json!({
        "stat": [" numbers.txt | 3 +++", " 1 file changed, 3 insertions(+)"],
        "command": "git diff main...callboard/trial",
    });
    assert_eq!(listed[0]["changes"], changes, "{listed:#}");
    assert!(test_env.git(&["diff", "main...callboard/trial"]).contains("+3"));
    assert_eq!(answer(&test_env, &["trial/approve#1", "approve"]).code, 0);
    assert_eq!(engine.wait().code, 0);
}

#[test]
fn a_rejection_loops_back_with_the_reason() {
    let test_env = with_workflow(GATE);
    let engine = start_until_question(&test_env);
    let rejected = answer(&test_env, &["trial/approve", "reject", "--reason", "the tests are missing"]);
    assert_eq!(rejected.code, 0, "{}", rejected.transcript());
    let view = test_env.wait_for_view("trial", "it asks again", |view| {
        status(view, "approve") == "WAITING_ON_HUMAN" && view["steps"]["approve"]["iteration_count"] == 1
    });
    assert_eq!(view["steps"]["code"]["iteration_count"], 1);
    let prompt = test_env.callboard(&["prompt", "trial", "code"]).run();
    assert!(prompt.stdout.contains("the tests are missing"), "{}", prompt.transcript());
    let inbox = test_env.callboard(&["inbox", "--json"]).run().json();
    assert_eq!(inbox[0]["id"], "trial/approve#2");
    assert_eq!(inbox[0]["question"], "Is it good enough to ship?");
    assert_eq!(answer(&test_env, &["trial/approve#2", "approve"]).code, 0);
    assert_eq!(engine.wait().code, 0);
    assert_eq!(test_env.agent_log().started(), ["code#1.1", "code#2.1", "ship#1.1"]);
}

#[test]
fn a_rejection_without_a_loop_back_fails_the_run_and_a_retry_asks_again() {
    let test_env = with_workflow(APPROVAL);
    let engine = start_until_question(&test_env);
    assert_eq!(answer(&test_env, &["trial/approve#1", "reject", "--reason", "no"]).code, 0);
    assert_eq!(engine.wait().code, 1);
    let view = test_env.document("trial");
    assert_eq!(status(&view, "approve"), "FAILED");
    assert!(last_error(&view, "approve").starts_with("Rejected by "), "{view:#}");
    let inbox = test_env.callboard(&["inbox", "--json"]).run().json();
    assert_eq!((&inbox[0]["id"], &inbox[0]["kind"]), (&json!("trial"), &json!("failed_run")), "{inbox:#}");
    assert_eq!(inbox[0]["commands"], json!(["callboard retry trial"]));
    let engine = test_env.with_agent(&["retry", "trial"]).start();
    wait_for_question(&test_env);
    assert_eq!(answer(&test_env, &["trial/approve#2", "approve"]).code, 0);
    assert_eq!(engine.wait().code, 0);
}

#[test]
fn a_second_answer_is_refused_and_names_the_first() {
    let test_env = with_workflow(APPROVAL);
    let engine = start_until_question(&test_env);
    let wrong = answer(&test_env, &["trial/approve#1", "--text", "well"]);
    assert_eq!(wrong.code, 2, "{}", wrong.transcript());
    assert!(wrong.stderr.contains("answer `approve` or `reject --reason WHY`"), "{}", wrong.transcript());
    assert_eq!(answer(&test_env, &["trial/code", "approve"]).code, 3);
    assert_eq!(answer(&test_env, &["trial/nothing", "approve"]).code, 2);
    assert_eq!(answer(&test_env, &["trial/approve#1", "reject"]).code, 2, "a rejection needs a reason");
    assert_eq!(answer(&test_env, &["trial/approve#1", "approve"]).code, 0);
    assert_eq!(engine.wait().code, 0);
    for id in ["trial/approve#1", "trial/approve"] {
        let second = answer(&test_env, &[id, "reject", "--reason", "too late"]);
        assert_eq!(second.code, 3, "{}", second.transcript());
        let names_the_first =
            second.stderr.contains("`approve#1` was answered by ") && second.stderr.contains(": approve\n");
        assert!(names_the_first, "{}", second.transcript());
    }
}

#[test]
fn of_two_answers_at_once_one_counts() {
    let test_env = with_workflow(GATE);
    let engine = start_until_question(&test_env);
    let commands = [&["approve"][..], &["reject", "--reason", "no"]].map(|answer_arguments| {
        test_env.callboard(&[&["answer", "trial/approve#1"], answer_arguments].concat()).start()
    });
    let sessions = commands.map(Running::wait);
    let mut codes = sessions.each_ref().map(|session| session.code);
    codes.sort_unstable();
    assert_eq!(codes, [0, 3], "{} {}", sessions[0].transcript(), sessions[1].transcript());
    if sessions[1].code == 0 {
        test_env.wait_for_view("trial", "it asks again", |view| {
            status(view, "approve") == "WAITING_ON_HUMAN" && view["steps"]["approve"]["iteration_count"] == 1
        });
        assert_eq!(answer(&test_env, &["trial/approve#2", "approve"]).code, 0);
    }
    assert_eq!(engine.wait().code, 0);
}

#[test]
fn an_agent_cannot_answer() {
    let test_env = with_workflow(
        "name: trial\nsteps:\n  - {id: approve, agent: person}\n  - {id: code, agent: coder, prompt: task.md}\n",
    );
    test_env.script_agent(&[
        "code * do \"$shared/callboard\" answer trial/approve#1 approve 2>\"$shared/said\"; echo $? >\"$shared/code\"; write_report COMPLETED tried",
    ]);
    let engine = test_env.run(&[]).start();
    let view = test_env.wait_for_view("trial", "code is done", |view| status(view, "code") == "COMPLETED");
    assert_eq!(status(&view, "approve"), "WAITING_ON_HUMAN");
    assert_eq!(test_env.wait_for_lines("code").trim(), "3");
    assert!(test_env.wait_for_lines("said").contains("from inside attempt `code#1.1`"));
    assert_eq!(answer(&test_env, &["trial/approve", "approve"]).code, 0);
    assert_eq!(engine.wait().code, 0);
}

#[test]
fn a_question_survives_kill_9_and_is_answered_without_an_engine() {
    let test_env = with_workflow(APPROVAL);
    let engine = start_until_question(&test_env);
    engine.kill();
    engine.wait();
    let inbox = test_env.callboard(&["inbox", "--json"]).run().json();
    assert_eq!(inbox[0]["id"], "trial/approve#1");
    let answered = answer(&test_env, &["trial/approve#1", "approve"]);
    assert_eq!(answered.code, 0, "{}", answered.transcript());
    assert!(
        answered.stderr.contains("run `callboard resume trial` to continue"),
        "{}",
        answered.transcript()
    );
    assert_eq!(
        status(&test_env.document("trial"), "approve"),
        "COMPLETED",
        "the view shows the answer at once"
    );
    let ended = test_env.callboard(&["resume", "trial"]).run();
    assert_eq!(ended.code, 0, "{}", ended.transcript());
    assert_eq!(test_env.agent_log().started(), ["code#1.1", "ship#1.1"]);
}

#[test]
fn with_exit_when_waiting_a_command_exits_when_only_a_person_can_continue() {
    let test_env = with_workflow(APPROVAL);
    let first = test_env.run(&["--exit-when-waiting"]).run();
    assert_eq!(first.code, 4, "{}", first.transcript());
    assert!(first.stdout.contains("run `trial` waiting: 1 of 3 steps done"), "{}", first.transcript());
    assert_eq!(status(&test_env.document("trial"), "approve"), "WAITING_ON_HUMAN");
    let again = test_env.callboard(&["resume", "trial", "--exit-when-waiting", "--json"]).run();
    assert_eq!(again.code, 4, "{}", again.transcript());
    let asked: Vec<_> = again.json_lines().into_iter().filter(|event| event["event"] == "question").collect();
    assert_eq!(asked[0]["id"], "trial/approve#1");
    assert_eq!(answer(&test_env, &["trial/approve", "approve"]).code, 0);
    assert_eq!(test_env.callboard(&["resume", "trial", "--exit-when-waiting"]).run().code, 0);
}

#[test]
fn the_notify_command_is_called_once_for_each_item() {
    let test_env = with_workflow(GATE);
    test_env.write_program(
        "../shared/notify.sh",
        "#!/bin/sh\ncat >>\"${0%/*}/notifications\"\necho x >>\"${0%/*}/calls\"\n",
    );
    let notify_script = test_env.agent_dir().join("notify.sh");
    test_env.write("callboard.toml", &format!("[notify]\ncommand = [\"{}\"]\n", notify_script.display()));
    let engine = start_until_question(&test_env);
    let wait_for_calls = |number: usize| {
        testkit::wait_until(&test_env.agent_dir(), "the command is called", || {
            let calls = std::fs::read_to_string(test_env.agent_dir().join("calls")).ok()?;
            (calls.lines().count() == number).then_some(())
        });
    };
    wait_for_calls(1);
    // Another engine finds the same question.
    engine.kill();
    engine.wait();
    let engine = test_env.callboard(&["resume", "trial"]).start();
    assert_eq!(answer(&test_env, &["trial/approve#1", "reject", "--reason", "no"]).code, 0);
    wait_for_calls(2);
    assert_eq!(answer(&test_env, &["trial/approve#2", "approve"]).code, 0);
    assert_eq!(engine.wait().code, 0);
    let received = std::fs::read_to_string(test_env.agent_dir().join("notifications")).unwrap();
    let items: Vec<Value> = received.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let ids: Vec<_> = items.iter().map(|item| item["id"].as_str().unwrap()).collect();
    assert_eq!(ids, ["trial/approve#1", "trial/approve#2"]);
    assert_eq!(items[0]["upstream"][0]["artifacts"], json!(["made/code.txt"]));
    let config = test_env.callboard(&["config"]).run();
    assert!(config.stdout.contains("notify.command"), "{}", config.transcript());
}

/// Makes a workflow with a `[notify]` command that hangs after it has written its pid.
fn with_hanging_notify_command() -> TestEnv {
    let test_env = with_workflow(APPROVAL);
    let script = "#!/bin/sh\nshared=${0%/*}\necho $$ >$shared/new\nmv $shared/new $shared/notify_pid\nexec cat $shared/never\n";
    test_env.write_program("../shared/notify.sh", script);
    let notify_script = test_env.agent_dir().join("notify.sh");
    test_env.write("callboard.toml", &format!("[notify]\ncommand = [\"{}\"]\n", notify_script.display()));
    test_env
}

#[test]
fn a_hanging_notify_command_ends_with_a_killed_engine() {
    let test_env = with_hanging_notify_command();
    let engine = start_until_question(&test_env);
    let notify_process = test_env.wait_for_lines("notify_pid").trim().parse().unwrap();
    let notify_process = ProcessHandle::of(notify_process).expect("it hangs");
    engine.kill();
    engine.wait();
    notify_process.wait();
}

#[test]
fn a_hanging_notify_command_is_killed_when_the_engine_ends() {
    let test_env = with_hanging_notify_command();
    let session = test_env.run(&["--exit-when-waiting"]).run();
    assert_eq!(session.code, 4, "{}", session.transcript());
    assert!(session.stderr.contains("killed a `[notify]` command"), "{}", session.transcript());
    let notify_process = std::fs::read_to_string(test_env.agent_dir().join("notify_pid")).unwrap();
    if let Some(alive) = ProcessHandle::of(notify_process.trim().parse().unwrap()) {
        alive.wait();
    }
}

#[test]
fn a_notify_command_that_cannot_start_does_not_stop_the_run() {
    let test_env = with_workflow(APPROVAL);
    test_env.write("callboard.toml", "[notify]\ncommand = [\"/nowhere/notify\"]\n");
    let session = test_env.run(&["--exit-when-waiting"]).run();
    assert_eq!(session.code, 4, "{}", session.transcript());
    assert!(session.stderr.contains("cannot notify `/nowhere/notify`"), "{}", session.transcript());
}

#[test]
fn the_inbox_lists_what_waits_in_all_runs_oldest_first() {
    let test_env = with_workflow(APPROVAL);
    for run in ["one", "two"] {
        let session = test_env.with_agent(&["run", "wf.yaml", "--run-id", run, "--exit-when-waiting"]).run();
        assert_eq!(session.code, 4, "{}", session.transcript());
    }
    test_env.script_agent(&["* * exit 1"]);
    assert_eq!(
        test_env.with_agent(&["run", "wf.yaml", "--run-id", "three", "--max-attempts", "1"]).run().code,
        1
    );
    let inbox = test_env.callboard(&["inbox", "--json"]).run().json();
    let ids: Vec<_> = inbox.as_array().unwrap().iter().map(|item| item["id"].as_str().unwrap()).collect();
    assert_eq!(ids, ["one/approve#1", "two/approve#1", "three"]);
    assert_eq!(
        inbox[0]["commands"],
        json!([
            "callboard answer one/approve#1 approve",
            "callboard answer one/approve#1 reject --reason WHY"
        ])
    );
    assert_eq!(inbox[0]["upstream"][0]["logs"], json!(["did code"]));
}

#[test]
fn the_questions_of_a_review_are_listed_until_the_next_cycle() {
    let test_env = test_env();
    let script =
        "phases: {review: [ok: {score: 40, insights: {questions_for_user: [Which mail server?, Why?]}}]}";
    test_env.write("../shared/script.yaml", script);
    let rehearse = format!("--rehearse={}", test_env.agent_dir().join("script.yaml").display());
    let cycle = |instruction: &str, rehearse: &str| {
        test_env.callboard(&["peer", instruction, "--spec", "mail", rehearse]).run()
    };
    assert_eq!(cycle("create-spec", &rehearse).code, 1);
    let inbox = test_env.callboard(&["inbox", "--json"]).run().json();
    let asked: Vec<_> =
        inbox.as_array().unwrap().iter().map(|item| (&item["id"], &item["question"])).collect();
    let (first, second) =
        (json!("peer.spec.mail.cycle.1/review#1:1"), json!("peer.spec.mail.cycle.1/review#1:2"));
    assert_eq!(asked, [(&first, &json!("Which mail server?")), (&second, &json!("Why?"))]);
    assert!(
        inbox[0]["hint"].as_str().unwrap().contains("`callboard peer refine-spec --spec mail`"),
        "{inbox:#}"
    );
    let refused = answer(&test_env, &[first.as_str().unwrap(), "--text", "the blue one"]);
    assert_eq!(refused.code, 3, "{}", refused.transcript());
    assert!(refused.stderr.contains("peer refine-spec --spec mail"), "{}", refused.transcript());
    assert_eq!(cycle("refine-spec", "--rehearse").code, 0);
    assert_eq!(test_env.callboard(&["inbox", "--json"]).run().json(), json!([]));
}
