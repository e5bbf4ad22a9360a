//! `callboard graph`: the steps of a workflow and of a run, and the errors if there is no such workflow, run or revision.
//! The unit tests of the command have the other formats.

use insta::assert_snapshot;

use crate::sessions::test_env;

#[test]
fn a_workflow_and_a_run_of_it_are_listed() {
    let test_env = test_env();
    test_env.workflow_yaml(&[
        "id: plan",
        "id: fix, needs: [plan]",
        "id: test, needs: [fix], loop_back_to: fix",
        "id: docs, needs: [test]",
    ]);
    assert_snapshot!(test_env.callboard(&["graph", "wf.yaml"]).run().transcript(), @"
    $ callboard graph wf.yaml
    trial  4 steps
    - plan  coder
    - fix   coder  needs plan
    - test  coder  needs fix   loops back to fix
    - docs  coder  needs test
    [exit 0]
    ");
    test_env.script_agent(&["test * gate-failure 1", "docs * exit 1"]);
    assert_eq!(test_env.run(&[]).run().code, 1);
    assert_snapshot!(test_env.callboard(&["graph", "trial"]).run().transcript(), @"
    $ callboard graph trial
    trial trial  failed  4 steps  revision 12
    ✓ plan  succeeded [TIME]
    ✓ fix   succeeded [TIME]          needs plan
    ✓ test  succeeded [TIME]          needs fix   loops back to fix, iteration 2 of 4
    ✗ docs  failed [TIME], attempt 2  needs test
    [exit 0]
    ");
    assert_snapshot!(test_env.callboard(&["graph", "trial", "--at", "3"]).run().transcript(), @"
    $ callboard graph trial --at 3
    trial trial  4 steps  revision 3
    ✓ plan  succeeded [TIME]
    ▸ fix   running [TIME]    needs plan
    · test  pending          needs fix   loops back to fix, iteration 1 of 4
    · docs  pending          needs test
    [exit 0]
    ");
    let json = test_env.callboard(&["graph", "tri", "--json"]).run().json();
    assert_eq!(json["status"], "failed", "{json}");
    assert_eq!(json["steps"][2]["iteration"], 2, "{json}");
    assert_eq!(json["steps"][3]["status"], "failed", "{json}");
}

/// Regression: `graph` showed the status `running`.
#[test]
fn a_run_that_waits_for_a_person_has_the_status_that_ls_shows() {
    let test_env = test_env();
    test_env.write("wf.yaml", "steps:\n  - {id: ship, agent: person, prompt: task.md}\n");
    assert_eq!(test_env.run(&["--exit-when-waiting"]).run().code, 4);
    let status = |command: &[&str]| test_env.callboard(command).run().json();
    assert_eq!(status(&["graph", "trial", "--json"])["status"], "waiting");
    assert_eq!(status(&["ls", "--json"])[0]["status"], "waiting");
}

#[test]
fn what_cannot_be_shown_is_an_error() {
    let test_env = test_env();
    test_env.write("wf.yaml", "steps:\n  - {id: a, agent: x, prompt: task.md, needs: [b]}\n");
    assert_snapshot!(test_env.callboard(&["graph", "wf.yaml"]).run().transcript(), @"
    $ callboard graph wf.yaml
    error[E009]: the workflow `wf.yaml` has 1 problem

    error[unknown-step]: `needs` names `b`, but no step has this id
     --> wf.yaml:2:48
      |
    2 |   - {id: a, agent: x, prompt: task.md, needs: [b]}
      |                                                ^
      |
      = hint: name a step of this file, or add one with `id: b`
    [exit 2]
    ");
    assert_snapshot!(test_env.callboard(&["graph", "nothing.yaml"]).run().transcript(), @"
    $ callboard graph nothing.yaml
    error: cannot read the workflow `nothing.yaml`
      caused by: No such file or directory (os error 2)

    hint: name a workflow file or a run; `callboard ls` lists the runs
    [exit 2]
    ");
    assert_snapshot!(test_env.callboard(&["graph", "nobody"]).run().transcript(), @"
    $ callboard graph nobody
    error[E011]: there is no run `nobody` in `[STORE]`

    hint: run `callboard ls` to list the runs of this repository
    [exit 2]
    ");
    test_env.workflow(&["a"]);
    assert_eq!(test_env.run(&[]).run().code, 0);
    assert_snapshot!(test_env.callboard(&["graph", "trial", "--at", "99"]).run().transcript(), @"
    $ callboard graph trial --at 99
    error: run `trial` has no revision 99: it has 1 to 3

    hint: run `callboard log trial` to list its revisions
    [exit 2]
    ");
    assert_snapshot!(test_env.callboard(&["graph", "wf.yaml", "--at", "1"]).run().transcript(), @"
    $ callboard graph wf.yaml --at 1
    error: cannot use `--at` with a workflow file: it has no revisions

    hint: name a run instead; `callboard ls` lists them
    [exit 2]
    ");
}
