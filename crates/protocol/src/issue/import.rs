//! Imports a document: determines the state of a run that starts with it.

use std::collections::BTreeSet;

use serde_json::Value;

use super::check::check;
use super::decide::{Change, FailureCause, Stage, State};
use super::definition::{Definition, TriageMode};
use super::document::{Document, EngineData, EnumOrText, PipelineStatus, ReviewVerdict};
use super::record::BLOCK;
use super::step::{Addressee, Agent, Step};
use super::verdict::Pending;
use crate::StepRecordStatus;
use crate::protocol_trait::{ImportRefusal, Move, Next, Outcome};

/// Returns the document that a run continues: `found` merged into `document`, with ids for questions and escalations.
/// Fails if a field has another type.
pub(super) fn imported_document(document: &Document, found: &Value) -> Result<Document, String> {
    let mut imported = document.merged(found)?;
    // The file does not show the engine's data, so it is derived from the file's fields.
    if found.get("callboard").is_none() {
        imported.engine = EngineData { created_at: document.engine.created_at, ..EngineData::default() };
        let finished = [
            (Step::Triage, imported.triage.completed),
            (Step::Analyst, imported.analysis.completed),
            (Step::Writer, imported.writer.completed),
            (Step::Build, imported.build.completed),
            (Step::Reviewer, imported.review.completed),
        ];
        for (step, _) in finished.into_iter().filter(|(_, completed)| *completed) {
            imported.engine.steps.entry(step.id()).or_default().status = StepRecordStatus::Succeeded;
        }
    }
    // The name and the directory are those of this run, not of the run that wrote `found`.
    (imported.engine.run, imported.engine.state_dir) =
        (document.engine.run.clone(), document.engine.state_dir.clone());
    let communication = &mut imported.communication;
    fill_ids('q', communication.questions.iter_mut().map(|question| &mut question.id).collect());
    fill_ids('e', communication.escalations.iter_mut().map(|escalation| &mut escalation.id).collect());
    let open: Vec<_> = open_items(&imported).into_iter().map(|(id, _)| id).collect();
    imported.engine.asked = u32::try_from(open.len()).unwrap_or(u32::MAX);
    // A failed run waits for no answer. A retry repeats the step, which may ask again.
    imported.engine.pending = if is_failed(&imported) { Vec::new() } else { open };
    Ok(imported)
}

/// Gives each item without an id, or with that of an earlier item, one of its own: `q1`, `q2`.
fn fill_ids(prefix: char, ids: Vec<&mut Option<String>>) {
    let stated: BTreeSet<String> = ids.iter().filter_map(|id| (**id).clone()).collect();
    let mut seen = BTreeSet::new();
    let mut free = (1_u32..).map(|number| format!("{prefix}{number}")).filter(|id| !stated.contains(id));
    for id in ids {
        if id.as_ref().is_none_or(|id| !seen.insert(id.clone())) {
            *id = free.next();
        }
    }
}

/// Returns the questions, escalations and blocks that wait for an answer, with their ids.
fn open_items(document: &Document) -> Vec<(String, Pending)> {
    let communication = &document.communication;
    let questions = communication.questions.iter().filter(|question| !question.answered).map(|question| {
        let to = Addressee::parse(&question.to).unwrap_or(Addressee::Human);
        (question.id.clone(), Pending::Question(to))
    });
    let escalations = communication.escalations.iter();
    let escalations = escalations.filter(|escalation| !escalation.resolved).map(|escalation| {
        let escalation_agent = Agent::parse(&escalation.agent).filter(|_| !escalation.requires_human);
        let to =
            escalation_agent.map_or(Addressee::Human, |agent| Addressee::Agent(agent.escalation_agent()));
        (escalation.id.clone(), Pending::Escalation(to))
    });
    let mut open: Vec<_> =
        questions.chain(escalations).filter_map(|(id, pending)| Some((id?, pending))).collect();
    let is_blocked = status(document) == Some(PipelineStatus::Blocked);
    if is_blocked && !open.iter().any(|(_, pending)| pending.addressee() == Addressee::Human) {
        open.push((BLOCK.to_owned(), Pending::Block));
    }
    open
}

