//! Questions to people and their answers.

use serde_json::Map;

use super::{Parts, author, progress, record_start, step};
use crate::brief::{Finding, GivenAnswer};
use crate::entry::{Entry, Evidence, Input};
use crate::people::Answer;
use crate::report::{Report, ReportIdentity};
use crate::run::Fact;
use crate::steps::definition::Definition;
use crate::steps::document::{Document, Status};
use crate::steps::phases::Phase;
use crate::steps::phases::people;
use crate::steps::{PERSON, Steps, Verdict, layout};
use crate::{RunId, StepId, Timestamp};

/// Records that a turn waits for a person. A step that waits for conditions has not started, and stays as it is.
pub(super) fn record_wait(
    definition: &Definition,
    document: &mut Document,
    id: &StepId,
    at: Timestamp,
    parts: &mut Parts,
) {
    let run_fields = &document.run_fields;
    let path = layout::manual_input_path(&run_fields.manual_inputs_dir, &run_fields.run_id, id.as_str());
    let phase = document.phase(definition, id);
    match phase {
        Phase::Conditions => return,
        Phase::Work => {
            forget_answer(document, id, parts);
            let step = step(document, id, parts);
            record_start(step, step.attempts, at);
        }
        // The agent's results stay.
        Phase::When
        | Phase::ReadItems
        | Phase::WorkOnItems
        | Phase::Checks
        | Phase::Approval
        | Phase::Approved => {
            step(document, id, parts).ended_at = None;
        }
    }
    let step = step(document, id, parts);
    step.status = Status::WaitingOnHuman;
    step.manual_input_path = Some(path);
}

/// Records an answer. The step runs until the decision about the answer has completed or failed it.
pub(super) fn record_answer(
    definition: &Definition,
    document: &mut Document,
    id: &StepId,
    entry: &Entry<Steps>,
    evidence: Option<&Evidence>,
    parts: &mut Parts,
) {
    if document.phase(definition, id) == Phase::Conditions {
        return;
    }
    let step = step(document, id, parts);
    step.status = Status::Running;
    step.last_error = None;
    step.manual_input_path = None;
    step.logs.extend(answer_line(entry, evidence));
    if let Some(answer) = evidence.and_then(|evidence| evidence.answer.as_ref()) {
        let answer = GivenAnswer {
            step: id.to_string(),
            approved: people::approves(answer),
            by: author(&entry.by).to_owned(),
            text: answer.text().map(str::to_owned),
        };
        progress(document, id, parts).answer = Some(answer);
    }
}

/// Forgets the answer of an earlier turn.
pub(super) fn forget_answer(document: &mut Document, id: &StepId, parts: &mut Parts) {
    if document.answer(id).is_some() {
        progress(document, id, parts).answer = None;
    }
}

/// Returns the rejection of a person as a finding. No file shows it, so its `report_path` is empty.
pub(super) fn rejection(
    document: &Document,
    id: &StepId,
    entry: &Entry<Steps>,
    evidence: Option<&Evidence>,
) -> Option<Finding> {
    let expected = ReportIdentity {
        run_id: RunId::new(&document.run_fields.run_id).ok()?,
        step_id: id.clone(),
        agent: PERSON.to_owned(),
    };
    let mut report = Report::completed(&expected, entry.at, Map::new());
    report.gate_failure = true;
    report.logs = vec![answer_line(entry, evidence)?];
    Some(Finding { from: id.to_string(), report_path: String::new(), report })
}

/// Whether the entry is the rejection of a step that is not a gate. The rejection of a gate is `Verdict::GateFailed`.
pub(super) fn is_rejected(entry: &Entry<Steps>) -> bool {
    matches!(&entry.input, Input::Fact { fact: Fact::Answered { verdict: Verdict::Rejected, .. }, .. })
}

/// Returns who answered what: `Rejected by ada: too dark`.
pub(super) fn answer_line(entry: &Entry<Steps>, evidence: Option<&Evidence>) -> Option<String> {
    let answer = evidence?.answer.as_ref()?;
    let done = match answer {
        Answer::Approve { .. } => "Approved",
        Answer::Reject { .. } => "Rejected",
        Answer::Choose { .. } | Answer::Resolve { .. } | Answer::Workaround { .. } | Answer::Text { .. } => {
            "Answered"
        }
    };
    let text = answer.text().map(|text| format!(": {text}")).unwrap_or_default();
    Some(format!("{done} by {}{text}", author(&entry.by)))
}
