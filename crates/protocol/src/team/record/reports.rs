//! Records reports in the document: what each role reported, and the messages that follow from it.

use serde::Deserialize as _;
use serde_json::{Map, Value, json};

use super::super::definition::GroupId;
use super::super::document::{Blocker, Feedback, GroupPart, Mailbox, TestCounts, plan_part_path};
use super::super::report::verdicts::{self, issues, test_result_text, text, texts};
use super::super::state::{Blocked, Stage};
use super::super::step::{
    DeveloperVerdict, MergeVerdict, PmStep, QaVerdict, Role, Step, TechLeadVerdict, Verdict,
};
use super::Recorder;
use crate::checks;

impl Recorder<'_> {
    /// Records the content of a report or an answer, before the changes that follow from it.
    pub(super) fn record_verdict(&mut self, verdict: &Verdict) {
        let Some((step, fields)) = self.reported.clone() else { return };
        if let (Step::Group(id, role), Some(Value::Object(git))) = (&step, fields.get("git")) {
            let has_commits = !texts(git, "commits").is_empty();
            // Git may have more than the developer has reported: after an import, and after other groups were merged.
            if *role != Role::Developer && has_commits {
                update_files_and_commits(self.group_mut(id), &fields);
            }
        }
        match (&step, verdict) {
            (Step::Group(id, Role::Developer), Verdict::Developer(verdict)) => {
                self.record_developer(id, *verdict, &fields);
            }
            (Step::Group(id, Role::Qa), Verdict::Qa(verdict)) => self.record_qa(id, *verdict, &fields),
            (Step::Group(id, Role::TechLead), Verdict::TechLead(verdict)) => {
                self.record_tech_lead(id, *verdict, &fields);
            }
            (Step::Group(id, Role::Merge), Verdict::Merge(verdict)) => self.record_merge(id, *verdict),
            (Step::Pm(PmStep::Criteria), Verdict::Criteria { .. }) => self.record_criteria(),
            (Step::Pm(_) | Step::Group(..), _) => {}
        }
        for (mailbox, message) in std::mem::take(&mut self.written) {
            self.append(mailbox, step.group(), mailbox.body(message));
        }
    }

    fn record_developer(&mut self, id: &GroupId, verdict: DeveloperVerdict, fields: &Map<String, Value>) {
        let summary = text(fields, &["summary", "notes"]);
        let (name, branch) = self.name_and_branch(id);
        let group = self.group_mut(id);
        update_files_and_commits(group, fields);
        update_test_counts(group, fields);
        if !summary.is_empty() {
            group.summary = summary;
        }
        match verdict {
            DeveloperVerdict::ReadyForQa => {
                let context = json!({
                    "branch_name": branch, "files_modified": group.files_modified, "commits": group.commits,
                    "unit_tests_status": test_result_text(group, "unit_tests"), "notes": group.summary,
                });
                let body = json!({
                    "subject": format!("{name} ready for QA"), "status": "READY_FOR_QA", "context": context,
                });
                self.send_handover(Mailbox::DevToQa, id, body);
            }
            DeveloperVerdict::ReadyForReview => {}
            DeveloperVerdict::Blocked => {
                let stated = blockers(fields);
                let stated =
                    if stated.is_empty() { vec!["the developer is blocked".to_owned()] } else { stated };
                group.blockers.extend(stated.into_iter().map(Blocker::new));
            }
        }
    }

    fn record_qa(&mut self, id: &GroupId, verdict: QaVerdict, fields: &Map<String, Value>) {
        let (name, _) = self.name_and_branch(id);
        let seconds = self.evidence.and_then(|evidence| evidence.duration_ms).unwrap_or(0) / 1000;
        let findings = texts(fields, "findings");
        let summary = text(fields, &["summary", "notes"]);
        let group = self.group_mut(id);
        update_test_counts(group, fields);
        let results = json!({
            "integration_tests": test_result_text(group, "integration_tests"),
            "contract_tests": test_result_text(group, "contract_tests"),
            "e2e_tests": test_result_text(group, "e2e_tests"),
            "total_time": format!("{}m {}s", seconds / 60, seconds % 60),
        });
        match verdict {
            QaVerdict::Pass => {
                let context = json!({
                    "files_modified": group.files_modified, "implementation_summary": group.summary,
                });
                let body = json!({
                    "subject": format!("{name} QA results: all tests passed"), "result": "PASS",
                    "test_results": results, "developer_context": context,
                });
                self.send_handover(Mailbox::QaToTechlead, id, body);
            }
            QaVerdict::Fail => {
                group.sent_back += 1;
                let body = json!({
                    "subject": format!("{name} QA results: tests failed"), "result": "FAIL",
                    "test_results": results, "findings": findings, "summary": summary,
                });
                self.send_handover(Mailbox::QaToDev, id, body);
            }
            QaVerdict::Blocked | QaVerdict::Flaky => {
                let what = match verdict {
                    QaVerdict::Flaky => "tests pass at times only",
                    QaVerdict::Blocked | QaVerdict::Pass | QaVerdict::Fail => "QA is blocked",
                };
                let stated = blockers(fields);
                let stated = if stated.is_empty() { findings } else { stated };
                let stated = stated.into_iter().map(|stated| format!("{what}: {stated}"));
                let stated = if stated.len() == 0 { vec![what.to_owned()] } else { stated.collect() };
                group.blockers.extend(stated.into_iter().map(Blocker::new));
            }
        }
    }

    fn record_tech_lead(&mut self, id: &GroupId, verdict: TechLeadVerdict, fields: &Map<String, Value>) {
        let (name, _) = self.name_and_branch(id);
        let at = self.at;
        let feedback = text(fields, &["feedback", "summary"]);
        let group = self.group_mut(id);
        let is_unblocking_qa = group.stage == Stage::Unblock(Blocked::Qa);
        group.code_quality_score =
            fields.get("code_quality_score").and_then(Value::as_f64).or(group.code_quality_score);
        group.security_issues_count =
            fields.get("security_issues_count").and_then(Value::as_u64).or(group.security_issues_count);
        let (decision, subject) = match verdict {
            TechLeadVerdict::Approved => {
                // An imported group may have an open blocker although it is not blocked.
                group.resolve_blockers(&format!("settled by the tech lead's approval: {feedback}"));
                ("approved", "approved")
            }
            TechLeadVerdict::ChangesRequested { .. } => {
                group.sent_back += 1;
                ("changes_requested", "changes requested")
            }
            TechLeadVerdict::Unblocked => {
                group.resolve_blockers(&feedback);
                ("unblocked", "unblocked")
            }
        };
        let iteration = u32::try_from(group.feedback.len()).unwrap_or(u32::MAX).saturating_add(1);
        group.feedback.push(Feedback {
            iteration,
            decision: decision.to_owned(),
            feedback: feedback.clone(),
            timestamp: at,
        });
        let body = json!({
            "subject": format!("{name} review: {subject}"), "decision": decision, "feedback": feedback,
            "issues": issues(fields), "actionable_items": texts(fields, "actionable_items"),
        });
        // Guidance for QA is in the blocker's resolution.
        if !is_unblocking_qa {
            self.send_handover(Mailbox::TechleadToDev, id, body);
        }
    }

    fn record_merge(&mut self, id: &GroupId, verdict: MergeVerdict) {
        let (name, branch) = self.name_and_branch(id);
        let logs =
            self.evidence.and_then(|evidence| evidence.report.as_ref()).map(|report| report.logs.clone());
        let logs = logs.unwrap_or_default();
        // The last line says what to do.
        let repair = logs.last().cloned().unwrap_or_default();
        let logs = logs.join("\n\n");
        match verdict {
            MergeVerdict::Merged => {
                let body = json!({
                    "subject": format!("{name} is merged"), "status": "MERGED", "branch_name": branch,
                });
                self.send_handover(Mailbox::ToPm, id, body);
            }
            MergeVerdict::Refused => {
                self.group_mut(id).sent_back += 1;
                let issue = json!({
                    "priority": "critical", "title": "The merge was refused", "location": branch,
                    "description": logs, "fix_suggestion": repair,
                });
                let body = json!({
                    "subject": format!("{name}: the merge was refused"), "decision": "changes_requested",
                    "feedback": logs, "issues": [issue],
                    "actionable_items": [repair],
                });
                self.send_handover(Mailbox::TechleadToDev, id, body);
            }
        }
    }

    fn record_criteria(&mut self) {
        let report = self.evidence.and_then(|evidence| evidence.report.as_ref());
        let results = report.and_then(|report| checks::results(report).ok()).unwrap_or_default();
        let criteria = self.document.plan.criteria.iter_mut();
        for (record, result) in criteria.filter(|record| record.criterion.command.is_some()).zip(results) {
            record.passed = Some(result.passed());
            let end: String =
                result.output.chars().rev().take(2000).collect::<Vec<_>>().into_iter().rev().collect();
            record.evidence = Some(format!("{}\n{end}", result.summary()).trim_end().to_owned());
        }
        self.touched.insert(plan_part_path());
    }

    fn name_and_branch(&self, id: &GroupId) -> (String, String) {
        let planned = self.document.planned(id);
        planned.map(|group| (group.name.clone(), group.branch_name.clone())).unwrap_or_default()
    }

    /// Sends the engine's message about a report. The messages that the step itself wrote into the same mailbox come
    /// first. The last of those is merged with the engine's, because it reports the same.
    fn send_handover(&mut self, mailbox: Mailbox, group: &GroupId, body: Value) {
        let is_same_mailbox = |(to, _): &mut (Mailbox, _)| *to == mailbox;
        let mut written: Vec<_> =
            self.written.extract_if(.., is_same_mailbox).map(|(_, body)| body).collect();
        let mut last = written.pop().map(|message| mailbox.body(message)).unwrap_or_default();
        for message in written {
            self.append(mailbox, Some(group), mailbox.body(message));
        }
        if let Value::Object(body) = body {
            last.extend(body);
        }
        self.append(mailbox, Some(group), last);
    }

    fn append(&mut self, mailbox: Mailbox, group: Option<&GroupId>, body: Map<String, Value>) {
        let part = self.document.send(mailbox, group, self.at, body);
        self.touched.insert(part);
    }
}

/// Sets the files and commits of a group: those that git has on the branch; without git, those that the agent claims.
fn update_files_and_commits(group: &mut GroupPart, fields: &Map<String, Value>) {
    let git = fields.get("git").and_then(Value::as_object).unwrap_or(fields);
    for (list, names) in [
        (&mut group.files_modified, ["files", "files_modified"]),
        (&mut group.commits, ["commits", "commits"]),
    ] {
        if let Some(name) = names.into_iter().find(|name| git.contains_key(*name)) {
            *list = texts(git, name);
        }
    }
}

/// Returns what blocks a role, as its report or its edits say.
fn blockers(fields: &Map<String, Value>) -> Vec<String> {
    let edited = texts(fields, "blockers");
    let stated = text(fields, &["blocker", "summary"]);
    if edited.is_empty() && !stated.is_empty() { vec![stated] } else { edited }
}

fn update_test_counts(group: &mut GroupPart, fields: &Map<String, Value>) {
    for kind in verdicts::TEST_KINDS {
        if let Some(Ok(counts)) = fields.get(kind).map(TestCounts::deserialize) {
            group.test_results.insert(kind.to_owned(), counts);
        }
    }
}
