//! What a report changes in the document.

use serde_json::{Value, json};

use super::super::document::{
    Build, CommandRun, Document, Escalation, Observation, Question, format_seconds,
};
use super::super::parse;
use super::super::step::{Agent, Step};
use super::super::verdict::{Pending, Verdict};
use super::{BLOCK, record_answer};
use crate::Timestamp;
use crate::checks;
use crate::report::Report;

/// Records the report of a step.
pub(super) fn record_report(
    document: &mut Document,
    step: Step,
    verdict: &Verdict,
    report: &Report,
    at: Timestamp,
) -> Result<(), String> {
    let text = |field: &str| report.extra_fields.get(field).and_then(Value::as_str).map(str::to_owned);
    match step {
        Step::Triage | Step::Analyst | Step::Writer | Step::Reviewer => {
            let agent = step.agent().expect("BUG: an agent works on the step");
            *document = parse::with_report(document, agent, report)?;
            record_agent_report(document, agent, verdict, report, at);
        }
        Step::Diff => {
            let files = parse::changed_files(report)?;
            let problems = parse::diff_problems(document, &files);
            document.engine.changed_files = files.changed;
            document.engine.diff_stat = text("stat").unwrap_or_default();
            document.engine.tree = text("tree");
            if *verdict != Verdict::Changed {
                document.build = Build {
                    completed: true,
                    errors: problems.iter().map(|problem| json!(problem)).collect(),
                    ..Build::default()
                };
                set_feedback(document, "build", problems.join("\n"));
            }
        }
        Step::Build => {
            let results = checks::results(report)?;
            // `None` if no check of this name ran.
            let passed = |name: &str| {
                let mut of_name = results.iter().filter(|result| result.name == name).peekable();
                of_name.peek()?;
                Some(of_name.all(checks::CheckResult::passed))
            };
            let failed: Vec<_> = results.iter().filter(|result| !result.passed()).collect();
            let describe = |result: &&checks::CheckResult| {
                format!("{} (`{}`)\n{}", result.summary(), result.command.join(" "), result.output.trim_end())
            };
            let mut texts: Vec<_> = failed.iter().map(describe).collect();
            if results.is_empty() {
                texts.push(
                    "no check is configured or found, so nothing shows that the change works".to_owned(),
                );
            }
            document.build = Build {
                completed: true,
                tests_passed: passed("test"),
                lint_passed: passed("lint"),
                type_check_passed: passed("types"),
                errors: texts.iter().map(|text| json!(text)).collect(),
                commands_run: results.iter().map(command_run).collect(),
                ..Build::default()
            };
            if *verdict == Verdict::BuildFailed {
                set_feedback(document, "build", texts.join("\n\n"));
            }
        }
        Step::Answer(agent) => record_answer(document, parse::answer_text(report)?, agent.name(), at),
        Step::Commit => {
            document.commit.hash = text("hash");
            document.commit.message = text("message");
        }
        Step::Push => {
            document.commit.pushed =
                *verdict == Verdict::Performed && report.extra_fields.get("pushed") == Some(&json!(true));
        }
        Step::PullRequest => {
            document.commit.pr_url = text("url");
            document.commit.pr_created = document.commit.pr_url.is_some();
        }
        Step::Close => document.commit.issue_closed = report.extra_fields.get("closed") == Some(&json!(true)),
        Step::Comment | Step::Person => {}
    }
    document.engine.notes.extend(text("rehearsal"));
    Ok(())
}

fn command_run(result: &checks::CheckResult) -> CommandRun {
    let details = json!({
        "check": result.name,
        "duration_ms": result.duration_ms,
        "tree": result.tree,
        "output_digest": result.output_digest,
        "log": result.log,
        "error": result.error,
    });
    CommandRun {
        command: result.command.join(" "),
        exit_code: result.exit_code,
        output: result.output.clone(),
        others: details.as_object().cloned().unwrap_or_default(),
    }
}

/// Sets the feedback for the writer of the next pipeline attempt.
fn set_feedback(document: &mut Document, from: &str, text: String) {
    document.review.feedback_for_writer = Some(text);
    document.review.feedback_from = Some(from.to_owned());
}

/// Records questions, escalations and observations of an agent, and whether its section is complete.
fn record_agent_report(
    document: &mut Document,
    agent: Agent,
    verdict: &Verdict,
    report: &Report,
    at: Timestamp,
) {
    let asked = if let Verdict::Asks(pending) = verdict { pending.as_slice() } else { &[] };
    // If triage blocks the run and asks nothing else, its section is complete.
    let is_complete = asked.is_empty() || (agent == Agent::Triage && asked == [Pending::Block]);
    match agent {
        Agent::Triage => document.triage.completed = is_complete,
        Agent::Analyst => {
            document.analysis.completed = is_complete;
            let classified = document.analysis.issue_type.clone();
            document.issue.kind = classified.or(document.issue.kind.take());
        }
        Agent::Writer => {
            document.writer.completed = is_complete;
            document.writer.attempt = Some(document.pipeline.attempt);
        }
        Agent::Reviewer => {
            document.review.completed = is_complete;
            if *verdict == Verdict::Rejected {
                document.review.feedback_from = Some("reviewer".to_owned());
            }
        }
    }
    let name = agent.name().to_owned();
    let list = |section: &str, field: &str| {
        let list =
            report.extra_fields.get(section).and_then(|section| section.get(field)).and_then(Value::as_array);
        list.cloned().unwrap_or_default()
    };
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let mut pending = Vec::new();
    for question in list("communication", "questions") {
        let id = format!("q{}", document.communication.questions.len() + 1);
        pending.push(id.clone());
        document.communication.questions.push(Question {
            id: Some(id),
            from: name.clone(),
            to: text(&question["to"]),
            question: text(&question["question"]),
            asked_at: Some(format_seconds(at)),
            ..Question::default()
        });
    }
    for escalation in list("communication", "escalations") {
        let id = format!("e{}", document.communication.escalations.len() + 1);
        pending.push(id.clone());
        document.communication.escalations.push(Escalation {
            id: Some(id),
            agent: name.clone(),
            reason: text(&escalation["reason"]),
            requires_human: escalation["requires_human"] != Value::Bool(false),
            raised_at: Some(format_seconds(at)),
            ..Escalation::default()
        });
    }
    for observation in list("learnings", "observations") {
        document.learnings.observations.push(Observation {
            agent: name.clone(),
            kind: text(&observation["type"]),
            content: text(&observation["content"]),
            ..Observation::default()
        });
    }
    if let Verdict::Asks(asked) = verdict {
        if asked.contains(&Pending::Block) {
            pending.push(BLOCK.to_owned());
            document.pipeline.blocked_reason = parse::block_reason(agent, report).flatten();
            document.engine.block_reason.clone_from(&document.pipeline.blocked_reason);
        }
        document.engine.pending = pending;
    }
}
