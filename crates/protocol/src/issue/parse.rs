//! Reads reports and answers as verdicts.

use serde_json::Value;

use super::definition::Definition;
use super::document::{Document, EnumOrText, PipelineStatus, ReviewVerdict};
use super::globs;
use super::step::{Addressee, Agent, Step};
use super::verdict::{Pending, Verdict};
use crate::checks::{self, CheckResult};
use crate::report::{self, Report};
use crate::{Answer, ParsedReport};

pub(super) fn parse_report(
    definition: &Definition,
    document: &Document,
    step: Step,
    report: &Report,
) -> ParsedReport<Verdict> {
    if report.status == report::Status::Failed {
        let why = report.logs.last().cloned();
        return ParsedReport::Failed(why.unwrap_or_else(|| "the agent reports failure".to_owned()));
    }
    let verdict = match step {
        Step::Triage => agent_report(definition, document, Agent::Triage, report),
        Step::Analyst => agent_report(definition, document, Agent::Analyst, report),
        Step::Writer => agent_report(definition, document, Agent::Writer, report),
        Step::Reviewer => agent_report(definition, document, Agent::Reviewer, report),
        Step::Answer(_) => answer_text(report).map(|_| Verdict::Answered),
        Step::Diff => changed_files(report).map(|changed| diff_verdict(document, &changed)),
        Step::Build => checks::results(report).map(|results| build_verdict(&results)),
        // `pushed` is false if there is no remote.
        Step::Push => Ok(match report.extra_fields.get("pushed") {
            Some(Value::Bool(false)) => Verdict::NotPushed,
            Some(_) | None => Verdict::Performed,
        }),
        Step::Commit | Step::PullRequest | Step::Comment | Step::Close => Ok(Verdict::Performed),
        Step::Person => Err("only a person answers".to_owned()),
    };
    match verdict {
        Ok(verdict) => ParsedReport::Verdict(verdict),
        Err(why) => ParsedReport::Invalid(why),
    }
}

/// Returns the text of an answer to a question.
pub(super) fn answer_text(report: &Report) -> Result<&str, String> {
    let answer = report.extra_fields.get("answer").and_then(Value::as_str).map(str::trim);
    answer.filter(|answer| !answer.is_empty()).ok_or_else(|| "the report has no text in `answer`".to_owned())
}

fn agent_report(
    definition: &Definition,
    document: &Document,
    agent: Agent,
    report: &Report,
) -> Result<Verdict, String> {
    let asked = pending_items(agent, report)?;
    let updated = with_report(document, agent, report)?;
    if !asked.is_empty() {
        return asks_within_limit(definition, document, asked);
    }
    let section = agent.section();
    if !report.extra_fields.contains_key(section) && report.extra_fields.get("pipeline").is_none() {
        return Err(format!("the report has no section `{section}`"));
    }
    if let Some(reason) = block_reason(agent, report) {
        return match reason {
            Some(_) => asks_within_limit(definition, document, vec![Pending::Block]),
            None => Err("a block needs a reason".to_owned()),
        };
    }
    if report.extra_fields.get(section).and_then(|section| section.get("completed"))
        == Some(&Value::Bool(false))
    {
        return Err(format!("`{section}.completed` is false, and the report asks nothing"));
    }
    match agent {
        Agent::Triage => match updated.triage.should_proceed {
            Some(true) => Ok(Verdict::Proceed),
            Some(false) | None => Err("`triage.should_proceed` is missing".to_owned()),
        },
        Agent::Analyst => analyst_verdict(&updated),
        Agent::Writer => match updated.writer.summary.as_deref().map(str::trim) {
            Some(summary) if !summary.is_empty() => Ok(Verdict::Written),
            Some(_) | None => Err("`writer.summary` is missing".to_owned()),
        },
        Agent::Reviewer => reviewer_verdict(&updated),
    }
}

/// Returns the document with what the agent may write: its own section from its report, and for the analyst also `issue`. Fails
/// if one is malformed.
pub(super) fn with_report(document: &Document, agent: Agent, report: &Report) -> Result<Document, String> {
    let mut partial = serde_json::Map::new();
    let section = agent.section();
    partial.extend(report.extra_fields.get(section).map(|value| (section.to_owned(), value.clone())));
    if agent == Agent::Analyst {
        partial.extend(report.extra_fields.get("issue").map(|value| ("issue".to_owned(), value.clone())));
    }
    if let Some((name, _)) = partial.iter().find(|(_, value)| !value.is_object()) {
        return Err(format!("`{name}` is not an object"));
    }
    document.merged(&Value::Object(partial)).map_err(|error| format!("`{section}` is malformed: {error}"))
}

