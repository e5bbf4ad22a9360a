//! `state history` and `state watch`: the writes of a document, afterwards and live.

use insta::assert_snapshot;
use serde_json::json;

use super::{CYCLE, WAIT_AT_BARRIER, get, history, open_cycle, patch, resume_cycle, sequence, start_planner};

#[test]
fn the_history_has_one_line_per_write() {
    // The planner runs this command.
    let test_env =
        open_cycle("callboard state patch --expect 2 --set /phases/plan/output/draft=1 > /dev/null");
    assert_eq!(resume_cycle(&test_env).wait().code, 0);
    assert_eq!(patch(&test_env, sequence(&test_env), &["--set", "/ticket=7"]).code, 0);
    assert_snapshot!(test_env.callboard(&["state", "history", CYCLE]).run().transcript(), @"
    $ callboard state history peer:spec:feature-name:cycle:1
       1 [WHEN]  initialized  tester  the whole document  revision 1
       2 [WHEN]  plan started  engine  /metadata/status, /phases/plan/status, /phases/plan/started_at and 3 more  revision 4
       3 [WHEN]  plan progress  plan#1.1  /phases/plan/output/draft  revision 5
       4 [WHEN]  plan completed  engine  /phases/plan/status, /phases/plan/output/draft, /phases/plan/output/phases and 3 more  revision 6
       5 [WHEN]  execute started  engine  /metadata/current_phase, /phases/execute/status, /phases/execute/started_at and 3 more  revision 8
       6 [WHEN]  execute completed  engine  /phases/execute/status, /phases/execute/output/execution_status, /phases/execute/completed_at and 1 more  revision 9
       7 [WHEN]  express started  engine  /metadata/current_phase, /phases/express/status, /phases/express/started_at and 3 more  revision 11
       8 [WHEN]  express completed  engine  /phases/express/status, /phases/express/output/summary, /phases/express/completed_at and 1 more  revision 12
       9 [WHEN]  review started  engine  /metadata/current_phase, /phases/review/status, /phases/review/started_at and 3 more  revision 14
      10 [WHEN]  review completed  engine  /phases/review/status, /phases/review/output/quality_score, /phases/review/completed_at and 1 more  revision 15
      11 [WHEN]  completed  engine  /metadata/status  revision 16
      12 [WHEN]  progress  tester  /ticket  revision 17
    [exit 0]
    ");
    let writes = history(&test_env);
    let numbers: Vec<_> = writes.iter().map(|write| write["sequence"].as_u64().unwrap()).collect();
    assert_eq!(numbers, (1..=sequence(&test_env)).collect::<Vec<_>>(), "every number once");
    let last = test_env.callboard(&["state", "history", CYCLE, "--last", "1", "--json"]).run().json();
    assert_eq!(last, writes[writes.len() - 1]);
}

#[test]
fn a_watch_prints_every_write_and_ends_when_its_condition_holds() {
    let test_env = open_cycle(WAIT_AT_BARRIER);
    let (engine, mut barrier) = start_planner(&test_env);
    let watch =
        test_env.callboard(&["state", "watch", CYCLE, "--until", "/phases/plan/status=completed"]).start();
    watch.wait_for_stdout("\"document\"");
    let first = sequence(&test_env);
    for number in 0..3 {
        let set = format!("/phases/plan/output/draft={number}");
        assert_eq!(patch(&test_env, sequence(&test_env), &["--set", &set]).code, 0);
    }
    barrier.open();
    let watched = watch.wait();
    assert_eq!(watched.code, 0, "{}", watched.stderr);
    let lines = watched.json_lines();
    let numbers: Vec<_> = lines.iter().map(|line| line["sequence"].as_u64().unwrap()).collect();
    assert_eq!(
        numbers,
        (first..=first + 4).collect::<Vec<_>>(),
        "the state at the start, three patches, the completion"
    );
    assert_eq!(lines[2]["document"]["phases"]["plan"]["output"], json!({ "draft": 1 }));
    assert_eq!(
        (&lines[2]["by"], &lines[2]["changed"]),
        (&json!("tester"), &json!(["/phases/plan/output/draft"]))
    );
    assert_eq!(
        (&lines[4]["phase"], &lines[4]["event"], &lines[4]["by"]),
        (&json!("plan"), &json!("completed"), &json!("engine"))
    );
    assert_eq!(engine.wait().code, 0);
}

#[test]
fn a_watch_of_a_finished_run_prints_its_state_and_ends() {
    let test_env = open_cycle("");
    assert_eq!(resume_cycle(&test_env).wait().code, 0);
    let condition_met =
        test_env.callboard(&["state", "watch", CYCLE, "--until", "/metadata/status=completed"]).run();
    assert_eq!((condition_met.code, condition_met.json_lines().len()), (0, 1));
    assert_eq!(condition_met.json_lines()[0]["document"], get(&test_env)["document"]);
    let of_path = test_env.callboard(&["state", "watch", CYCLE, "--path", "/sequence"]).run();
    assert_eq!((of_path.code, &of_path.json()["value"]), (0, &json!(sequence(&test_env))));
    let condition_unmet =
        test_env.callboard(&["state", "watch", CYCLE, "--until", "/metadata/status=failed"]).run();
    assert_eq!(condition_unmet.code, 1);
    assert!(
        condition_unmet.stderr.contains("the run is finished and `/metadata/status` is not `\"failed\"`"),
        "{}",
        condition_unmet.stderr
    );
    let invalid = test_env.callboard(&["state", "watch", CYCLE, "--until", "status"]).run();
    assert_eq!((invalid.code, &invalid.json()["event"]), (2, &json!("failed")));
}

#[test]
fn an_interrupted_watch_does_not_affect_the_run() {
    let test_env = open_cycle(WAIT_AT_BARRIER);
    let (engine, mut barrier) = start_planner(&test_env);
    let watch = test_env.callboard(&["state", "watch", CYCLE]).start();
    watch.wait_for_stdout("\"document\"");
    watch.interrupt();
    assert_eq!(watch.wait().code, 130);
    barrier.open();
    assert_eq!(engine.wait().code, 0);
}
