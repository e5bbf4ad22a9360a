//! The rules of `team`: the transitions of a group, plans, status words, documents, imports and edited private copies.

mod copies;
mod documents;
mod importing;
mod plans;
mod table;

use std::collections::BTreeMap;

use protocol::entry::Entry;
use protocol::report::{CopyEdit, Report, ReportIdentity};
use protocol::run::{Fact, Run, RunState};
use protocol::team::{Definition, Document, Limits, ModeChoice, Team};
use protocol::{Answer, AttemptId, ParsedReport, RunId, RunLocation, StepId, Timestamp, TypedMachine};
use serde_json::{Map, Value, json};

/// A run of `team` whose attempts report what a test says.
struct TeamRun {
    state: RunState,
    at: i64,
    /// The fields of the last report that its step may not set.
    refused: Vec<String>,
}

fn definition() -> Definition {
    Definition {
        request: "Add a login and a logout".to_owned(),
        mode: ModeChoice::Auto,
        limits: Limits::default(),
        timeout: None,
        prompts: BTreeMap::new(),
    }
}

impl TeamRun {
    /// Returns a run before its first entry.
    fn blank(definition: Definition) -> Self {
        let location = RunLocation::new(RunId::new("r").unwrap(), "/repo".to_owned());
        let at = 1_750_000_000_000_000;
        let document =
            <Team as protocol::Protocol>::open_document(&definition, &location, Timestamp::from_micros(at));
        let machine = TypedMachine::<Team>::new(definition, document);
        Self {
            state: RunState::empty(Box::new(machine), Timestamp::from_micros(at)),
            at,
            refused: Vec::new(),
        }
    }

    fn open(definition: Definition) -> Self {
        let mut run = Self::blank(definition);
        let input = protocol::entry::Input::Opened { spec_digest: "none".to_owned() };
        let mut decided = run.state.run.clone();
        let decision = protocol::run::open(&mut decided);
        run.commit(input, decision, decided);
        run
    }

    /// Starts queued steps in up to 8 slots, and appends the entry. `run` is the run after the decision.
    fn commit(&mut self, input: protocol::entry::Input, mut decision: protocol::run::Decision, mut run: Run) {
        decision.append(protocol::run::start_queued(&mut run, 8));
        self.append(input, decision);
    }

    fn append(&mut self, input: protocol::entry::Input, decision: protocol::run::Decision) {
        self.at += 60_000_000;
        let entry = Entry {
            v: protocol::entry::ENTRY_VERSION,
            at: Timestamp::from_micros(self.at),
            by: protocol::entry::Author::Person { name: "p".to_owned(), host: "h".to_owned() },
            input,
            changes: decision.changes,
            actions: decision.actions,
            timers: Vec::new(),
        };
        self.state.fold(&entry).unwrap();
        self.state.run.machine.record(&entry).unwrap();
    }

    fn typed(&self) -> &TypedMachine<Team> {
        TypedMachine::of(&*self.state.run.machine).unwrap()
    }

    fn document(&self) -> &Document {
        &self.typed().document
    }

    fn attempt(&self, step: &str) -> AttemptId {
        let step = StepId::new(step).unwrap();
        let active = self.state.run.active_turns.get(&step);
        active.unwrap_or_else(|| panic!("`{step}` should be in a turn")).attempt_id(&step)
    }

    fn make_report(&self, step: &str, fields: Value, edits: BTreeMap<String, CopyEdit>) -> Report {
        let step_id = StepId::new(step).unwrap();
        let agent = self.state.run.machine.agent(&step_id);
        let expected = ReportIdentity { run_id: RunId::new("r").unwrap(), step_id, agent };
        let fields: Map<String, Value> = fields.as_object().cloned().unwrap();
        Report { copy_edits: edits, ..Report::completed(&expected, Timestamp::from_micros(self.at), fields) }
    }

    /// Ends the attempt of a step with a report. Fails with the reason if the report is refused.
    fn try_report(
        &mut self,
        step: &str,
        fields: Value,
        edits: BTreeMap<String, CopyEdit>,
    ) -> Result<(), String> {
        let attempt = self.attempt(step);
        let mut report = self.make_report(step, fields, edits);
        self.refused = self.state.run.machine.remove_unauthorized(&attempt.step, &mut report);
        let verdict = match self.state.run.machine.parse_report(&attempt.step, &report) {
            ParsedReport::Verdict(verdict) => verdict,
            ParsedReport::Failed(why) | ParsedReport::Invalid(why) => return Err(why),
        };
        let fact = Fact::Ended { attempt, ending: protocol::run::Ending::Reported(verdict) };
        let evidence = protocol::entry::Evidence {
            report: Some(report),
            duration_ms: Some(65_000),
            ..protocol::entry::Evidence::default()
        };
        self.absorb(fact, evidence);
        Ok(())
    }

