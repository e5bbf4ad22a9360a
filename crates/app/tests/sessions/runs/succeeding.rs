//! Runs that succeed.

use std::fs;

use insta::assert_snapshot;
use serde_json::json;
use testkit::ViewReader;

use crate::sessions::{status, test_env};

#[test]
fn a_run_succeeds_and_its_document_shows_every_step() {
    let test_env = test_env();
    test_env.workflow(&["plan", "build: plan"]);
    let session = test_env.run(&[]).run();
    assert_snapshot!(session.transcript(), @"
    $ callboard run wf.yaml --run-id trial --wrapper [SHARED]/agent.sh
    run trial in [REPO]
    ▸ plan#1.1 started
    ✓ plan#1.1 finished [TIME]
    ▸ build#1.1 started
    ✓ build#1.1 finished [TIME]

    run `trial` succeeded: 2 of 2 steps done, [TIME]
    [exit 0]
    ");
    let document = test_env.document("trial");
    let reports = test_env.repo().join(".agents/runs/trial/reports");
    assert_eq!(document["run_id"], "trial");
    assert_eq!(document["workflow_name"], "trial");
    assert_eq!(document["repo_dir"], json!(test_env.repo()));
    assert_eq!(document["reports_dir"], json!(reports));
    let step = &document["steps"]["build"];
    assert_eq!(step["status"], "COMPLETED");
    assert_eq!(step["attempts"], 1);
    assert_eq!(step["last_error"], json!(null));
    assert_eq!(step["artifacts"], json!(["made/build.txt"]));
    assert_eq!(step["metrics"], json!({ "lines": "3" }));
    assert_eq!(step["logs"], json!(["did build"]));
    assert_eq!(step["report_path"], json!(reports.join("trial__build.json")));
    let report: serde_json::Value =
        serde_json::from_slice(&fs::read(reports.join("trial__build.json")).unwrap()).unwrap();
    assert_eq!((&report["step_id"], &report["status"]), (&json!("build"), &json!("COMPLETED")));
    test_env.expect_no_orphans();
}

#[test]
fn with_one_job_steps_run_one_after_the_other() {
    let test_env = test_env();
    test_env.workflow(&["a", "b", "c"]);
    assert_eq!(test_env.run(&["--jobs", "1"]).run().code, 0);
    let order = test_env.agent_log().starts_and_ends();
    assert_eq!(order, ["begin a#1.1", "end a#1.1", "begin b#1.1", "end b#1.1", "begin c#1.1", "end c#1.1"]);
}

#[test]
fn with_two_jobs_two_steps_run_and_the_third_is_queued() {
    let test_env = test_env();
    test_env.workflow(&["a", "b", "c"]);
    test_env.script_agent(&["a * wait barrier", "b * wait barrier"]);
    let mut barrier = test_env.barrier("barrier");
    let running = test_env.run(&["--jobs", "2"]).start();
    test_env.agent_log().wait_for_start("a#1.1");
    test_env.agent_log().wait_for_start("b#1.1");
    let document =
        test_env.wait_for_view("trial", "two steps at work", |document| status(document, "b") == "RUNNING");
    assert_eq!(status(&document, "c"), "PENDING");
    barrier.open();
    assert_eq!(running.wait().code, 0);
    let order = test_env.agent_log().starts_and_ends();
    let index_of = |line: &str| order.iter().position(|found| found == line).unwrap();
    assert!(index_of("begin a#1.1") < 2 && index_of("begin b#1.1") < 2, "{order:?}");
    assert!(index_of("begin c#1.1") > 2, "it waits for a free slot: {order:?}");
}

#[test]
fn a_step_waits_for_everything_it_needs() {
    let test_env = test_env();
    test_env.workflow(&["left", "right", "join: left right"]);
    assert_eq!(test_env.run(&["--jobs", "2"]).run().code, 0);
    let order = test_env.agent_log().starts_and_ends();
    assert_eq!(order[4..], ["begin join#1.1", "end join#1.1"], "{order:?}");
}

#[test]
fn a_repository_path_may_have_spaces_and_quotes() {
    let test_env = testkit::TestEnv::named(env!("CARGO_BIN_EXE_callboard"), "my 'old' repo");
    test_env.workflow(&["plan", "build: plan"]);
    test_env.script_agent(&["build * save-input"]);
    let session = test_env.run(&[]).run();
    assert_eq!(session.code, 0, "{}", session.transcript());
    let arguments = fs::read_to_string(test_env.agent_dir().join("arguments")).unwrap();
    assert!(arguments.contains(&format!("--repo\n{}\n", test_env.repo().display())), "{arguments}");
    assert_eq!(test_env.document("trial")["repo_dir"], json!(test_env.repo()));
}

#[test]
fn outside_git_the_store_lies_in_the_directory() {
    let test_env = test_env();
    test_env.workflow(&["a"]);
    let plain = test_env.home().join("plain");
    fs::create_dir(&plain).unwrap();
    for file in ["wf.yaml", "task.md"] {
        fs::copy(test_env.repo().join(file), plain.join(file)).unwrap();
    }
    let session = test_env.run(&[]).current_dir(&plain).run();
    assert_eq!(session.code, 0, "{}", session.transcript());
    let store_file = if testkit::on_nats() { "nats" } else { "callboard.db" };
    assert!(plain.join(".callboard").join(store_file).exists());
    assert!(plain.join(".agents/runs/trial/run_state.json").is_file());
}

#[test]
fn git_does_not_see_the_views() {
    let test_env = test_env();
    test_env.workflow(&["a"]);
    test_env.git(&["add", "."]);
    test_env.git(&["commit", "--quiet", "--message=workflow"]);
    for run in ["one", "two"] {
        assert_eq!(test_env.run_named(run).run().code, 0);
    }
    assert_eq!(test_env.git(&["status", "--porcelain"]), "");
    let excluded = fs::read_to_string(test_env.repo().join(".git/info/exclude")).unwrap();
    assert_eq!(excluded.matches("/.agents/runs/").count(), 1, "{excluded}");
}

#[test]
fn fifty_steps_in_sequence() {
    let test_env = test_env();
    let steps: Vec<_> =
        (0..50).map(|i| if i == 0 { "s0".to_owned() } else { format!("s{i}: s{}", i - 1) }).collect();
    test_env.workflow(&steps.iter().map(String::as_str).collect::<Vec<_>>());
    let reader = ViewReader::start(&test_env.view_path("trial"));
    let session = test_env.run(&[]).run();
    assert_eq!(session.code, 0, "{}", session.transcript());
    assert!(session.stdout.starts_with("run `trial` succeeded: 50 of 50 steps done"), "{}", session.stdout);
    let expected: Vec<_> = (0..50).map(|i| format!("s{i}#1.1")).collect();
    assert_eq!(test_env.agent_log().started(), expected);
    reader.expect_whole_views();
}

#[test]
fn fifty_steps_at_once() {
    let test_env = test_env();
    let steps: Vec<_> = (0..50).map(|i| format!("s{i}")).collect();
    test_env.workflow(&steps.iter().map(String::as_str).collect::<Vec<_>>());
    test_env.script_agent(&["* * wait barrier"]);
    let mut barrier = test_env.barrier("barrier");
    let running = test_env.run(&["--jobs", "50"]).start();
    for step in &steps {
        test_env.agent_log().wait_for_start(&format!("{step}#1.1"));
    }
    barrier.open();
    let session = running.wait();
    assert_eq!(session.code, 0, "{}", session.transcript());
    assert_eq!(test_env.agent_log().starts_and_ends().len(), 100);
    test_env.expect_no_orphans();
}

#[test]
fn repository_and_workflow_can_be_named_from_another_directory() {
    let test_env = test_env();
    test_env.workflow(&["a"]);
    let repo = test_env.repo().to_str().unwrap();
    let workflow = test_env.repo().join("wf.yaml");
    let run = ["run", "--repo", repo, "--workflow", workflow.to_str().unwrap(), "--run-id", "trial"];
    let session = test_env.with_agent(&run).current_dir("/").run();
    assert_eq!(session.code, 0, "{}", session.transcript());
    assert_eq!(status(&test_env.document("trial"), "a"), "COMPLETED");
    assert_eq!(test_env.callboard(&["show", "trial", "--repo", repo]).current_dir("/").run().code, 0);
}
