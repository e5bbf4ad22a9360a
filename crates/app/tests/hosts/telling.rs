//! Whoever looks is told on which host an attempt is.

use std::fs;

use crate::stage::Stage;

#[test]
fn show_ls_and_doctor_say_where_an_attempt_is() {
    let (stage, agent, mut gate) = Stage::deserted();
    assert_eq!(stage.on("b", &["resume", "trial"]).run().code, 4);
    let first = |host| stage.shown_on(host)["seats"]["first"].clone();
    assert_eq!((first("b")["is"].as_str(), first("b")["host"].as_str()), (Some("at_work"), Some("a")));
    assert_eq!(first("a")["host"], serde_json::Value::Null, "there it is at home");
    let advice = "`first#1.1` is on `a`: `callboard resume trial` there goes on; if that host does not come back, \
                  `callboard resume trial --abandon-host a` here";
    let shown = stage.on("b", &["show", "trial"]).run();
    assert!(shown.stdout.contains(&format!("no engine: {advice}")), "{}", shown.stdout);
    assert!(stage.on("b", &["ls"]).run().stdout.contains(" ago, on a"));
    let listed = stage.on("b", &["ls", "--json"]).run().json();
    assert_eq!(listed[0]["hosts"], serde_json::json!(["a"]));
    let doctor = stage.on("b", &["doctor"]).run();
    assert!(doctor.stdout.contains(advice), "{}", doctor.transcript());
    gate.open();
    assert_eq!(stage.on("a", &["resume", "trial"]).run().code, 0);
    agent.wait();
}

#[test]
fn events_and_the_last_one_say_where_an_attempt_is() {
    let (stage, agent, mut gate) = Stage::deserted();
    assert_eq!(stage.on("b", &["resume", "trial"]).run().code, 4);
    let events = stage.on("b", &["resume", "trial", "--json"]).run().events();
    let told = |name| events.iter().find(|event| event["event"] == name).unwrap();
    assert_eq!(
        (&told("elsewhere")["attempt"], &told("elsewhere")["host"]),
        (&"first#1.1".into(), &"a".into())
    );
    assert_eq!(told("rest")["outcome"], "elsewhere");
    assert_eq!(told("rest")["elsewhere"], serde_json::json!({ "a": ["first#1.1"] }));
    gate.open();
    assert_eq!(stage.on("a", &["resume", "trial"]).run().code, 0);
    agent.wait();
}

#[test]
fn a_prompt_that_lies_on_another_host_is_not_gone() {
    let stage = Stage::new();
    stage.scene.workflow(&["first"]);
    assert_eq!(stage.run_on("a", &[]).run().code, 0);
    // The other host has a disk of its own.
    fs::remove_dir_all(stage.scene.attempt("trial", "first", "1.1")).unwrap();
    for (host, why) in [("b", "its directory is on `a`"), ("a", "its directory is gone")] {
        let session = stage.on(host, &["prompt", "trial", "first"]).run();
        assert_eq!(session.code, 5, "{}", session.transcript());
        assert!(session.stderr.contains(why), "{}", session.stderr);
    }
}
