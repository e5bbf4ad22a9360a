//! The original's example files are read, merged and written back; the rules of `check`; imports.
//!
//! The template is the example with every field. Where a field takes one of several words, it has a placeholder that lists
//! them: `SMALL | LARGE`.

use protocol::Protocol as _;
use protocol::issue::{Document, EnumOrText, Issue, PipelineStatus, check};
use protocol::protocol_trait::Next;
use serde_json::{Value, json};

use super::{at, definition, example, location};

/// Collects the JSON pointers of all values that are not objects.
fn leaves(value: &Value, pointer: &str, pointers: &mut Vec<String>) {
    match value {
        Value::Object(members) => {
            for (name, value) in members {
                leaves(value, &format!("{pointer}/{name}"), pointers);
            }
        }
        _ => pointers.push(pointer.to_owned()),
    }
}

#[test]
fn the_template_comes_back_exactly() {
    let template = example("template");
    let document = Document::default().merged(&template).unwrap();
    let shown = document.file_content();
    let mut pointers = Vec::new();
    leaves(&template, "", &mut pointers);
    assert!(pointers.len() > 45, "the template has {} fields", pointers.len());
    for pointer in pointers {
        assert_eq!(shown.pointer(&pointer), template.pointer(&pointer), "{pointer}");
    }
    assert_eq!(serde_json::from_value::<Document>(document.to_value()).unwrap(), document);
}

/// No field of the template, at any depth, is kept as an unknown field: every map `others` in the `Debug` output is empty.
#[test]
fn every_field_of_the_template_is_known() {
    let document = serde_json::from_value::<Document>(example("template")).unwrap();
    let shown = format!("{document:?}");
    let mut unknown = shown.split("others: ").skip(1).map(|rest| rest.split_once('}').unwrap().0);
    assert!(unknown.clone().count() > 12, "the sections and the elements of their lists: {shown}");
    assert_eq!(unknown.find(|fields| !fields.ends_with('{')), None);
}

#[test]
fn placeholders_are_kept_and_reported_as_warnings() {
    let template = example("template");
    let document = Document::default().merged(&template).unwrap();
    assert!(matches!(&document.pipeline.status, Some(EnumOrText::Other(words)) if words.contains(" | ")));
    let checked = check(&template);
    assert_eq!(checked.violations, []);
    let pointers: Vec<_> = checked.warnings.iter().map(|warning| warning.pointer.as_str()).collect();
    assert_eq!(
        pointers,
        ["/issue/type", "/pipeline/status", "/triage/scope", "/triage/complexity", "/review/verdict"]
    );
}

#[test]
fn partial_documents_are_merged_into_the_present_one() {
    let open = Issue::open_document(&definition(), &location(), at());
    let blocked = open.merged(&example("pipeline-blocked.partial")).unwrap();
    assert_eq!(blocked.pipeline.status, Some(EnumOrText::Known(PipelineStatus::Blocked)));
    assert!(blocked.pipeline.blocked_reason.as_ref().unwrap().contains("unclear requirements"));
    assert_eq!((blocked.pipeline.max_attempts, blocked.issue.number), (3, Some(42)));
    let failed = open.merged(&example("max-attempts-reached.partial")).unwrap();
    assert_eq!(failed.pipeline.attempt, 3);
    assert!(failed.review.feedback_for_writer.as_ref().unwrap().starts_with("Final feedback"));
    for (name, list) in [("question.partial", "questions"), ("escalation.partial", "escalations")] {
        let element = example(name);
        let with = open.merged(&json!({ "communication": { list: [element] } })).unwrap();
        let shown = &with.file_content()["communication"][list][0];
        for (field, value) in element.as_object().unwrap() {
            assert_eq!(&shown[field], value, "{list}: {field}");
        }
    }
}

#[test]
fn unknown_fields_are_kept_in_every_section() {
    let mut value = Issue::open_document(&definition(), &location(), at()).to_value();
    for (_, section) in value.as_object_mut().unwrap().iter_mut().filter(|(name, _)| *name != "callboard") {
        if let Value::Object(section) = section {
            section.insert("concerns".to_owned(), json!([1]));
        }
    }
    value["mood"] = json!("fine");
    let document: Document = serde_json::from_value(value.clone()).unwrap();
    assert_eq!(document.to_value(), value);
}

#[test]
fn each_rule_of_the_format_is_checked() {
    let broken = json!({
        "issue": { "type": "BUG" },
        "pipeline": { "status": "blocked", "attempt": 4, "max_attempts": 3 },
        "commit": { "completed": true },
        "analysis": { "issue_type": "FEATURE" },
        "review": { "verdict": "REJECTED", "findings": { "issues": [{ "severity": "bad" }] } },
        "communication": { "questions": [{ "answered": true, "answer": null }] },
    });
    let violations = check(&broken).violations;
    let words = violations.iter().filter(|violation| violation.rule == "unknown-word");
    let words: Vec<_> = words.map(|violation| violation.pointer.as_str()).collect();
    assert_eq!(words, ["/issue/type", "/analysis/issue_type", "/review/findings/issues/0/severity"]);
    let rules: Vec<_> = violations[3..].iter().map(|violation| violation.rule).collect();
    assert_eq!(rules, ["attempt-range", "reason-missing", "not-approved", "answer-missing"]);
    assert_eq!(check(&json!([])).violations[0].rule, "wrong-type");
    assert_eq!(check(&json!({ "writer": { "changes": 3 } })).violations[0].rule, "wrong-type");
}

#[test]
fn the_next_step_of_an_imported_document_follows_from_its_fields() {
    let next = |partial: Value| {
        let mut document = Issue::open_document(&definition(), &location(), at()).file_content();
        protocol::issue::merge(&mut document, &partial);
        let imported = Issue::import(&definition(), &document).unwrap();
        match imported.next {
            Next::Queue(steps) => steps[0].to_string(),
            Next::Finish(outcome) => format!("{outcome:?}"),
            Next::QueueUnlessInTurn(_) | Next::Drain(_) => panic!("an import queues or finishes"),
        }
    };
    let (triaged, analysed) = (json!({ "completed": true }), json!({ "completed": true }));
    assert_eq!(next(json!({})), "triage");
    assert_eq!(next(json!({ "triage": triaged })), "analyst");
    assert_eq!(next(json!({ "triage": triaged, "analysis": analysed })), "writer");
    let written = json!({ "triage": triaged, "analysis": analysed, "writer": { "completed": true } });
    let with = |partial: Value| {
        let mut document = written.clone();
        protocol::issue::merge(&mut document, &partial);
        next(document)
    };
    assert_eq!(with(json!({})), "build.diff");
    assert_eq!(with(json!({ "build": { "completed": true, "tests_passed": true } })), "reviewer");
    assert_eq!(with(json!({ "build": { "completed": true, "tests_passed": false } })), "writer");
    let approved =
        json!({ "build": { "completed": true }, "review": { "completed": true, "verdict": "APPROVED" } });
    assert_eq!(with(approved), "committer.commit");
    let question = json!({ "from": "writer", "to": "analyst", "question": "where?" });
    assert_eq!(next(json!({ "communication": { "questions": [question] } })), "analyst.answer");
    assert_eq!(next(json!({ "pipeline": { "status": "blocked", "blocked_reason": "unclear" } })), "comment");
    assert_eq!(next(example("max-attempts-reached.partial")), "Failed");
    let other = json!({ "issue": { "number": 7 }, "pipeline": {} });
    assert!(Issue::import(&definition(), &other).is_err(), "another issue");
}
