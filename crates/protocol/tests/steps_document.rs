//! The document of `steps`: the seed's own examples, and a run followed through its entries.

#![expect(clippy::unwrap_used, reason = "a test may fail")]

use std::collections::BTreeMap;
use std::num::NonZeroU32;

use protocol::entry::{Author, ENTRY_VERSION, Entry, Evidence, Folded, Input};
use protocol::report::{self, Expected};
use protocol::run::{self, Absorbed, Attempt, Decision, Ending, Fact};
use protocol::steps::{
    DEFAULT_ITERATIONS, Definition, Document, Frozen, OnFailure, Status, Step, Steps, Verdict, Workflow,
};
use protocol::{Protocol, RunId, SeatName, Stage, Stamp, TryNo, Turn};

#[test]
fn the_seeds_examples_load_and_come_back_unchanged() {
    for text in [
        include_str!("fixtures/steps/failed-step.json"),
        include_str!("fixtures/steps/human-in-the-loop.json"),
        include_str!("fixtures/steps/in-progress.json"),
        include_str!("fixtures/steps/loop-back-iteration.json"),
    ] {
        let document: Document = serde_json::from_str(text).unwrap();
        let before: serde_json::Value = serde_json::from_str(text).unwrap();
        let after: serde_json::Value = serde_json::from_str(&document.render()).unwrap();
        assert_eq!(after.to_string(), before.to_string(), "same fields in the same order");
    }
}

#[test]
fn unknown_fields_are_kept_and_written_back() {
    let mut value: serde_json::Value =
        serde_json::from_str(include_str!("fixtures/steps/failed-step.json")).unwrap();
    value["colour"] = "green".into();
    value["steps"]["coding"]["loop_index"] = 3.into();
    let document: Document = serde_json::from_value(value.clone()).unwrap();
    assert_eq!(serde_json::to_value(&document).unwrap(), value);
}

struct Journal {
    definition: Definition,
    folded: Folded<Steps>,
    document: Document,
    parts: BTreeMap<String, String>,
    entries: Vec<Entry<Steps>>,
    seconds: i64,
}

impl Journal {
    fn open(ids: &[&str]) -> Self {
        let steps = ids.iter().map(|id| Step::new(SeatName::new(id).unwrap(), "coder", "p.md"));
        let definition = Definition::from(Frozen {
            workflow: Workflow {
                name: "demo".to_owned(),
                description: String::new(),
                metadata: Default::default(),
                steps: steps.collect(),
            },
            source: String::new(),
            prompts: BTreeMap::new(),
            max_attempts: NonZeroU32::new(2).unwrap(),
            max_iterations: DEFAULT_ITERATIONS,
            on_failure: OnFailure::Stop,
        });
        let stage = Stage { run: RunId::new("f8c1a491").unwrap(), repo_dir: "/repo".to_owned() };
        let at = Stamp::from_micros(0);
        let mut journal = Self {
            folded: Folded::blank(&definition, at),
            document: Steps::open_document(&definition, &stage, at),
            definition,
            parts: BTreeMap::new(),
            entries: Vec::new(),
            seconds: 0,
        };
        let decision = run::open(&journal.definition, &mut journal.folded.run);
        journal.commit(Input::Opened { definition: "digest".to_owned() }, decision);
        journal
    }

    fn commit(&mut self, input: Input<Steps>, mut decision: Decision<Steps>) {
        self.seconds += 1;
        decision.append(run::seat_waiting(&self.definition, &mut self.folded.run, 8));
        let entry = Entry {
            v: ENTRY_VERSION,
            at: Stamp::from_micros(self.seconds * 1_000_000),
            by: Author::Person { name: "ada".to_owned(), host: "here".to_owned() },
            input,
            changes: decision.changes,
            actions: decision.actions,
            timers: Vec::new(),
        };
        self.folded.keep_time(&entry);
        for path in Steps::record(&self.definition, &mut self.document, &entry) {
            self.parts.insert(path.clone(), Steps::part(&self.document, &path));
        }
        self.entries.push(entry);
    }

    fn over(&mut self, attempt: Attempt<SeatName>, ending: Ending<Verdict>, evidence: Evidence) {
        let fact = Fact::Over { attempt, ending };
        let Absorbed::Decided(decision) = run::absorb(&self.definition, &mut self.folded.run, fact.clone())
        else {
            panic!("stale");
        };
        self.commit(Input::Fact { fact, evidence: Some(Box::new(evidence)) }, decision);
    }

