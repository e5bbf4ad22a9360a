//! What an attempt, a person or an effect is given.

use serde_json::json;

use super::{Step, forms, prompts};
use crate::brief::{Brief, PrivateCopy, TreeReset, TreeUse};
use crate::issue::definition::{CloseIssue, Definition};
use crate::issue::document::{Document, EnumOrText, FILE, IssueType};
use crate::issue::record::BLOCK;
use crate::issue::rights::{Role, private_copy};
use crate::{Effect, InboxItemKind, Question};

pub(in crate::issue) fn brief(
    definition: &Definition,
    document: &Document,
    step: Step,
    counted_attempt: u32,
) -> Brief {
    let prompt = match step.agent() {
        Some(agent) => prompts::render(definition, document, step, agent),
        None => format!("Runs the checks of the change for issue {}.", definition.issue.number),
    };
    let copies = match (step.agent(), Role::of(step)) {
        (Some(_), Some(role)) => {
            vec![PrivateCopy { path: FILE.to_owned(), body: private_copy(document, role) }]
        }
        (_, _) => Vec::new(),
    };
    let checks = if step == Step::Build { definition.checks.clone() } else { Vec::new() };
    Brief {
        workflow: "issue".to_owned(),
        timeout: step.agent().and(definition.timeout),
        counted_attempt,
        last_error: document.step(&step.id()).and_then(|step| step.error.clone()),
        form: forms::form(definition, step),
        iteration: document.pipeline.attempt.max(1),
        reset: (step == Step::Writer).then(|| reset(document)).flatten(),
        tree_use: if step == Step::Writer { TreeUse::Changes } else { TreeUse::Reads },
        checks,
        copies,
        ..Brief::new(step.worker(), prompt, definition.max_attempts)
    }
}

/// Returns the git tree of the previous pipeline attempt that the writer starts from, without files that build or
/// reviewer added; `None` if there was no attempt before. The number of earlier attempts identifies the reset, which is
/// made once.
fn reset(document: &Document) -> Option<TreeReset> {
    let tree = document.engine.previous_tree.clone()?;
    Some(TreeReset { tree, number: document.attempts.len() })
}

pub(in crate::issue) fn question(document: &Document, step: Step) -> Option<Question> {
    if step != Step::Person {
        return None;
    }
    let first = document.engine.pending.first();
    let (kind, text) = match first.map(|id| (document.question(id), document.escalation(id))) {
        Some((Some(question), _)) => {
            (InboxItemKind::Question, format!("`{}` asks: {}", question.from, question.question))
        }
        Some((None, Some(escalation))) => {
            (InboxItemKind::Escalation, format!("`{}` escalates: {}", escalation.agent, escalation.reason))
        }
        Some((None, None)) | None => {
            (InboxItemKind::Blocker, document.pipeline.blocked_reason.clone().unwrap_or_default())
        }
    };
    Some(Question { kind, text, options: Vec::new() })
}

/// Returns the effect of a step. Its texts are made from the document; the effect itself adds the hidden marker by
/// which it is found again.
pub(in crate::issue) fn effect(definition: &Definition, document: &Document, step: Step) -> Option<Effect> {
    let number = definition.issue.number;
    let tracker = json!(definition.tracker);
    let (name, arguments) = match step {
        Step::Diff => ("issue-diff", json!({ "start": definition.start_commit })),
        Step::Commit => (
            "issue-commit",
            json!({
                "effect_id": document.engine.tree,
                "message": commit_message(definition, document),
                "tree": document.engine.tree,
            }),
        ),
        Step::Push => ("issue-push", json!({ "branch": definition.branch, "base": definition.base })),
        Step::PullRequest => (
            "issue-pull-request",
            json!({
                "tracker": tracker,
                "branch": definition.branch,
                "base": definition.base,
                "retarget": definition.retarget_pull_request,
                "title": pull_request_title(definition, document),
                "body": pull_request_body(definition, document),
            }),
        ),
        Step::Comment => {
            let (effect_id, body) = comment(definition, document);
            (
                "issue-comment",
                json!({ "effect_id": effect_id, "tracker": tracker, "number": number, "body": body }),
            )
        }
        Step::Close => {
            ("issue-close", json!({ "tracker": tracker, "number": number, "pushed": document.commit.pushed }))
        }
        Step::Triage
        | Step::Analyst
        | Step::Writer
        | Step::Build
        | Step::Reviewer
        | Step::Answer(_)
        | Step::Person => return None,
    };
    Some(Effect { name, arguments })
}

fn issue_type(document: &Document) -> IssueType {
    document.issue.kind.as_ref().and_then(EnumOrText::known).unwrap_or(IssueType::BugFix)
}

