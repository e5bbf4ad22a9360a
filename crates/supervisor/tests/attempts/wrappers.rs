//! Wrappers that run an agent CLI, capture its output, and then write a report of their own over the agent's.

use std::fs;

use protocol::report::{Report, Status};
use serde_json::json;
use supervisor::report::{Collected, collect};

use crate::fixture::{Fixture, wait_for_exit, wait_for_report};

/// Functions for the scripts. `report STATUS [FIELDS]` prints a report.
const FUNCTIONS: &str = r#"
report() {
    printf '{"schema": "run_report@v0", "run_id": "f8c1a491", "step_id": "review", "agent": "reviewer", "status": "%s",
      "started_at": "2026-01-01T00:00:00Z", "ended_at": "2026-01-01T00:01:00Z"%s}' "$1" "$2"
}
with_markers() { printf '<<<RUN_REPORT_JSON\n%s\nRUN_REPORT_JSON>>>\n' "$1"; }
submit() {
    printf '%s' "$1" >to_submit
    "$TEST_BINARY" fixture::the_report_command --exact "$PWD" >submit.log
}
# Waits until the shim has recorded the report file. A real CLI takes longer to end than the shim needs, a script does not.
wait_until_recorded() { until grep -q '"file"' reports.jsonl 2>/dev/null; do :; done; }
"#;

/// How the agent hands in its report, which is in `$said`: a name, and the script.
const REPORT_METHODS: [(&str, &str); 4] = [
    ("callboard report", r#"submit "$said"; echo done"#),
    ("REPORT_PATH", r#"printf '%s' "$said" >report.json; wait_until_recorded; echo done"#),
    (
        "REPORT_PATH by rename",
        r#"printf '%s' "$said" >new.json; mv new.json report.json; wait_until_recorded; echo done"#,
    ),
    ("markers", r#"with_markers "$said""#),
];

/// Stands for a wrapper that searches the raw output of the CLI for markers. As the output is lines of JSON, it never finds
/// them, and makes up a report: completed if the CLI exits with 0, with the last lines of output as logs.
const CLAUDE_WRAPPER: &str = r#"
output=$(agent) && status=COMPLETED || status=FAILED
text=$(printf '%s\n' "$output" | sed 's/\\/\\\\/g; s/"/\\"/g' | awk '{ printf "%s\\n", $0 }')
printf '{"type":"system","subtype":"init"}\n{"type":"result","subtype":"success","result":"%s"}\n' "$text"
report $status ', "artifacts": [], "metrics": {"cost_usd": 1}, "logs": ["the last lines"]' >report.json
"#;

/// Stands for a wrapper of a CLI that prints plain text. It writes what is between the markers, or makes up a report.
const CODEX_WRAPPER: &str = r#"
output=$(agent) && status=COMPLETED || status=FAILED
printf '%s\n' "$output"
found=$(printf '%s\n' "$output" | sed -n '/^<<<RUN_REPORT_JSON/,/RUN_REPORT_JSON>>>$/p' | sed '1d;$d')
[ -n "$found" ] || found=$(report $status ', "logs": ["the last lines"]')
printf '%s' "$found" >report.json
"#;

fn fixture(agent: &str, wrapper: &str) -> Fixture {
    let mut fixture = Fixture::script(&format!("{FUNCTIONS}\nagent() {{\n{agent}\n}}\n{wrapper}"));
    let this_binary = std::env::current_exe().unwrap().into_os_string();
    fixture.launch.env.push(("TEST_BINARY".into(), this_binary.into()));
    fixture
}

async fn result_of(agent: &str, wrapper: &str) -> Collected {
    let fixture = fixture(agent, wrapper);
    fixture.run_to_end().await;
    collect(&fixture.dir, &fixture.expected())
}

async fn report_of(agent: &str, wrapper: &str, context: &str) -> Report {
    match result_of(agent, wrapper).await {
        Collected::Valid(report, _) => *report,
        other => panic!("{context}: {other:?}"),
    }
}

#[tokio::test]
async fn a_wrapper_does_not_lose_its_agents_report() {
    for (name, wrapper) in [("claude", CLAUDE_WRAPPER), ("codex", CODEX_WRAPPER)] {
        for (method, write_report) in REPORT_METHODS {
            let context = format!("{name} wrapper, {method}");
            let fields = r#", "gate_failure": true, "artifacts": ["a.md"], "logs": ["no tests"]"#;
            let failed = format!("said=$(report COMPLETED '{fields}'); {write_report}");
            let report = report_of(&failed, wrapper, &context).await;
            assert!(report.gate_failure, "{context}");
            assert_eq!((report.status, &report.artifacts[..]), (Status::Completed, &["a.md".to_owned()][..]));
            assert_eq!(report.logs.last().map(String::as_str), Some("no tests"), "{context}");

            let passed = format!("said=$(report COMPLETED); {write_report}");
            assert!(!report_of(&passed, wrapper, &context).await.gate_failure, "{context}");
        }
    }
}

#[tokio::test]
async fn a_wrapper_does_not_turn_its_agents_failure_into_a_success() {
    for (method, write_report) in REPORT_METHODS {
        match result_of(&format!("said=$(report FAILED); {write_report}"), CLAUDE_WRAPPER).await {
            Collected::Invalid(reason) => {
                assert!(reason.contains("COMPLETED") && reason.contains("FAILED"), "{method}: {reason}");
            }
            other => panic!("{method}: {other:?}"),
        }
        // Nor the other way round: the CLI crashed after the report.
        let crashed = format!("said=$(report COMPLETED); {write_report}; return 1");
        assert!(matches!(result_of(&crashed, CLAUDE_WRAPPER).await, Collected::Invalid(_)), "{method}");
    }
}

#[tokio::test]
async fn an_agent_can_take_back_a_gate_failure_but_not_with_a_file() {
    for (method, write_report) in REPORT_METHODS {
        let report_gate = |gate: bool, write_report| {
            format!("said=$(report COMPLETED ', \"gate_failure\": {gate}'); {write_report}")
        };
        for (later, takes_back) in [("callboard report", true), ("markers", true), ("REPORT_PATH", false)] {
            let (_, then) = REPORT_METHODS.into_iter().find(|(name, _)| *name == later).unwrap();
            let agent = format!("{}\n{}", report_gate(true, write_report), report_gate(false, then));
            let report = report_of(&agent, "agent", &format!("{method}, then {later}")).await;
            assert_eq!(report.gate_failure, !takes_back, "{method}, then {later}");
        }
    }
}

#[tokio::test]
async fn versions_of_the_report_are_kept_while_no_engine_runs() {
    let agent = r#"mkfifo go; echo >report.json; read x <go
        said=$(report COMPLETED ', "gate_failure": true'); printf '%s' "$said" >report.json; wait_until_recorded"#;
    let fixture = fixture(agent, CODEX_WRAPPER);
    let mut engine = fixture.launch();
    wait_for_report(&mut engine).await;
    drop(engine);
    fs::write(fixture.file("go"), "on\n").unwrap();
    let record = wait_for_exit(&mut fixture.adopt()).await;
    assert_eq!(json!(record.status), json!({"exited": {"code": 0}}));
    match collect(&fixture.dir, &fixture.expected()) {
        Collected::Valid(report, _) => assert!(report.gate_failure),
        other => panic!("{other:?}"),
    }
}
