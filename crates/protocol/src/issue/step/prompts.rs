//! The prompts of the four agents: a template each, with placeholders.

use std::fmt::Write as _;

use serde_json::Value;

use super::{Agent, Step};
use crate::issue::definition::Definition;
use crate::issue::document::Document;
use crate::issue::rights::{Role, readable};
use crate::prompt::{PromptTemplate, UNTRUSTED, code_block, fill};

/// The placeholders of all templates.
const PLACEHOLDERS: &[&str] = &["number", "branch", "base", "attempt", "max_attempts", "context"];

/// The built-in templates, in the order of [`Agent`]: `template` uses its values as indices.
pub(in crate::issue) const TEMPLATES: [PromptTemplate; 4] = [
    PromptTemplate { role: "triage", text: include_str!("prompts/triage.md"), placeholders: PLACEHOLDERS },
    PromptTemplate { role: "analyst", text: include_str!("prompts/analyst.md"), placeholders: PLACEHOLDERS },
    PromptTemplate { role: "writer", text: include_str!("prompts/writer.md"), placeholders: PLACEHOLDERS },
    PromptTemplate {
        role: "reviewer",
        text: include_str!("prompts/reviewer.md"),
        placeholders: PLACEHOLDERS,
    },
];

/// Returns the built-in template of an agent.
pub(in crate::issue) fn template(agent: Agent) -> &'static str {
    TEMPLATES[agent as usize].text
}

/// Renders the prompt of an agent's step, or of its answer to a question.
pub(in crate::issue) fn render(
    definition: &Definition,
    document: &Document,
    step: Step,
    agent: Agent,
) -> String {
    let context = context(definition, document, step, agent);
    if let Step::Answer(_) = step {
        return format!(
            "Another agent of this pipeline asks you one question, or has a problem that you are to decide. Answer and do \
             nothing else: change no file, ask nothing, escalate nothing. If only a person can decide, report FAILED.\n\n\
             {context}"
        );
    }
    fill(definition.template(agent), |name| match name {
        "number" => Some(definition.issue.number.to_string()),
        "branch" => Some(definition.branch.clone()),
        "base" => Some(definition.base.clone().unwrap_or_else(|| definition.start_commit.clone())),
        "attempt" => Some(document.pipeline.attempt.to_string()),
        "max_attempts" => Some(document.pipeline.max_attempts.to_string()),
        "context" => Some(context.clone()),
        _ => None,
    })
}

/// Returns what the agent may read, in code blocks, because it was written by other people, agents or programs.
fn context(definition: &Definition, document: &Document, step: Step, agent: Agent) -> String {
    let role = Role::of(step).expect("BUG: an agent has a role");
    let mut text = format!("{UNTRUSTED}\n");
    let mut show = |title: &str, language: &str, body: &str| {
        write!(text, "\n## {title}\n\n{}", code_block(language, body)).expect("BUG: a string grows");
    };
    if let (Step::Answer(_), Some(id)) = (step, document.engine.pending.first()) {
        if let Some(question) = document.question(id) {
            show(&format!("The question of `{}`", question.from), "text", &question.question);
        }
        if let Some(escalation) = document.escalation(id) {
            show(&format!("The problem of `{}`", escalation.agent), "text", &escalation.reason);
        }
    }
    let readable = readable(document, role);
    for (name, value) in readable.as_object().into_iter().flatten() {
        let is_empty = value.as_object().is_some_and(|members| members.values().all(is_empty));
        if name != "version" && !is_empty {
            show(&format!("`{name}`"), "json", &format!("{value:#}"));
        }
    }
    if agent == Agent::Reviewer {
        let planned: Vec<_> = document.analysis.files.iter().map(|file| file.path.as_str()).collect();
        let files = document.engine.changed_files.iter().map(|path| match planned.contains(&path.as_str()) {
            true => path.clone(),
            false => format!("{path} (not in `analysis.files`)"),
        });
        show("Changed files, new ones included", "text", &files.collect::<Vec<_>>().join("\n"));
    }
    if matches!(agent, Agent::Analyst | Agent::Writer) && !definition.learnings.is_null() {
        show("What earlier runs have learnt", "json", &format!("{:#}", definition.learnings));
    }
    if !document.engine.block_answers.is_empty() {
        show("What a person decided", "text", &document.engine.block_answers.join("\n"));
    }
    text.trim_end().to_owned()
}

fn is_empty(value: &Value) -> bool {
    match value {
        Value::Null | Value::Bool(false) => true,
        Value::Bool(true) | Value::Number(_) => false,
        Value::String(text) => text.is_empty(),
        Value::Array(items) => items.is_empty(),
        Value::Object(members) => members.values().all(is_empty),
    }
}
