//! The outputs of phases. Two shapes are known: that of the original's documentation, and that of the original itself.
//! Both are accepted, violations are reported with their pointers, and our reading of the schemas agrees with that of a
//! full validator.

use protocol::check::{Violation, schema};
use protocol::peer::Phase;
use protocol::peer::output::{verify, verify_insights, verify_summary};
use serde_json::{Value, json};

use crate::json_pointers::pointers;

type Verify = fn(&Value) -> Result<(), Vec<Violation>>;

/// Everything that is verified, with its schema.
fn kinds() -> [(&'static str, Verify, &'static str); 6] {
    macro_rules! schema {
        ($file:literal) => {
            include_str!(concat!("../../../../docs/schema/peer/", $file))
        };
    }
    [
        ("plan", |value| verify(Phase::Plan, value), schema!("plan.schema.json")),
        ("execute", |value| verify(Phase::Execute, value), schema!("execute.schema.json")),
        ("express", |value| verify(Phase::Express, value), schema!("express.schema.json")),
        ("review", |value| verify(Phase::Review, value), schema!("review.schema.json")),
        ("cycle-summary", verify_summary, schema!("cycle-summary.schema.json")),
        ("insights", verify_insights, schema!("insights.schema.json")),
    ]
}

/// Valid outputs in every known shape.
fn valid(kind: &str) -> Vec<Value> {
    let example: Value = serde_json::from_str(include_str!("../fixtures/peer/cycle.json")).unwrap();
    match kind {
        "plan" => vec![
            example["phases"]["plan"]["output"].clone(),
            json!({
                "instruction": "create-spec", "type": "spec-aware", "spec_name": "x", "estimated_duration": 30,
                "phases": [{"phase": "preparation", "description": "d", "steps": [{"id": 1}]}],
                "risks": {"low": [], "high": ["x"]}, "dependencies": ["git"], "success_criteria": ["all green"],
            }),
            json!({"phases": [{"phase": "p"}], "success_criteria": "it works", "risks": "none"}),
        ],
        "execute" => vec![
            example["phases"]["execute"]["output"].clone(),
            json!({
                "instruction_executed": "create-spec", "execution_status": "success", "execution_time": "5m",
                "outputs": {
                    "files_created": ["a"], "files_modified": [], "decisions_made": [{"what": "x"}],
                    "user_interactions": ["asked"], "tasks_completed": 3,
                },
                "validation_context": {"lint": true}, "errors": [], "notes": ["n"], "current_step": "1", "total_steps": 4,
            }),
            json!({"anything": null}),
        ],
        "express" => vec![json!({
            "summary": "s", "key_points": ["k"], "deliverables": {"files": 2}, "formatted_output": "# x",
            "instruction_type": "t", "has_issues": false, "completion_percentage": 99.5, "success": true,
            "highlights": ["h"], "next_action": "n",
        })],
        "review" => vec![
            json!({
                "quality_score": 85,
                "scores": {"completeness": 90, "accuracy": 80, "clarity": 85, "compliance": 70, "usability": 100},
                "completeness": "all there", "compliance": 90, "strengths": ["s"], "improvements": ["i"],
                "recommendations": [{"do": "x"}],
            }),
            json!({"quality_score": "requires_attention", "completeness": true, "compliance": ["a"]}),
        ],
        "cycle-summary" => vec![json!({
            "success": true, "instruction": "create-spec", "summary": "s", "highlights": ["a", "b", "c"],
            "completion": 100, "next_action": "n",
        })],
        "insights" => vec![json!({
            "learnings": ["l"], "patterns": [], "issues_encountered": [{"i": 1}], "questions_for_user": ["q?"],
            "recommendations": {"process": ["p"], "technical": "t", "efficiency": []},
            "alternative_approaches": "a", "rationale": ["r"],
        })],
        _ => unreachable!(),
    }
}

/// The valid outputs, and each of them with one value replaced or one field removed.
fn corpus(kind: &str) -> Vec<Value> {
    let mut corpus = valid(kind);
    for value in valid(kind) {
        for pointer in pointers(&value) {
            for other in [
                json!(null),
                json!(true),
                json!(101),
                json!(-0.5),
                json!(" "),
                json!("x"),
                json!([]),
                json!({}),
                json!([7]),
            ] {
                let mut changed = value.clone();
                *changed.pointer_mut(&pointer).unwrap() = other;
                corpus.push(changed);
            }
            if let Some((parent, key)) = pointer.rsplit_once('/') {
                let mut changed = value.clone();
                if let Some(fields) = changed.pointer_mut(parent).unwrap().as_object_mut() {
                    fields.remove(key);
                    corpus.push(changed);
                }
            }
        }
    }
    corpus
}

