//! The texts of a prompt: the task, the state of the plan and the messages.

use serde_json::{Value, json};

use super::super::definition::{Definition, GroupId, ModeChoice};
use super::super::document::{self, Document};
use super::super::report::copies;
use super::super::report::plan::common_files;
use super::super::state::{Blocked, DevelopReason, Stage};
use super::super::step::{PmStep, Role, Step};
use crate::prompt::{UNTRUSTED, code_block};

pub(super) fn task(definition: &Definition, document: &Document, step: &Step) -> String {
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

pub(super) fn state(document: &Document, step: &Step) -> String {
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

pub(super) fn messages(document: &Document, step: &Step) -> String {
    let received = document.received(step, document.step(step).turn);
    if received.is_empty() {
        return "There are no new messages for you.".to_owned();
    }
    let shown = document::pretty(&received.into());
    format!("# Messages for you\n\n{}", code_block("json", shown.trim_end()))
}