/// Returns the reason of a block, which may be missing; the outer `None` if the report does not ask for a block. A block stops
/// the run until a person decides: triage reports that the issue should not proceed, or an agent reports the status `blocked`.
pub(super) fn block_reason(agent: Agent, report: &Report) -> Option<Option<String>> {
    let text = |value: Option<&Value>| {
        let text = value.and_then(Value::as_str).map(str::trim).filter(|text| !text.is_empty());
        text.map(str::to_owned)
    };
    let pipeline = report.extra_fields.get("pipeline");
    let triage = report.extra_fields.get("triage").filter(|_| agent == Agent::Triage);
    let stops = triage.and_then(|triage| triage.get("should_proceed")) == Some(&Value::Bool(false));
    let blocks = pipeline.and_then(|pipeline| pipeline.get("status")) == Some(&Value::from("blocked"));
    let reason = text(pipeline.and_then(|pipeline| pipeline.get("blocked_reason")));
    let rejection = text(triage.and_then(|triage| triage.get("rejection_reason")));
    (stops || blocks).then(|| reason.or(rejection))
}

/// Returns the questions and escalations of a report, for whose answers its agent has to wait. Fails if one is incomplete.
fn pending_items(agent: Agent, report: &Report) -> Result<Vec<Pending>, String> {
    let Some(communication) = report.extra_fields.get("communication") else { return Ok(Vec::new()) };
    let list = |field: &str| communication[field].as_array().into_iter().flatten();
    let has_text = |value: &Value| value.as_str().is_some_and(|text| !text.trim().is_empty());
    let mut asked = Vec::new();
    for question in list("questions") {
        if !has_text(&question["question"]) {
            return Err("a question has no text in `question`".to_owned());
        }
        asked.push(Pending::Question(Addressee::parse(question["to"].as_str().unwrap_or_default())?));
    }
    for escalation in list("escalations") {
        if !has_text(&escalation["reason"]) {
            return Err("an escalation has no text in `reason`".to_owned());
        }
        let needs_person = escalation["requires_human"] != Value::Bool(false);
        let to = if needs_person { Addressee::Human } else { Addressee::Agent(agent.escalation_agent()) };
        asked.push(Pending::Escalation(to));
    }
    Ok(asked)
}

/// Returns the verdict of an agent that asks. Fails if it asks more than `max_questions`.
fn asks_within_limit(
    definition: &Definition,
    document: &Document,
    asked: Vec<Pending>,
) -> Result<Verdict, String> {
    let count = u32::try_from(asked.len()).unwrap_or(u32::MAX);
    if document.engine.asked.saturating_add(count) > definition.max_questions {
        return Err(format!(
            "the step has asked {} of {} questions and cannot ask {count} more",
            document.engine.asked, definition.max_questions
        ));
    }
    Ok(Verdict::Asks(asked))
}

fn analyst_verdict(updated: &Document) -> Result<Verdict, String> {
    let analysis = &updated.analysis;
    if analysis.brief.as_deref().is_none_or(|brief| brief.trim().is_empty()) {
        return Err("`analysis.brief` is missing".to_owned());
    }
    if analysis.test_requirement.required.is_none() {
        return Err("`analysis.test_requirement.required` is missing".to_owned());
    }
    match analysis.issue_type.as_ref().or(updated.issue.kind.as_ref()) {
        Some(EnumOrText::Known(_)) => Ok(Verdict::Analysed),
        Some(EnumOrText::Other(_)) | None => {
            Err("`analysis.issue_type` is none of BUG_FIX, NEW_FEATURE, REFACTOR_STYLE".to_owned())
        }
    }
}