#[test]
fn both_known_shapes_are_accepted() {
    for (kind, verify, _) in kinds() {
        for output in valid(kind) {
            assert_eq!(verify(&output), Ok(()), "{kind}: {output}");
        }
    }
}

#[test]
fn a_full_validator_accepts_the_same_outputs() {
    for (kind, verify, schema) in kinds() {
        let schema: Value = serde_json::from_str(schema).unwrap();
        jsonschema::draft202012::meta::validate(&schema).unwrap();
        assert_eq!(schema::problem(&schema), None, "{kind}: every keyword is checked");
        let validator = jsonschema::draft202012::new(&schema).unwrap();
        let (mut accepted, mut refused) = (0, 0);
        for output in corpus(kind) {
            let verified = verify(&output);
            assert_eq!(validator.is_valid(&output), verified.is_ok(), "{kind}: {output}\n{verified:?}");
            if verified.is_ok() { accepted += 1 } else { refused += 1 }
        }
        assert!(accepted > 20 && refused > 20, "{kind}: {accepted} accepted, {refused} refused");
    }
}

/// The violations of an output, one per line.
fn violation_lines(phase: Phase, output: &Value) -> String {
    let lines = verify(phase, output).unwrap_err().into_iter().map(|violation| {
        let Violation { rule, pointer, message, repair } = violation;
        format!("{pointer} [{rule}] {message} ({repair})\n")
    });
    lines.collect()
}

#[test]
fn violations_have_a_pointer_and_a_repair() {
    insta::assert_snapshot!(violation_lines(Phase::Plan, &json!({"phases": [{"steps": "x"}, 7], "risks": 3, "sucess_criteria": "x"})), @"
     [output] the output of `plan`: `success_criteria` is missing (rename `sucess_criteria` to `success_criteria`)
    /phases/0 [output] `/phases/0` of the output of `plan`: `phase` is missing (add it)
    /phases/0/steps [output] `/phases/0/steps` of the output of `plan`: it is a string, not a list or null (write a list or null)
    /phases/1 [output] `/phases/1` of the output of `plan`: it is a number, not an object (write an object)
    /risks [output] `/risks` of the output of `plan`: it is a number, not a string or a list or an object or null (write a string or a list or an object or null)
    ");
    insta::assert_snapshot!(
        violation_lines(Phase::Execute, &json!({"execution_status": "sucess", "outputs": {"files_created": [1]}})), @r#"
    /execution_status [output] `/execution_status` of the output of `execute`: it is `"sucess"` (use one of "success", "cancelled", "error", null)
    /outputs/files_created/0 [output] `/outputs/files_created/0` of the output of `execute`: it is a number, not a string (write a string)
    "#);
    insta::assert_snapshot!(violation_lines(Phase::Express, &json!({})), @" [output] the output of `express`: its number of fields is 0 (1 is the least)");
    insta::assert_snapshot!(violation_lines(Phase::Review, &json!({"quality_score": 140, "scores": {"clarity": "good"}})), @"
    /quality_score [output] `/quality_score` of the output of `review`: it is 140 (100 is the most)
    /scores/clarity [output] `/scores/clarity` of the output of `review`: it is a string, not a number or null (write a number or null)
    ");
    insta::assert_snapshot!(violation_lines(Phase::Review, &json!({"quality_score": "good"})), @r#"/quality_score [output] `/quality_score` of the output of `review`: it is `"good"` (use one of "high", "medium", "low", "requires_attention")"#);
    insta::assert_snapshot!(violation_lines(Phase::Plan, &json!({"phases": [{"phase": " "}], "success_criteria": []})), @"
    /phases/0/phase [output] `/phases/0/phase` of the output of `plan`: it is blank (write something)
    /success_criteria [output] `/success_criteria` of the output of `plan`: its length is 0 (1 is the least)
    ");
    insta::assert_snapshot!(violation_lines(Phase::Review, &json!("fine")), @" [output] the output of `review`: it is a string, not an object (write an object)");
}
