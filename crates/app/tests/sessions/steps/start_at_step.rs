//! `run --start-at-step` and `retry --from`: a run starts again at a step.

use std::fs;

use insta::assert_snapshot;
use testkit::TestEnv;

use crate::sessions::test_env;

/// Makes a finished rehearsal of three steps, one after the other.
fn finished_rehearsal() -> TestEnv {
    let test_env = test_env();
    test_env.workflow_yaml(&["id: plan", "id: code, needs: [plan]", "id: review, needs: [code]"]);
    assert_eq!(test_env.callboard(&["run", "wf.yaml", "--run-id", "trial", "--rehearse"]).run().code, 0);
    test_env
}

/// Counts the turns that a step has had.
fn turns(test_env: &TestEnv, step: &str) -> usize {
    (1..).take_while(|turn| test_env.attempt_dir("trial", step, &format!("{turn}.1")).exists()).count()
}

#[test]
fn the_newest_run_of_the_workflow_starts_again_at_the_step() {
    let test_env = finished_rehearsal();
    let again = test_env.callboard(&["run", "wf.yaml", "--start-at-step", "code"]).run();
    assert_eq!(again.code, 0, "{}", again.transcript());
    assert_eq!(["plan", "code", "review"].map(|step| turns(&test_env, step)), [1, 2, 2]);
    assert_eq!(test_env.document("trial")["steps"]["review"]["attempts"], 1);
    let retried = test_env.callboard(&["retry", "trial", "--from", "review"]).run();
    assert_eq!(retried.code, 0, "{}", retried.transcript());
    assert_eq!(["plan", "code", "review"].map(|step| turns(&test_env, step)), [1, 2, 3]);
}

#[test]
fn a_failed_run_starts_again_before_the_failed_step() {
    let test_env = test_env();
    test_env.workflow_yaml(&["id: plan", "id: code, needs: [plan]"]);
    let script = test_env.agent_dir().join("script.yaml");
    fs::write(&script, "steps: {code: [fail: why, fail: why]}").unwrap();
    let rehearse = format!("--rehearse={}", script.display());
    assert_eq!(test_env.callboard(&["run", "wf.yaml", "--run-id", "trial", &rehearse]).run().code, 1);
    assert_eq!(test_env.callboard(&["retry", "trial", "--from", "plan"]).run().code, 1);
    assert_eq!(["plan", "code"].map(|step| turns(&test_env, step)), [2, 2]);
}

