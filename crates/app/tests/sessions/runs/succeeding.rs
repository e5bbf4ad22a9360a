//! Runs that succeed.

use std::fs;

use insta::assert_snapshot;
use serde_json::json;
use testkit::ViewReader;

use crate::sessions::{scene, status};

#[test]
fn a_run_succeeds_and_its_document_shows_every_step() {
    let scene = scene();
    scene.workflow(&["plan", "build: plan"]);
    let session = scene.run(&[]).run();
    assert_snapshot!(session.transcript(), @"
    $ callboard run wf.yaml --run-id trial --wrapper [KIT]/agent.sh
    run trial in [REPO]
    ▸ plan#1.1 started
    ✓ plan#1.1 finished [TIME]
    ▸ build#1.1 started
    ✓ build#1.1 finished [TIME]

    run `trial` succeeded: 2 of 2 steps done, [TIME]
    [exit 0]
    ");
    let document = scene.document("trial");
    let reports = scene.repo().join(".agents/runs/trial/reports");
    assert_eq!(document["run_id"], "trial");
    assert_eq!(document["workflow_name"], "trial");
    assert_eq!(document["repo_dir"], json!(scene.repo()));
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
    scene.expect_no_orphans();
}

#[test]
fn with_one_job_steps_run_one_after_the_other() {
    let scene = scene();
    scene.workflow(&["a", "b", "c"]);
    assert_eq!(scene.run(&["--jobs", "1"]).run().code, 0);
    let order = scene.agent_log().order();
    assert_eq!(order, ["begin a#1.1", "end a#1.1", "begin b#1.1", "end b#1.1", "begin c#1.1", "end c#1.1"]);
}

#[test]
fn with_two_jobs_two_steps_run_and_the_third_is_queued() {
    let scene = scene();
    scene.workflow(&["a", "b", "c"]);
    scene.plan(&["a * wait gate", "b * wait gate"]);
    let mut gate = scene.gate("gate");
    let running = scene.run(&["--jobs", "2"]).start();
    scene.agent_log().wait_for_start("a#1.1");
    scene.agent_log().wait_for_start("b#1.1");
    let document =
        scene.wait_for_view("trial", "two steps at work", |document| status(document, "b") == "RUNNING");
    assert_eq!(status(&document, "c"), "PENDING");
    gate.open();
    assert_eq!(running.wait().code, 0);
    let order = scene.agent_log().order();
    let place = |line: &str| order.iter().position(|found| found == line).unwrap();
    assert!(place("begin a#1.1") < 2 && place("begin b#1.1") < 2, "{order:?}");
    assert!(place("begin c#1.1") > 2, "it waits for a place: {order:?}");
}

#[test]
fn a_step_waits_for_everything_it_needs() {
    let scene = scene();
    scene.workflow(&["left", "right", "join: left right"]);
    assert_eq!(scene.run(&["--jobs", "2"]).run().code, 0);
    let order = scene.agent_log().order();
    assert_eq!(order[4..], ["begin join#1.1", "end join#1.1"], "{order:?}");
}

#[test]
fn a_repository_path_may_have_spaces_and_quotes() {
    let scene = testkit::Scene::named(env!("CARGO_BIN_EXE_callboard"), "my 'old' repo");
    scene.workflow(&["plan", "build: plan"]);
    scene.plan(&["build * tell"]);
    let session = scene.run(&[]).run();
    assert_eq!(session.code, 0, "{}", session.transcript());
    let told = fs::read_to_string(scene.kit().join("arguments")).unwrap();
    assert!(told.contains(&format!("--repo\n{}\n", scene.repo().display())), "{told}");
    assert_eq!(scene.document("trial")["repo_dir"], json!(scene.repo()));
}

#[test]
fn outside_git_the_store_lies_in_the_directory() {
    let scene = scene();
    scene.workflow(&["a"]);
    let plain = scene.home().join("plain");
    fs::create_dir(&plain).unwrap();
    for file in ["wf.yaml", "task.md"] {
        fs::copy(scene.repo().join(file), plain.join(file)).unwrap();
    }
    let session = scene.run(&[]).current_dir(&plain).run();
    assert_eq!(session.code, 0, "{}", session.transcript());
    let kept = if testkit::on_nats() { "nats" } else { "callboard.db" };
    assert!(plain.join(".callboard").join(kept).exists());
    assert!(plain.join(".agents/runs/trial/run_state.json").is_file());
}

#[test]
fn git_does_not_see_the_views() {
    let scene = scene();
    scene.workflow(&["a"]);
    scene.git(&["add", "."]);
    scene.git(&["commit", "--quiet", "--message=workflow"]);
    for run in ["one", "two"] {
        assert_eq!(scene.run_named(run).run().code, 0);
    }
    assert_eq!(scene.git(&["status", "--porcelain"]), "");
    let excluded = fs::read_to_string(scene.repo().join(".git/info/exclude")).unwrap();
    assert_eq!(excluded.matches("/.agents/runs/").count(), 1, "{excluded}");
}

#[test]
fn fifty_steps_in_sequence() {
    let scene = scene();
    let steps: Vec<_> =
        (0..50).map(|i| if i == 0 { "s0".to_owned() } else { format!("s{i}: s{}", i - 1) }).collect();
    scene.workflow(&steps.iter().map(String::as_str).collect::<Vec<_>>());
    let reader = ViewReader::start(&scene.view("trial"));
    let session = scene.run(&[]).run();
    assert_eq!(session.code, 0, "{}", session.transcript());
    assert!(session.stdout.starts_with("run `trial` succeeded: 50 of 50 steps done"), "{}", session.stdout);
    let begun: Vec<_> = (0..50).map(|i| format!("s{i}#1.1")).collect();
    assert_eq!(scene.agent_log().started(), begun);
    reader.expect_whole_views();
}

#[test]
fn fifty_steps_at_once() {
    let scene = scene();
    let steps: Vec<_> = (0..50).map(|i| format!("s{i}")).collect();
    scene.workflow(&steps.iter().map(String::as_str).collect::<Vec<_>>());
    scene.plan(&["* * wait gate"]);
    let mut gate = scene.gate("gate");
    let running = scene.run(&["--jobs", "50"]).start();
    for step in &steps {
        scene.agent_log().wait_for_start(&format!("{step}#1.1"));
    }
    gate.open();
    let session = running.wait();
    assert_eq!(session.code, 0, "{}", session.transcript());
    assert_eq!(scene.agent_log().order().len(), 100);
    scene.expect_no_orphans();
}

#[test]
fn repository_and_workflow_can_be_named_from_another_directory() {
    let scene = scene();
    scene.workflow(&["a"]);
    let repo = scene.repo().to_str().unwrap();
    let workflow = scene.repo().join("wf.yaml");
    let run = ["run", "--repo", repo, "--workflow", workflow.to_str().unwrap(), "--run-id", "trial"];
    let session = scene.with_agent(&run).current_dir("/").run();
    assert_eq!(session.code, 0, "{}", session.transcript());
    assert_eq!(status(&scene.document("trial"), "a"), "COMPLETED");
    assert_eq!(scene.callboard(&["show", "trial", "--repo", repo]).current_dir("/").run().code, 0);
}
