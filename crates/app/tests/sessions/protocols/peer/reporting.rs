//! A phase's report is checked while its agent can still correct it.

use insta::assert_snapshot;

use super::{SUCCESS_TRANSITIONS, document, transitions};
use crate::sessions::test_env;

/// Reports the bare status first, as a careless agent would, then follows the hint. A later report may leave the output out.
const AGENT: &str = r#"#!/bin/sh
shared=${0%/*}
"$shared/callboard" report --status COMPLETED 2>"$shared/told.$STEP_ID" && exit 9
case $STEP_ID in
plan) echo '{"phases": [{"phase": "all"}], "success_criteria": "it is done"}' ;;
review) echo '{"quality_score": 90}' ;;
*) echo '{"summary": "done"}' ;;
esac >"$shared/output.json"
"$shared/callboard" report --status COMPLETED --output "$shared/output.json"
"$shared/callboard" report --status COMPLETED --log 'and a word more'
"#;

#[test]
fn an_agent_that_forgets_its_output_can_correct_it_in_the_same_attempt() {
    let test_env = test_env();
    let agent = test_env.write_program(test_env.agent_dir().join("forgetful.sh"), AGENT);
    let wrapper = agent.to_str().unwrap();
    let session = test_env.callboard(&["peer", "create-spec", "--spec", "x", "--wrapper", wrapper]).run();
    assert_eq!(session.code, 0, "{}", session.transcript());
    let document = document(&test_env, "peer:spec:x:cycle:1");
    assert_eq!(transitions(&document), SUCCESS_TRANSITIONS);
    assert!(document.phases.plan.errors().is_empty(), "no attempt was lost");
    assert_snapshot!(std::fs::read_to_string(test_env.agent_dir().join("told.plan")).unwrap(), @"
    error: the report cannot be accepted: Agent reported completion without the field `output`

    hint: add the field `output` to the report, or `--output FILE` to `--status COMPLETED`
    ");
    let prompt = test_env.attempt_dir("peer.spec.x.cycle.1", "review", "1.1").join("prompt.md");
    let prompt = std::fs::read_to_string(prompt).unwrap();
    let (_, example) = prompt.split_once("The report is one JSON object").unwrap();
    assert!(example.contains("\"output\""), "{example}");
    assert!(!example.contains("gate_failure"), "a cycle has no gates: {example}");
}