    fn absorb(&mut self, fact: Fact, evidence: protocol::entry::Evidence) {
        let mut run = self.state.run.clone();
        let protocol::run::Absorbed::Decided(decision) = protocol::run::absorb(&mut run, fact.clone()) else {
            panic!("the fact should be absorbed");
        };
        let evidence = Some(std::sync::Arc::new(evidence));
        self.commit(protocol::entry::Input::Fact { fact, evidence }, decision, run);
    }

    /// Makes a request, which must be granted.
    fn request(&mut self, request: protocol::run::Request) {
        let mut run = self.state.run.clone();
        let decision = protocol::run::consider(&mut run, &request).unwrap();
        self.commit(protocol::entry::Input::Request { request, reason: None }, decision, run);
    }

    /// Ends the attempt of a step with a report, which must be accepted.
    fn report(&mut self, step: &str, fields: Value) {
        self.try_report(step, fields, BTreeMap::new()).unwrap_or_else(|why| panic!("{step}: {why}"));
    }

    /// Lets both attempts of the turn fail.
    fn exhaust(&mut self, step: &str) {
        for _ in 0..2 {
            let attempt = self.attempt(step);
            let evidence =
                protocol::entry::Evidence { error: Some("it crashed".to_owned()), ..Default::default() };
            let failed = protocol::run::Ending::Failed;
            self.absorb(Fact::Ended { attempt: attempt.clone(), ending: failed }, evidence);
            if self.state.run.active_turns.contains_key(&attempt.step) {
                self.absorb(Fact::BackoffElapsed { attempt }, protocol::entry::Evidence::default());
            }
        }
    }

    fn answer(&mut self, step: &str, option: &str) -> Result<(), String> {
        let step = StepId::new(step).unwrap();
        let answer = Answer::Choose { option: option.to_owned(), reason: Some("because".to_owned()) };
        let verdict = self.state.run.machine.parse_answer(&step, &answer)?;
        let turn = self.state.run.active_turns[&step].turn;
        let evidence = protocol::entry::Evidence { answer: Some(answer), ..Default::default() };
        self.absorb(Fact::Answered { step, turn, verdict }, evidence);
        Ok(())
    }

    /// Returns the status of a group in `group_status.json`.
    fn status(&self, group: &str) -> String {
        self.file("group_status.json")[group]["status"].as_str().unwrap().to_owned()
    }

    fn file(&self, name: &str) -> Value {
        let views = <Team as protocol::Protocol>::views(self.document());
        let view = views.iter().find(|view| view.path.ends_with(name)).unwrap();
        serde_json::from_str(&view.body).unwrap()
    }

    /// Returns the steps that have a turn.
    fn active(&self) -> Vec<String> {
        self.state.run.active_turns.keys().map(ToString::to_string).collect()
    }
}

/// Returns the report of a plan. A group is given as its id, its file and the groups that it depends on, and has one task.
fn plan(groups: &[(&str, &str, &[&str])]) -> Value {
    let tasks: Vec<_> =
        groups.iter().map(|(id, ..)| json!({ "id": format!("T{id}"), "description": "do it" })).collect();
    let task_groups: Vec<_> = groups
        .iter()
        .map(|(id, file, needs)| {
            json!({
                "id": id, "name": format!("group {id}"), "tasks": [format!("T{id}")], "files_affected": [file],
                "depends_on": needs,
            })
        })
        .collect();
    json!({
        "verdict": "PLANNING_COMPLETE", "mode": "parallel", "mode_reasoning": "because", "all_tasks": tasks,
        "task_groups": task_groups,
        "success_criteria": [{ "id": "C1", "text": "it works", "tasks": [format!("T{}", groups[0].0)], "command": "true" }],
    })
}

/// Returns the report of a check of the success criteria. The plan has one criterion; its command ended with this exit code.
fn criteria_report(exit_code: i32) -> Value {
    let check = json!({
        "name": "C1", "command": ["true"], "exit_code": exit_code, "duration_ms": 1, "output_digest": "", "output": "seen",
    });
    json!({ "checks": [check] })
}

fn one_group() -> TeamRun {
    let mut run = TeamRun::open(definition());
    run.report("pm.plan", plan(&[("A", "a.txt", &[])]));
    run
}
