//! Parses the fields of a report, or the edits of private copies, as a verdict of the step.

use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::super::definition::Definition;
use super::super::document::{Document, GroupPart, TestCounts};
use super::super::state::Stage;
use super::super::step::{Choice, MergeVerdict, PmStep, Role, Step, TechLeadVerdict, Verdict};
use super::copies;
use super::plan::{self, Plan, PlanContext, SplitGroup, Task};
use super::status_words::{self, PmWord, TechLeadWord};
use crate::checks;
use crate::people::Answer;
use crate::protocol_trait::ParsedReport;
use crate::report::{Report, Status};

/// The kinds of tests that the original counts.
pub(in crate::team) const TEST_KINDS: [&str; 4] =
    ["unit_tests", "integration_tests", "contract_tests", "e2e_tests"];

/// Returns the fields of a report, and those that only the edited copies have.
pub(in crate::team) fn fields(
    document: &Document,
    step: &Step,
    report: &Report,
) -> Result<Map<String, Value>, String> {
    let mut fields = copies::fields(document, step, &report.copy_edits)?;
    let text = |from: Option<&Value>| from.and_then(Value::as_str).map(str::to_owned);
    let (edited, stated) = (text(fields.get("verdict")), text(report.extra_fields.get("verdict")));
    if let (Some(edited), Some(stated)) = (edited, stated)
        && contradict(step, &edited, &stated)
    {
        return Err(format!("the report says `{stated}`, and the edited files say `{edited}`"));
    }
    // A null counts as missing.
    let reported = report.extra_fields.iter().filter(|(_, value)| !value.is_null());
    fields.extend(reported.map(|(name, value)| (name.clone(), value.clone())));
    Ok(fields)
}

/// Returns whether two status words of a step are different verdicts.
fn contradict(step: &Step, one: &str, other: &str) -> bool {
    fn differ<V: Copy + PartialEq>(words: status_words::Words<V>, one: &str, other: &str) -> bool {
        let (one, other) = (status_words::parse(words, one), status_words::parse(words, other));
        matches!((one, other), (Ok(one), Ok(other)) if one != other)
    }
    match step {
        // A plan and a request for more work do not contradict each other.
        Step::Pm(_) => {
            let is_done =
                |word: &str| status_words::parse(status_words::PM, word).map(|word| word == PmWord::Complete);
            matches!((is_done(one), is_done(other)), (Ok(one), Ok(other)) if one != other)
        }
        Step::Group(_, Role::Developer) => differ(status_words::DEVELOPER, one, other),
        Step::Group(_, Role::Qa) => differ(status_words::QA, one, other),
        Step::Group(_, Role::TechLead) => differ(status_words::TECH_LEAD, one, other),
        Step::Group(_, Role::Merge | Role::Decision) => false,
    }
}

pub(in crate::team) fn parse_report(
    definition: &Definition,
    document: &Document,
    step: &Step,
    report: &Report,
) -> ParsedReport<Verdict> {
    ParsedReport::of(report, || verdict(definition, document, step, report))
}

fn verdict(
    definition: &Definition,
    document: &Document,
    step: &Step,
    report: &Report,
) -> Result<Verdict, String> {
    let fields = || fields(document, step, report);
    match step {
        Step::Pm(PmStep::Plan) => {
            let fields = fields()?;
            if let Ok(word) = verdict_word(&fields) {
                check_plan_word(word)?;
            }
            Ok(Verdict::Plan(planned_work(definition, document, step, &fields)?))
        }
        Step::Pm(PmStep::Check) => {
            let fields = fields()?;
            match status_words::parse(status_words::PM, verdict_word(&fields)?)? {
                PmWord::Complete => match document.blocked_groups().as_slice() {
                    [] => Ok(Verdict::Complete),
                    groups => Err(format!(
                        "completion is refused: blockers are unresolved in {}",
                        groups.join(", ")
                    )),
                },
                PmWord::MoreWork | PmWord::Planned => {
                    Ok(Verdict::Plan(planned_work(definition, document, step, &fields)?))
                }
            }
        }
        Step::Pm(PmStep::Criteria) => {
            let results = checks::results(report)?;
            let failed = (0..).zip(&results).filter(|(_, result)| !result.passed()).map(|(index, _)| index);
            Ok(Verdict::Criteria { failed: failed.collect() })
        }
        Step::Pm(PmStep::Merge) => Ok(Verdict::FastForwarded),
        Step::Group(_, Role::Developer) => {
            let fields = fields()?;
            check_counts(&fields)?;
            Ok(Verdict::Developer(status_words::parse(status_words::DEVELOPER, verdict_word(&fields)?)?))
        }
        Step::Group(_, Role::Qa) => {
            let fields = fields()?;
            check_counts(&fields)?;
            Ok(Verdict::Qa(status_words::parse(status_words::QA, verdict_word(&fields)?)?))
        }
        Step::Group(id, Role::TechLead) => {
            let fields = fields()?;
            let word = status_words::parse(status_words::TECH_LEAD, verdict_word(&fields)?)?;
            let stage = document.groups.get(id).map(|group| group.stage);
            match (stage, word) {
                (Some(Stage::Unblock(_)), TechLeadWord::Unblocked) => {
                    Ok(Verdict::TechLead(TechLeadVerdict::Unblocked))
                }
                (Some(Stage::Unblock(_)), TechLeadWord::Approved | TechLeadWord::ChangesRequested) => {
                    Err(format!("group `{id}` is blocked: help, and report `unblocked`"))
                }
                (_, TechLeadWord::Approved) => Ok(Verdict::TechLead(TechLeadVerdict::Approved)),
                (_, TechLeadWord::ChangesRequested) => {
                    let blocking = count_blocking_issues(&fields)?;
                    Ok(Verdict::TechLead(TechLeadVerdict::ChangesRequested { blocking }))
                }
                (_, TechLeadWord::Unblocked) => {
                    Err(format!("group `{id}` is under review: report `approved` or `changes_requested`"))
                }
            }
        }
        Step::Group(_, Role::Merge) => Ok(Verdict::Merge(match report.gate_failure {
            true => MergeVerdict::Refused,
            false => MergeVerdict::Merged,
        })),
        Step::Pm(PmStep::Decision) | Step::Group(_, Role::Decision) => {
            Err("only a person decides".to_owned())
        }
    }
}