fn reviewer_verdict(updated: &Document) -> Result<Verdict, String> {
    let has_feedback =
        updated.review.feedback_for_writer.as_deref().is_some_and(|feedback| !feedback.trim().is_empty());
    match updated.review.verdict.as_ref().and_then(EnumOrText::known) {
        Some(ReviewVerdict::Approved) => Ok(Verdict::Approved),
        Some(ReviewVerdict::Rejected) if has_feedback => Ok(Verdict::Rejected),
        Some(ReviewVerdict::Rejected) => Err("a rejection needs `review.feedback_for_writer`".to_owned()),
        Some(ReviewVerdict::NeedsInfo) => Err("NEEDS_INFO needs a question".to_owned()),
        None => Err("`review.verdict` is none of APPROVED, REJECTED, NEEDS_INFO".to_owned()),
    }
}

/// What the work changes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct ChangedFiles {
    /// All files that differ from the start commit, new and deleted ones included.
    pub(super) changed: Vec<String>,
    pub(super) deleted: Vec<String>,
}

/// Returns the files in the report of `build.diff`. Fails if one of the two lists is missing.
pub(super) fn changed_files(report: &Report) -> Result<ChangedFiles, String> {
    let list = |field: &str| {
        let list = report.extra_fields.get(field).and_then(Value::as_array);
        let list = list.ok_or_else(|| format!("the report has no list `{field}`"))?;
        Ok::<_, String>(list.iter().filter_map(Value::as_str).map(str::to_owned).collect())
    };
    Ok(ChangedFiles { changed: list("changed")?, deleted: list("deleted")? })
}

fn diff_verdict(document: &Document, files: &ChangedFiles) -> Verdict {
    if files.changed.is_empty() {
        Verdict::EmptyChange
    } else if diff_problems(document, files).is_empty() {
        Verdict::Changed
    } else {
        Verdict::DisallowedChange
    }
}

/// Returns why the change cannot be built and reviewed, in a sentence each.
pub(super) fn diff_problems(
    document: &Document,
    ChangedFiles { changed, deleted }: &ChangedFiles,
) -> Vec<String> {
    if changed.is_empty() {
        return vec!["the work changes no file".to_owned()];
    }
    let mut problems = Vec::new();
    for glob in document.analysis.must_not_do.iter().filter_map(|item| globs::glob(item)) {
        for path in changed.iter().filter(|path| globs::matches(glob, path)) {
            problems.push(format!("`{path}` must not be changed (`must_not_do`: {glob})"));
        }
    }
    let requirement = &document.analysis.test_requirement;
    if requirement.required == Some(true) {
        let test = document.writer.test_file.as_deref().or(requirement.location.as_deref());
        let is_written = |test: &str| {
            let test = test.trim_start_matches("./");
            changed.iter().any(|path| path == test) && !deleted.iter().any(|path| path == test)
        };
        match test {
            Some(test) if is_written(test) => {}
            Some(test) => problems.push(format!("the required test `{test}` is not part of the change")),
            None => problems.push("a test is required, and the writer names none in `test_file`".to_owned()),
        }
    }
    problems
}

/// A build passed if there is a check, and none failed.
fn build_verdict(results: &[CheckResult]) -> Verdict {
    match !results.is_empty() && results.iter().all(CheckResult::passed) {
        true => Verdict::BuildPassed,
        false => Verdict::BuildFailed,
    }
}

/// Reads the answer of a person.
pub(super) fn parse_answer(document: &Document, step: Step, answer: &Answer) -> Result<Verdict, String> {
    if step != Step::Person {
        return Err(format!("`{step}` asks no person"));
    }
    // A person answers the first pending item: a question, an escalation or a block.
    let is_question = document.engine.pending.first().is_some_and(|id| document.question(id).is_some());
    match answer {
        Answer::Reject { .. } => Ok(Verdict::Refused),
        Answer::Text { text } | Answer::Workaround { text } if text.trim().is_empty() => {
            Err("the answer is empty".to_owned())
        }
        Answer::Text { .. } | Answer::Workaround { .. } => Ok(Verdict::Answered),
        Answer::Approve { .. } | Answer::Resolve { .. } if !is_question => Ok(Verdict::Answered),
        Answer::Approve { .. } | Answer::Resolve { .. } | Answer::Choose { .. } => {
            Err("answer with --text ANSWER, or end the run with `reject --reason WHY`".to_owned())
        }
    }
}

/// Returns whether the document says that the run is blocked.
pub(super) fn is_blocked(document: &Document) -> bool {
    document.pipeline.status.as_ref().and_then(EnumOrText::known) == Some(PipelineStatus::Blocked)
}
