//! A torn `run_state.json`: what of it can be read, and what is lost.
//!
//! A program that rewrites its file in place and is killed leaves the beginning of it. The fields above the steps come first,
//! then the steps, so that the steps before the cut are whole.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use super::definition::Definition;
use super::document::{Status, StepDocument};
use super::import::GATE_FAILURE;
use super::{Time, record};
use crate::json::parse_prefix;
use crate::protocol_trait::RunLocation;
use crate::report::{self, Report};
use crate::{StepId, Timestamp};

/// A document with every field and step that an import needs.
#[derive(Debug, Clone, PartialEq)]
pub struct FilledDocument {
    pub document: Value,
    /// What it did not have, in a few words each.
    pub lost: Vec<String>,
    /// The steps that it did not have, and whose report is taken instead.
    pub from_reports: Vec<StepId>,
}

/// The reports of a run's steps, and where each is.
pub type Reports = BTreeMap<StepId, (String, Report)>;

/// How deep a step is nested: document, `steps`, step.
const STEP_DEPTH: usize = 2;

/// Returns the whole document if the text is JSON, else the fields and the whole steps before the first error.
pub fn salvage(text: &str) -> Value {
    match serde_json::from_str(text) {
        Ok(value) => value,
        Err(error) => parse_prefix(text, &error, STEP_DEPTH).unwrap_or_else(|| json!({})),
    }
}

/// Adds what a document lacks: fields above the steps as in a new run; steps from their reports, or else as pending.
pub fn fill_missing(
    definition: &Definition,
    location: &RunLocation,
    at: Timestamp,
    document: Value,
    reports: &Reports,
) -> FilledDocument {
    let fresh = serde_json::to_value(record::open(definition, location, at));
    let Ok(Value::Object(fresh)) = fresh else { panic!("BUG: a document is an object") };
    let mut lost = Vec::new();
    let mut found = match document {
        Value::Object(found) => found,
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Array(_) => Map::new(),
    };
    for (field, value) in fresh {
        if found.contains_key(&field) {
            continue;
        }
        if field == "steps" {
            // Each step is named below.
            found.insert(field, json!({}));
        } else {
            lost.push(format!("`{field}`"));
            found.insert(field, value);
        }
    }
    let mut from_reports = Vec::new();
    if let Some(steps) = found.get_mut("steps").and_then(Value::as_object_mut) {
        let mut missing: Vec<_> =
            definition.step_ids().filter(|id| !steps.contains_key(id.as_str())).collect();
        // A step may be reported only after the steps that it needs, which may be lost, too.
        while let Some((id, step)) = missing.iter().find_map(|id| {
            let (path, report) = reports.get(*id)?;
            Some((*id, step_from_report(definition, steps, id, path, report)?))
        }) {
            steps.insert(id.to_string(), to_json(&step));
            from_reports.push(id.clone());
            missing.retain(|other| *other != id);
        }
        for id in missing {
            lost.push(format!("step `{id}`"));
            steps.insert(id.to_string(), to_json(&StepDocument::pending()));
        }
    }
    FilledDocument { document: Value::Object(found), lost, from_reports }
}

fn to_json(step: &StepDocument) -> Value {
    serde_json::to_value(step).expect("BUG: a step is plain data")
}

