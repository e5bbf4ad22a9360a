//! Presents runs of `peer`.

use serde_json::{Map, Value, json};

use super::output::{self, Judgement, Score};
use super::{
    Change, Definition, Document, Peer, PeerCycleId, PeerCycleStatus, Phase, PhaseDocument, PhaseStatus,
    State, Verdict,
};
use crate::entry::FailureKind;
use crate::people::{InboxItemKind, OpenItem, Question};
use crate::present::{self, Line, Present, StatusKind, StepSummary, Tone};
use crate::prompt::PromptTemplate;
use crate::protocol_trait::{Never, Protocol as _, StepStatus};
use crate::report::Report;
use crate::{RunId, StepId, Timestamp};

impl Present for Peer {
    const STEP_NOUNS: (&'static str, &'static str) = ("phase", "phases");
    const STEPS_KEY: &'static str = "phases";
    const START_COMMAND: &'static str = "callboard peer";
    const START_ARGUMENT: &'static str = "requirements";
    const CAN_RETRY: bool = false;
    /// The name of the run is the id of its cycle.
    const IMPORT_CAN_RENAME: bool = false;
    const PROMPTS: &'static [PromptTemplate] = &super::prompts::TEMPLATES;

    fn agent(_: &Definition, _: &State, step: &Phase) -> String {
        step.agent().to_owned()
    }

    fn needs(_: &Definition, _: &State, step: &Phase) -> Vec<Phase> {
        Phase::ALL.into_iter().filter(|phase| phase.next() == Some(*step)).collect()
    }

    fn unblocks_dependents(definition: &Definition, state: &State, step: &Phase) -> bool {
        Self::step_status(definition, state, step) == StepStatus::Succeeded
    }

    fn about(definition: &Definition, document: &Document) -> Vec<String> {
        let metadata = &document.metadata;
        let cycle = format!(
            "{} {}, {}, sequence {}",
            metadata.instruction,
            document.cycle_id,
            metadata.status.as_str(),
            document.sequence
        );
        let continues = document.context.continues.as_ref().map(|cycle| format!("continues {cycle}"));
        let prompts = definition.prompts.keys().map(|role| {
            format!("the prompt of `{role}` is that of the repository, as it was when the cycle started")
        });
        std::iter::once(cycle).chain(continues).chain(prompts).collect()
    }

    fn created_at(document: &Document) -> Timestamp {
        document.metadata.created_at.into()
    }

    fn step_summary(document: &Document, step: &Phase) -> StepSummary {
        let phase = &document.phases[*step];
        // A completed phase shows no error; its attempts do.
        let last_error = phase.errors().last().filter(|_| phase.status != PhaseStatus::Completed);
        StepSummary {
            status: phase.status.as_str(),
            kind: match phase.status {
                PhaseStatus::Pending => StatusKind::Pending,
                PhaseStatus::InProgress => StatusKind::Running,
                PhaseStatus::Completed => StatusKind::Succeeded,
                PhaseStatus::Failed => StatusKind::Failed,
            },
            attempts: attempts(phase),
            loop_backs: 0,
            started_at: phase.started_at.map(Timestamp::from),
            ended_at: phase.completed_at.map(Timestamp::from),
            error: last_error.map(|error| error.message.clone()),
            note: note(phase),
        }
    }

    fn result(document: &Document) -> Vec<Line> {
        let Some(review) = Review::of(document) else { return Vec::new() };
        let (tone, word) =
            if review.success { (Tone::Good, "successful") } else { (Tone::Bad, "unsuccessful") };
        let score = match review.judgement.score {
            Some(score @ Score::Number(_)) => format!("score {score}, {}", score.band().as_str()),
            Some(score @ Score::Word(_)) => format!("score {score}"),
            None => "no score".to_owned(),
        };
        let executed =
            if review.judgement.execution_succeeded { "" } else { "; the execute phase reported a failure" };
        let review_line = Line::plain("review: ").then_toned(tone, word).then(format!(", {score}{executed}"));
        let mut lines = vec![review_line];
        lines.extend(summary(document).iter().map(|line| Line::plain(format!("  {line}"))));
        if !review.questions.is_empty() {
            lines.push(Line::plain("questions for you:"));
        }
        let question = |question: &String| {
            Line::plain("  ").then_toned(Tone::Attention, "?").then(format!(" {question}"))
        };
        lines.extend(review.questions.iter().map(question));
        lines
    }

