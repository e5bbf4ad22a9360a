//! Writes from inside an attempt: the `output` of its own phase, and only while it runs.

use serde_json::json;

use super::{RUN, WAIT_AT_BARRIER, get, history, open_cycle, patch, resume_cycle, sequence, start_planner};

#[test]
fn an_agent_writes_its_own_phase_and_nothing_else() {
    let test_env = open_cycle(
        r#"
        try_patch() { callboard state patch --json --expect "$(callboard state get --path /sequence)" "$@" >> "$SHARED/results"; echo $? >> "$SHARED/codes"; }
        try_patch --set '/phases/plan/output/draft="half"'
        try_patch --set /phases/execute/output/draft=1
        try_patch --set /note=1
        try_patch --set '/phases/plan/note=1'
        try_patch --set '/metadata/status="completed"'
        env -u CALLBOARD_RUN callboard state patch --expect 3 --set /note=1 2> /dev/null; echo $? >> "$SHARED/codes"
        env -u CALLBOARD_ATTEMPT callboard state patch --expect 3 --set /note=1 2> /dev/null; echo $? >> "$SHARED/codes"
        callboard state get --path /phases/plan/output > "$SHARED/read"
        "#,
    );
    assert_eq!(resume_cycle(&test_env).wait().code, 0);
    assert_eq!(test_env.wait_for_lines("codes"), "0\n3\n3\n3\n3\n3\n3\n");
    let results = test_env.wait_for_lines("results");
    let kinds: Vec<_> = results
        .lines()
        .map(|line| serde_json::from_str::<serde_json::Value>(line).unwrap()["kind"].clone())
        .collect();
    assert_eq!(
        json!(kinds),
        json!([null, "invalid_transition", "not_yours", "not_yours", "invalid_transition"])
    );
    assert_eq!(test_env.wait_for_lines("read"), "{\n  \"draft\": \"half\"\n}\n");
    let writes = history(&test_env);
    let own: Vec<_> = writes.iter().filter(|write| write["by"] == "plan#1.1").collect();
    assert_eq!(own.len(), 1, "{writes:?}");
    assert_eq!(own[0]["changed"], json!(["/phases/plan/output/draft"]));
    assert!(
        get(&test_env)["document"]["phases"]["plan"]["output"]["draft"].is_null(),
        "the report is the output"
    );
}

#[test]
fn a_superseded_attempt_cannot_write() {
    // The first attempt fails, the second waits.
    let test_env = open_cycle(&format!("case $CALLBOARD_ATTEMPT in *.1) exit 1;; esac; {WAIT_AT_BARRIER}"));
    let (engine, mut barrier) = start_planner(&test_env);
    let now = sequence(&test_env);
    let as_attempt = |attempt: &str| {
        let expect = now.to_string();
        let arguments =
            ["state", "patch", "--json", "--expect", &expect, "--set", "/phases/plan/output/draft=1"];
        let call = test_env.callboard(&arguments).env("CALLBOARD_STATE_KEY", RUN).env("CALLBOARD_RUN", RUN);
        call.env("CALLBOARD_STORE", test_env.store_dir()).env("CALLBOARD_ATTEMPT", attempt).run()
    };
    for attempt in ["plan#1.1", "execute#1.1"] {
        let refused = as_attempt(attempt);
        let answer = refused.json();
        assert_eq!((refused.code, &answer["kind"]), (3, &json!("not_yours")), "{answer}");
        let why = format!("attempt `{attempt}` is not running any more; `plan#1.2` is");
        assert_eq!(answer["causes"], json!([why]));
    }
    assert_eq!(sequence(&test_env), now, "nothing of it was written");
    assert_eq!(as_attempt("plan#1.2").code, 0);
    barrier.open();
    assert_eq!(engine.wait().code, 0);
}

#[test]
fn an_agent_of_another_run_writes_like_any_other_client() {
    let test_env = open_cycle(WAIT_AT_BARRIER);
    let (engine, mut barrier) = start_planner(&test_env);
    let expect = sequence(&test_env).to_string();
    let arguments = ["state", "patch", RUN, "--expect", &expect, "--set", "/note=1"];
    let call = test_env
        .callboard(&arguments)
        .env("CALLBOARD_RUN", "another")
        .env("CALLBOARD_STORE", test_env.store_dir());
    assert_eq!(call.env("CALLBOARD_ATTEMPT", "build#1.1").run().code, 0);
    assert_eq!(patch(&test_env, sequence(&test_env), &["--set", "/note=2"]).code, 0);
    barrier.open();
    assert_eq!(engine.wait().code, 0);
}