/// Rebuilds a step from its report. Returns `None` in these cases:
///
/// * The attempt failed, or a needed step is not done.
/// * A needed step ended after the report: it has run again since, so the report is of an earlier iteration.
/// * The step has a data loop or checks: the report does not tell how they ended.
fn step_from_report(
    definition: &Definition,
    steps: &Map<String, Value>,
    id: &StepId,
    path: &str,
    report: &Report,
) -> Option<StepDocument> {
    let step = definition.step(id);
    let time = |text: &str| Time::try_from(text.to_owned()).ok();
    let (started_at, ended_at) = (time(&report.started_at), time(&report.ended_at)?);
    let follows = step.needs.iter().all(|need| {
        let need = &steps.get(need.as_str()).unwrap_or(&Value::Null);
        let ended = need["ended_at"].as_str().and_then(time);
        matches!(need["status"].as_str(), Some("COMPLETED" | "SKIPPED"))
            && ended.is_none_or(|ended| ended.stamp() <= ended_at.stamp())
    });
    if !follows
        || report.status != report::Status::Completed
        || step.data_loop.is_some()
        || !step.checks.is_empty()
    {
        return None;
    }
    let gate_failed = report.gate_failure && step.loop_back_to.is_some();
    // Whether a person has approved it is lost. A failed gate loops back without asking.
    let needs_approval = step.human_in_the_loop && !gate_failed;
    let why = report.logs.last().map_or("no reason was given", String::as_str);
    Some(StepDocument {
        status: if needs_approval { Status::WaitingOnHuman } else { Status::Completed },
        attempts: 1,
        report_path: Some(path.to_owned()),
        started_at,
        ended_at: (!needs_approval).then_some(ended_at),
        last_error: gate_failed.then(|| format!("{GATE_FAILURE}: {why}")),
        artifacts: report.artifacts.clone(),
        metrics: report.metrics.iter().map(|(key, value)| (key.clone(), json!(value))).collect(),
        logs: report.logs.clone(),
        ..StepDocument::pending()
    })
}

#[cfg(test)]
mod tests {
    use std::num::NonZeroU32;

    use super::super::{OnFailure, StoredDefinition};
    use super::*;
    use crate::RunId;
    use crate::report::ReportIdentity;
    use crate::steps::load::load;

