//! How the report of a step changes the sections of the document.
//!
//! The phases: `ra` writes the requirements, `ep` explores and plans, `cd` codes, `vas` validates.

use serde_json::{Map, json};

use super::Recorder;
use crate::checks;
use crate::cycle::document::parts::{EXPLORATION, PLAN, REQUIREMENTS, TEST_RESULTS, changes_part};
use crate::cycle::document::{FeedbackKind, FileAction, FileChange, TaskStatus, TestResults, times};
use crate::cycle::layout;
use crate::cycle::report::{
    self, AgentReport, AnalystFields, DeveloperFields, PlannerFields, TestCounts, ValidatorFields,
    count_tests, coverage, percent,
};
use crate::cycle::step::{Role, Step, Verdict};
use crate::protocol_trait::ParsedReport;
use crate::report::Report;

/// The version of a section or file that is written now, and the one it replaces.
pub(super) struct Version {
    pub(super) number: String,
    pub(super) previous: Option<String>,
}

impl Recorder<'_> {
    /// Applies the report of a step.
    pub(super) fn record_report(&mut self, step: &Step, report: &Report) {
        let Some(role) = step.role() else { return };
        match (step, checks::results(report)) {
            (Step::Test | Step::Baseline, Ok(results)) => return self.record_checks(step, results),
            (Step::Test | Step::Merge(_), _) => return,
            (
                Step::Phase(_)
                | Step::Explore
                | Step::Baseline
                | Step::Task(_)
                | Step::Answer(_)
                | Step::FastForward,
                _,
            ) => {}
        }
        if let ParsedReport::Verdict(Verdict::Blocked { .. }) = report::parse(self.document, step, report) {
            self.document.master_file.agents.of_mut(role).last_message = report.logs.last().cloned();
            return self.set_result(role, "partial", None);
        }
        let Ok(agent_report) = report::read(self.document, step, report) else { return };
        let written_count = agent_report.common().files_written.len();
        let changed_files = match &agent_report {
            AgentReport::Analyst(fields) => self.record_requirements(fields),
            AgentReport::Planner(fields) => self.record_plan(step, fields),
            AgentReport::Developer(fields) => Some(self.record_code(step, fields)),
            AgentReport::Validator(fields) if *step == Step::Baseline => return self.record_baseline(fields),
            AgentReport::Validator(fields) => self.record_validation(fields),
        };
        let prefix = format!("{role}/");
        let files = self.document.files.keys().chain(self.document.logs.keys());
        let own_files = files.filter(|path| path.starts_with(&prefix) && !path.contains("/history/"));
        let outputs: Vec<_> = own_files.cloned().collect();
        let files = changed_files.unwrap_or(outputs.len() + written_count).max(report.artifacts.len());
        let agent = self.document.master_file.agents.of_mut(role);
        agent.output_files = outputs;
        let summary = agent_report.common().summary.as_ref();
        agent.last_message = summary.or(report.logs.last()).cloned();
        let is_partial = agent_report.common().phase_status == report::PhaseStatus::Partial;
        self.set_result(role, if is_partial { "partial" } else { "completed" }, Some(files as u64));
    }

    /// Records a test run of the engine. `vas` gets the result as feedback.
    fn record_checks(&mut self, step: &Step, results: Vec<checks::CheckResult>) {
        let summary: Vec<_> = results.iter().map(checks::CheckResult::summary).collect();
        if *step == Step::Baseline {
            let content = format!("Checks before this iteration: {}", summary.join("; "));
            return self.add_feedback("engine", Role::Validator, content, FeedbackKind::Clarification);
        }
        let failed = results.iter().filter(|result| !result.passed());
        let failed: Vec<_> = failed
            .map(|result| format!("{}\n{}", result.summary(), result.output).trim_end().to_owned())
            .collect();
        let kind = if failed.is_empty() { FeedbackKind::Clarification } else { FeedbackKind::BugReport };
        self.add_feedback("engine", Role::Validator, format!("Checks: {}", summary.join("; ")), kind);
        self.document.engine.findings.failing_tests.extend(failed);
        self.document.engine.checks = results;
    }

    /// Records the figures of an agent's test run before the iteration.
    fn record_baseline(&mut self, fields: &ValidatorFields) {
        let ValidatorFields { pass_rate, total_tests, failed_tests, .. } = fields;
        let figures =
            json!({ "pass_rate": pass_rate, "total_tests": total_tests, "failed_tests": failed_tests });
        let content = format!("Tests before this iteration, as the agent says: {figures}");
        self.add_feedback("vas", Role::Validator, content, FeedbackKind::Clarification);
    }

    /// Begins the next version of a section.
    fn bump_version(&self, version: &mut String, last_updated: &mut String) -> Version {
        let previous = Some(std::mem::take(version)).filter(|version| !version.is_empty());
        *version = times::next_version(previous.as_deref(), self.document.master_file.current_iteration);
        last_updated.clone_from(&self.time);
        Version { number: version.clone(), previous }
    }

    fn record_requirements(&mut self, fields: &AnalystFields) -> Option<usize> {
        let mut section = self.document.master_file.requirements.clone().unwrap_or_default();
        if !fields.unchanged {
            set_if_reported(&mut section.specification, &fields.specification);
            set_if_reported(&mut section.edge_cases, &fields.edge_cases);
        }
        let version = self.bump_version(&mut section.version, &mut section.last_updated);
        self.log_version(Role::Analyst, &version, &fields.common);
        let log = self.document.log(layout::RA_LOG);
        let body = layout::requirements(&section, &log);
        self.write_page(layout::REQUIREMENTS, "Requirements Specification", &version, &body, &fields.common);
        self.document.master_file.requirements = Some(section);
        self.parts.insert(REQUIREMENTS.to_owned());
        None
    }

    /// Records the exploration and, unless the step only explores, the plan.
    fn record_plan(&mut self, step: &Step, fields: &PlannerFields) -> Option<usize> {
        let mut section = self.document.master_file.exploration.clone().unwrap_or_default();
        set_if_reported(&mut section.architecture_summary, &fields.architecture_summary);
        set_if_reported(&mut section.integration_points, &fields.integration_points);
        set_if_reported(&mut section.identified_risks, &fields.identified_risks);
        let version = self.bump_version(&mut section.version, &mut section.last_updated);
        let body = layout::exploration(&section);
        self.write_page(layout::EXPLORATION, "Exploration", &version, &body, &fields.common);
        // The known page stays unless the report has a new one, or a new summary, which the known page may contradict.
        let known_file = self.document.files.get(layout::ARCHITECTURE);
        let known_body =
            known_file.filter(|_| fields.architecture_summary.is_none()).map(|file| layout::body_of(file));
        let body =
            fields.architecture.as_deref().or(known_body).unwrap_or(&section.architecture_summary).to_owned();
        self.write_notes(layout::ARCHITECTURE, "Architecture", &body, &fields.common);
        self.document.master_file.exploration = Some(section);
        self.parts.insert(EXPLORATION.to_owned());
        if *step == Step::Explore {
            return None;
        }
        let mut section = self.document.master_file.plan.clone().unwrap_or_default();
        let tasks = fields
            .tasks
            .as_ref()
            .map(|tasks| report::tasks_with_known_status(tasks, Some(&section)).unwrap_or_default());
        set_if_reported(&mut section.tasks, &tasks);
        set_if_reported(&mut section.total_estimated_effort, &fields.total_estimated_effort);
        set_if_reported(&mut section.critical_path, &fields.critical_path);
        if let Some(groups) = &fields.parallel_opportunities {
            section.unknown.insert("parallel_opportunities".to_owned(), groups.clone());
        }
        let version = self.bump_version(&mut section.version, &mut section.last_updated);
        self.write_versioned(layout::PLAN, version.previous.as_deref(), layout::plan(&section));
        self.log_version(Role::Planner, &version, &fields.common);
        self.document.master_file.plan = Some(section);
        self.parts.insert(PLAN.to_owned());
        None
    }

    /// Records code, and returns how many files it changes.
    fn record_code(&mut self, step: &Step, fields: &DeveloperFields) -> usize {
        let (iteration, time) = (self.document.master_file.current_iteration, self.time.clone());
        // A task with a step of its own is completed by its merge.
        for id in fields.tasks_completed.iter().filter(|_| step.task().is_none()) {
            self.set_task(id, TaskStatus::Completed);
        }
        for id in &fields.tasks_blocked {
            self.set_task(id, TaskStatus::Blocked);
        }
        let undescribed = fields
            .files_modified
            .iter()
            .filter(|file| !fields.changes.iter().any(|known| known.file == **file));
        let undescribed = undescribed.map(|file| (file, FileAction::Modify, "", Map::new()));
        let described = fields.changes.iter();
        let described = described
            .map(|change| (&change.file, change.action, change.description.as_str(), change.unknown.clone()));
        let changes = self.document.master_file.changes.get_or_insert_default();
        let (mut lines, before) = (String::new(), changes.changes.len());
        for (file, action, description, mut unknown) in described.chain(undescribed) {
            if let Some(task) = step.task() {
                unknown.entry("task").or_insert_with(|| task.to_string().into());
            }
            let change = FileChange {
                timestamp: time.clone(),
                file: file.clone(),
                action,
                iteration,
                agent: Role::Developer.to_string(),
                description: description.to_owned(),
                unknown,
            };
            lines.push_str(&layout::change_line(&change));
            self.parts.insert(changes_part(changes.changes.len()));
            changes.changes.push(change);
        }
        let count = changes.changes.len() - before;
        changes.update_total_files();
        self.append(layout::CHANGES, &lines);
        let entries = fields.debug_log.iter().filter_map(|entry| Some(json!(entry).as_object()?.clone()));
        let debug_lines: String = entries.map(|entry| layout::debug_line(&entry, iteration, &time)).collect();
        self.append(layout::DEBUG_LOG, &debug_lines);
        self.document.engine.findings.open_issues.extend(fields.issues.iter().cloned());
        if let Some(notes) = &fields.implementation {
            let title = step.task().map(|task| format!("Implementation of {task}"));
            let title = title.as_deref().unwrap_or("Implementation");
            self.write_notes(layout::IMPLEMENTATION, title, notes, &fields.common);
        }
        let issues = bullets(&fields.issues, "No open issues.");
        self.write_notes(layout::ISSUES, "Issues", &issues, &fields.common);
        count
    }

    fn record_validation(&mut self, fields: &ValidatorFields) -> Option<usize> {
        let checks = self.document.engine.checks.clone();
        let claimed_failed = fields.failed_tests.len() as u64;
        let (counts, source) = if checks.is_empty() {
            let passed = fields.total_tests.unwrap_or(0).saturating_sub(claimed_failed);
            (TestCounts { passed, failed: claimed_failed, skipped: 0 }, "claim")
        } else {
            (count_tests(&checks), "engine")
        };
        let measured = coverage(&checks);
        let coverage_source = if measured.is_some() { "engine" } else { "claim" };
        let coverage = measured.or_else(|| fields.coverage.clone());
        let pass_rate = fields.pass_rate.clone().filter(|_| checks.is_empty());
        let failed_checks = checks.iter().filter(|check| !check.passed()).map(checks::CheckResult::summary);
        let mut section = TestResults {
            pass_rate: pass_rate.unwrap_or_else(|| percent(counts.passed, counts.total())),
            coverage: coverage.clone().unwrap_or_else(|| 0.into()),
            failed_tests: failed_checks.chain(fields.failed_tests.iter().cloned()).collect(),
            total_tests: counts.total(),
            ..self.document.master_file.test_results.clone().unwrap_or_default()
        };
        section.unknown.insert("source".to_owned(), source.into());
        section.unknown.insert("coverage_source".to_owned(), coverage_source.into());
        let version = self.bump_version(&mut section.version, &mut section.last_run);
        let claims = json!({
            "pass_rate": fields.pass_rate, "coverage": fields.coverage, "total_tests": fields.total_tests,
            "failed_tests": fields.failed_tests, "by_suite": fields.by_suite,
        });
        let iteration = self.document.master_file.current_iteration;
        let body = layout::test_results(&section, iteration, counts, &checks, &claims);
        self.write_versioned(layout::TEST_RESULTS, version.previous.as_deref(), body);
        self.log_version(Role::Validator, &version, &fields.common);
        let rate = coverage
            .map_or_else(|| "not measured".to_owned(), |rate| format!("{rate} % ({coverage_source})"));
        let details =
            fields.coverage_details.as_ref().map(|details| format!("\n\n```json\n{details:#}\n```"));
        let body = format!("Lines: {rate}{}", details.unwrap_or_default());
        self.write_notes(layout::COVERAGE, "Coverage", &body, &fields.common);
        let body = validation(&section, fields, source);
        self.write_notes(layout::VALIDATION, "Validation", &body, &fields.common);
        let summary = fields.common.summary.as_deref().unwrap_or("No summary.");
        self.write_notes(layout::VAS_SUMMARY, "Summary", summary, &fields.common);
        self.document.master_file.test_results = Some(section);
        self.parts.insert(TEST_RESULTS.to_owned());
        let findings = &mut self.document.engine.findings;
        findings.failing_tests.extend(fields.failed_tests.iter().chain(&fields.critical_issues).cloned());
        None
    }
}

/// Replaces a value if the report has a new one.
fn set_if_reported<T: Clone>(value: &mut T, reported: &Option<T>) {
    if let Some(reported) = reported {
        value.clone_from(reported);
    }
}

/// Returns a list in Markdown, or a sentence if it is empty.
fn bullets(items: &[String], if_empty: &str) -> String {
    let mut text = String::new();
    layout::push_list(&mut text, items);
    if text.is_empty() { format!("{if_empty}\n") } else { text }
}

/// Returns the body of `validation.md`.
fn validation(results: &TestResults, fields: &ValidatorFields, source: &str) -> String {
    let failed = bullets(&results.failed_tests, "None.");
    let critical = bullets(&fields.critical_issues, "None.");
    let text = fields.validation.as_deref().unwrap_or("The agent has said nothing.");
    format!(
        "{} % of {} tests pass ({source}).\n\n## Requirements\n\n{}\n\n## Failing Tests\n\n{failed}\n## Critical Issues\n\n{critical}",
        results.pass_rate,
        results.total_tests,
        text.trim_end()
    )
}
