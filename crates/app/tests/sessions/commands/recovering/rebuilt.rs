//! Runs of which only the views are left. Tests `embedded_*` do not run on NATS.

use std::fs;

use super::recover_from_view;
use crate::sessions::test_env;

#[test]
fn embedded_a_run_whose_store_is_gone_is_rebuilt_from_its_view() {
    let test_env = test_env();
    test_env.workflow(&["a", "b: a", "c: b"]);
    test_env.script_agent(&["b * hang"]);
    let running = test_env.run(&[]).start();
    test_env.agent_log().wait_for_start("b#1.1");
    running.interrupt();
    assert_eq!(running.wait().code, 130);
    let before = test_env.document("trial");
    fs::remove_dir_all(test_env.store_dir()).unwrap();
    test_env.script_agent(&[]);
    let view = test_env.view_path("trial");
    let rebuilt = recover_from_view(&test_env, &view).run();
    assert_eq!(rebuilt.code, 0, "{}", rebuilt.transcript());
    let after = test_env.document("trial");
    assert_eq!(after["steps"], before["steps"]);
    assert_eq!(after["created_at"], before["created_at"]);
    let log = test_env.callboard(&["log", "trial"]).run();
    assert!(log.stdout.contains("rebuilt from its view"), "{}", log.stdout);
    let shown = test_env.callboard(&["show", "trial"]).run();
    assert!(shown.stdout.contains("rebuilt from its view"), "{}", shown.stdout);
    assert_eq!(recover_from_view(&test_env, &view).run().code, 3, "it exists now");

    let resumed = test_env.callboard(&["resume", "trial"]).run();
    assert_eq!(resumed.code, 0, "{}", resumed.transcript());
    // The first step did not run again, and no attempt id is reused.
    assert_eq!(test_env.agent_log().started(), ["a#1.1", "b#1.1", "b#2.1", "c#1.1"]);
    assert!(test_env.callboard(&["recover"]).run().stdout.contains("is intact"));
}

#[test]
fn embedded_a_rebuilt_run_continues_the_branch_of_its_finished_steps() {
    let test_env = test_env();
    test_env.git(&["commit", "--quiet", "--allow-empty", "--message=begin"]);
    test_env.workflow_yaml(&["id: a, worktree: true", "id: b, worktree: true, needs: [a]"]);
    test_env.script_agent(&["a * do echo work >a.txt; write_report COMPLETED \"wrote it\"", "b 1 hang"]);
    let running = test_env.run(&[]).start();
    test_env.agent_log().wait_for_start("b#1.1");
    running.interrupt();
    assert_eq!(running.wait().code, 130);
    fs::remove_dir_all(test_env.store_dir()).unwrap();
    test_env.script_agent(&["b * do cp a.txt b.txt; write_report COMPLETED \"copied it\""]);
    let rebuilt = recover_from_view(&test_env, &test_env.view_path("trial")).run();
    assert_eq!(rebuilt.code, 0, "{}", rebuilt.transcript());
    let resumed = test_env.callboard(&["resume", "trial"]).run();
    assert_eq!(resumed.code, 0, "{}", resumed.transcript());
    assert_eq!(test_env.git(&["show", "main:b.txt"]), "work\n");
}

#[test]
fn embedded_an_invalid_view_or_one_of_another_workflow_is_refused() {
    let test_env = test_env();
    test_env.workflow(&["a"]);
    assert_eq!(test_env.run(&[]).run().code, 0);
    let good = fs::read_to_string(test_env.view_path("trial")).unwrap();
    fs::remove_file(test_env.store_dir().join("callboard.db")).unwrap();
    let copy = test_env.agent_dir().join("view.json");
    let refused = |text: &str, steps: &[&str]| {
        fs::write(&copy, text).unwrap();
        test_env.workflow(steps);
        let arguments =
            ["recover", "--dry-run", "--from-view", copy.to_str().unwrap(), "--workflow", "wf.yaml"];
        let session = test_env.with_agent(&arguments).run();
        assert_eq!(session.code, 2, "{}", session.transcript());
        session.stderr
    };
    let broken = refused(&good.replace("COMPLETED", "DONE"), &["a"]);
    assert!(broken.contains("status") && broken.contains("callboard check"), "{broken}");
    assert!(refused(&good, &["a", "b"]).contains("it has no step `b`"));
    assert!(refused(&good, &["z"]).contains("it has no step `z`"));
    // A run that succeeded in the view has succeeded in the store.
    test_env.workflow(&["a"]);
    let session = recover_from_view(&test_env, &test_env.view_path("trial")).run();
    assert_eq!(session.code, 0, "{}", session.transcript());
    assert!(session.stdout.contains("succeeded"), "{}", session.stdout);
}

#[test]
fn a_view_with_an_absurd_count_is_refused() {
    let test_env = test_env();
    test_env.workflow(&["a"]);
    assert_eq!(test_env.run(&[]).run().code, 0);
    let mut document = test_env.document("trial");
    document["run_id"] = "absurd".into();
    document["steps"]["a"]["iteration_count"] = u32::MAX.into();
    let view = test_env.write("absurd.json", &document.to_string());
    // If the count were believed, the memory limit would end the process early.
    let refused = recover_from_view(&test_env, &view).in_shell("ulimit -v 4000000; exec \"$@\"").run();
    assert_eq!(refused.code, 2, "{}", refused.transcript());
    assert!(refused.stderr.contains("implausible `iteration_count` of 4294967295"), "{}", refused.stderr);
}

/// The view has the number of iterations, and does not say which gate looped back. The rebuilt journal must not guess.
#[test]
fn embedded_a_rebuilt_journal_names_only_known_gates() {
    let test_env = test_env();
    test_env.workflow_yaml(&["id: code", "id: review, needs: [code], loop_back_to: code"]);
    test_env.script_agent(&["review * gate-failure 1"]);
    assert_eq!(test_env.run(&[]).run().code, 0);
    assert_eq!(test_env.document("trial")["steps"]["code"]["iteration_count"], 1);
    fs::remove_dir_all(test_env.store_dir()).unwrap();
    let rebuilt = recover_from_view(&test_env, &test_env.view_path("trial")).run();
    assert_eq!(rebuilt.code, 0, "{}", rebuilt.transcript());
    let log = test_env.callboard(&["log", "trial"]).run().stdout;
    assert!(log.contains("rebuilt from its view") && !log.contains("because of"), "{log}");
    assert_eq!(test_env.document("trial")["steps"]["code"]["iteration_count"], 1);
}