    const WHOLE: &str = r#"{
  "run_id": "a, {b\"",
  "steps": {
    "plan": {"status": "COMPLETED", "logs": ["x, y", "]"], "metrics": {"n": {"deep": 1}}},
    "code": {"status": "RUNNING", "logs": []}
  },
  "more": true
}"#;

    #[test]
    fn a_torn_file_gives_its_fields_and_whole_steps_wherever_it_ends() {
        let whole: Value = serde_json::from_str(WHOLE).unwrap();
        assert_eq!(salvage(WHOLE), whole);
        let plan = WHOLE.find("},\n    \"code\"").unwrap();
        for end in 0..WHOLE.len() {
            let found = salvage(&WHOLE[..end]);
            for (field, value) in found.as_object().unwrap() {
                match field.as_str() {
                    "steps" => {
                        let mut steps = value.as_object().unwrap().iter();
                        assert!(steps.all(|(id, step)| whole["steps"][id] == *step), "{end}: {found}");
                    }
                    field => assert_eq!(whole[field], *value, "{end}"),
                }
            }
            assert_eq!(found["steps"]["plan"].is_object(), end > plan, "{end}: {found}");
        }
    }

    /// Fills a document of a workflow with six steps. Each report has the step, its end, and whether the gate failed.
    fn completed(found: Value, reports: &[(&str, &str, bool)]) -> FilledDocument {
        let source = "\
steps:
- {id: docs, agent: x, prompt: p, needs: [review]}
- {id: plan, agent: x, prompt: p}
- {id: code, agent: x, prompt: p, needs: [plan], human_in_the_loop: true}
- {id: review, agent: x, prompt: p, needs: [plan], loop_back_to: plan}
- {id: tested, agent: x, prompt: p, needs: [plan], checks: [test]}
- {id: approved, agent: x, prompt: p, needs: [plan], loop_back_to: plan, human_in_the_loop: true}
";
        let definition = Definition::from(StoredDefinition {
            workflow: load(source).unwrap().workflow,
            source: String::new(),
            prompts: BTreeMap::new(),
            max_attempts: NonZeroU32::MIN,
            max_iterations: NonZeroU32::MIN,
            on_failure: OnFailure::Stop,
            gate_state_file: None,
            report_schema: None,
            memory: Default::default(),
        });
        let run = RunId::new("f8c1a491").unwrap();
        let reports = reports.iter().map(|(id, ended_at, gate_failure)| {
            let step_id = StepId::new(*id).unwrap();
            let expected =
                ReportIdentity { run_id: run.clone(), step_id: step_id.clone(), agent: "x".to_owned() };
            let mut report = Report::completed(&expected, Timestamp::from_micros(0), Map::new());
            report.ended_at = format!("2025-01-15T{ended_at}Z");
            report.gate_failure = *gate_failure;
            (step_id, (format!("/reports/{id}.json"), report))
        });
        let location = RunLocation::new(run.clone(), "/repo".to_owned());
        fill_missing(&definition, &location, Timestamp::from_micros(0), found, &reports.collect())
    }

    #[test]
    fn a_lost_step_is_rebuilt_from_its_report_if_the_report_is_of_the_current_iteration() {
        let plan = json!({"status": "COMPLETED", "ended_at": "2025-01-15T14:30:00Z"});
        let found = json!({"steps": {"plan": plan}});
        let status =
            |completed: &FilledDocument, step: &str| completed.document["steps"][step]["status"].clone();
        let all = [("review", "14:31:00", false), ("docs", "14:32:00", false), ("code", "14:31:00", false)];
        let taken = completed(found.clone(), &all);
        assert_eq!(
            taken.from_reports.iter().map(StepId::as_str).collect::<Vec<_>>(),
            ["code", "review", "docs"]
        );
        assert_eq!(status(&taken, "docs"), "COMPLETED");
        assert_eq!(status(&taken, "code"), "WAITING_ON_HUMAN", "whether it was approved is lost");
        assert_eq!(taken.document["steps"]["docs"]["report_path"], "/reports/docs.json");
        let old = completed(found.clone(), &[("review", "14:29:00", false), ("docs", "14:32:00", false)]);
        assert_eq!(old.from_reports, [], "`plan` was done again after `review`, and `docs` needs `review`");
        assert_eq!(status(&old, "review"), "PENDING");
        let failed = completed(found, &[("review", "14:31:00", true)]);
        assert_eq!(failed.document["steps"]["review"]["last_error"], "Gate failure: no reason was given");
    }

    /// Regression: nothing was taken from reports and no step was named.
    #[test]
    fn the_steps_of_a_file_torn_before_them_are_rebuilt_or_named() {
        let filled = completed(json!({"workflow_name": "site"}), &[("plan", "14:30:00", false)]);
        assert_eq!(filled.from_reports.iter().map(StepId::as_str).collect::<Vec<_>>(), ["plan"]);
        assert_eq!(filled.document["steps"]["plan"]["status"], "COMPLETED");
        assert!(filled.lost.contains(&"step `code`".to_owned()), "{:?}", filled.lost);
    }

    /// Regression: checks that may have failed counted as passed, and a person was asked to approve a failed gate.
    #[test]
    fn a_report_shows_neither_passed_checks_nor_an_open_approval_of_a_failed_gate() {
        let found = json!({"steps": {"plan": {"status": "COMPLETED", "ended_at": "2025-01-15T14:30:00Z"}}});
        let taken = completed(found, &[("tested", "14:31:00", false), ("approved", "14:31:00", true)]);
        assert_eq!(taken.document["steps"]["tested"]["status"], "PENDING");
        assert_eq!(taken.document["steps"]["approved"]["status"], "COMPLETED");
        assert_eq!(taken.document["steps"]["approved"]["last_error"], "Gate failure: no reason was given");
    }

    #[test]
    fn only_the_text_before_invalid_bytes_is_read() {
        let code = WHOLE.find("\"code\"").unwrap();
        let torn = format!("{}\0\0\0{}", &WHOLE[..code], &WHOLE[code..]);
        let found = salvage(&torn);
        assert_eq!(found["steps"].as_object().unwrap().keys().collect::<Vec<_>>(), ["plan"]);
        assert_eq!(salvage("\0\0\0"), json!({}));
        assert_eq!(salvage(""), json!({}));
    }
}
