//! What `steps` asks people, and how their answers are read: from commands, and from the answer files of the original.

use serde_json::Value;

use super::Phase;
use crate::StepId;
use crate::people::{Answer, AnswerFile, InboxItemKind, Question};
use crate::steps::definition::Definition;
use crate::steps::document::Document;
use crate::steps::layout;
use crate::steps::step::{Verdict, needed_steps};
use crate::steps::workflow::StepSpec;

/// What a step waits for outside of the run.
enum Wait {
    Conditions,
    Person,
}

/// Returns what the step waits for in its phase; `None` if it waits for nothing outside of the run.
fn wait(definition: &Definition, document: &Document, id: &StepId) -> Option<Wait> {
    match document.phase(definition, id) {
        Phase::Conditions => Some(Wait::Conditions),
        Phase::Approval => Some(Wait::Person),
        Phase::Work if definition.step(id).is_for_person() => Some(Wait::Person),
        Phase::When
        | Phase::ReadItems
        | Phase::WorkOnItems
        | Phase::Work
        | Phase::Checks
        | Phase::Approved => None,
    }
}

pub(in crate::steps) fn question(
    definition: &Definition,
    document: &Document,
    id: &StepId,
) -> Option<Question> {
    let step = definition.step(id);
    Some(match wait(definition, document, id)? {
        Wait::Conditions => Question {
            kind: InboxItemKind::Condition,
            text: conditions_text(definition, step),
            options: Vec::new(),
        },
        Wait::Person if step.human_in_the_loop => {
            Question::approval(format!("Do you approve what `{id}` did?"))
        }
        Wait::Person => Question::approval(person_text(definition, step)),
    })
}

/// Returns the question of a step with `agent: person`: its prompt, if it has one.
fn person_text(definition: &Definition, step: &StepSpec) -> String {
    let id = &step.id;
    let needs: Vec<_> = needed_steps(definition, step).map(|need| format!("`{need}`")).collect();
    match (definition.prompt(id).trim(), &needs[..]) {
        ("", []) => format!("May the run go on after `{id}`?"),
        ("", needs) => format!("Do you approve what {} did?", needs.join(" and ")),
        (prompt, _) => prompt.to_owned(),
    }
}

/// Returns what a step waits for: ``Waits until `ci` and `legal` are true in `/repo/gates.json` ``.
fn conditions_text(definition: &Definition, step: &StepSpec) -> String {
    let names: Vec<_> = step.gates.iter().map(|name| format!("`{name}`")).collect();
    let are = if names.len() == 1 { "is" } else { "are" };
    let file = definition.gate_state_file().unwrap_or_default();
    format!("Waits until {} {are} true in `{file}`", names.join(" and "))
}

pub(in crate::steps) fn parse_answer(
    definition: &Definition,
    document: &Document,
    id: &StepId,
    answer: &Answer,
) -> Result<Verdict, String> {
    let is_gate = definition.step(id).loop_back_to.is_some();
    match (wait(definition, document, id), answer) {
        (None, _) => Err(format!("`{id}` asks no person")),
        (Some(Wait::Conditions), Answer::Resolve { .. }) => Ok(Verdict::Done),
        (
            Some(Wait::Conditions),
            Answer::Approve { .. }
            | Answer::Reject { .. }
            | Answer::Choose { .. }
            | Answer::Workaround { .. }
            | Answer::Text { .. },
        ) => Err(format!(
            "`{id}` waits for conditions: answer `resolve` to start it although they do not hold"
        )),
        (Some(Wait::Person), Answer::Approve { .. }) => Ok(Verdict::Done),
        (Some(Wait::Person), Answer::Reject { .. }) if is_gate => Ok(Verdict::GateFailed),
        (Some(Wait::Person), Answer::Reject { .. }) => Ok(Verdict::Rejected),
        (
            Some(Wait::Person),
            Answer::Choose { .. } | Answer::Resolve { .. } | Answer::Workaround { .. } | Answer::Text { .. },
        ) => Err(format!("`{id}` asks for an approval: answer `approve` or `reject --reason WHY`")),
    }
}

/// Returns whether the answer of a person approves.
pub(in crate::steps) fn approves(answer: &Answer) -> bool {
    match answer {
        Answer::Approve { .. } => true,
        Answer::Reject { .. }
        | Answer::Choose { .. }
        | Answer::Resolve { .. }
        | Answer::Workaround { .. }
        | Answer::Text { .. } => false,
    }
}

