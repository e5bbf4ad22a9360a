//! What each step is given: its prompt, the form of its report, its worktree and its private copies.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Map, Value, json};

use super::definition::{Definition, GroupId, ModeChoice};
use super::document::{self, Document, GroupPart, Mailbox};
use super::report::command;
use super::report::copies;
use super::report::plan::{self, common_files};
use super::report::verdicts;
use super::state::{Blocked, DecisionReason, DevelopReason, GroupProgress, Stage};
use super::step::{PmStep, Role, Step};
use crate::StepId;
use crate::brief::{Brief, TreeUse, Worktree};
use crate::checks::CheckSpec;
use crate::people::{AnswerOption, InboxItemKind, Question};
use crate::prompt::{PromptTemplate, UNTRUSTED, code_block, fill};
use crate::protocol_trait::Effect;
use crate::report::{ReportFields, ReportForm};

const PLACEHOLDERS: &[&str] = &["request", "task", "state", "messages"];

/// The built-in prompts.
pub(super) const TEMPLATES: [PromptTemplate; 4] = [
    PromptTemplate {
        role: "project_manager",
        text: include_str!("prompts/project_manager.md"),
        placeholders: PLACEHOLDERS,
    },
    PromptTemplate {
        role: "developer",
        text: include_str!("prompts/developer.md"),
        placeholders: PLACEHOLDERS,
    },
    PromptTemplate {
        role: "qa_expert",
        text: include_str!("prompts/qa_expert.md"),
        placeholders: PLACEHOLDERS,
    },
    PromptTemplate {
        role: "tech_lead",
        text: include_str!("prompts/tech_lead.md"),
        placeholders: PLACEHOLDERS,
    },
];

/// How long the command of a success criterion may take.
const CRITERION_TIMEOUT: Duration = Duration::from_secs(30 * 60);

/// Returns the brief of an attempt. `counted_attempt` is its number among those that count towards `max_attempts`.
pub(super) fn brief(
    definition: &Definition,
    document: &Document,
    step: &Step,
    counted_attempt: u32,
) -> Brief {
    let step_record = document.step(step);
    let agent = step.agent();
    let template = TEMPLATES.iter().find(|template| template.role == agent);
    let prompt = template.map(|template| {
        let text = definition.prompts.get(agent).map_or(template.text, String::as_str);
        fill(text, |name| match name {
            "request" => Some(code_block("text", &definition.request)),
            "task" => Some(task(definition, document, step)),
            "state" => Some(state(document, step)),
            "messages" => Some(messages(document, step)),
            _ => None,
        })
    });
    let worktree = match step {
        // `Decision` included, because the person decides about the changes on the branch.
        Step::Group(id, Role::Developer | Role::Qa | Role::TechLead | Role::Decision) => {
            Some(worktree(document, id))
        }
        // Not the integration branch's, because other groups are merged into it while the project manager splits a group.
        Step::Pm(PmStep::Plan | PmStep::Check) => Some(Worktree { name: pm_worktree_name(), branch: None }),
        Step::Group(_, Role::Merge) | Step::Pm(PmStep::Criteria | PmStep::Decision | PmStep::Merge) => None,
    };
    let tree_use = match step {
        Step::Group(_, Role::Developer) => TreeUse::Changes,
        Step::Group(_, Role::Qa | Role::TechLead) | Step::Pm(PmStep::Plan | PmStep::Check) => TreeUse::Reads,
        // No agent works on these: they are effects, questions, and the commands of the success criteria.
        Step::Group(_, Role::Merge | Role::Decision)
        | Step::Pm(PmStep::Criteria | PmStep::Decision | PmStep::Merge) => TreeUse::Changes,
    };
    Brief {
        workflow: "team".to_owned(),
        timeout: definition.timeout,
        counted_attempt,
        last_error: step_record.error.clone(),
        form: form(definition, document, step),
        iteration: step_record.turn.0.max(1),
        worktree,
        tree_use,
        list_branches_below: (agent == "project_manager").then_some(plan::BRANCH_PREFIX),
        checks: if *step == Step::Pm(PmStep::Criteria) { criteria_checks(document) } else { Vec::new() },
        copies: copies::private_copies(document, step),
        ..Brief::new(agent, prompt.unwrap_or_default(), definition.limits.attempts)
    }
}

