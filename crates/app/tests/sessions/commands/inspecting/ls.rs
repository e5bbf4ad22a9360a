//! `ls`: filters and orders.

use insta::assert_snapshot;
use testkit::TestEnv;

use crate::sessions::test_env;

/// Three runs of two workflows: `good` succeeded, `bad` failed, `cut` was stopped by Ctrl-C.
fn three_runs() -> TestEnv {
    let test_env = test_env();
    test_env.write("one.yaml", "name: release-notes\nsteps: [{id: a, agent: coder, prompt: task.md}]\n");
    test_env.write(
        "two.yaml",
        "name: Nightly\nsteps: [{id: a, agent: coder, prompt: task.md}, {id: b, agent: coder, prompt: task.md}]\n",
    );
    let agent = test_env.agent_path();
    let run = |workflow, run| {
        test_env.callboard(&[
            "run",
            workflow,
            "--run-id",
            run,
            "--jobs",
            "1",
            "--wrapper",
            agent.to_str().expect("our paths are UTF-8"),
        ])
    };
    assert_eq!(run("one.yaml", "good").run().code, 0);
    test_env.script_agent(&["b * exit 3"]);
    assert_eq!(run("two.yaml", "bad").run().code, 1);
    test_env.script_agent(&["a * hang"]);
    let cut = run("two.yaml", "cut").start();
    cut.wait_for_stderr("a#1.1 started");
    cut.interrupt();
    assert_eq!(cut.wait().code, 130);
    test_env
}

#[test]
fn runs_are_filtered_and_sorted() {
    let test_env = three_runs();
    assert_snapshot!(test_env.callboard(&["ls"]).run().transcript(), @"
    $ callboard ls
    good  succeeded      1/1    release-notes  [TIME] ago
    bad   failed         1/2    Nightly  [TIME] ago
    cut   stopped        0/2    Nightly  [TIME] ago
    [exit 0]
    ");
    let names = |filters: &[&str]| {
        let listed = test_env.callboard(&[&["ls", "--json"], filters].concat()).run();
        assert_eq!(listed.code, 0, "{}", listed.stderr);
        let listed = listed.json();
        let names = listed.as_array().unwrap().iter().map(|row| row["run"].as_str().unwrap().to_owned());
        names.collect::<Vec<_>>().join(" ")
    };
    assert_eq!(names(&[]), "good bad cut");
    assert_eq!(names(&["--unfinished"]), "cut");
    assert_eq!(names(&["--status", "failed", "--status", "stopped"]), "bad cut");
    assert_eq!(names(&["--workflow", "nightly"]), "bad cut");
    assert_eq!(names(&["--workflow", "nightly", "--status", "succeeded"]), "");
    assert_eq!(names(&["--sort", "name"]), "bad cut good");
    assert_eq!(names(&["--sort", "progress"]), "cut bad good");
    assert_eq!(names(&["--sort", "workflow"]), "bad cut good");
    assert_eq!(names(&["--limit", "2"]), "bad cut");
    assert_eq!(names(&["--limit", "2", "--reverse"]), "cut bad");
    assert_eq!(names(&["--limit", "0"]), "");
    assert_eq!(names(&["--since", "1h"]), "good bad cut");
    assert_eq!(names(&["--since", "3d"]), "good bad cut");
    assert_eq!(names(&["--since", "2000-01-01"]), "good bad cut");
    assert_eq!(names(&["--since", "2999-01-01T00:00:00Z"]), "");
    // A retry makes this run the one that changed last.
    assert_eq!(test_env.callboard(&["retry", "bad", "b"]).run().code, 0);
    assert_eq!(names(&["--sort", "updated"]), "good cut bad");
}

#[test]
fn a_filter_without_matches_says_so_and_an_invalid_one_is_refused() {
    let test_env = three_runs();
    assert_snapshot!(test_env.callboard(&["ls", "--status", "paused"]).run().transcript(), @"
    $ callboard ls --status paused
    note: no matching runs (3 in total)
    [exit 0]
    ");
    let refused = test_env.callboard(&["ls", "--status", "done"]).run();
    assert_eq!(refused.code, 2);
    assert!(refused.stderr.contains("succeeded, incomplete, failed"), "{}", refused.stderr);
    let refused = test_env.callboard(&["ls", "--since", "yesterday"]).run();
    assert_eq!(refused.code, 2);
    assert!(refused.stderr.contains("such as 90m, 12h or 3d"), "{}", refused.stderr);
}