    fn result_fields(document: &Document) -> Map<String, Value> {
        let review = Review::of(document).map(|review| {
            let score = review.judgement.score.map(|score| match score {
                Score::Number(number) => json!(number),
                Score::Word(band) => json!(band.as_str()),
            });
            json!({
                "success": review.success,
                "score": score,
                "band": review.judgement.score.map(|score| score.band().as_str()),
                "questions_for_user": review.questions,
            })
        });
        let summary = review.as_ref().and(document.cycle_summary.clone());
        let fields = [("review", review), (output::CYCLE_SUMMARY, summary)];
        fields.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value?))).collect()
    }

    /// The cycles of one spec.
    fn series(run: &RunId) -> Option<String> {
        Some(PeerCycleId::from_key(run.as_str()).ok()?.scope.store_key_prefix())
    }

    /// The questions of the review. The cycle has ended, so a new one takes the answers.
    fn open_items(document: &Document) -> Vec<OpenItem<Phase>> {
        let questions = Review::of(document).map(|review| review.questions).unwrap_or_default();
        let hint = new_cycle_hint(document);
        let item = |(index, text): (usize, String)| OpenItem {
            step: Phase::Review,
            item: (index + 1).to_string(),
            question: Question { kind: InboxItemKind::Question, text, options: Vec::new() },
            hint: hint.clone(),
        };
        questions.into_iter().enumerate().map(item).collect()
    }

    fn check_report(step: &StepId, report: &Report) -> Result<(), String> {
        match Phase::ALL.into_iter().find(|phase| phase.as_str() == step.as_str()) {
            Some(phase) => super::step::check_report(phase, report),
            None => Ok(()),
        }
    }

    fn verdict_text(verdict: &Verdict) -> &'static str {
        match verdict {
            Verdict::Completed => "reported that its phase is completed",
            Verdict::Reviewed { success: true } => "reported a successful review",
            Verdict::Reviewed { success: false } => "reported an unsuccessful review",
        }
    }

    fn change_line(change: &Change) -> Option<Line> {
        match change {
            Change::ReuseStarted(phase) => {
                let text = format!(" {phase} reused from the previous cycle");
                Some(Line::toned(Tone::Active, "»").then(text))
            }
            Change::Reviewed { success: true } => {
                Some(Line::toned(Tone::Good, "✓").then(" the review is successful"))
            }
            Change::Reviewed { success: false } => {
                Some(Line::toned(Tone::Attention, "✗").then(" the review is unsuccessful"))
            }
            Change::Closed => Some(Line::plain("the cycle is completed")),
            Change::Failed(phase) => {
                Some(Line::toned(Tone::Bad, "✗").then(format!(" the cycle failed in {phase}")))
            }
            Change::Imported(_) => Some(Line::plain("the cycle was started by another system")),
            // The lines of the started and ended attempts say it.
            Change::Activated(_) | Change::Completed(_) => None,
        }
    }

    fn change_event(change: &Change) -> Option<(&'static str, Value)> {
        match change {
            Change::ReuseStarted(phase) => Some(("reused", json!({ "step": phase }))),
            Change::Reviewed { success } => Some(("reviewed", json!({ "success": success }))),
            Change::Closed => Some(("cycle_completed", json!({}))),
            Change::Failed(phase) => Some(("cycle_failed", json!({ "step": phase }))),
            // The events of the started and ended attempts say it. An imported cycle has no start.
            Change::Activated(_) | Change::Completed(_) | Change::Imported(_) => None,
        }
    }

    fn request_text(request: &Never) -> String {
        match *request {}
    }

    fn edit_summary(edit: &json_patch::Patch) -> String {
        let paths: Vec<_> = edit.iter().map(|operation| operation.path().to_string()).collect();
        match paths.split_at_checked(MAX_PATHS) {
            Some((named, [_, ..])) => format!("{} and {} more", named.join(", "), paths.len() - MAX_PATHS),
            Some((_, [])) | None => paths.join(", "),
        }
    }

    fn concerns(change: &Change, step: &StepId) -> bool {
        match change {
            Change::Activated(about)
            | Change::ReuseStarted(about)
            | Change::Completed(about)
            | Change::Failed(about) => about.as_str() == step.as_str(),
            Change::Reviewed { .. } => step.as_str() == Phase::Review.as_str(),
            Change::Closed | Change::Imported(_) => false,
        }
    }

    /// A cycle that has ended stays ended. A new cycle continues a failed one, or improves on an unsuccessful review.
    fn failure_hint(_: &Definition, _: &RunId, document: &Document) -> String {
        new_cycle_hint(document)
    }
}

