//! How the report of a step changes the sections of the document.

use serde_json::{Map, Value, json};

use super::Recorder;
use crate::checks;
use crate::cycle::document::parts::{EXPLORATION, PLAN, REQUIREMENTS, TEST_RESULTS, changes_part};
use crate::cycle::document::{
    ChangeLog, Exploration, FeedbackKind, FileAction, Plan, Requirements, TaskStatus, TestResults, times,
};
use crate::cycle::layout::{self, Heading};
use crate::cycle::report::{
    self, AgentReport, CdFields, Common, EpFields, RaFields, TestCounts, VasFields, count_tests, percent,
};
use crate::cycle::step::{Role, Step};
use crate::report::Report;

impl Recorder<'_> {
    /// Applies the report of a step.
    pub(super) fn report(&mut self, step: &Step, report: &Report) {
        match step {
            Step::Test => return self.checked(report),
            Step::Baseline if checks::results(report).is_ok() => {
                let results = checks::results(report).unwrap_or_default();
                let summaries: Vec<_> = results.iter().map(checks::CheckResult::summary).collect();
                self.document.engine.baseline = Some(json!({ "source": "engine", "checks": summaries }));
                return;
            }
            Step::Merge(_) | Step::Answer(_) | Step::FastForward => return,
            Step::Phase(_) | Step::Explore | Step::Baseline | Step::Task(_) => {}
        }
        let Ok(read) = report::read(self.document, step, report) else { return };
        let role = step.role().unwrap_or(Role::Ra);
        let files = match read {
            AgentReport::Ra(fields) => self.specify(&fields),
            AgentReport::Ep(fields) => self.plan(step, &fields),
            AgentReport::Cd(fields) => self.code(step, &fields),
            AgentReport::Vas(fields) if *step == Step::Baseline => {
                let VasFields { pass_rate, total_tests, failed_tests, .. } = fields;
                let baseline = json!({ "source": "claim", "pass_rate": pass_rate, "total_tests": total_tests, "failed_tests": failed_tests });
                self.document.engine.baseline = Some(baseline);
                return;
            }
            AgentReport::Vas(fields) => self.validate(&fields),
        };
        let files = files.max(report.artifacts.len() as u64);
        let message = message(report);
        let agent = self.document.state.agents.of_mut(role);
        agent.last_message = message;
        let is_partial = report.others.get("phase_status").is_some_and(|status| status == "partial");
        self.set_result(role, if is_partial { "partial" } else { "completed" }, Some(files));
    }

    fn checked(&mut self, report: &Report) {
        let results = checks::results(report).unwrap_or_default();
        let failed: Vec<_> = results.iter().filter(|result| !result.passed()).collect();
        for result in &failed {
            let tail = result.output.trim_end();
            let content = format!("{}\n{tail}", result.summary());
            self.document.engine.findings.failing_tests.push(content.trim_end().to_owned());
        }
        let summary: Vec<_> = results.iter().map(checks::CheckResult::summary).collect();
        if !failed.is_empty() {
            self.feedback("engine", Role::Vas, summary.join("; "), FeedbackKind::BugReport);
        }
        self.document.engine.checks = results;
    }

    /// Returns the heading of a file that is written now.
    fn heading<'t>(
        &'t self,
        title: &'t str,
        version: &'t str,
        previous: Option<&'t str>,
        common: &'t Common,
    ) -> Heading<'t> {
        Heading {
            title,
            version,
            previous,
            iteration: self.document.state.current_iteration,
            updated: &self.time,
            summary: common.summary.as_deref().unwrap_or("updated"),
        }
    }

    fn specify(&mut self, fields: &RaFields) -> u64 {
        let old = self.document.state.requirements.clone();
        let previous = old.as_ref().map(|old| old.version.clone());
        let version = times::next_version(previous.as_deref(), self.document.state.current_iteration);
        let old = old.unwrap_or_default();
        let requirements = Requirements {
            version: version.clone(),
            specification: fields
                .specification
                .clone()
                .filter(|_| !fields.unchanged)
                .unwrap_or(old.specification),
            edge_cases: fields.edge_cases.clone().filter(|_| !fields.unchanged).unwrap_or(old.edge_cases),
            last_updated: self.time.clone(),
            unknown: old.unknown,
        };
        let heading =
            self.heading("Requirements Specification", &version, previous.as_deref(), &fields.common);
        let body = layout::requirements(&heading, &requirements);
        self.document.state.requirements = Some(requirements);
        self.parts.insert(REQUIREMENTS.to_owned());
        self.write_versioned(layout::REQUIREMENTS, previous.as_deref(), body);
        self.log_document(Role::Ra, &version, previous.is_none(), &fields.common);
        self.set_outputs(Role::Ra, &[layout::REQUIREMENTS]);
        1 + fields.common.files_written.len() as u64
    }

    fn plan(&mut self, step: &Step, fields: &EpFields) -> u64 {
        let iteration = self.document.state.current_iteration;
        let says_more = fields.architecture_summary.is_some()
            || fields.integration_points.is_some()
            || fields.identified_risks.is_some();
        let mut files = 0;
        // The exploration beside `ra` has written it for this iteration, and the plan may add to it.
        if says_more || *step != Step::Explore {
            let old = self.document.state.exploration.clone();
            let previous = old.as_ref().map(|old| old.version.clone());
            let version = times::next_version(previous.as_deref(), iteration);
            let old = old.unwrap_or_default();
            let exploration = Exploration {
                version: version.clone(),
                architecture_summary: fields.architecture_summary.clone().unwrap_or(old.architecture_summary),
                integration_points: fields.integration_points.clone().unwrap_or(old.integration_points),
                identified_risks: fields.identified_risks.clone().unwrap_or(old.identified_risks),
                last_updated: self.time.clone(),
                unknown: old.unknown,
            };
            let heading = self.heading("Exploration", &version, previous.as_deref(), &fields.common);
            let body = layout::exploration(&heading, &exploration);
            self.document.state.exploration = Some(exploration);
            self.parts.insert(EXPLORATION.to_owned());
            self.write_versioned(layout::EXPLORATION, previous.as_deref(), body);
            self.set_outputs(Role::Ep, &[layout::EXPLORATION]);
            files += 1;
        }
        if *step == Step::Explore {
            return files;
        }
        let old = self.document.state.plan.clone();
        let previous = old.as_ref().map(|old| old.version.clone());
        let version = times::next_version(previous.as_deref(), iteration);
        let tasks = match &fields.tasks {
            Some(tasks) => report::merged(tasks, old.as_ref()).unwrap_or_default(),
            None => old.as_ref().map(|old| old.tasks.clone()).unwrap_or_default(),
        };
        let old = old.unwrap_or_default();
        let mut unknown = old.unknown;
        if let Some(groups) = &fields.parallel_opportunities {
            unknown.insert("parallel_opportunities".to_owned(), groups.clone());
        }
        let plan = Plan {
            version: version.clone(),
            tasks,
            total_estimated_effort: fields
                .total_estimated_effort
                .clone()
                .unwrap_or(old.total_estimated_effort),
            critical_path: fields.critical_path.clone().unwrap_or(old.critical_path),
            last_updated: self.time.clone(),
            unknown,
        };
        let body = layout::plan(&plan);
        self.document.state.plan = Some(plan);
        self.parts.insert(PLAN.to_owned());
        self.write_versioned(layout::PLAN, previous.as_deref(), body);
        self.log_document(Role::Ep, &version, previous.is_none(), &fields.common);
        self.set_outputs(Role::Ep, &[layout::EXPLORATION, layout::PLAN]);
        files + 1 + fields.common.files_written.len() as u64
    }

    fn code(&mut self, step: &Step, fields: &CdFields) -> u64 {
        let iteration = self.document.state.current_iteration;
        for id in &fields.tasks_completed {
            // The task of a step of its own is completed when it is merged.
            if !matches!(step, Step::Task(_)) {
                self.set_task(id, TaskStatus::Completed);
            }
        }
        for id in &fields.tasks_blocked {
            self.set_task(id, TaskStatus::Blocked);
        }
        let plain = fields
            .files_modified
            .iter()
            .filter(|file| fields.changes.iter().all(|known| known.file != **file));
        let plain = plain.map(|file| (file.clone(), FileAction::Modify, String::new(), Map::new()));
        let told = fields.changes.iter();
        let told = told.map(|change| {
            (change.file.clone(), change.action, change.description.clone(), change.unknown.clone())
        });
        let mut lines = String::new();
        let changes = self.document.state.changes.get_or_insert_default();
        let mut count = 0;
        for (file, action, description, mut unknown) in told.chain(plain) {
            if let Step::Task(task) = step {
                unknown.entry("task").or_insert_with(|| task.to_string().into());
            }
            let change = ChangeLog {
                timestamp: self.time.clone(),
                file,
                action,
                iteration,
                agent: Role::Cd.to_string(),
                description,
                unknown,
            };
            lines.push_str(&layout::change_line(&change));
            self.parts.insert(changes_part(changes.changes.len()));
            changes.changes.push(change);
            count += 1;
        }
        changes.count_files();
        self.append(layout::CHANGES, &lines);
        self.document.engine.findings.open_issues.extend(fields.issues.iter().cloned());
        if let Some(notes) = &fields.implementation {
            let title = match step {
                Step::Task(task) => format!("Implementation of {task}"),
                Step::Phase(_)
                | Step::Explore
                | Step::Baseline
                | Step::Test
                | Step::Merge(_)
                | Step::Answer(_)
                | Step::FastForward => "Implementation".to_owned(),
            };
            self.write_notes(layout::IMPLEMENTATION, &title, notes, &fields.common);
        }
        let issues: String = match fields.issues.as_slice() {
            [] => "No open issues.".to_owned(),
            issues => issues.iter().map(|issue| format!("- {issue}\n")).collect(),
        };
        self.write_notes(layout::ISSUES, "Issues", &issues, &fields.common);
        self.set_outputs(Role::Cd, &[layout::IMPLEMENTATION, layout::ISSUES, layout::CHANGES]);
        count
    }

    fn validate(&mut self, fields: &VasFields) -> u64 {
        let iteration = self.document.state.current_iteration;
        let checks = self.document.engine.checks.clone();
        let previous = self.document.state.test_results.as_ref().map(|old| old.version.clone());
        let version = times::next_version(previous.as_deref(), iteration);
        let claimed_failed = fields.failed_tests.len() as u64;
        let (counts, source) = if checks.is_empty() {
            let total = fields.total_tests.unwrap_or(claimed_failed);
            let counts = TestCounts {
                passed: total.saturating_sub(claimed_failed),
                failed: claimed_failed,
                skipped: 0,
            };
            (counts, "claim")
        } else {
            (count_tests(&checks), "engine")
        };
        let pass_rate = match (&fields.pass_rate, checks.is_empty()) {
            (Some(claimed), true) => claimed.clone(),
            (Some(_) | None, _) => percent(counts.passed, counts.total()),
        };
        let failed_checks = checks.iter().filter(|check| !check.passed()).map(checks::CheckResult::summary);
        let failed_tests: Vec<_> = failed_checks.chain(fields.failed_tests.iter().cloned()).collect();
        let claims = json!({
            "pass_rate": fields.pass_rate, "coverage": fields.coverage, "total_tests": fields.total_tests,
            "failed_tests": fields.failed_tests, "by_suite": fields.by_suite,
        });
        let mut unknown = Map::new();
        unknown.insert("source".to_owned(), source.into());
        let results = TestResults {
            version: version.clone(),
            pass_rate,
            coverage: fields.coverage.clone().unwrap_or_else(|| 0.into()),
            failed_tests,
            total_tests: counts.total(),
            last_run: self.time.clone(),
            unknown,
        };
        let body = layout::test_results(&results, iteration, counts, &checks, &claims);
        self.document.state.test_results = Some(results);
        self.parts.insert(TEST_RESULTS.to_owned());
        self.write_versioned(layout::TEST_RESULTS, previous.as_deref(), body);
        let coverage = coverage_notes(fields);
        self.write_notes(layout::COVERAGE, "Coverage", &coverage, &fields.common);
        let summary = fields.common.summary.clone().unwrap_or_else(|| "No summary.".to_owned());
        self.write_notes(layout::VAS_SUMMARY, "Validation", &summary, &fields.common);
        self.log_document(Role::Vas, &version, previous.is_none(), &fields.common);
        let findings = &mut self.document.engine.findings;
        findings.failing_tests.extend(fields.failed_tests.iter().chain(&fields.critical_issues).cloned());
        self.set_outputs(Role::Vas, &[layout::TEST_RESULTS, layout::COVERAGE, layout::VAS_SUMMARY]);
        3 + fields.common.files_written.len() as u64
    }
}

fn coverage_notes(fields: &VasFields) -> String {
    let rate = fields.coverage.as_ref().map_or_else(|| "not measured".to_owned(), |rate| format!("{rate} %"));
    let details = fields.coverage_details.as_ref().map(|details| format!("\n\n```json\n{details:#}\n```"));
    format!("Lines: {rate} (as the agent says){}", details.unwrap_or_default())
}

/// Returns the last words of an agent.
fn message(report: &Report) -> Option<String> {
    let summary = report.others.get("summary").and_then(Value::as_str);
    summary.or(report.logs.last().map(String::as_str)).map(str::to_owned)
}
