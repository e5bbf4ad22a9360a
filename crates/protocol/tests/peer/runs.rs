//! A cycle in the run state machine: one entry per write, and every document keeps the rules.

use std::num::NonZeroU32;
use std::sync::Arc;
use std::time::Duration;

use protocol::entry::{Author, ENTRY_VERSION, Entry, Evidence, FailureKind, Input, RecoverySource};
use protocol::json::MAX_INPUT_DEPTH;
use protocol::peer::prompts::template;
use protocol::peer::transition::recognise;
use protocol::peer::{
    Continued, Definition, Document, Event, Mode, Peer, PeerCycleStatus, Phase, PhaseStatus, State,
    check_document,
};
use protocol::report::{InvalidReport, ReportIdentity, parse};
use protocol::run::{
    Absorbed, Decision, Ending, Fact, Request, Run, RunStatus, absorb, consider, make_deferred_transition,
    open, start_queued,
};
use protocol::{
    AttemptId, Outcome, ParsedReport, Protocol as _, Revision, RunId, RunLocation, StepId, Timestamp,
    TypedMachine,
};
use serde_json::{Value, json};

/// A peer cycle in memory, with what its entries did to the document.
struct Cycle {
    run: Run,
    at: Timestamp,
    /// The transition that each entry made; `-` for an entry that does not change the document.
    transitions: Vec<String>,
}

fn definition(continues: Option<Continued>) -> Definition {
    Definition {
        cycle: "peer:spec:feature-name:cycle:2".parse().unwrap(),
        instruction: "create-spec".to_owned(),
        mode: if continues.is_some() { Mode::Continue } else { Mode::New },
        instruction_args: "--spec=feature-name".to_owned(),
        user_requirements: "what the user wants".to_owned(),
        continues,
        earlier_review: None,
        max_attempts: NonZeroU32::new(2).unwrap(),
        timeout: None,
        prompts: std::collections::BTreeMap::new(),
    }
}

impl Cycle {
    fn open(definition: Definition) -> Self {
        let location = RunLocation::new(RunId::new(definition.cycle.key()).unwrap(), "/repo".to_owned());
        let at = Timestamp::from_micros(0);
        let document = Peer::open_document(&definition, &location, at);
        let mut run = Run::empty(Box::new(TypedMachine::<Peer>::new(definition, document)));
        let decision = open(&mut run);
        let mut cycle = Self { run, at, transitions: Vec::new() };
        cycle.commit(Input::Opened { spec_digest: String::new() }, decision);
        cycle.proceed();
        cycle
    }

    fn machine(&self) -> &TypedMachine<Peer> {
        TypedMachine::of(&*self.run.machine).unwrap()
    }

    fn document(&self) -> &Document {
        &self.machine().document
    }

    fn commit(&mut self, input: Input, decision: Decision) {
        self.at = self.at.plus(Duration::from_millis(400));
        let by = Author::Person { name: "ada".to_owned(), host: "here".to_owned() };
        let Decision { changes, actions } = decision;
        let entry = Entry { v: ENTRY_VERSION, at: self.at, by, input, changes, actions, timers: Vec::new() };
        let entry = Entry::decode(&entry.encode()).unwrap();
        let opened = matches!(entry.input, Input::Opened { .. });
        let old = (!opened).then(|| self.document().clone());
        // The parts as the store would have them: `record` must name every part that changes.
        let mut parts: Vec<_> =
            ["head", "phases/plan", "phases/execute", "phases/express", "phases/review", "history/000000"]
                .map(|path| (path.to_owned(), self.run.machine.part(path)))
                .into();
        for path in self.run.machine.record(&entry).unwrap() {
            parts.retain(|(part, _)| *part != path);
            parts.push((path.clone(), self.run.machine.part(&path)));
        }
        assert_eq!(self.run.machine.assemble(&parts), Some(self.run.machine.document()));
        let document = self.document();
        let checked = check_document(document);
        assert_eq!(checked.violations, [], "{}", document.render());
        // A gap in the history is a warning, and only writes that a recovery has lost leave one.
        let recovered = document.history.iter().any(|entry| entry.event == Event::Recovered);
        assert!(recovered || checked.warnings.is_empty(), "{}", document.render());
        let transition = recognise(old.as_ref(), document).unwrap();
        let transition = if old.as_ref() == Some(document) { "-".to_owned() } else { transition.to_string() };
        self.transitions.push(transition);
    }

