//! Invalid workflows and arguments are refused before anything starts; what is only suspicious is a warning.
//! `protocol/src/steps/load/tests.rs` has the text of each problem.

use insta::assert_snapshot;

use crate::sessions::test_env;

/// Runs this workflow, expects a refusal, and returns the transcript.
fn transcript_of_refused_run(text: &str) -> String {
    let test_env = test_env();
    test_env.write("wf.yaml", text);
    let session = test_env.callboard(&["run", "wf.yaml", "--wrapper", "./agent.sh"]).run();
    assert_eq!(session.code, 2, "{}", session.transcript());
    assert!(!test_env.store_dir().join("callboard.db").exists(), "a store was created");
    session.transcript().to_owned()
}

#[test]
fn all_problems_of_a_workflow_are_shown_together() {
    let text = "name: t\nsteps:\n  - {id: a, agent: p, prompt: task.md}\n  - {id: a, agent: p, prompt: task.md, needs: [b]}\n";
    assert_snapshot!(transcript_of_refused_run(text), @"
    $ callboard run wf.yaml --wrapper ./agent.sh
    error[E009]: the workflow `wf.yaml` has 2 problems

    error[duplicate-id]: two steps have the id `a`; the first is on line 3
     --> wf.yaml:4:10
      |
    4 |   - {id: a, agent: p, prompt: task.md, needs: [b]}
      |          ^
      |
      = hint: give one of them another id

    error[unknown-step]: `needs` names `b`, but no step has this id
     --> wf.yaml:4:48
      |
    4 |   - {id: a, agent: p, prompt: task.md, needs: [b]}
      |                                                ^
      |
      = hint: name a step of this file, or add one with `id: b`
    [exit 2]
    ");
}

#[test]
fn a_missing_workflow_is_refused() {
    let test_env = test_env();
    assert_snapshot!(test_env.callboard(&["run", "nowhere.yaml", "--wrapper", "x"]).run().transcript(), @"
    $ callboard run nowhere.yaml --wrapper x
    error: cannot read the workflow `nowhere.yaml`
      caused by: No such file or directory (os error 2)

    hint: name a workflow file; a relative path starts at the current directory
    [exit 2]
    ");
}

#[test]
fn a_wrong_next_on_success_is_a_warning() {
    let test_env = test_env();
    let step = "agent: coder, prompt: task.md";
    test_env.write(
        "wf.yaml",
        &format!("name: t\nsteps:\n  - {{id: a, {step}, next_on_success: [b]}}\n  - {{id: b, {step}}}\n"),
    );
    let session = test_env.run(&["--jobs", "1"]).run();
    assert_snapshot!(session.transcript(), @"
    $ callboard run wf.yaml --run-id trial --wrapper [SHARED]/agent.sh --jobs 1
    warning[successor-does-not-need]: `b` is named as next after `a`, but does not need it
     --> wf.yaml:3:62
      |
    3 |   - {id: a, agent: coder, prompt: task.md, next_on_success: [b]}
      |                                                              ^
      |
      = hint: only `needs` makes a step wait: add `a` to the `needs` of `b`
    run trial in [REPO]
    ▸ a#1.1 started
    ✓ a#1.1 finished [TIME]
    ▸ b#1.1 started
    ✓ b#1.1 finished [TIME]

    run `trial` succeeded: 2 of 2 steps done, [TIME]
    [exit 0]
    ");
}

#[test]
fn an_agent_without_a_command_is_refused() {
    let test_env = test_env();
    test_env.workflow(&["a"]);
    assert_snapshot!(test_env.callboard(&["run", "wf.yaml"]).run().transcript(), @r#"
    $ callboard run wf.yaml
    error[E007]: no command is configured for agent `coder` (used by step `a`)

    hint: add `--wrapper PROGRAM` or `--command-template COMMAND`, or write in callboard.toml:

        [adapters.coder]
        command = ["your-agent", "{prompt}"]
        report = "required"    # without this line the exit code is the report
    hint: or use `--rehearse` to run with the built-in scripted agent
    [exit 2]
    "#);
}

#[test]
fn a_template_with_an_unknown_placeholder_is_refused() {
    let test_env = test_env();
    test_env.workflow(&["a"]);
    let session = test_env.callboard(&["run", "wf.yaml", "--command-template", "agent {promt}"]).run();
    assert_snapshot!(session.transcript(), @"
    $ callboard run wf.yaml --command-template 'agent {promt}'
    error: cannot use the command template `agent {promt}`
      caused by: `{promt}` in `{promt}` is not a placeholder; known are `{run_id}`, `{step_id}`, `{agent}`, `{model}`, `{prompt}`, `{repo}`, `{report}`, `{attempt}`, `{manual_input}`
    [exit 2]
    ");
}

#[test]
fn an_existing_name_is_refused() {
    let test_env = test_env();
    test_env.workflow(&["a"]);
    assert_eq!(test_env.run(&[]).run().code, 0);
    let session = test_env.callboard(&["run", "wf.yaml", "--run-id", "trial", "--wrapper", "true"]).run();
    assert_snapshot!(session.transcript(), @"
    $ callboard run wf.yaml --run-id trial --wrapper true
    error: a run named `trial` exists already

    hint: run `callboard resume trial` to continue it, or choose another name with `--run-id`
    hint: run `callboard rm trial` to remove it first
    [exit 3]
    ");
}