/// Returns the name of the project manager's worktree. No group can have it.
fn pm_worktree_name() -> StepId {
    StepId::new("pm").expect("BUG: it is a step id")
}

fn worktree(document: &Document, id: &GroupId) -> Worktree {
    Worktree {
        name: id.step_id().clone(),
        branch: document.planned(id).map(|group| group.branch_name.clone()),
    }
}

/// Returns the commands of the success criteria as checks.
fn criteria_checks(document: &Document) -> Vec<CheckSpec> {
    let specs = document.plan.criteria.iter().filter_map(|record| {
        let command = command::argv(record.criterion.command.as_ref()?)?;
        Some(CheckSpec { name: record.criterion.id.clone(), command, timeout: CRITERION_TIMEOUT })
    });
    specs.collect()
}

fn task(definition: &Definition, document: &Document, step: &Step) -> String {
    match step {
        Step::Pm(PmStep::Plan) => plan_task(definition, document),
        Step::Pm(PmStep::Check) => check_task(document),
        Step::Group(id, role) => group_task(document, id, *role),
        Step::Pm(PmStep::Criteria | PmStep::Decision | PmStep::Merge) => String::new(),
    }
}

fn plan_task(definition: &Definition, document: &Document) -> String {
    let max_parallel = definition.limits.groups;
    // A person has chosen to split this group. Otherwise, this is the first plan.
    if let Some(id) = document.splitting() {
        let tasks = document.planned(id).map(|group| group.tasks.join(", ")).unwrap_or_default();
        return format!(
            "Group `{id}` did not get done. Replace it by smaller groups (such as `{id}1` and `{id}2`) that have its tasks \
             {tasks}, each exactly once. Leave `all_tasks` empty."
        );
    }
    let mode = match definition.mode {
        ModeChoice::Auto => {
            "Choose the mode: `simple` for one feature, much overlap or doubt (one group with the id `main`); `parallel` for \
             independent parts."
        }
        ModeChoice::Simple => "The user chose the mode `simple`: plan one group with the id `main`.",
        ModeChoice::Parallel => "The user chose the mode `parallel`: plan several groups.",
    };
    format!(
        "Split the whole request into tasks and groups. Do not leave anything out and do not ask the user. {mode} At most \
         {max_parallel} groups work at once; more go into later phases. A group is 10 to 30 minutes of work. Groups should change \
         different files; those that change the same file run one after the other. State success criteria that show that the \
         request is fulfilled, with a command where one can show it: a program and its arguments, which no shell reads; for \
         operators write `sh -c '…'`. They cannot be changed later."
    )
}

fn check_task(document: &Document) -> String {
    let mut task = "All groups are merged or closed. Compare the result with the request and the success criteria. If \
                    everything is fulfilled, report the verdict `BAZINGA`. If something is missing, report `CONTINUE` with \
                    new tasks and groups. A claim of completion is refused while a criterion fails."
        .to_owned();
    if let Some(refusal) = &document.run.refusal {
        task.push_str(&format!("\n\nYour last claim was refused: {refusal}."));
    }
    for consent in &document.run.consents {
        task.push_str(&format!("\n\nA person agreed to a smaller scope: {consent}."));
    }
    task
}