    /// Makes the deferred transitions and starts queued steps, as the engine does.
    fn proceed(&mut self) {
        while let Some(decision) = make_deferred_transition(&mut self.run) {
            self.commit(Input::Deferred, decision);
        }
        let decision = start_queued(&mut self.run, 8);
        if !decision.is_nothing() {
            self.commit(Input::Deferred, decision);
        }
    }

    fn live_attempt(&self) -> AttemptId {
        self.run.live_attempts().next().unwrap().0
    }

    fn live_phase(&self) -> Phase {
        let machine = self.machine();
        Peer::step(&machine.definition, &machine.state, &self.live_attempt().step).unwrap()
    }

    fn end(&mut self, ending: Ending, evidence: Evidence) {
        let fact = Fact::Ended { attempt: self.live_attempt(), ending };
        let Absorbed::Decided(decision) = absorb(&mut self.run, fact.clone()) else { panic!() };
        self.commit(Input::Fact { fact, evidence: Some(Arc::new(evidence)) }, decision);
        self.proceed();
    }

    /// Ends the live attempt with a report that has these fields besides the required ones.
    fn report(&mut self, fields: Value) {
        let phase = self.live_phase();
        let expected = ReportIdentity {
            run_id: RunId::new("r").unwrap(),
            step_id: StepId::new(phase.as_str()).unwrap(),
            agent: phase.agent().to_owned(),
        };
        let mut report = json!({
            "schema": "run_report@v0", "run_id": "r", "step_id": phase.as_str(), "agent": phase.agent(),
            "status": "COMPLETED", "started_at": "x", "ended_at": "y",
        });
        report.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
        let report = parse(report.to_string().as_bytes(), &expected).unwrap();
        match self.run.machine.parse_report(&expected.step_id, &report) {
            ParsedReport::Verdict(verdict) => {
                self.end(Ending::Reported(verdict), Evidence { report: Some(report), ..Evidence::default() });
            }
            ParsedReport::Invalid(error) => {
                let (kind, error, report) = (Some(FailureKind::InvalidReport), Some(error), Some(report));
                self.end(Ending::Failed, Evidence { kind, error, report, ..Evidence::default() });
            }
            ParsedReport::Failed(error) => panic!("{error}"),
        }
    }

    fn request(&mut self, request: Request) {
        let decision = consider(&mut self.run, &request).unwrap();
        self.commit(Input::Request { request, reason: Some("enough".to_owned()) }, decision);
        self.proceed();
    }

    fn elapse_backoff(&mut self) {
        let phase = self.machine().state.open_phase().unwrap();
        let attempt = format!("{phase}#1.1").parse().unwrap();
        let fact = Fact::BackoffElapsed { attempt };
        let Absorbed::Decided(decision) = absorb(&mut self.run, fact.clone()) else { panic!() };
        self.commit(Input::Fact { fact, evidence: None }, decision);
        self.proceed();
    }

    fn transitions(&self) -> String {
        self.transitions
            .iter()
            .filter(|transition| *transition != "-")
            .cloned()
            .collect::<Vec<_>>()
            .join(", ")
    }
}

/// Returns the output that the prompt of the phase shows as its example.
fn example(phase: Phase) -> Value {
    let block = template(phase).split("```json\n").nth(1).unwrap().split("```").next().unwrap();
    serde_json::from_str(block).unwrap()
}

