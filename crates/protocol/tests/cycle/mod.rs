//! `cycle`: the format of its files, and whole runs in memory.
//!
//! The phases are `ra` (requirements), `ep` (exploration and plan), `cd` (code) and `vas` (validation).

mod check;
mod document;
mod files;
mod runs;

use std::sync::Arc;
use std::time::Duration;

use protocol::cycle::{Cycle, Definition, Document, MasterFile, Request as CycleRequest};
use protocol::entry::{Author, ENTRY_VERSION, Entry, Evidence, FailureKind, Input};
use protocol::report::{CopyEdit, Report, ReportIdentity};
use protocol::run::{
    Absorbed, Decision, Ending, Fact, Refusal, Request, Run, RunStatus, absorb, consider,
    make_deferred_transition, open, start_queued,
};
use protocol::{
    Answer, AttemptId, ParsedReport, Protocol as _, RunId, RunLocation, StepId, Timestamp, TypedMachine,
};
use serde_json::{Value, json};

/// A cycle in memory. Every commit is applied to the document, which must keep its rules and be the same when it is
/// assembled from its parts.
struct Driver {
    run: Run,
    at: Timestamp,
    parts: std::collections::BTreeMap<String, String>,
}

impl Driver {
    fn open(definition: Definition) -> Self {
        let location =
            RunLocation::new(RunId::new("cycle-v1-20260122T100000-abc123").unwrap(), "/repo".to_owned());
        let at: Timestamp = "2026-01-22T02:00:00Z".parse().unwrap();
        let document = Cycle::open_document(&definition, &location, at);
        let mut run = Run::empty(Box::new(TypedMachine::<Cycle>::new(definition, document)));
        let decision = open(&mut run);
        let mut driver = Self { run, at, parts: std::collections::BTreeMap::new() };
        driver.commit(Input::Opened { spec_digest: String::new() }, decision);
        driver
    }

    /// Opens a cycle and begins its first iteration.
    fn start(definition: Definition) -> Self {
        let mut driver = Self::open(definition);
        driver.commit_deferred();
        driver
    }

    fn commit(&mut self, input: Input, mut decision: Decision) {
        decision.append(start_queued(&mut self.run, 8));
        let by = match &input {
            Input::Request { .. } | Input::Fact { fact: Fact::Answered { .. }, .. } => {
                Author::Person { name: "ada".to_owned(), host: "here".to_owned() }
            }
            Input::Opened { .. }
            | Input::Fact { .. }
            | Input::Refused { .. }
            | Input::Edited { .. }
            | Input::Deferred
            | Input::Recovered { .. } => {
                Author::Engine { host: "here".to_owned(), boot_id: String::new(), pid: 1 }
            }
        };
        let entry = Entry {
            v: ENTRY_VERSION,
            at: self.at,
            by,
            input,
            changes: decision.changes,
            actions: decision.actions,
            timers: Vec::new(),
        };
        self.at = self.at.plus(Duration::from_secs(60));
        let touched = self.run.machine.record(&entry).unwrap();
        for path in touched {
            let body = self.run.machine.part(&path);
            self.parts.insert(path, body);
        }
        let parts: Vec<_> = self.parts.clone().into_iter().collect();
        assert!(
            self.run.machine.assemble(&parts) == Some(self.run.machine.document()),
            "the parts that changed give another document"
        );
        let violations = protocol::cycle::check(&serde_json::to_value(self.document()).unwrap());
        assert!(violations.is_empty(), "{violations:?}");
    }

    /// Commits the deferred transitions.
    fn commit_deferred(&mut self) {
        while let Some(decision) = make_deferred_transition(&mut self.run) {
            self.commit(Input::Deferred, decision);
        }
    }

    fn document(&self) -> Arc<Document> {
        Arc::clone(&TypedMachine::<Cycle>::of(&*self.run.machine).unwrap().document)
    }

    fn master_file(&self) -> MasterFile {
        self.document().master_file.clone()
    }

    fn attempt(&self, step: &str) -> AttemptId {
        let step = StepId::new(step).unwrap();
        let live: Vec<_> = self.run.live_attempts().map(|(attempt, _)| attempt).collect();
        live.iter()
            .find(|attempt| attempt.step == step)
            .unwrap_or_else(|| panic!("`{step}` is not among {live:?}"))
            .clone()
    }

    fn live_steps(&self) -> Vec<String> {
        self.run.live_attempts().map(|(attempt, _)| attempt.step.to_string()).collect()
    }

    fn make_report(&self, step: &str, fields: Value) -> Report {
        let expected = ReportIdentity {
            run_id: RunId::new("cycle-v1-20260122T100000-abc123").unwrap(),
            step_id: StepId::new(step).unwrap(),
            agent: step.to_owned(),
        };
        Report::completed(&expected, self.at, fields.as_object().unwrap().clone())
    }

