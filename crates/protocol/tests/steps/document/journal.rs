//! A run without a store: entries are created as the engine creates them, and applied to the document.

use std::collections::BTreeMap;
use std::num::NonZeroU32;
use std::sync::Arc;

use protocol::entry::{Author, ENTRY_VERSION, Entry, Evidence, Input};
use protocol::report::{self, ReportIdentity};
use protocol::run::{self, Absorbed, Decision, Ending, Fact, RunState};
use protocol::steps::{
    DEFAULT_MAX_ITERATIONS, Definition, Document, OnFailure, StepDocument, StepSpec, Steps, StoredDefinition,
    Verdict, Workflow, check_document,
};
use protocol::{AttemptId, AttemptNo, Protocol, RunId, RunLocation, StepId, Timestamp, Turn, TypedMachine};

/// The id, `needs` and `loop_back_to` of a step.
pub(crate) type Outline<'a> = (&'a str, &'a [&'a str], Option<&'a str>);

/// A run with its entries, and the parts of its document as a store would keep them.
pub(crate) struct Journal {
    /// The machine before the first entry.
    pub(crate) blank: TypedMachine<Steps>,
    pub(crate) state: RunState,
    pub(crate) parts: BTreeMap<String, String>,
    pub(crate) entries: Vec<Entry>,
    /// How many attempts may be alive at once.
    pub(crate) slots: usize,
    seconds: i64,
}

pub(crate) fn step_id(id: &str) -> StepId {
    StepId::new(id).unwrap()
}

impl Journal {
    /// Opens a run with a slot for every step.
    pub(crate) fn open(steps: &[Outline<'_>]) -> Self {
        Self::open_with(steps, 8)
    }

    pub(crate) fn open_with(steps: &[Outline<'_>], slots: usize) -> Self {
        let steps = steps.iter().map(|(id, needs, back)| StepSpec {
            needs: needs.iter().map(|need| step_id(need)).collect(),
            loop_back_to: back.map(step_id),
            ..StepSpec::new(step_id(id), "coder", "p.md")
        });
        Self::open_steps(steps.collect(), slots)
    }

    pub(crate) fn open_steps(steps: Vec<StepSpec>, slots: usize) -> Self {
        let definition = Definition::from(StoredDefinition {
            workflow: Workflow {
                name: "demo".to_owned(),
                description: String::new(),
                metadata: Default::default(),
                steps,
            },
            source: String::new(),
            prompts: BTreeMap::new(),
            max_attempts: NonZeroU32::new(2).unwrap(),
            max_iterations: DEFAULT_MAX_ITERATIONS,
            on_failure: OnFailure::Stop,
            gate_state_file: None,
            report_schema: None,
            memory: Default::default(),
        });
        let location = RunLocation::new(RunId::new("f8c1a491").unwrap(), "/repo".to_owned());
        let at = Timestamp::from_micros(0);
        let document = Steps::open_document(&definition, &location, at);
        let blank = TypedMachine::<Steps>::new(definition, document);
        let mut journal = Self {
            state: RunState::empty(Box::new(blank.clone()), at),
            blank,
            parts: BTreeMap::new(),
            entries: Vec::new(),
            slots,
            seconds: 0,
        };
        let decision = run::open(&mut journal.state.run);
        journal.commit(Input::Opened { spec_digest: "digest".to_owned() }, decision);
        journal
    }

    /// Commits an entry, and starts queued steps in it. Asserts that the document violates no rule.
    #[track_caller]
    pub(crate) fn commit(&mut self, input: Input, mut decision: Decision) {
        self.seconds += 1;
        decision.append(run::start_queued(&mut self.state.run, self.slots));
        let entry = Entry {
            v: ENTRY_VERSION,
            at: Timestamp::from_micros(self.seconds * 1_000_000),
            by: Author::Person { name: "ada".to_owned(), host: "here".to_owned() },
            input,
            changes: decision.changes,
            actions: decision.actions,
            timers: Vec::new(),
        };
        self.state.fold_timers_and_hosts(&entry);
        let machine = &mut self.state.run.machine;
        for path in machine.record(&entry).unwrap() {
            self.parts.insert(path.clone(), machine.part(&path));
        }
        self.entries.push(entry);
        assert_eq!(check_document(self.document()), [], "{}", self.document().render());
    }

    pub(crate) fn document(&self) -> &Document {
        &TypedMachine::<Steps>::of(&*self.state.run.machine).unwrap().document
    }

    #[track_caller]
    pub(crate) fn absorb(&mut self, fact: Fact, evidence: Option<Evidence>) {
        let Absorbed::Decided(decision) = run::absorb(&mut self.state.run, fact.clone()) else {
            panic!("stale");
        };
        self.commit(Input::Fact { fact, evidence: evidence.map(Arc::new) }, decision);
    }

    #[track_caller]
    pub(crate) fn ended(&mut self, attempt: AttemptId, ending: Ending, evidence: Evidence) {
        self.absorb(Fact::Ended { attempt, ending }, Some(evidence));
    }

    #[track_caller]
    pub(crate) fn request(&mut self, request: run::Request) {
        let decision = run::consider(&mut self.state.run, &request).unwrap();
        self.commit(Input::Request { request, reason: None }, decision);
    }

    /// Makes the deferred transition, and starts queued steps.
    #[track_caller]
    pub(crate) fn proceed(&mut self) {
        let decision = run::make_deferred_transition(&mut self.state.run);
        self.commit(Input::Deferred, decision.unwrap_or_else(Decision::nothing));
    }

    pub(crate) fn step(&self, id: &str) -> &StepDocument {
        &self.document().steps[id]
    }
}

pub(crate) fn attempt(id: &str, turn: u32, attempt_no: u32) -> AttemptId {
    AttemptId { step: step_id(id), turn: Turn(turn), attempt_no: AttemptNo(attempt_no) }
}

/// How an attempt ends whose report has this verdict.
pub(crate) fn ending_with(verdict: Verdict) -> Ending {
    Ending::Reported(serde_json::to_value(verdict).unwrap())
}

/// The evidence of an attempt that ended with a report.
pub(crate) fn report_evidence(step: &str, status: &str) -> Evidence {
    report(step, status, "did it", false)
}

/// The evidence of a gate whose report says that it failed, with the reason.
pub(crate) fn gate_failure_evidence(step: &str, why: &str) -> Evidence {
    report(step, "COMPLETED", why, true)
}

fn report(step: &str, status: &str, log: &str, gate_failure: bool) -> Evidence {
    let expected = ReportIdentity {
        run_id: RunId::new("f8c1a491").unwrap(),
        step_id: step_id(step),
        agent: "coder".to_owned(),
    };
    let text = format!(
        r#"{{"schema":"run_report@v0","run_id":"f8c1a491","step_id":"{step}","agent":"coder","status":"{status}",
            "started_at":"t","ended_at":"t","artifacts":["PLAN.md"],"metrics":{{"lines":245}},"logs":["{log}"],
            "gate_failure":{gate_failure}}}"#
    );
    Evidence { report: Some(report::parse(text.as_bytes(), &expected).unwrap()), ..Evidence::default() }
}

/// The evidence of an attempt that ended with an error and without a report.
pub(crate) fn error_evidence(text: &str) -> Evidence {
    Evidence { error: Some(text.to_owned()), ..Evidence::default() }
}