/// Returns the title of the issue in one line, without control characters.
fn single_line_title(definition: &Definition) -> String {
    let title: String =
        definition.issue.title.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
    title.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Returns the words of the title that fit into the subject of a commit.
fn commit_subject(definition: &Definition) -> String {
    const LENGTH: usize = 60;
    let title = single_line_title(definition);
    if title.chars().count() <= LENGTH {
        return title;
    }
    let start: String = title.chars().take(LENGTH).collect();
    let words = start.rsplit_once(' ').map_or(start.as_str(), |(words, _)| words);
    format!("{words} …")
}

fn commit_message(definition: &Definition, document: &Document) -> String {
    let summary = document.writer.summary.as_deref().unwrap_or_default().trim();
    let closes = match definition.close_issue {
        CloseIssue::ByMerge => "Closes",
        CloseIssue::ByRun => "Refs",
    };
    let kind = issue_type(document).commit_type();
    format!("{kind}: {}\n\n{summary}\n\n{closes} #{}", commit_subject(definition), definition.issue.number)
}

fn pull_request_title(definition: &Definition, document: &Document) -> String {
    let verb = match issue_type(document) {
        IssueType::BugFix => "Fix",
        IssueType::NewFeature => "Add",
        IssueType::RefactorStyle => "Refactor",
    };
    format!("{verb} #{}: {}", definition.issue.number, single_line_title(definition))
}

fn pull_request_body(definition: &Definition, document: &Document) -> String {
    let summary = document.writer.summary.as_deref().unwrap_or_default();
    let check = |passed: Option<bool>| match passed {
        Some(true) => "passed",
        Some(false) => "failed",
        None => "not applicable",
    };
    let build = &document.build;
    let is_changed = |file: &&str| document.engine.changed_files.iter().any(|changed| changed == file);
    let test = document.writer.test_file.as_deref().filter(is_changed).unwrap_or("none");
    format!(
        "{summary}\n\nCloses #{number}\n\n| stage | result |\n|---|---|\n| tests | {} |\n| lint | {} |\n| types | {} |\n\
         | review | APPROVED |\n| attempts | {} of {} |\n| test added | {test} |\n\n```\n{}\n```\n\nTo try it: `git fetch && git switch {}`\n\n\
         Next: review this pull request and merge it. {closing}\n",
        check(build.tests_passed),
        check(build.lint_passed),
        check(build.type_check_passed),
        document.pipeline.attempt,
        document.pipeline.max_attempts,
        document.engine.diff_stat.trim_end(),
        definition.branch,
        number = definition.issue.number,
        closing = match definition.close_issue {
            CloseIssue::ByMerge => "The merge closes the issue.",
            CloseIssue::ByRun => "The issue is closed by the run.",
        },
    )
}

/// Returns the effect id and the body of the comment that the run needs now: what waits for a person, what the run has
/// made, or why it failed. The id stays the same if a retry needs the comment again.
fn comment(definition: &Definition, document: &Document) -> (String, String) {
    let run = &document.engine.run;
    let (attempt, max) = (document.pipeline.attempt, document.pipeline.max_attempts);
    if let Some(id) = document.engine.pending.first() {
        let (effect_id, predicate) = match id.as_str() {
            BLOCK => (format!("{BLOCK}{}", document.engine.block_answers.len() + 1), "is blocked"),
            _ if document.question(id).is_some() => (id.clone(), "has a question"),
            _ => (id.clone(), "needs a person"),
        };
        let reason = quoted(document.pipeline.blocked_reason.as_deref().unwrap_or_default());
        let body = format!(
            "The run `{run}` {predicate} (attempt {attempt} of {max}):\n\n{reason}\n\nTo answer: `callboard answer {run}/person --text ANSWER`\n",
        );
        return (effect_id, body);
    }
    if document.commit.completed {
        let commit = document.commit.hash.as_deref().unwrap_or_default();
        let location = match &document.commit.pr_url {
            Some(url) => format!("The pull request is {url}."),
            None => format!("The change is on the branch `{}`; it was not pushed.", definition.branch),
        };
        let body = format!(
            "The run `{run}` has made the change, approved in attempt {attempt} of {max}: commit {commit}. {location}\n"
        );
        return (format!("commit-{commit}"), body);
    }
    let feedback = document.review.feedback_for_writer.as_deref().unwrap_or("none");
    let body = format!(
        "The run `{run}` failed: {}\n\nThe last feedback:\n\n{}\n\nWhat may help: simplify the issue, split it, add \
         acceptance criteria, or do it by hand. `callboard retry {run}` starts again.\n",
        exhaustion_reason(definition),
        quoted(feedback)
    );
    (format!("failure-{}", document.attempts.len()), body)
}

/// Returns the reason of a run that has no pipeline attempts left.
pub(in crate::issue) fn exhaustion_reason(definition: &Definition) -> String {
    format!("Writer-Reviewer loop exhausted after {} attempts", definition.pipeline_attempts)
}

fn quoted(text: &str) -> String {
    text.lines().map(|line| format!("> {line}")).collect::<Vec<_>>().join("\n")
}
