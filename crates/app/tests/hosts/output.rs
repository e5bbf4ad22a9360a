//! Commands say on which host an attempt is.

use std::fs;
use std::path::PathBuf;

use serde_json::Value;

use crate::hosts::fixture::Fixture;

#[test]
fn show_ls_and_doctor_say_where_an_attempt_is() {
    // The killed engine was on `a`, where the agent of `first#1.1` keeps running.
    let (fixture, agent, mut barrier) = Fixture::with_killed_engine();
    // 4: the rest of the run is on another host.
    assert_eq!(fixture.on("b", &["resume", "trial"]).run().code, 4);
    let first = |host| fixture.show_json_on(host)["steps"]["first"].clone();
    assert_eq!((first("b")["status"].as_str(), first("b")["host"].as_str()), (Some("running"), Some("a")));
    assert_eq!(first("a")["host"], Value::Null, "the attempt is on this host");
    let advice = "`first#1.1` is on `a`: run `callboard resume trial` there; if that host does not come back, \
                  run `callboard resume trial --abandon-host a` here";
    let shown = fixture.on("b", &["show", "trial"]).run();
    assert!(shown.stdout.contains(&format!("no engine: {advice}")), "{}", shown.stdout);
    assert!(fixture.on("b", &["ls"]).run().stdout.contains(" ago, on a"));
    let listed = fixture.on("b", &["ls", "--json"]).run().json();
    assert_eq!(listed[0]["hosts"], serde_json::json!(["a"]));
    let doctor = fixture.on("b", &["doctor"]).run();
    assert!(doctor.stdout.contains(advice), "{}", doctor.transcript());
    barrier.open();
    assert_eq!(fixture.on("a", &["resume", "trial"]).run().code, 0);
    agent.wait();
}

#[test]
fn events_say_where_an_attempt_is() {
    let (fixture, agent, mut barrier) = Fixture::with_killed_engine();
    assert_eq!(fixture.on("b", &["resume", "trial"]).run().code, 4);
    let events = fixture.on("b", &["resume", "trial", "--json"]).run().json_lines();
    let event = |name| events.iter().find(|event| event["event"] == name).unwrap();
    assert_eq!((&event("remote")["attempt"], &event("remote")["host"]), (&"first#1.1".into(), &"a".into()));
    assert_eq!(event("result")["outcome"], "remote");
    assert_eq!(event("result")["remote"], serde_json::json!({ "a": ["first#1.1"] }));
    barrier.open();
    assert_eq!(fixture.on("a", &["resume", "trial"]).run().code, 0);
    agent.wait();
}

/// Makes a run that host `a` finished, and removes the files of its first step. Returns their directory.
fn finished_on_another_host() -> (Fixture, PathBuf) {
    let fixture = Fixture::new();
    fixture.test_env.workflow(&["first", "second: first"]);
    assert_eq!(fixture.run_on("a", &[]).run().code, 0);
    // The hosts of a test share a disk; a real host `b` would not have these files.
    let directory = fixture.test_env.attempt_dir("trial", "first", "1.1");
    fs::remove_dir_all(&directory).unwrap();
    (fixture, directory)
}

#[test]
fn a_prompt_on_another_host_is_not_reported_as_missing() {
    let (fixture, directory) = finished_on_another_host();
    let on_another_host = "error: the files of attempt `first#1.1` are on `a`\n\n\
                 hint: run `callboard prompt trial first --attempt 1.1` there\n";
    let missing = format!("error: cannot read `{}/prompt.md`", directory.display());
    for (host, expected) in [("b", on_another_host), ("a", missing.as_str())] {
        let session = fixture.on(host, &["prompt", "trial", "first"]).run();
        assert_eq!(session.code, 5, "{}", session.transcript());
        assert!(session.stderr.starts_with(expected), "{}", session.stderr);
    }
}

#[test]
fn log_says_on_which_host_the_files_of_an_attempt_are() {
    let (fixture, directory) = finished_on_another_host();
    let path = directory.to_str().unwrap();
    for (host, is_remote) in [("b", true), ("a", false)] {
        for arguments in [&["log", "trial"][..], &["log", "trial", "--full"]] {
            let log = fixture.on(host, arguments).run();
            assert_eq!(log.code, 0, "{}", log.transcript());
            assert_eq!(log.stdout.contains("its files are on `a`"), is_remote, "{}", log.stdout);
            assert_eq!(log.stdout.contains(path), !is_remote, "{}", log.stdout);
            // The files of the second step are here, whichever engine started it.
            assert!(log.stdout.contains(&path.replace("first", "second")), "{}", log.stdout);
        }
    }
    let full = fixture.on("b", &["log", "trial", "--full"]).run();
    for expected in
        ["prompt of first#1.1: on `a`\n", "report of first#1.1, from the journal; its files are on `a`:\n"]
    {
        assert!(full.stdout.contains(expected), "{expected}: {}", full.stdout);
    }
    let full = fixture.on("b", &["log", "trial", "--full", "--json"]).run();
    let attempts: Vec<_> = full.json_lines().iter().map(|line| line["attempt"].clone()).collect();
    let attempt_named = |attempt| attempts.iter().find(|found| found["id"] == attempt).unwrap();
    let (first, second) = (attempt_named("first#1.1"), attempt_named("second#1.1"));
    assert_eq!((&first["host"], &first["prompt"]), (&"a".into(), &Value::Null), "{first:#}");
    assert!(
        first.get("directory").is_none() && first["report"]["accepted"]["report"].is_object(),
        "{first:#}"
    );
    assert!(second.get("host").is_none() && second["directory"].is_string(), "{second:#}");
}

#[test]
fn log_names_the_host_that_has_a_running_attempts_output() {
    let (fixture, agent, mut barrier) = Fixture::with_killed_engine();
    let directory = fixture.test_env.attempt_dir("trial", "first", "1.1");
    // A real host `b` would not have these files.
    let moved = directory.with_file_name("apart");
    fs::rename(&directory, &moved).unwrap();
    let full = fixture.on("b", &["log", "trial", "--full"]).run();
    assert!(full.stdout.contains("first#1.1 is still running"), "{}", full.stdout);
    assert!(full.stdout.contains("report of first#1.1: on `a`\n"), "{}", full.stdout);
    let full = fixture.on("b", &["log", "trial", "--full", "--json"]).run();
    assert_eq!(full.json_lines().last().unwrap()["attempt"]["report"], "remote", "{}", full.stdout);
    fs::rename(&moved, &directory).unwrap();
    barrier.open();
    assert_eq!(fixture.on("a", &["resume", "trial"]).run().code, 0);
    agent.wait();
}

#[test]
fn export_names_the_attempts_whose_files_are_left_out_and_their_host() {
    let (fixture, _) = finished_on_another_host();
    let (to_b, to_a) = (["-o", "b.tar"], ["-o", "a.tar"]);
    let export =
        |host, output: [&str; 2]| fixture.on(host, &[&["export", "trial"], &output[..]].concat()).run();
    let session = export("b", to_b);
    assert_eq!(session.code, 0, "{}", session.transcript());
    let note = "note: prompts, reports and logs of `first#1.1` are on `a` and not in the archive; \
                run `callboard export trial` there\n";
    assert!(session.stderr.ends_with(note), "{}", session.stderr);
    assert!(!export("a", to_a).stderr.contains("note:"));
    // The archive records which files are left out.
    let other = fixture.on("b", &["import", "b.tar", "--as", "other", "--json"]).run();
    assert_eq!(other.code, 0, "{}", other.transcript());
    assert_eq!(other.json()["remote"], serde_json::json!({ "a": ["first#1.1"] }));
}