fn is_failed(document: &Document) -> bool {
    status(document) == Some(PipelineStatus::Failed)
}

fn status(document: &Document) -> Option<PipelineStatus> {
    document.pipeline.status.as_ref().and_then(EnumOrText::known)
}

/// Imports a document. Fails if it breaks rules or is about another issue. The next step follows from its status, its
/// `completed` flags, the results of the build and the verdict of the review.
pub(super) fn import(definition: &Definition, found: &Value) -> Result<Move<Change, Step>, ImportRefusal> {
    let violations = check(found).violations;
    if !violations.is_empty() {
        return Err(ImportRefusal::Invalid(violations));
    }
    let document = imported_document(&Document::default(), found).map_err(ImportRefusal::Unusable)?;
    if document.issue.number.is_some_and(|number| number != definition.issue.number) {
        let number = document.issue.number.unwrap_or_default();
        return Err(ImportRefusal::Unusable(format!("it is about issue {number}")));
    }
    let state = state_of(definition, &document);
    let next = match (state.failed, state.current()) {
        (Some(_), _) => Next::Finish(Outcome::Failed),
        (None, None) => Next::Finish(Outcome::Succeeded),
        (None, Some(step)) => Next::Queue(vec![step]),
    };
    Ok(Move { changes: vec![Change::Imported(state)], next })
}

fn state_of(definition: &Definition, document: &Document) -> State {
    let is_failed = is_failed(document);
    let pending: Vec<_> = open_items(document).into_iter().map(|(_, pending)| pending).collect();
    let mut state = State {
        stage: stage_of(definition, document),
        attempt: document.pipeline.attempt.clamp(1, definition.pipeline_attempts.get()),
        asked: u32::try_from(pending.len()).unwrap_or(u32::MAX),
        pending: if is_failed { Vec::new() } else { pending },
        posted: false,
        failed: is_failed.then_some(FailureCause::Step),
        answer_steps: BTreeSet::new(),
    };
    if is_failed && state.attempt == definition.pipeline_attempts.get() {
        (state.stage, state.failed) = (Stage::GiveUp, Some(FailureCause::Pipeline));
    }
    if let Some(step @ (Step::Answer(_) | Step::Person)) = state.current() {
        state.answer_steps.insert(step);
    }
    state
}

fn stage_of(definition: &Definition, document: &Document) -> Stage {
    let verdict = document.review.verdict.as_ref().and_then(EnumOrText::known);
    let build_failed =
        [document.build.tests_passed, document.build.lint_passed, document.build.type_check_passed]
            .contains(&Some(false));
    if status(document) == Some(PipelineStatus::Completed) {
        Stage::Done
    } else if document.commit.completed {
        Stage::Announce
    } else if document.review.completed && verdict == Some(ReviewVerdict::Approved) {
        Stage::Commit
    } else if document.build.completed
        && document.writer.completed
        && !build_failed
        && verdict != Some(ReviewVerdict::Rejected)
    {
        Stage::Reviewer
    } else if document.writer.completed && !document.build.completed {
        Stage::Diff
    } else if document.analysis.completed {
        Stage::Writer
    } else if definition.triage == TriageMode::Run && !document.triage.completed {
        Stage::Triage
    } else {
        Stage::Analyst
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_item_of_an_imported_document_has_an_id_of_its_own() {
        let mut ids = [Some("q2"), None, Some("q2"), None].map(|id| id.map(str::to_owned));
        fill_ids('q', ids.iter_mut().collect());
        assert_eq!(ids.map(Option::unwrap), ["q2", "q1", "q3", "q4"]);
    }

    #[test]
    fn a_failed_document_waits_for_no_answer() {
        let question = serde_json::json!({ "from": "writer", "to": "human", "question": "where?" });
        for (status, waiting) in [("in_progress", 1), ("failed", 0)] {
            let found = serde_json::json!({
                "pipeline": { "status": status, "failure_reason": "stopped" }, "communication": { "questions": [question] },
            });
            let imported = imported_document(&Document::default(), &found).unwrap();
            assert_eq!(imported.engine.pending.len(), waiting, "{status}");
        }
    }
}
