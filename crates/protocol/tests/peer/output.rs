//! The outputs of phases. Two shapes are known: that of the original's documentation, and that of the original itself.
//! Both are accepted, violations are reported with their pointers, and the published schemas agree with the checks.

use std::path::Path;

use protocol::check::Violation;
use protocol::peer::Phase;
use protocol::peer::output::{
    insights_schema, schema, summary_schema, verify, verify_insights, verify_summary,
};
use serde_json::{Value, json};

use crate::json_pointers::pointers;

type Verify = fn(&Value) -> Result<(), Vec<Violation>>;

/// Everything that is verified, with its schema and the name of its file.
fn kinds() -> [(&'static str, Verify, Value); 6] {
    [
        ("plan", |value| verify(Phase::Plan, value), schema(Phase::Plan)),
        ("execute", |value| verify(Phase::Execute, value), schema(Phase::Execute)),
        ("express", |value| verify(Phase::Express, value), schema(Phase::Express)),
        ("review", |value| verify(Phase::Review, value), schema(Phase::Review)),
        ("cycle-summary", verify_summary, summary_schema()),
        ("insights", verify_insights, insights_schema()),
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
fn the_schemas_agree_with_the_checks() {
    for (kind, verify, schema) in kinds() {
        jsonschema::draft202012::meta::validate(&schema).unwrap();
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

#[test]
fn the_published_schemas_are_up_to_date() {
    for (kind, _, schema) in kinds() {
        let file = Path::new(env!("CARGO_MANIFEST_DIR"))
            .join(format!("../../../docs/schema/peer/{kind}.schema.json"));
        let now = format!("{}\n", serde_json::to_string_pretty(&schema).unwrap());
        if std::env::var_os("UPDATE_DOCS").is_some() {
            std::fs::create_dir_all(file.parent().unwrap()).unwrap();
            std::fs::write(&file, now).unwrap();
        } else {
            let before = std::fs::read_to_string(&file).unwrap_or_default();
            assert!(
                before == now,
                "{file:?} has drifted: run this test with UPDATE_DOCS=1 and review the difference"
            );
        }
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
    /phases/0 [output] entry 1 in `phases` of the output of `plan` has no `phase` (add `phase`: a string)
    /phases/0/steps [output] `steps` of entry 1 in `phases` of the output of `plan` is a string where a list is expected (write a list)
    /phases/1 [output] entry 2 in `phases` of the output of `plan` is a number where an object is expected (write an object)
     [output] the output of `plan` has no `success_criteria` (rename `sucess_criteria` to `success_criteria`)
    /risks [output] `risks` of the output of `plan` is a number where a string, a list or an object is expected (write a string, a list or an object)
    ");
    insta::assert_snapshot!(
        violation_lines(Phase::Execute, &json!({"execution_status": "sucess", "outputs": {"files_created": [1]}})), @"
    /execution_status [output] `execution_status` of the output of `execute` is `sucess`, which is not a valid value (did you mean `success`?)
    /outputs/files_created/0 [output] entry 1 in `files_created` of `outputs` of the output of `execute` is a number where a string is expected (write a string)
    ");
    insta::assert_snapshot!(violation_lines(Phase::Express, &json!({})), @" [output] the output of `express` is empty (write something)");
    insta::assert_snapshot!(violation_lines(Phase::Review, &json!({"quality_score": 140, "scores": {"clarity": "good"}})), @"
    /quality_score [output] `quality_score` of the output of `review` is 140, which is not a number from 0 to 100 (0 is the worst, 100 the best)
    /scores/clarity [output] `clarity` of `scores` of the output of `review` is a string where a number from 0 to 100 is expected (write a number from 0 to 100)
    ");
    insta::assert_snapshot!(violation_lines(Phase::Review, &json!("fine")), @" [output] the output of `review` is a string where an object is expected (write an object)");
}
