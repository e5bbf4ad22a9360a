//! What is wrong with the input is told with its place, before anything starts.

use insta::assert_snapshot;

use crate::scene;

/// A run of this text.
fn refused(text: &str) -> String {
    let scene = scene();
    scene.write("wf.yaml", text);
    let session = scene.callboard(&["run", "wf.yaml", "--wrapper", "./agent.sh"]).run();
    assert_eq!(session.code, 2, "{}", session.transcript());
    assert!(!scene.store().join("callboard.db").exists(), "nothing is begun");
    session.transcript().to_owned()
}

#[test]
fn broken_yaml() {
    assert_snapshot!(refused("name: t\nsteps:\n  - id: a\n   agent: p\n"), @"
    $ callboard run wf.yaml --wrapper ./agent.sh
    error[E009]: the workflow `wf.yaml` has 1 problem

    error[broken-yaml]: this is not valid YAML: while parsing a block collection, did not find expected '-' indicator
     --> wf.yaml:4:4
      |
    4 |    agent: p
      |    ^^^^^
      |
      = hint: look at the line above, too: is something not closed, or indented more than its neighbours?
    [exit 2]
    ");
}

#[test]
fn an_unknown_key() {
    assert_snapshot!(refused("name: t\nsteps:\n  - id: a\n    agent: p\n    promt: task.md\n"), @"
    $ callboard run wf.yaml --wrapper ./agent.sh
    error[E009]: the workflow `wf.yaml` has 2 problems

    error[missing-key]: step `a` has no `prompt`
     --> wf.yaml:3:5
      |
    3 |   - id: a
      |     ^^
      |
      = hint: add it, such as `prompt: prompts/plan.md`

    error[unknown-key]: `promt` is not a key of a step
     --> wf.yaml:5:5
      |
    5 |     promt: task.md
      |     ^^^^^
      |
      = hint: did you mean `prompt`?
    [exit 2]
    ");
}

#[test]
fn a_way_back_to_itself() {
    let text = "name: t\nsteps:\n  - id: a\n    agent: p\n    prompt: task.md\n    loop_back_to: a\n";
    assert_snapshot!(refused(text), @"
    $ callboard run wf.yaml --wrapper ./agent.sh
    error[E009]: the workflow `wf.yaml` has 1 problem

    error[not-an-ancestor]: step `a` loops back to itself
     --> wf.yaml:6:19
      |
    6 |     loop_back_to: a
      |                   ^
      |
      = hint: name a step that comes before `a`: one of its `needs`, or of theirs
    [exit 2]
    ");
}

#[test]
fn a_key_that_comes_later() {
    let text = "name: t\nsteps:\n  - id: a\n    agent: p\n    prompt: task.md\n    human_in_the_loop: true\n";
    assert_snapshot!(refused(text), @"
    $ callboard run wf.yaml --wrapper ./agent.sh
    error[E009]: the workflow `wf.yaml` has 1 problem

    error[not-supported-yet]: `human_in_the_loop` (waiting for a person's answer) is not supported yet
     --> wf.yaml:6:5
      |
    6 |     human_in_the_loop: true
      |     ^^^^^^^^^^^^^^^^^
      |
      = hint: remove `human_in_the_loop` if the workflow makes sense without it
    [exit 2]
    ");
}

#[test]
fn a_duplicate_id_and_an_unknown_reference_are_told_together() {
    let text = "name: t\nsteps:\n  - {id: a, agent: p, prompt: task.md}\n  - {id: a, agent: p, prompt: task.md, needs: [b]}\n";
    assert_snapshot!(refused(text), @"
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
fn an_unsafe_id() {
    assert_snapshot!(refused("name: t\nsteps:\n  - {id: ../a, agent: p, prompt: task.md}\n"), @"
    $ callboard run wf.yaml --wrapper ./agent.sh
    error[E009]: the workflow `wf.yaml` has 1 problem

    error[unsafe-id]: `../a` cannot be an id: it contains `/`; use letters, digits, `.`, `_` and `-`
     --> wf.yaml:3:10
      |
    3 |   - {id: ../a, agent: p, prompt: task.md}
      |          ^^^^
      |
      = hint: the id names files and variables; choose something like `code_review-2`
    [exit 2]
    ");
}

#[test]
fn a_cycle() {
    let step = "agent: p, prompt: task.md";
    let text =
        format!("name: t\nsteps:\n  - {{id: a, {step}, needs: [b]}}\n  - {{id: b, {step}, needs: [a]}}\n");
    assert_snapshot!(refused(&text), @r#"
    $ callboard run wf.yaml --wrapper ./agent.sh
    error[E009]: the workflow `wf.yaml` has 1 problem

    error[cycle]: these steps wait for each other and none could ever start: a → b → a
     --> wf.yaml:3:48
      |
    3 |   - {id: a, agent: p, prompt: task.md, needs: [b]}
      |                                                ^
      |
      = hint: read `→` as "needs"; remove one of these needs
    [exit 2]
    "#);
}

#[test]
fn a_missing_prompt_is_told_with_the_places_searched() {
    assert_snapshot!(refused("name: t\nsteps:\n  - {id: a, agent: p, prompt: nowhere.md}\n"), @"
    $ callboard run wf.yaml --wrapper ./agent.sh
    error[E009]: the workflow `wf.yaml` has 1 problem

    error[missing-prompt]: the prompt `nowhere.md` of step `a` does not exist
     --> wf.yaml:3:31
      |
    3 |   - {id: a, agent: p, prompt: nowhere.md}
      |                               ^^^^^^^^^^
      |
      = hint: write it; looked for `[REPO]/.agents/prompts/nowhere.md`, then `nowhere.md`, then `[REPO]/nowhere.md`
    [exit 2]
    ");
}

#[test]
fn a_missing_workflow() {
    let scene = scene();
    assert_snapshot!(scene.callboard(&["run", "nowhere.yaml", "--wrapper", "x"]).run().transcript(), @"
    $ callboard run nowhere.yaml --wrapper x
    error: cannot read the workflow `nowhere.yaml`
      caused by: No such file or directory (os error 2)

    hint: give the path of a workflow file; a relative one counts from the current directory
    [exit 2]
    ");
}

#[test]
fn a_disagreement_of_next_on_success_is_only_a_warning() {
    let scene = scene();
    let step = "agent: profile, prompt: task.md";
    scene.write(
        "wf.yaml",
        &format!("name: t\nsteps:\n  - {{id: a, {step}, next_on_success: [b]}}\n  - {{id: b, {step}}}\n"),
    );
    let session = scene.run(&["--jobs", "1"]).run();
    assert_snapshot!(session.transcript(), @"
    $ callboard run wf.yaml --run-id trial --wrapper [KIT]/agent.sh --jobs 1
    warning[successor-does-not-need]: `b` is named as next after `a`, but does not need it
     --> wf.yaml:3:63
      |
    3 |   - {id: a, agent: profile, prompt: task.md, next_on_success: [b]}
      |                                                               ^
      |
      = hint: only `needs` makes a step wait: add `a` to the `needs` of `b`
    run trial in [REPO]
    ▸ a#1.1 started
    ✓ a#1.1 done [TIME]
    ▸ b#1.1 started
    ✓ b#1.1 done [TIME]

    succeeded run `trial`: 2 of 2 steps done, [TIME]
    [exit 0]
    ");
}

#[test]
fn an_agent_that_nobody_plays() {
    let scene = scene();
    scene.workflow(&["a"]);
    assert_snapshot!(scene.callboard(&["run", "wf.yaml"]).run().transcript(), @r#"
    $ callboard run wf.yaml
    error[E007]: nobody plays agent `profile`, which `a` asks for

    hint: give `--wrapper PROGRAM` or `--command-template COMMAND`, or add to callboard.toml:

        [adapters.profile]
        command = ["your-agent", "{prompt}"]
        report = "required"    # without this line its exit code is its report
    [exit 2]
    "#);
}

#[test]
fn a_template_with_an_unknown_placeholder() {
    let scene = scene();
    scene.workflow(&["a"]);
    let session = scene.callboard(&["run", "wf.yaml", "--command-template", "agent {promt}"]).run();
    assert_snapshot!(session.transcript(), @"
    $ callboard run wf.yaml --command-template 'agent {promt}'
    error: cannot use the command template `agent {promt}`
      caused by: `{promt}` in `{promt}` is not a placeholder; known are `{run_id}`, `{step_id}`, `{agent}`, `{prompt}`, `{repo}`, `{report}`, `{attempt}`, `{manual_input}`
    [exit 2]
    ");
}

#[test]
fn a_name_that_is_taken_is_refused() {
    let scene = scene();
    scene.workflow(&["a"]);
    assert_eq!(scene.run(&[]).run().code, 0);
    let session = scene.callboard(&["run", "wf.yaml", "--run-id", "trial", "--wrapper", "true"]).run();
    assert_snapshot!(session.transcript(), @"
    $ callboard run wf.yaml --run-id trial --wrapper true
    error: a run named `trial` exists already

    hint: `callboard resume trial` goes on with it; choose another name with `--run-id` for a new one
    [exit 3]
    ");
}

#[test]
fn flags_of_the_older_tool_are_taken_with_a_note() {
    let scene = scene();
    scene.workflow(&["a"]);
    let obsolete = [
        "--poll-interval",
        "5",
        "--pause-for-human-input",
        "--state-file",
        "x",
        "--logs-dir",
        "y",
        "--skip-cleanup",
    ];
    let session = scene.run(&obsolete).run();
    assert_eq!(session.code, 0);
    let notes: Vec<_> = session.stderr.lines().filter(|line| line.starts_with("note:")).collect();
    assert_snapshot!(notes.join("\n"), @"
    note: `--poll-interval` has no effect: nothing polls
    note: `--pause-for-human-input` has no effect: a step that asks for a person always waits
    note: `--state-file` has no effect: the state is in the store, its view beside the run
    note: `--logs-dir` has no effect: logs lie beside each attempt; `callboard log` names them
    note: `--skip-cleanup` has no effect: nothing is cleaned up
    ");
}