fn group_task(document: &Document, id: &GroupId, role: Role) -> String {
    let Some(group) = document.groups.get(id) else { return String::new() };
    match (role, group.stage) {
        (Role::Developer, Stage::Develop(DevelopReason::QaFailed)) => {
            "QA failed. Fix what it found (see the messages), then report READY_FOR_QA again.".to_owned()
        }
        (Role::Developer, Stage::Develop(DevelopReason::ChangesRequested)) => {
            "Changes were requested. Make them (see the messages), then report again.".to_owned()
        }
        (Role::Developer, Stage::Develop(DevelopReason::Unblocked)) => {
            "You were blocked, and the tech lead has helped (see the messages). Go on.".to_owned()
        }
        (Role::Developer, _) => "Implement the tasks of the group. Report READY_FOR_QA, or READY_FOR_REVIEW if there are no \
                                 integration, contract or end-to-end tests for it, or BLOCKED with the reason."
            .to_owned(),
        (Role::Qa, _) => {
            let resolved = group.blockers.last().and_then(|blocker| blocker.resolution.as_ref());
            let hint = resolved.map(|text| format!("\n\nThe tech lead's last guidance:\n\n{}", code_block("text", text)));
            format!(
                "Test the group's branch. Report PASS, FAIL with the findings, BLOCKED if the environment does not let you, \
                 or FLAKY if some tests pass only sometimes.{}",
                hint.unwrap_or_default()
            )
        }
        (_, Stage::Unblock(blocked)) => {
            let who = match blocked {
                Blocked::Developer => "The developer is blocked",
                Blocked::Qa => "QA is blocked",
                Blocked::Flaky => "QA is blocked, because some tests pass only sometimes",
            };
            let what = group.blockers.last().map(|blocker| code_block("text", &blocker.description));
            format!(
                "{who}:\n\n{}\nFind a way out and report `unblocked` with your guidance in `feedback`.",
                what.unwrap_or_default()
            )
        }
        (_, _) => {
            let planned = document.planned(id).map(|group| group.files_affected.clone()).unwrap_or_default();
            let outside: Vec<_> = group
                .files_modified
                .iter()
                .filter(|file| common_files(std::slice::from_ref(file), &planned).is_empty())
                .cloned()
                .collect();
            let note = match outside.as_slice() {
                [] => String::new(),
                files => format!("\n\nThese files were changed outside of the plan: {}.", files.join(", ")),
            };
            let claimed = match group.claimed_complete {
                true => {
                    "The group comes from imported files that claim it is complete. Nothing has verified that: run its \
                     tests, and compare the branch, as git has it, with its tasks and files.\n\n"
                }
                false => "",
            };
            let blockers: Vec<_> = group.open_blockers().map(|blocker| blocker.description.clone()).collect();
            let blockers = match blockers.as_slice() {
                [] => String::new(),
                blockers => format!(
                    "\n\n`approved` says that these blockers are settled, too:\n\n{}",
                    code_block("text", &blockers.join("\n"))
                ),
            };
            format!(
                "{claimed}Review the group. Report `approved`, or `changes_requested` with issues. Issues of the priority critical or \
                 high block; their number must fall from review to review.{note}{blockers}"
            )
        }
    }
}

fn state(document: &Document, step: &Step) -> String {
    let pretty = |value: &Value| code_block("json", document::pretty(value).trim_end());
    match step {
        Step::Pm(_) => {
            let plan = copies::visible_files(document, &Step::PLAN);
            let plan =
                plan.iter().map(|(name, value)| format!("`coordination/{name}`:\n\n{}", pretty(value)));
            format!("{UNTRUSTED}\n\n{}", plan.collect::<String>())
        }
        Step::Group(id, _) => {
            let planned = document.planned(id).map(|group| pretty(&json!(group))).unwrap_or_default();
            let tasks: Vec<_> = document
                .plan
                .tasks
                .iter()
                .filter(|task| document.planned(id).is_some_and(|group| group.tasks.contains(&task.id)))
                .map(|task| json!(task))
                .collect();
            let status = document.groups.get(id).map(|group| pretty(&document.group_json(id, group)));
            format!(
                "{UNTRUSTED}\n\nPlanned:\n\n{planned}\nTasks:\n\n{}\nStatus:\n\n{}",
                pretty(&json!(tasks)),
                status.unwrap_or_default()
            )
        }
    }
}

fn messages(document: &Document, step: &Step) -> String {
    let received = document.received(step, document.step(step).turn);
    if received.is_empty() {
        return "There are no new messages for you.".to_owned();
    }
    let shown = document::pretty(&received.into());
    format!("# Messages for you\n\n{}", code_block("json", shown.trim_end()))
}