/// Checks the status word of a report. Needs no run, so that `callboard report` can refuse it at once. A report
/// without a word is accepted, because an edited private copy may have it.
pub(in crate::team) fn check(step: &Step, report: &Report) -> Result<(), String> {
    let Ok(word) = verdict_word(&report.extra_fields) else { return Ok(()) };
    match step {
        _ if report.status == Status::Failed => Ok(()),
        Step::Pm(PmStep::Plan) => check_plan_word(word),
        Step::Pm(PmStep::Check) => status_words::parse(status_words::PM, word).map(drop),
        Step::Group(_, Role::Developer) => status_words::parse(status_words::DEVELOPER, word).map(drop),
        Step::Group(_, Role::Qa) => status_words::parse(status_words::QA, word).map(drop),
        Step::Group(_, Role::TechLead) => status_words::parse(status_words::TECH_LEAD, word).map(drop),
        Step::Pm(PmStep::Criteria | PmStep::Decision | PmStep::Merge)
        | Step::Group(_, Role::Merge | Role::Decision) => Ok(()),
    }
}

fn check_plan_word(word: &str) -> Result<(), String> {
    match status_words::parse(status_words::PM, word)? {
        PmWord::Planned => Ok(()),
        PmWord::Complete | PmWord::MoreWork => {
            Err(format!("`{word}` is no verdict of a plan; use PLANNING_COMPLETE"))
        }
    }
}

fn verdict_word(fields: &Map<String, Value>) -> Result<&str, String> {
    fields.get("verdict").and_then(Value::as_str).ok_or_else(|| "the field `verdict` is missing".to_owned())
}

/// Counts the issues that are critical or high.
fn count_blocking_issues(fields: &Map<String, Value>) -> Result<u16, String> {
    let issues = match fields.get("issues") {
        None | Some(Value::Null) => return Ok(0),
        Some(Value::Array(issues)) => issues,
        Some(_) => return Err("the field `issues` is not a list".to_owned()),
    };
    let mut blocking = 0_u16;
    for issue in issues {
        match issue["priority"].as_str().map(str::to_lowercase).as_deref() {
            Some("critical" | "high") => blocking = blocking.saturating_add(1),
            Some("medium" | "low") => {}
            _ => return Err("an issue has no `priority` of critical, high, medium or low".to_owned()),
        }
    }
    Ok(blocking)
}

fn check_counts(fields: &Map<String, Value>) -> Result<(), String> {
    for kind in TEST_KINDS {
        if let Some(counts) = fields.get(kind) {
            TestCounts::deserialize(counts).map_err(|_| {
                format!("the field `{kind}` needs the numbers `total`, `passed` and `failed`")
            })?;
        }
    }
    Ok(())
}

/// Returns what a plan of this step is checked against.
fn plan_context(
    definition: &Definition,
    document: &Document,
    step: &Step,
    fields: &Map<String, Value>,
) -> PlanContext {
    let split = document.splitting().filter(|_| *step == Step::PLAN).map(|id| {
        let task_ids = document.planned(id).map(|group| group.tasks.clone()).unwrap_or_default();
        let tasks: Vec<Task> =
            document.plan.tasks.iter().filter(|task| task_ids.contains(&task.id)).cloned().collect();
        SplitGroup { group: id.clone(), tasks, dependents: document.dependents(id) }
    });
    PlanContext {
        mode: definition.mode,
        max_parallel: definition.limits.groups.get(),
        existing_groups: document.plan.groups.iter().map(|group| group.id.to_string()).collect(),
        existing_tasks: document.plan.tasks.iter().map(|task| task.id.clone()).collect(),
        existing_branches: fields
            .get("git")
            .and_then(Value::as_object)
            .map_or_else(Vec::new, |git| texts(git, "branches")),
        split,
    }
}