#[test]
fn a_cycle_goes_through_its_four_phases_one_write_at_a_time() {
    let mut cycle = Cycle::open(definition(None));
    for phase in Phase::ALL {
        assert_eq!(
            (cycle.live_phase(), cycle.document().phases[phase].status),
            (phase, PhaseStatus::InProgress)
        );
        cycle.report(json!({ "output": example(phase) }));
    }
    assert_eq!(
        cycle.transitions(),
        "initialized, plan started, plan completed, execute started, execute completed, express started, \
         express completed, review started, review completed, cycle completed"
    );
    assert_eq!(cycle.document().sequence, 10);
    assert_eq!(cycle.run.status, RunStatus::Finished(Outcome::Succeeded));
}

#[test]
fn an_unsuccessful_review_completes_the_cycle_as_incomplete() {
    let mut cycle = Cycle::open(definition(None));
    for phase in [Phase::Plan, Phase::Execute, Phase::Express] {
        cycle.report(json!({ "output": example(phase) }));
    }
    let insights = json!({"questions_for_user": ["which mail server?"]});
    cycle.report(json!({ "output": {"quality_score": 40}, "insights": insights }));
    assert_eq!(cycle.document().metadata.status, PeerCycleStatus::Completed);
    assert_eq!(cycle.document().insights, Some(insights));
    assert_eq!(cycle.run.status, RunStatus::Finished(Outcome::Incomplete));
}

#[test]
fn every_failed_attempt_is_recorded_and_the_last_fails_the_cycle() {
    let mut cycle = Cycle::open(definition(None));
    cycle.report(json!({}));
    assert_eq!(cycle.document().phases.plan.errors()[0].kind, "invalid_report");
    assert_eq!(cycle.document().phases.plan.status, PhaseStatus::InProgress);
    cycle.elapse_backoff();
    let error = Some("Agent process timed out after 9 s".to_owned());
    cycle.end(Ending::Failed, Evidence { kind: Some(FailureKind::Timeout), error, ..Evidence::default() });
    assert_eq!(cycle.transitions(), "initialized, plan started, plan progress, plan failed");
    let kinds: Vec<_> =
        cycle.document().phases.plan.errors().iter().map(|error| error.kind.as_str()).collect();
    assert_eq!(kinds, ["invalid_report", "timeout"]);
    assert_eq!(cycle.document().metadata.status, PeerCycleStatus::Failed);
    assert_eq!(cycle.run.status, RunStatus::Finished(Outcome::Failed));
}

#[test]
fn a_stop_fails_the_phase_as_cancelled_and_a_late_report_changes_nothing() {
    let mut cycle = Cycle::open(definition(None));
    cycle.request(Request::Stop);
    let error = &cycle.document().phases.plan.errors()[0];
    assert_eq!((error.kind.as_str(), error.message.as_str()), ("cancelled", "Stopped by ada: enough"));
    cycle.report(json!({ "output": example(Phase::Plan) }));
    assert_eq!(cycle.transitions(), "initialized, plan started, plan failed");
    assert_eq!(cycle.run.status, RunStatus::Finished(Outcome::Failed));
    assert!(consider(&mut cycle.run, &Request::Retry { step: None }).is_err());
    assert!(consider(&mut cycle.run, &Request::Skip { step: StepId::new("plan").unwrap() }).is_err());
}

#[test]
fn an_interruption_leaves_the_phase_in_progress_and_resume_does_not_start_it_twice() {
    let mut cycle = Cycle::open(definition(None));
    cycle.request(Request::Interrupt);
    cycle.end(Ending::Stopped, Evidence::default());
    assert!(matches!(cycle.run.status, RunStatus::Stopped(_)));
    cycle.request(Request::Resume);
    assert_eq!(cycle.live_attempt().to_string(), "plan#1.2");
    cycle.report(json!({ "output": example(Phase::Plan) }));
    assert_eq!(cycle.transitions(), "initialized, plan started, plan completed, execute started");
}