/// Returns the form of the step's report. Its example is a report of success, which rehearsals use.
fn form(definition: &Definition, document: &Document, step: &Step) -> ReportForm {
    let counts = json!({
        "type": "object", "required": ["total", "passed", "failed"],
        "properties": {
            "total": { "type": "integer" }, "passed": { "type": "integer" }, "failed": { "type": "integer" },
        },
    });
    let texts = json!({ "type": "array", "items": { "type": "string" } });
    let (example, schema, rules) = match step {
        Step::Pm(PmStep::Plan) => (
            example_plan(definition, document),
            plan::schema(),
            "`verdict` is PLANNING_COMPLETE; every task is in exactly one group, every criterion names tasks. The groups may \
             be written into `coordination/pm_state.json` instead.",
        ),
        Step::Pm(PmStep::Check) => {
            let mut schema = plan::schema();
            schema["required"] = json!(["verdict"]);
            schema["properties"]["verdict"] = json!({ "enum": ["BAZINGA", "CONTINUE"] });
            (
                json!({ "verdict": "BAZINGA" }),
                schema,
                "`verdict` is BAZINGA if the request is fulfilled, or CONTINUE with new `all_tasks` and `task_groups`.",
            )
        }
        Step::Group(_, Role::Developer) => (
            json!({
                "verdict": "READY_FOR_QA", "summary": "Implemented the tasks of the group.",
                "unit_tests": { "total": 3, "passed": 3, "failed": 0 },
            }),
            json!({
                "type": "object", "required": ["verdict", "summary"],
                "properties": {
                    "verdict": { "enum": ["READY_FOR_QA", "READY_FOR_REVIEW", "BLOCKED", "INCOMPLETE", "ERROR"] },
                    "summary": { "type": "string" }, "blocker": { "type": "string" }, "unit_tests": counts,
                },
            }),
            "`verdict` is one word; with BLOCKED say in `blocker` what you need. Setting the `status` of your group in \
             `coordination/group_status.json` to `waiting_qa`, `waiting_review` or `dev_blocked` means the same.",
        ),
        Step::Group(_, Role::Qa) => (
            json!({
                "verdict": "PASS", "summary": "All tests passed.",
                "integration_tests": { "total": 2, "passed": 2, "failed": 0 },
                "contract_tests": { "total": 1, "passed": 1, "failed": 0 },
                "e2e_tests": { "total": 1, "passed": 1, "failed": 0 },
                "findings": [],
            }),
            json!({
                "type": "object", "required": ["verdict"],
                "properties": {
                    "verdict": { "enum": ["PASS", "FAIL", "BLOCKED", "FLAKY"] },
                    "summary": { "type": "string" }, "findings": texts, "blocker": { "type": "string" },
                    "integration_tests": counts, "contract_tests": counts, "e2e_tests": counts,
                },
            }),
            "`verdict` is one word; with FAIL say in `findings` what failed and how to see it. Setting the `status` of the \
             group in `coordination/group_status.json` to `waiting_review` (PASS) or `qa_failed` means the same.",
        ),
        Step::Group(id, Role::TechLead) => {
            let unblocks =
                document.groups.get(id).is_some_and(|group| matches!(group.stage, Stage::Unblock(_)));
            let words =
                if unblocks { json!(["unblocked"]) } else { json!(["approved", "changes_requested"]) };
            let example = if unblocks {
                json!({ "verdict": "unblocked", "feedback": "Use the interface that exists already." })
            } else {
                json!({
                    "verdict": "approved", "feedback": "Clean and well tested.", "issues": [],
                    "actionable_items": [], "code_quality_score": 9, "security_issues_count": 0,
                })
            };
            (
                example,
                json!({
                    "type": "object", "required": ["verdict", "feedback"],
                    "properties": {
                        "verdict": { "enum": words }, "feedback": { "type": "string" },
                        "issues": { "type": "array", "items": {
                            "type": "object", "required": ["priority", "title"],
                            "properties": {
                                "priority": { "enum": ["critical", "high", "medium", "low"] },
                                "title": { "type": "string" }, "location": { "type": "string" },
                                "description": { "type": "string" }, "fix_suggestion": { "type": "string" },
                            },
                        } },
                        "actionable_items": texts, "code_quality_score": { "type": "number" },
                        "security_issues_count": { "type": "integer" },
                    },
                }),
                "`verdict` is one word. Setting the `status` of the group in `coordination/group_status.json` to `complete` \
                 (approved), `changes_requested`, or `dev_working` (unblocked) means the same.",
            )
        }
        Step::Pm(PmStep::Criteria | PmStep::Decision | PmStep::Merge)
        | Step::Group(_, Role::Merge | Role::Decision) => return ReportForm::Plain,
    };
    let example = match example {
        Value::Object(example) => example,
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Array(_) => Map::new(),
    };
    ReportForm::Fields(Arc::new(ReportFields {
        example,
        schema,
        rules: rules.to_owned(),
        rehearsed_files: rehearsed_files(document, step),
    }))
}