#[test]
fn what_cannot_start_again_is_refused_with_the_reason() {
    let test_env = finished_rehearsal();
    assert_snapshot!(test_env.callboard(&["run", "wf.yaml", "--start-at-step", "reviw"]).run().transcript(), @"
    $ callboard run wf.yaml --start-at-step reviw
    error: run `trial` has no step `reviw`

    hint: did you mean `review`?
    [exit 2]
    ");
    let workflow = test_env.repo().join("wf.yaml");
    let text = fs::read_to_string(&workflow).unwrap().replace("id: review", "id: check");
    fs::write(&workflow, text).unwrap();
    assert_snapshot!(test_env.callboard(&["run", "wf.yaml", "--start-at-step", "code"]).run().transcript(), @"
    $ callboard run wf.yaml --start-at-step code
    error: run `trial` was started with another version: the workflow file, the prompt of `check` changed

    hint: run `callboard retry trial --from STEP` to continue with what it was started with
    hint: add `--accept-changes` to continue with the new version
    hint: run `callboard run WORKFLOW` to start a new run with the new version
    [exit 3]
    ");
    fs::write(&workflow, "name: other\nsteps: [{id: a, agent: person}]").unwrap();
    assert_snapshot!(test_env.callboard(&["run", "wf.yaml", "--start-at-step", "a"]).run().transcript(), @"
    $ callboard run wf.yaml --start-at-step a
    error: there is no run of workflow `other` to start again

    hint: leave out `--start-at-step` to start a new run
    hint: or name a run with `--run-id`; `callboard ls` lists them
    [exit 2]
    ");
}

#[test]
fn a_step_whose_needs_have_not_succeeded_is_no_start() {
    let test_env = test_env();
    test_env.workflow_yaml(&["id: plan", "id: code, needs: [plan]"]);
    let script = test_env.agent_dir().join("script.yaml");
    fs::write(&script, "steps: {plan: [fail: why]}").unwrap();
    let rehearse = format!("--rehearse={}", script.display());
    assert_eq!(test_env.callboard(&["run", "wf.yaml", "--run-id", "trial", &rehearse]).run().code, 1);
    assert_snapshot!(test_env.callboard(&["retry", "trial", "--from", "code"]).run().transcript(), @"
    $ callboard retry trial --from code
    error[E013]: cannot start run `trial` again at `code`
      caused by: `code` needs `plan`, which has not succeeded; start at `plan`
    [exit 3]
    ");
}

#[test]
fn accepted_changes_are_shown_and_stored_in_a_new_run_that_continues_the_old_one() {
    let test_env = finished_rehearsal();
    let workflow = test_env.repo().join("wf.yaml");
    let text = fs::read_to_string(&workflow).unwrap();
    fs::write(&workflow, text.replace("id: review,", "id: review, max_attempts: 5,")).unwrap();
    let flags = ["run", "wf.yaml", "--start-at-step", "code", "--accept-changes"];
    let again = test_env.callboard(&flags).run();
    assert_eq!(again.code, 0, "{}", again.transcript());
    assert!(again.stdout.starts_with("review\n  + max_attempts: 5\n"), "{}", again.transcript());
    assert!(again.stderr.contains("run `trial-v2` continues `trial`"), "{}", again.transcript());
    let steps = test_env.document("trial-v2")["steps"].clone();
    assert_eq!(steps["plan"]["ended_at"], test_env.document("trial")["steps"]["plan"]["ended_at"], "kept");
    assert!(!test_env.attempt_dir("trial-v2", "plan", "1.1").exists());
    assert!(test_env.attempt_dir("trial-v2", "review", "1.1").exists());
    assert_eq!(turns(&test_env, "code"), 1, "the old run stays as it is");

    let prompt = test_env.repo().join("task.md");
    fs::write(&prompt, "Do it better.\n").unwrap();
    let refused =
        test_env.callboard(&["retry", "trial-v2", "--from", "review", "--workflow", "wf.yaml"]).run();
    assert_eq!(refused.code, 3, "{}", refused.transcript());
    let flags = ["retry", "trial-v2", "--from", "review", "--workflow", "wf.yaml", "--accept-changes"];
    let retried = test_env.callboard(&flags).run();
    assert_eq!(retried.code, 0, "{}", retried.transcript());
    assert!(retried.stdout.contains("~ prompt text: "), "{}", retried.transcript());
    assert!(test_env.attempt_dir("trial-v3", "review", "1.1").join("prompt.md").exists());
}

#[test]
fn accepted_changes_need_a_run_that_has_ended() {
    let test_env = test_env();
    test_env.workflow_yaml(&["id: plan"]);
    test_env.script_agent(&["plan * wait barrier"]);
    let mut barrier = test_env.barrier("barrier");
    let running = test_env.run(&[]).start();
    test_env.agent_log().wait_for_start("plan#1.1");
    test_env.workflow_yaml(&["id: plan, max_attempts: 5"]);
    let flags = ["run", "wf.yaml", "--start-at-step", "plan", "--accept-changes"];
    assert_snapshot!(test_env.callboard(&flags).run().transcript(), @"
    $ callboard run wf.yaml --start-at-step plan --accept-changes
    error: cannot continue run `trial` with the new version
      caused by: its attempts may be alive: `plan#1.1`

    hint: run `callboard stop trial` first
    [exit 3]
    ");
    barrier.open();
    assert_eq!(running.wait().code, 0);
    assert_eq!(test_env.callboard(&["ls", "--json"]).run().json().as_array().unwrap().len(), 1);
}

#[test]
fn accepted_changes_need_a_step_that_can_start() {
    let test_env = finished_rehearsal();
    let text = fs::read_to_string(test_env.repo().join("wf.yaml")).unwrap();
    let inserted = text.replace("needs: [code]}", "needs: [test]}");
    let inserted = format!("{inserted}  - {{agent: coder, prompt: task.md, id: test, needs: [code]}}\n");
    test_env.write("wf.yaml", &inserted);
    let run_from = |step: &str| {
        test_env.callboard(&["run", "wf.yaml", "--start-at-step", step, "--accept-changes"]).run()
    };
    let refused = run_from("review");
    assert_eq!(refused.code, 3, "{}", refused.transcript());
    assert!(
        refused.stderr.contains("`review` needs `test`, which has not succeeded"),
        "{}",
        refused.transcript()
    );
    assert_eq!(
        test_env.callboard(&["ls", "--json"]).run().json().as_array().unwrap().len(),
        1,
        "no run was made"
    );
    assert_eq!(run_from("test").code, 0);
    assert_eq!(test_env.document("trial-v2")["steps"]["review"]["status"], "COMPLETED");
}

/// Regression: with or without `--no-pause` and `--gate-state-file`, the workflow counted as changed unless the first start had
/// the same flags. Others had no effect and said nothing.
#[test]
fn the_run_keeps_its_options_whatever_flags_the_restart_has() {
    let test_env = test_env();
    test_env.workflow_yaml(&["id: plan, human_in_the_loop: true", "id: code, needs: [plan], gates: [open]"]);
    for first in [&["--no-pause"][..], &["--no-pause", "--gate-state-file", "open.json"]] {
        test_env.write("open.json", r#"{"open": true}"#);
        let run = [&["run", "wf.yaml", "--run-id", "trial", "--rehearse"], first].concat();
        assert_eq!(test_env.callboard(&run).run().code, 0);
        for flags in [&[][..], &["--no-pause"], &["--gate-state-file", "open.json", "--max-attempts", "5"]] {
            let start_at = [&["run", "wf.yaml", "--start-at-step", "code"], flags].concat();
            let again = test_env.callboard(&start_at).run();
            assert_eq!(again.code, 0, "{}", again.transcript());
            for flag in flags.iter().filter(|flag| flag.starts_with("--")) {
                let note =
                    format!("note: `{flag}` has no effect: the run keeps the options it was started with");
                assert!(again.stderr.contains(&note), "{}", again.transcript());
            }
        }
        assert_eq!(test_env.callboard(&["rm", "trial"]).run().code, 0);
    }
}

#[test]
fn a_flag_that_cannot_take_effect_is_refused_before_anything_is_recorded() {
    let test_env = finished_rehearsal();
    let entries = test_env.journal("trial").len();
    let start_at = ["run", "wf.yaml", "--start-at-step", "code"];
    let from = ["retry", "trial", "--from", "code"];
    for (command, flags, code) in [
        (&start_at[..], &["--rehearse"][..], 2),
        (&start_at, &["--detach"], 2),
        (&start_at, &["--model", "coed=large"], 2),
        (&from, &["--model", "coed=large"], 2),
        (&from, &["--wrapper", "/bin/true"], 3),
    ] {
        let refused = test_env.callboard(&[command, flags].concat()).run();
        assert_eq!(refused.code, code, "{}", refused.transcript());
    }
    assert_eq!(test_env.journal("trial").len(), entries);
}