/// Reads the plan of a report.
pub(in crate::team) fn plan(
    definition: &Definition,
    document: &Document,
    step: &Step,
    fields: &Map<String, Value>,
) -> Result<Plan, String> {
    plan::read(fields, &plan_context(definition, document, step, fields))
        .map_err(|problems| format!("the plan is refused: {}", problems.join("; ")))
}

/// Reads the plan of a report, cut to what decisions depend on.
fn planned_work(
    definition: &Definition,
    document: &Document,
    step: &Step,
    fields: &Map<String, Value>,
) -> Result<super::super::step::PlannedWork, String> {
    let plan = plan(definition, document, step, fields)?;
    let first_phase = u16::try_from(document.plan.phases.len()).unwrap_or(u16::MAX);
    let mut work = plan.planned_work(first_phase);
    // Groups that replace a split group work in its phase, after the groups that change the same files.
    if let Some(SplitGroup { group: old, .. }) = plan_context(definition, document, step, fields).split {
        let phase = document.plan.phases.iter().position(|phase| phase.contains(&old)).unwrap_or(0);
        for (group, planned) in work.groups.iter_mut().zip(&plan.groups) {
            group.phase = u16::try_from(phase).unwrap_or(u16::MAX);
            group.after.extend(document.shared_files_of_new(&old, planned).into_keys());
        }
    }
    Ok(work)
}

/// Reads the answer of a person.
pub(in crate::team) fn parse_answer(step: &Step, answer: &Answer) -> Result<Verdict, String> {
    let options = options(step);
    if options.is_empty() {
        return Err(format!("`{step}` asks no person"));
    }
    let words: Vec<_> = options.iter().map(|option| option.as_str()).collect();
    let Answer::Choose { option, reason } = answer else {
        return Err(format!("answer `choose` with one of {}", words.join(", ")));
    };
    let Some(choice) = options.iter().find(|choice| choice.as_str() == option) else {
        return Err(format!("`{option}` is not one of {}", words.join(", ")));
    };
    let has_reason = reason.as_ref().is_some_and(|reason| !reason.trim().is_empty());
    if choice.needs_reason() && !has_reason {
        return Err(format!("`{option}` makes the scope smaller: say why with `--reason WHY`"));
    }
    Ok(Verdict::Choice(*choice))
}

/// Returns what a person may choose; empty if the step asks no person.
pub(in crate::team) fn options(step: &Step) -> Vec<Choice> {
    match step {
        Step::Group(_, Role::Decision) => {
            vec![Choice::Split, Choice::Continue, Choice::Skip, Choice::Fail]
        }
        Step::Pm(PmStep::Decision) => vec![Choice::Continue, Choice::Accept, Choice::Fail],
        Step::Pm(PmStep::Plan | PmStep::Criteria | PmStep::Check | PmStep::Merge)
        | Step::Group(_, Role::Developer | Role::Qa | Role::TechLead | Role::Merge) => Vec::new(),
    }
}

/// Returns the first of these fields that is a text, trimmed; an empty text if there is none.
pub(in crate::team) fn text(fields: &Map<String, Value>, names: &[&str]) -> String {
    let found = names.iter().find_map(|name| fields.get(*name).and_then(Value::as_str));
    found.unwrap_or_default().trim().to_owned()
}

/// Returns the texts of a list; a single text counts as a list of one.
pub(in crate::team) fn texts(fields: &Map<String, Value>, name: &str) -> Vec<String> {
    match fields.get(name) {
        Some(Value::Array(items)) => {
            items.iter().map(|item| item.as_str().map_or_else(|| item.to_string(), str::to_owned)).collect()
        }
        Some(Value::String(text)) => vec![text.clone()],
        _ => Vec::new(),
    }
}

/// Returns the result of the tests of a kind: `8/8 passed`, or `none`.
pub(in crate::team) fn test_result_text(group: &GroupPart, kind: &str) -> String {
    let counts = group.test_results.get(kind).copied().unwrap_or_default();
    match counts.total {
        0 => "none".to_owned(),
        total => format!("{}/{total} passed", counts.passed),
    }
}

/// Returns the issues of a review with the members of the original format.
pub(in crate::team) fn issues(fields: &Map<String, Value>) -> Value {
    let Some(Value::Array(issues)) = fields.get("issues") else { return json!([]) };
    let issue = |issue: &Value| {
        let member = |name: &str| issue[name].as_str().unwrap_or_default().to_owned();
        json!({
            "priority": member("priority").to_lowercase(), "title": member("title"), "location": member("location"),
            "description": member("description"), "fix_suggestion": member("fix_suggestion"),
        })
    };
    issues.iter().map(issue).collect()
}