    /// Ends the attempt of a step with a report.
    fn report(&mut self, step: &str, fields: Value) {
        self.report_with_copies(step, fields, std::collections::BTreeMap::new());
    }

    /// Ends the attempt of a step that has edited its private copies.
    fn report_with_copies(
        &mut self,
        step: &str,
        fields: Value,
        edits: std::collections::BTreeMap<String, CopyEdit>,
    ) {
        let attempt = self.attempt(step);
        let report = Report { copy_edits: edits, ..self.make_report(step, fields) };
        let verdict = match self.run.machine.parse_report(&attempt.step, &report) {
            ParsedReport::Verdict(verdict) => verdict,
            other => panic!("`{step}` is read as {other:?}"),
        };
        let fact = Fact::Ended { attempt, ending: Ending::Reported(verdict) };
        self.absorb(fact, Evidence { report: Some(report), ..Evidence::default() });
    }

    fn fail(&mut self, step: &str, error: &str) {
        let fact = Fact::Ended { attempt: self.attempt(step), ending: Ending::Failed };
        let evidence = Evidence {
            kind: Some(FailureKind::NoReport),
            error: Some(error.to_owned()),
            ..Evidence::default()
        };
        self.absorb(fact, evidence);
    }

    fn answer(&mut self, step: &str, answer: Answer) {
        let step = StepId::new(step).unwrap();
        let verdict = self.run.machine.parse_answer(&step, &answer).unwrap();
        let (_, turn) = self.run.waiting_steps().find(|(waiting, _)| **waiting == step).unwrap();
        let fact = Fact::Answered { step, turn, verdict };
        self.absorb(fact, Evidence { answer: Some(answer), ..Evidence::default() });
    }

    fn absorb(&mut self, fact: Fact, evidence: Evidence) {
        match absorb(&mut self.run, fact.clone()) {
            Absorbed::Decided(decision) => {
                self.commit(Input::Fact { fact, evidence: Some(Arc::new(evidence)) }, decision);
            }
            Absorbed::Ignored(stale) => panic!("ignored: {stale}"),
        }
        self.commit_deferred();
    }

    fn request(&mut self, request: Request) -> Result<(), Refusal> {
        let decision = consider(&mut self.run, &request)?;
        self.commit(Input::Request { request, reason: None }, decision);
        self.commit_deferred();
        Ok(())
    }

    fn extend(&mut self, text: &str, max_iterations: Option<u32>) -> Result<(), Refusal> {
        let extend = CycleRequest::Extend { text: text.to_owned(), max_iterations };
        self.request(Request::Protocol(serde_json::to_value(extend).unwrap()))
    }

    fn prompt(&self, step: &str) -> String {
        self.run.machine.brief(&StepId::new(step).unwrap(), 1).prompt
    }

    /// Returns a file below `.progress/`.
    fn file(&self, path: &str) -> String {
        self.view(&format!("cycle-v1-20260122T100000-abc123.progress/{path}"))
    }

    /// Returns a file below `.workflow/.cycle/`.
    fn view(&self, path: &str) -> String {
        let path = format!("/repo/.workflow/.cycle/{path}");
        let views = self.run.machine.document().views();
        let found = views.iter().find(|view| view.path == path);
        found.unwrap_or_else(|| panic!("there is no `{path}`")).body.clone()
    }

    /// Reports for all four roles, with no findings.
    fn good_iteration(&mut self) {
        self.report(
            "ra",
            json!({ "specification": "FR-001", "edge_cases": ["EC-001"], "summary": "specified" }),
        );
        self.report("ep", plan());
        self.report("cd", coded());
        self.report("vas", json!({ "pass_rate": 100, "coverage": 81, "total_tests": 4, "summary": "fine" }));
    }
}

/// The fields of a report of the exploration planner.
fn plan() -> Value {
    json!({
        "architecture_summary": "one crate", "integration_points": ["main"], "identified_risks": ["none"],
        "tasks": [{ "id": "TASK-001", "description": "do it", "effort": "small", "files": ["src/lib.rs"], "title": "It" }],
        "total_estimated_effort": "1 hour", "critical_path": ["TASK-001"], "summary": "planned",
    })
}

/// The fields of a report of the code developer.
fn coded() -> Value {
    json!({
        "tasks_completed": ["TASK-001"], "implementation": "done", "summary": "coded",
        "changes": [{ "file": "src/lib.rs", "action": "create", "description": "new", "lines_added": 3 }],
    })
}

fn status(run: &Run) -> RunStatus {
    run.status
}