/// Returns the files that a rehearsed developer writes: those of the plan that are no patterns, or else one of its own.
fn rehearsed_files(document: &Document, step: &Step) -> BTreeMap<String, String> {
    let Step::Group(id, Role::Developer) = step else { return BTreeMap::new() };
    let files = document.planned(id).map(|group| group.files_affected.clone()).unwrap_or_default();
    let is_file = |file: &String| !file.contains(['*', '?', '[', '{']) && !file.ends_with('/');
    let mut files: Vec<_> = files.into_iter().filter(is_file).collect();
    if files.is_empty() {
        files.push(format!("rehearsed-{id}.txt"));
    }
    files.into_iter().map(|file| (file, format!("rehearsed by group {id}\n"))).collect()
}

/// Returns an example plan that would be accepted: two groups; one group in the mode `simple`; or one group that replaces the
/// group to split.
fn example_plan(definition: &Definition, document: &Document) -> Value {
    match document.splitting().and_then(|id| document.planned(id)) {
        Some(group) => json!({
            "verdict": "PLANNING_COMPLETE", "all_tasks": [], "success_criteria": [],
            "task_groups": [{
                "id": format!("{}1", group.id), "name": group.name, "tasks": group.tasks,
                "files_affected": group.files_affected,
            }],
        }),
        None if definition.mode == ModeChoice::Simple => json!({
            "verdict": "PLANNING_COMPLETE", "mode": "simple", "mode_reasoning": "The user chose it.",
            "all_tasks": [{ "id": "T1", "description": "The request" }],
            "task_groups": [{
                "id": "main", "name": "The request", "tasks": ["T1"], "files_affected": ["first.txt"],
                "complexity": "low", "estimated_effort_minutes": 10,
            }],
            "success_criteria": [{ "id": "C1", "text": "The request is fulfilled", "tasks": ["T1"] }],
        }),
        None => json!({
            "verdict": "PLANNING_COMPLETE", "mode": "parallel",
            "mode_reasoning": "Two independent parts that change different files.",
            "all_tasks": [
                { "id": "T1", "description": "The first part of the request" },
                { "id": "T2", "description": "The second part of the request" },
            ],
            "task_groups": [
                {
                    "id": "A", "name": "First part", "tasks": ["T1"], "files_affected": ["first.txt"],
                    "can_parallel": true, "depends_on": [], "complexity": "low", "estimated_effort_minutes": 10,
                },
                {
                    "id": "B", "name": "Second part", "tasks": ["T2"], "files_affected": ["second.txt"],
                    "can_parallel": true, "depends_on": [], "complexity": "low", "estimated_effort_minutes": 10,
                },
            ],
            "execution_phases": match definition.limits.groups.get() {
                1 => json!([
                    { "phase_number": 1, "group_ids": ["A"] },
                    { "phase_number": 2, "group_ids": ["B"] },
                ]),
                _ => json!([{ "phase_number": 1, "group_ids": ["A", "B"] }]),
            },
            "success_criteria": [{ "id": "C1", "text": "Both parts are done", "tasks": ["T1", "T2"] }],
        }),
    }
}

/// Returns the question that a decision step asks a person; `None` if the step asks none.
pub(super) fn question(document: &Document, step: &Step) -> Option<Question> {
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

/// Returns the git operation of a merge step.
pub(super) fn effect(document: &Document, step: &Step) -> Option<Effect> {
    match step {
        Step::Group(id, Role::Merge) => {
            let Worktree { name, branch } = worktree(document, id);
            // If the imported files claim that the group is complete, the base branch may have its work already.
            let is_claimed = document.groups.get(id).is_some_and(|group| group.claimed_complete);
            let arguments = json!({ "worktree": name, "branch": branch, "needs_commits": !is_claimed });
            Some(Effect { name: "merge", arguments })
        }
        Step::Pm(PmStep::Merge) => Some(Effect { name: "fast-forward", arguments: json!({}) }),
        Step::Pm(_) | Step::Group(..) => None,
    }
}
