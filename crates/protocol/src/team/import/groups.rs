//! Turns the record of a group in `group_status.json` into its part of the document.

use serde::Deserialize as _;
use serde_json::{Map, Value};

use super::super::document::{Blocker, Feedback, GroupPart, TestCounts};
use super::super::report::verdicts::TEST_KINDS;
use super::super::state::{DecisionReason, GroupProgress, Stage};
use super::super::step::Role;
use super::normalize::{NormalizedFiles, objects, texts, to_text};
use super::{GroupId, ImportedGroup, ImportedStatus, count, time};
use crate::{StepRecordStatus, Timestamp};

/// Returns how far a group is, as the imported files say. Its record in `group_status.json` takes precedence over the plan in
/// `pm_state.json`, and the plan over the lists there, such as `completed_groups`.
pub(super) fn status(normalized: &NormalizedFiles, id: &GroupId, notes: &mut Vec<String>) -> ImportedStatus {
    let record = normalized.status.get(id.as_str());
    let planned = normalized.pm.get("task_groups").and_then(Value::as_array).into_iter().flatten();
    let planned = planned.into_iter().find(|group| group["id"] == id.as_str());
    let listed = |list: &str| texts(normalized.pm.get(list)).iter().any(|listed| listed == id.as_str());
    let lists = [
        ("completed_groups", "complete"),
        ("in_progress_groups", "in_progress"),
        ("pending_groups", "pending"),
    ];
    let parse = |word: &Value| (!word.is_null()).then(|| ImportedStatus::parse(&to_text(word), record));
    let in_record = record.and_then(|record| parse(record.get("status")?));
    let in_plan = planned.and_then(|group| parse(group.get("status")?));
    let in_list =
        lists.iter().find(|(list, _)| listed(list)).map(|(_, word)| ImportedStatus::parse(word, record));
    let statuses = [("its record", in_record), ("the plan", in_plan), ("the list", in_list)];
    let mut statuses = statuses.into_iter().filter_map(|(place, status)| Some((place, status?)));
    let Some((place, status)) = statuses.next() else {
        notes.push(format!("group `{id}` has no status: it is pending"));
        return ImportedStatus::parse("pending", None);
    };
    for (other_place, other) in statuses.filter(|(_, other)| !other.agrees(&status)) {
        notes.push(format!(
            "group `{id}`: {place} says \"{}\", {other_place} says \"{}\": {place} counts",
            status.text(),
            other.text()
        ));
    }
    status
}

/// Returns the part of the document for a group.
pub(super) fn part(record: Option<&Map<String, Value>>, group: &ImportedGroup, at: Timestamp) -> GroupPart {
    let mut part = GroupPart::new(at);
    part.stage = group.status.stage();
    part.claimed_complete = group.status == ImportedStatus::Complete;
    if let Some(question) = &group.question {
        (part.progress, part.import_question) =
            (GroupProgress::Asks(DecisionReason::Imported), Some(question.clone()));
    }
    let none = Map::new();
    let record = record.unwrap_or(&none);
    if group.status.has_begun() {
        part.start_time = Some(time(record, "start_time").unwrap_or(at));
    }
    let iterations = record.get("iterations").and_then(Value::as_object).unwrap_or(&none);
    // Some files have the counts in the record itself.
    let iterations_of = |name: &str, record_name: &str| {
        u32::try_from(count(iterations, name).max(count(record, record_name))).unwrap_or(u32::MAX)
    };
    part.iterations.developer = iterations_of("developer", "developer_iterations");
    part.iterations.qa = iterations_of("qa", "qa_iterations");
    part.iterations.tech_lead = iterations_of("tech_lead", "tech_lead_iterations");
    part.files_modified = texts(record.get("files_modified"));
    part.commits = texts(record.get("commits"));
    for kind in TEST_KINDS {
        let found = record.get("test_results").and_then(|results| counts(results.get(kind)?));
        part.test_results.extend(found.map(|counts| (kind.to_owned(), counts)));
    }
    let text = |members: &Map<String, Value>, name: &str| members.get(name).map(to_text).unwrap_or_default();
    part.feedback = (1..)
        .zip(objects(record.get("tech_lead_feedback").cloned(), "feedback"))
        .map(|(iteration, entry)| Feedback {
            iteration,
            decision: text(&entry, "decision"),
            feedback: text(&entry, "feedback"),
            timestamp: time(&entry, "timestamp").unwrap_or(at),
        })
        .collect();
    // The number is not in the files. Only whether it is 0 is shown.
    part.sent_back = u32::from(part.feedback.iter().any(|entry| entry.decision == "changes_requested"));
    part.blockers = objects(record.get("blockers").cloned(), "description")
        .into_iter()
        .map(|entry| Blocker {
            description: text(&entry, "description"),
            resolved: entry.get("resolved").and_then(Value::as_bool).unwrap_or(false),
            resolution: entry.get("resolution").filter(|text| !text.is_null()).map(to_text),
        })
        .collect();
    let metrics = record.get("quality_metrics").and_then(Value::as_object).unwrap_or(&none);
    part.code_quality_score = metrics.get("code_quality_score").and_then(Value::as_f64);
    part.security_issues_count = metrics.get("security_issues_count").and_then(Value::as_u64);
    let (developed, tested) = match part.stage {
        Stage::Develop(_) | Stage::Unblock(_) | Stage::Merge | Stage::Complete => (false, false),
        Stage::Test => (true, false),
        Stage::Review => (true, part.iterations.qa > 0),
    };
    for (role, is_done) in [(Role::Developer, developed), (Role::Qa, tested)] {
        if let Some(step) = part.steps.get_mut(role.as_str()).filter(|_| is_done) {
            step.status = StepRecordStatus::Succeeded;
        }
    }
    part
}

/// Reads `{"total": 8, …}`, or a text such as `8/8 passed`.
fn counts(value: &Value) -> Option<TestCounts> {
    if let Some(text) = value.as_str() {
        let (passed, rest) = text.split_once('/')?;
        let total: String = rest.trim_start().chars().take_while(char::is_ascii_digit).collect();
        let (passed, total): (u64, u64) = (passed.trim().parse().ok()?, total.parse().ok()?);
        return Some(TestCounts { total, passed, failed: total.saturating_sub(passed) });
    }
    TestCounts::deserialize(value).ok()
}
