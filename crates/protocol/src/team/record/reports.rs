//! Reports → document: what each role says, and the messages that follow from it.

use serde::Deserialize as _;
use serde_json::{Map, Value, json};

use super::super::definition::GroupId;
use super::super::document::{Blocker, Feedback, GroupPart, Mailbox, TestCounts, plan_part};
use super::super::report::verdicts::{self, issues, passed, text, texts};
use super::super::state::{Blocked, Stage};
use super::super::step::{
    DeveloperVerdict, MergeVerdict, PmStep, QaVerdict, Role, Step, TechLeadVerdict, Verdict,
};
use super::Recorder;
use crate::checks;

impl Recorder<'_> {
    /// Records what a report or an answer says, whatever follows from it.
    pub(super) fn says(&mut self, verdict: &Verdict) {
        let Some((step, fields)) = self.reported.clone() else { return };
        if let (Step::Group(id, role), Some(Value::Object(git))) = (&step, fields.get("git")) {
            let is_known = !texts(git, "commits").is_empty();
            // After an import, and after merges of others, a developer need not have reported.
            if *role != Role::Developer && is_known {
                changed_files(self.group(id), &fields);
            }
        }
        match (&step, verdict) {
            (Step::Group(id, Role::Developer), Verdict::Developer(verdict)) => {
                self.developer(id, *verdict, &fields);
            }
            (Step::Group(id, Role::Qa), Verdict::Qa(verdict)) => self.qa(id, *verdict, &fields),
            (Step::Group(id, Role::TechLead), Verdict::TechLead(verdict)) => {
                self.tech_lead(id, *verdict, &fields);
            }
            (Step::Group(id, Role::Merge), Verdict::Merge(verdict)) => self.merge(id, *verdict),
            (Step::Pm(PmStep::Criteria), Verdict::Criteria { .. }) => self.criteria(),
            (Step::Pm(_) | Step::Group(..), _) => {}
        }
        for (mailbox, message) in std::mem::take(&mut self.written) {
            self.append(mailbox, step.group(), mailbox.body(message));
        }
    }

    fn developer(&mut self, id: &GroupId, verdict: DeveloperVerdict, fields: &Map<String, Value>) {
        let summary = text(fields, &["summary", "notes"]);
        let (name, branch) = self.named(id);
        let group = self.group(id);
        changed_files(group, fields);
        counts(group, fields);
        if !summary.is_empty() {
            group.summary = summary;
        }
        match verdict {
            DeveloperVerdict::ReadyForQa => {
                let context = json!({
                    "branch_name": branch, "files_modified": group.files_modified, "commits": group.commits,
                    "unit_tests_status": passed(group, "unit_tests"), "notes": group.summary,
                });
                let body = json!({
                    "subject": format!("{name} ready for QA"), "status": "READY_FOR_QA", "context": context,
                });
                self.send(Mailbox::DevToQa, id, body);
            }
            DeveloperVerdict::ReadyForReview => {}
            DeveloperVerdict::Blocked => {
                let said = blockers(fields);
                let said = if said.is_empty() { vec!["the developer is blocked".to_owned()] } else { said };
                group.blockers.extend(said.into_iter().map(Blocker::new));
            }
        }
    }

    fn qa(&mut self, id: &GroupId, verdict: QaVerdict, fields: &Map<String, Value>) {
        let (name, _) = self.named(id);
        let took = self.evidence.and_then(|evidence| evidence.duration_ms).unwrap_or(0) / 1000;
        let findings = texts(fields, "findings");
        let summary = text(fields, &["summary", "notes"]);
        let group = self.group(id);
        counts(group, fields);
        let results = json!({
            "integration_tests": passed(group, "integration_tests"),
            "contract_tests": passed(group, "contract_tests"),
            "e2e_tests": passed(group, "e2e_tests"),
            "total_time": format!("{}m {}s", took / 60, took % 60),
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
                self.send(Mailbox::QaToTechlead, id, body);
            }
            QaVerdict::Fail => {
                group.sent_back += 1;
                let body = json!({
                    "subject": format!("{name} QA results: tests failed"), "result": "FAIL",
                    "test_results": results, "findings": findings, "summary": summary,
                });
                self.send(Mailbox::QaToDev, id, body);
            }
            QaVerdict::Blocked | QaVerdict::Flaky => {
                let what = match verdict {
                    QaVerdict::Flaky => "tests pass at times only",
                    QaVerdict::Blocked | QaVerdict::Pass | QaVerdict::Fail => "QA is blocked",
                };
                let said = blockers(fields);
                let said = if said.is_empty() { findings } else { said };
                let said = said.into_iter().map(|said| format!("{what}: {said}"));
                let said = if said.len() == 0 { vec![what.to_owned()] } else { said.collect() };
                group.blockers.extend(said.into_iter().map(Blocker::new));
            }
        }
    }

    fn tech_lead(&mut self, id: &GroupId, verdict: TechLeadVerdict, fields: &Map<String, Value>) {
        let (name, _) = self.named(id);
        let at = self.at;
        let feedback = text(fields, &["feedback", "summary"]);
        let group = self.group(id);
        let is_unblocking_qa = group.stage == Stage::Unblock(Blocked::Qa);
        group.code_quality_score =
            fields.get("code_quality_score").and_then(Value::as_f64).or(group.code_quality_score);
        group.security_issues_count =
            fields.get("security_issues_count").and_then(Value::as_u64).or(group.security_issues_count);
        let (decision, subject) = match verdict {
            TechLeadVerdict::Approved => {
                // An imported group may have one although it is not blocked.
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
            self.send(Mailbox::TechleadToDev, id, body);
        }
    }

    fn merge(&mut self, id: &GroupId, verdict: MergeVerdict) {
        let (name, branch) = self.named(id);
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
                self.send(Mailbox::ToPm, id, body);
            }
            MergeVerdict::Refused => {
                self.group(id).sent_back += 1;
                let issue = json!({
                    "priority": "critical", "title": "The merge was refused", "location": branch,
                    "description": logs, "fix_suggestion": repair,
                });
                let body = json!({
                    "subject": format!("{name}: the merge was refused"), "decision": "changes_requested",
                    "feedback": logs, "issues": [issue],
                    "actionable_items": [repair],
                });
                self.send(Mailbox::TechleadToDev, id, body);
            }
        }
    }

    fn criteria(&mut self) {
        let report = self.evidence.and_then(|evidence| evidence.report.as_ref());
        let results = report.and_then(|report| checks::results(report).ok()).unwrap_or_default();
        let criteria = self.document.plan.criteria.iter_mut();
        for (record, result) in criteria.filter(|record| record.criterion.command.is_some()).zip(results) {
            record.passed = Some(result.passed());
            let end: String =
                result.output.chars().rev().take(2000).collect::<Vec<_>>().into_iter().rev().collect();
            record.evidence = Some(format!("{}\n{end}", result.summary()).trim_end().to_owned());
        }
        self.touched.insert(plan_part());
    }

    fn named(&self, id: &GroupId) -> (String, String) {
        let planned = self.document.planned(id);
        planned.map(|group| (group.name.clone(), group.branch_name.clone())).unwrap_or_default()
    }

    /// Sends what the step hands over, after the messages that it wrote itself. The last of these is the hand-over in the
    /// step's own words: both become one message.
    fn send(&mut self, mailbox: Mailbox, group: &GroupId, body: Value) {
        let is_here = |(to, _): &mut (Mailbox, _)| *to == mailbox;
        let mut written: Vec<_> = self.written.extract_if(.., is_here).map(|(_, body)| body).collect();
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

/// Takes over what git says about the branch; without git, what the agent claims.
fn changed_files(group: &mut GroupPart, fields: &Map<String, Value>) {
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
    let said = text(fields, &["blocker", "summary"]);
    if edited.is_empty() && !said.is_empty() { vec![said] } else { edited }
}

fn counts(group: &mut GroupPart, fields: &Map<String, Value>) {
    for kind in verdicts::TEST_KINDS {
        if let Some(Ok(counts)) = fields.get(kind).map(TestCounts::deserialize) {
            group.test_results.insert(kind.to_owned(), counts);
        }
    }
}
