//! The questions for a person about a group.

use super::super::definition::GroupId;
use super::super::document::{Document, GroupPart, Mailbox};
use super::super::report::verdicts;
use super::super::state::{DecisionReason, GroupProgress};
use super::super::step::{PmStep, Role, Step};
use crate::people::{AnswerOption, InboxItemKind, Question};

/// Returns the question that a decision step asks a person; `None` if the step asks none.
pub(in crate::team) fn question(document: &Document, step: &Step) -> Option<Question> {
    let options = verdicts::options(step).into_iter().map(|choice| {
        let word = choice.as_str().to_owned();
        if choice.needs_reason() { AnswerOption::WithReason(word) } else { AnswerOption::Plain(word) }
    });
    let text = match step {
        Step::Group(id, Role::Decision) => {
            let group = document.groups.get(id)?;
            let (GroupProgress::Asks(reason) | GroupProgress::Failed(reason)) = group.progress else {
                return None;
            };
            let why = group.import_question.as_deref().filter(|_| reason == DecisionReason::Imported);
            let asked = format!(
                "Group {id} ({}): {}. What next?",
                group.status(),
                why.unwrap_or(reason_text(reason))
            );
            std::iter::once(asked).chain(last_feedback(document, id, group)).collect::<Vec<_>>().join("\n")
        }
        Step::Pm(PmStep::Decision) => {
            let why = document.run.refusal.as_deref().unwrap_or("there were too many final checks");
            format!("The project manager's completion is not accepted: {why}. What next?")
        }
        Step::Pm(_) | Step::Group(..) => return None,
    };
    Some(Question { kind: InboxItemKind::LimitReached, text, options: options.collect() })
}

/// Returns the last findings of QA, the last review and the last error of a group.
fn last_feedback(document: &Document, id: &GroupId, group: &GroupPart) -> Vec<String> {
    let mut messages = document.messages.iter().rev();
    let failed =
        messages.find(|message| message.mailbox == Mailbox::QaToDev && message.group.as_ref() == Some(id));
    let findings = failed.map(|message| verdicts::texts(&message.body, "findings").join("; "));
    let summary = failed.map(|message| verdicts::text(&message.body, &["summary", "subject"]));
    let qa = findings
        .filter(|text| !text.is_empty())
        .or(summary)
        .map(|text| format!("QA's last findings: {text}"));
    let review = group.feedback.last();
    let review = review.map(|entry| format!("the tech lead ({}): {}", entry.decision, entry.feedback));
    let errors = group.steps.values().filter_map(|step| Some((step.ended_at?, step.error.as_ref()?)));
    let error = errors.max_by_key(|(at, _)| *at).map(|(_, error)| format!("the last error: {error}"));
    [qa, review, error].into_iter().flatten().collect()
}

fn reason_text(reason: DecisionReason) -> &'static str {
    match reason {
        DecisionReason::Developer => "its developer has had all turns",
        DecisionReason::Qa => "QA has had all turns",
        DecisionReason::Review => "the tech lead has had all reviews",
        DecisionReason::NoProgress => "a review found no fewer blocking issues than the one before",
        DecisionReason::TechLead => "the tech lead has no attempts left",
        DecisionReason::Merge => "its merge could not be tried",
        DecisionReason::Imported => "the imported files do not say what it needs",
    }
}