pub(in crate::steps) fn answer_file(
    definition: &Definition,
    document: &Document,
    id: &StepId,
) -> Option<AnswerFile> {
    let run_fields = &document.run_fields;
    match wait(definition, document, id)? {
        Wait::Conditions => Some(AnswerFile::Conditions(definition.gate_state_file()?.to_owned())),
        Wait::Person => Some(AnswerFile::OneQuestion(layout::manual_input_path(
            &run_fields.manual_inputs_dir,
            &run_fields.run_id,
            id.as_str(),
        ))),
    }
}

pub(in crate::steps) fn parse_answer_file(
    definition: &Definition,
    document: &Document,
    id: &StepId,
    text: &str,
) -> Result<Option<Answer>, String> {
    let parsed: Value = serde_json::from_str(text).map_err(|error| format!("it is not JSON: {error}"))?;
    match wait(definition, document, id) {
        None => Err(format!("`{id}` asks nothing")),
        Some(Wait::Conditions) => parse_conditions(&definition.step(id).gates, &parsed),
        Some(Wait::Person) => parse_manual_input(&parsed).map(Some),
    }
}

/// Reads the answer file of one question: a boolean `approved`, and optionally `reason` and `text`.
fn parse_manual_input(file: &Value) -> Result<Answer, String> {
    let Value::Object(fields) = file else { return Err("it is not a JSON object".to_owned()) };
    let approved = match fields.get("approved") {
        Some(Value::Bool(approved)) => *approved,
        Some(_) => return Err("its field `approved` is neither `true` nor `false`".to_owned()),
        None => return Err("it has no field `approved`".to_owned()),
    };
    let text = |name: &str| match fields.get(name) {
        None | Some(Value::Null) => Ok(None),
        Some(Value::String(text)) if text.trim().is_empty() => Ok(None),
        Some(Value::String(text)) => Ok(Some(text.clone())),
        Some(_) => Err(format!("its field `{name}` is not a string")),
    };
    let texts: Vec<_> = [text("reason")?, text("text")?].into_iter().flatten().collect();
    let joined = (!texts.is_empty()).then(|| texts.join("\n"));
    Ok(match (approved, joined) {
        (true, text) => Answer::Approve { text },
        (false, reason) => {
            Answer::Reject { reason: reason.unwrap_or_else(|| "no reason was given".to_owned()) }
        }
    })
}

/// Reads the file with the conditions: each name is `true` or `false`. A name that is missing is false. Returns `None` until
/// all of `names` are true.
fn parse_conditions(names: &[String], file: &Value) -> Result<Option<Answer>, String> {
    let Value::Object(conditions) = file else { return Err("it is not a JSON object".to_owned()) };
    if let Some((name, _)) = conditions.iter().find(|(_, value)| !value.is_boolean()) {
        return Err(format!("`{name}` is neither `true` nor `false`"));
    }
    let holds = |name: &String| conditions.get(name) == Some(&Value::Bool(true));
    let text = || names.iter().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ");
    Ok(names.iter().all(holds).then(|| Answer::Resolve { text: Some(format!("{} true", text())) }))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn an_answer_file_needs_a_boolean() {
        assert_eq!(parse_manual_input(&json!({ "approved": true })), Ok(Answer::Approve { text: None }));
        let rejected = Answer::Reject { reason: "too dark\nsee the second page".to_owned() };
        let file = json!({ "approved": false, "reason": "too dark", "text": "see the second page" });
        assert_eq!(parse_manual_input(&file), Ok(rejected));
        let with_text = parse_manual_input(&json!({ "approved": true, "text": "ship it", "by": 3 })).unwrap();
        assert!(approves(&with_text) && with_text.text() == Some("ship it"), "{with_text:?}");
        for (file, reason) in [
            (json!({}), "no field `approved`"),
            (json!({ "approved": "true" }), "neither `true` nor `false`"),
            (json!({ "approved": 1 }), "neither `true` nor `false`"),
            (json!(true), "not a JSON object"),
            (json!({ "approved": false, "reason": 3 }), "`reason` is not a string"),
        ] {
            assert!(parse_manual_input(&file).unwrap_err().contains(reason), "{file}");
        }
    }

    #[test]
    fn conditions_are_booleans_and_a_missing_name_is_false() {
        let names = ["ci".to_owned(), "legal".to_owned()];
        let holds = |file: Value| parse_conditions(&names, &file).map(|answer| answer.is_some());
        assert_eq!(holds(json!({ "ci": true, "legal": true, "other": false })), Ok(true));
        assert_eq!(holds(json!({ "ci": true, "legal": false })), Ok(false));
        assert_eq!(holds(json!({ "ci": true })), Ok(false));
        assert!(holds(json!({ "ci": true, "legal": "false" })).unwrap_err().contains("`legal`"));
        assert!(holds(json!(["ci", "legal"])).is_err());
    }
}