/// Suggests the command that starts the next cycle.
fn new_cycle_hint(document: &Document) -> String {
    let spec = document.metadata.spec_name.as_ref();
    let spec = spec.map(|spec| format!(" --spec {}", shell_words::quote(spec.as_str())));
    match (document.metadata.status, spec) {
        (PeerCycleStatus::Completed, None) => {
            let instruction = &document.metadata.instruction;
            format!("run `callboard peer {instruction} REQUIREMENTS` to start an improved cycle")
        }
        (PeerCycleStatus::Completed, Some(spec)) => format!(
            "run `callboard peer refine-spec{spec}` to start a new cycle with the recommendations of the review"
        ),
        (PeerCycleStatus::Initialized | PeerCycleStatus::InProgress | PeerCycleStatus::Failed, spec) => {
            let scope = spec.unwrap_or_else(|| " --global".to_owned());
            format!(
                "run `callboard peer --continue{scope}` to start a new cycle with the completed phases of this one"
            )
        }
    }
}

/// Lists at most this many paths of an edit.
const MAX_PATHS: usize = 3;

/// The result of a completed review.
struct Review {
    judgement: Judgement,
    success: bool,
    questions: Vec<String>,
}

impl Review {
    fn of(document: &Document) -> Option<Self> {
        let review = &document.phases.review;
        let reviewed = review.output.as_ref().filter(|_| review.status == PhaseStatus::Completed)?;
        let executed = document.phases.execute.output.clone().unwrap_or_default();
        Some(Self {
            judgement: output::judge(&executed, reviewed),
            success: output::succeeded(&executed, reviewed, document.cycle_summary.as_ref()),
            questions: document.insights.as_ref().map(output::questions_for_user).unwrap_or_default(),
        })
    }
}

/// Returns the reviewer's summary, highlights and next action, one line each.
fn summary(document: &Document) -> Vec<String> {
    let Some(summary) = &document.cycle_summary else { return Vec::new() };
    let text =
        |field: &str| summary[field].as_str().map(str::to_owned).filter(|text| !text.trim().is_empty());
    let highlights = summary["highlights"].as_array().into_iter().flatten().filter_map(Value::as_str);
    let next = text("next_action").map(|next| format!("next: {next}"));
    text("summary").into_iter().chain(highlights.map(|line| format!("* {line}"))).chain(next).collect()
}

/// Returns the number of counted attempts, the current one included. Each failed attempt has left an error. Two kinds of
/// errors are no attempts: those that agents wrote themselves, whose kind is no [`FailureKind`], and a stop by the user.
fn attempts(phase: &PhaseDocument) -> u32 {
    let is_counted_kind = |kind: &str| {
        let kind = serde_json::from_value::<FailureKind>(json!(kind));
        kind.is_ok_and(|kind| kind != FailureKind::Cancelled)
    };
    let failed = phase.errors().iter().filter(|error| is_counted_kind(&error.kind)).count();
    let is_counted = match phase.status {
        PhaseStatus::InProgress => true,
        PhaseStatus::Completed => phase.reused_from.is_none(),
        PhaseStatus::Pending | PhaseStatus::Failed => false,
    };
    u32::try_from(failed).unwrap_or(u32::MAX).saturating_add(u32::from(is_counted))
}

/// Describes where the output of a phase is from, and its size.
fn note(phase: &PhaseDocument) -> Option<String> {
    let filled =
        phase.output.as_ref().filter(|output| output.as_object().is_none_or(|fields| !fields.is_empty()));
    let size = filled.map(|output| {
        let length = u64::try_from(output.to_string().len()).unwrap_or(u64::MAX);
        format!("output {}", present::size(length))
    });
    let reused = phase.reused_from.as_ref().map(|cycle| format!("reused from {cycle}"));
    let parts: Vec<_> = reused.into_iter().chain(size).collect();
    (!parts.is_empty()).then(|| parts.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_edit_lists_its_first_paths_and_counts_the_others() {
        let edit = |paths: &[&str]| {
            let operations = paths.iter().map(|path| json!({ "op": "add", "path": path, "value": 1 }));
            let edit: json_patch::Patch = serde_json::from_value(operations.collect()).unwrap();
            Peer::edit_summary(&edit)
        };
        assert_eq!(edit(&["/phases/plan/output/x"]), "/phases/plan/output/x");
        assert_eq!(edit(&["/a", "/b", "/c"]), "/a, /b, /c");
        assert_eq!(edit(&["/a", "/b", "/c", "/d", "/e"]), "/a, /b, /c and 2 more");
    }
}