#[test]
fn completed_phases_of_a_failed_cycle_are_reused_by_the_next() {
    let from = "peer:spec:feature-name:cycle:1".parse().unwrap();
    let outputs = vec![example(Phase::Plan), example(Phase::Execute)];
    let cycle = Cycle::open(definition(Some(Continued { cycle: from, outputs })));
    assert_eq!(
        cycle.transitions(),
        "initialized, plan started, plan completed, execute started, execute completed, express started"
    );
    assert_eq!(cycle.document().phases.execute.reused_from, cycle.document().context.continues);
    assert_eq!(cycle.live_phase(), Phase::Express);
    assert_eq!(cycle.machine().state, State::Active(Phase::Express));
}

#[test]
fn an_attempt_that_fails_after_a_recovery_to_an_earlier_phase_writes_nothing() {
    let mut cycle = Cycle::open(definition(None));
    let planning = cycle.document().clone();
    cycle.report(json!({ "output": example(Phase::Plan) }));
    assert_eq!(cycle.live_phase(), Phase::Execute);
    let (document, highest) = (planning.to_value(), cycle.document().sequence);
    let imported = cycle.run.machine.import(&document).unwrap();
    let decision = protocol::run::import(&mut cycle.run, imported, std::collections::BTreeMap::new());
    let source = RecoverySource::Document {
        document,
        restored_from: Revision(2),
        broken_at: Revision(4),
        highest_sequence: highest,
        problem: "torn".to_owned(),
        quarantine: Some("there".to_owned()),
    };
    cycle.commit(Input::Recovered { source }, decision);
    cycle.proceed();
    assert_eq!(cycle.live_phase(), Phase::Execute, "it is still running");
    let error = Some("Agent process timed out after 9 s".to_owned());
    cycle.end(Ending::Failed, Evidence { kind: Some(FailureKind::Timeout), error, ..Evidence::default() });
    assert_eq!(cycle.document().phases.execute.status, PhaseStatus::Pending);
    assert_eq!(cycle.live_attempt().to_string(), "plan#2.1");
    cycle.report(json!({ "output": example(Phase::Plan) }));
    assert_eq!(cycle.live_phase(), Phase::Execute);
}

#[test]
fn a_report_that_is_nested_too_deeply_is_refused() {
    let nested = |depth: usize| (0..depth).fold(json!(1), |inner, _| json!([inner]));
    let mut cycle = Cycle::open(definition(None));
    let mut output = example(Phase::Plan);
    // The report and its output add two levels.
    output["deep"] = nested(MAX_INPUT_DEPTH - 2);
    cycle.report(json!({ "output": output }));
    assert_eq!(cycle.document().phases.plan.output.as_ref().unwrap()["deep"], output["deep"]);
    output["deep"] = nested(MAX_INPUT_DEPTH - 1);
    let expected = ReportIdentity {
        run_id: RunId::new("r").unwrap(),
        step_id: StepId::new("plan").unwrap(),
        agent: "planner".to_owned(),
    };
    let report = json!({ "output": output }).to_string();
    assert_eq!(parse(report.as_bytes(), &expected), Err(InvalidReport::TooDeep));
}

#[test]
fn sequences_of_lost_writes_are_not_used_again() {
    let mut cycle = Cycle::open(definition(None));
    let (sequence, last) = (cycle.document().sequence, Revision(4));
    let source =
        RecoverySource::Journal { reason: "entry 5 is lost".to_owned(), gap: Some((last, Revision(9))) };
    cycle.commit(Input::Recovered { source }, Decision::nothing());
    // Five revisions are lost, and each may have increased the sequence. The sixth write is the recovery itself.
    assert_eq!(cycle.document().sequence, sequence + 6);
    assert_eq!(cycle.document().history.last().unwrap().unknown["bad_revision"], 9);
    cycle.report(json!({ "output": example(Phase::Plan) }));
    assert_eq!(cycle.document().sequence, sequence + 8);
}