    fn request(&mut self, request: run::Request<SeatName>) {
        let decision = run::consider(&self.definition, &mut self.folded.run, &request).unwrap();
        self.commit(Input::Request { request, reason: None }, decision);
    }

    fn step(&self, id: &str) -> &protocol::steps::StepDocument {
        &self.document.steps[id]
    }
}

fn attempt(id: &str, try_no: u32) -> Attempt<SeatName> {
    Attempt { seat: SeatName::new(id).unwrap(), turn: Turn(1), try_no: TryNo(try_no) }
}

fn reported(step: &str, status: &str) -> Evidence {
    let expected = Expected {
        run_id: RunId::new("f8c1a491").unwrap(),
        step_id: SeatName::new(step).unwrap(),
        agent: "coder".to_owned(),
    };
    let text = format!(
        r#"{{"schema":"run_report@v0","run_id":"f8c1a491","step_id":"{step}","agent":"coder","status":"{status}",
            "started_at":"t","ended_at":"t","artifacts":["PLAN.md"],"metrics":{{"lines":245}},"logs":["did it"]}}"#
    );
    Evidence { report: Some(report::parse(text.as_bytes(), &expected).unwrap()), ..Evidence::default() }
}

fn error(text: &str) -> Evidence {
    Evidence { error: Some(text.to_owned()), ..Evidence::default() }
}

#[test]
fn a_step_is_shown_from_start_through_failure_to_completion() {
    let mut journal = Journal::open(&["a"]);
    let a = journal.step("a");
    assert_eq!(
        (a.status, a.attempts, a.started_at.map(|at| at.as_micros())),
        (Status::Running, 1, Some(1_000_000))
    );

    journal.over(attempt("a", 1), Ending::Failed, error("Agent process exited with code 1"));
    let a = journal.step("a");
    assert_eq!((a.status, a.attempts), (Status::Pending, 1));
    assert_eq!(a.last_error.as_deref(), Some("Agent process exited with code 1"));

    let fact = Fact::Rested { attempt: attempt("a", 1) };
    let Absorbed::Decided(decision) = run::absorb(&journal.definition, &mut journal.folded.run, fact.clone())
    else {
        panic!("stale");
    };
    journal.commit(Input::Fact { fact, evidence: None }, decision);
    assert_eq!((journal.step("a").status, journal.step("a").attempts), (Status::Running, 2));

    journal.over(attempt("a", 2), Ending::Reported(Verdict::Done), reported("a", "COMPLETED"));
    let a = journal.step("a");
    assert_eq!((a.status, a.attempts, a.last_error.clone()), (Status::Completed, 2, None));
    assert_eq!(a.report_path.as_deref(), Some("/repo/.agents/runs/f8c1a491/reports/f8c1a491__a.json"));
    assert_eq!(
        (a.artifacts.clone(), a.logs.clone()),
        (vec!["PLAN.md".to_owned()], vec!["did it".to_owned()])
    );
    assert_eq!(a.metrics["lines"], "245");
    assert_eq!(journal.document.head.updated_at.as_micros(), 4_000_000);
}

#[test]
fn a_try_that_was_stopped_is_not_counted_and_a_sibling_says_why() {
    let mut journal = Journal::open(&["a", "b"]);
    journal.request(run::Request::Stop);
    journal.over(attempt("a", 1), Ending::Stopped, error("Agent process was stopped"));
    let a = journal.step("a");
    assert_eq!((a.status, a.attempts), (Status::Pending, 0));
    assert_eq!(a.last_error.as_deref(), Some("Agent process was stopped"));
}

#[test]
fn folding_the_entries_gives_the_state_and_the_parts_give_the_document() {
    let mut journal = Journal::open(&["a", "b"]);
    journal.over(attempt("b", 1), Ending::Interrupted, error("shim killed"));
    journal.over(attempt("a", 1), Ending::Reported(Verdict::Done), reported("a", "OK"));
    let mut folded = Folded::blank(&journal.definition, Stamp::from_micros(0));
    for entry in &journal.entries {
        let decoded = Entry::decode(&entry.encode()).unwrap();
        assert_eq!(&decoded, entry);
        folded.fold(&decoded);
    }
    assert_eq!(folded, journal.folded);
    let snapshot: Folded<Steps> = serde_json::from_str(&serde_json::to_string(&folded).unwrap()).unwrap();
    assert_eq!(snapshot, folded);
    let parts: Vec<_> = journal.parts.clone().into_iter().collect();
    assert_eq!(Steps::assemble(&journal.definition, &parts), Some(journal.document));
}
