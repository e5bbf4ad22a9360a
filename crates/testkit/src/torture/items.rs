//! A run of `items`, tortured until all items are recorded: people answer and effects are performed meanwhile.

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

use fastrand::Rng;
use protocol::entry::Author;
use protocol::run::Request;
use protocol::{Answer, Protocols, RunId, StepId, protocol_kind};
use runner::{AnswerError, Clock, Journal};

use super::Tally;
use super::chaos::{Chaos, SetOnDrop, server_was_down};
use super::run_history::RunHistory;
use crate::harness::{block_on, open_store, run_spec, test_author, worktrees, wrapper};
use crate::items::{Definition, Items};
use crate::test_env::TestEnv;

/// Line of the agents' script: the step `plan` reports two items.
const PLAN: &str = r#"plan * do extra_fields=', "items": [{"id": "a", "name": "first"}, {"id": "b", "name": "second"}]'; sleep 0.02; write_report COMPLETED planned"#;

/// Line of the agents' script: the agent of the second item edits its private copy instead of reporting.
const EDIT: &str = r#"b.make * do sed -i 's/"description": ".*"/"description": "by '"$CALLBOARD_ATTEMPT"'"/' .items/trial/b.json; sleep 0.02; log_event end "$CALLBOARD_ATTEMPT""#;

const PROTOCOLS: Protocols = Protocols(&[protocol_kind::<Items>()]);

/// `program` is a `callboard` with the protocol `items` and its effect.
pub(super) fn torture(program: &Path, seed: u64, kills: u32, tally: &mut Tally) {
    let test_env = TestEnv::new(program);
    test_env.script_agent(&[PLAN, "a.make 1 exit 1", EDIT, "* * work 0.02"]);
    let run = open(&test_env);
    let mut chaos = Chaos::new(&test_env, Rng::with_seed(seed), kills);
    let mut resumes = run_to_success(&mut chaos, &test_env, &run, seed);
    reopen(&test_env, &run);
    resumes += run_to_success(&mut chaos, &test_env, &run, seed);
    let run_history = RunHistory::read(&test_env.journal("trial"));
    for (step, history) in &run_history.steps {
        history.check_attempts(&format!("seed {seed}, step {step}, {history:?}"));
    }
    let started = test_env.agent_log().started_once(format_args!("seed {seed}"));
    let ledger = std::fs::read_to_string(test_env.repo().join("ledger")).expect("items were recorded");
    let mut lines: Vec<_> = ledger.lines().collect();
    lines.sort_unstable();
    let expected = ["trial/a.record#1 first", "trial/a.record#2 first", "trial/b.record#1 second"];
    assert_eq!(lines, expected, "seed {seed}: an effect is missing or repeated");
    expect_edits(&test_env, &started, seed);
    test_env.expect_no_orphans();
    tally.add(&chaos);
    tally.add_history(&run_history);
    tally.items_runs += 1;
    tally.resumes += resumes;
}

/// Checks that the last edit of the second item is in its file, and that no private copy is left or committed.
fn expect_edits(test_env: &TestEnv, started: &[String], seed: u64) {
    let last = started.iter().rfind(|attempt| attempt.starts_with("b.make#")).expect("it was made");
    let file = test_env.repo().join(".items/trial/b.json");
    let file = std::fs::read_to_string(file).expect("a finished run has its views");
    assert!(file.contains(&format!("\"description\": \"by {last}\"")), "seed {seed}: {last}: {file}");
    let tree = test_env.repo().with_file_name("trees/trial/integration");
    assert!(!tree.join(".items/trial/b.json").exists(), "seed {seed}: a private copy is left");
    let committed = test_env.git(&["ls-tree", "-r", "--name-only", "callboard/trial"]);
    assert!(!committed.contains(".items"), "seed {seed}: a private copy was committed: {committed}");
}

fn open(test_env: &TestEnv) -> RunId {
    let run = RunId::new("trial").expect("BUG: the name is safe");
    let definition = Definition::new("make things");
    let mut spec = run_spec(&definition, &run, test_env.repo(), Some(wrapper(&test_env.agent_path())));
    spec.options.worktrees = Some(worktrees(test_env, &run));
    let store = test_env.open_store();
    let kind = protocol_kind::<Items>();
    block_on(runner::open(&store, &Clock::system(), kind, test_author(), spec)).expect("the run is new");
    run
}

/// Starts and kills engines until one exits by itself, while a person answers.
fn run_to_success(chaos: &mut Chaos<'_>, test_env: &TestEnv, run: &RunId, seed: u64) -> u32 {
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| answer_all(test_env, run, &done));
        let _end = SetOnDrop(&done);
        let mut resumes = 0;
        loop {
            let engine = test_env.callboard(&["resume", "trial", "--jobs", "2"]).start();
            resumes += 1;
            if chaos.disturb(&engine) {
                chaos.wait_killed(engine, seed);
                continue;
            }
            let session = engine.wait();
            // A refusal means that the run has ended: the engine before was killed after its last commit.
            let ended = session.code == 3 && chaos.newest_status(seed).as_deref() == Some("succeeded");
            if session.code == 0 || ended {
                return resumes;
            }
            assert!(server_was_down(&session), "seed {seed}: failed:\n{}", session.transcript());
        }
    })
}

/// Answers every question. Item `b` is rejected the first time.
fn answer_all(test_env: &TestEnv, run: &RunId, done: &AtomicBool) {
    let (clock, ada) = (Clock::system(), Author::Person { name: "ada".to_owned(), host: String::new() });
    while !done.load(Ordering::Relaxed) {
        // Some time between two answers, as with a person.
        std::thread::sleep(std::time::Duration::from_millis(15));
        let answered: Result<(), AnswerError> = block_on(async {
            let store = open_store(test_env.repo(), test_env.backend().address().as_deref()).await;
            let Ok(Some(mut journal)) = Journal::load(&store, &clock, PROTOCOLS, run).await else {
                return Ok(());
            };
            let questions: Vec<_> =
                journal.state.run.waiting_steps().map(|(step, turn)| (step.clone(), turn)).collect();
            for (step, turn) in questions {
                let rejects = step.as_str() == "b.approve" && turn.0 == 1;
                let answer = if rejects {
                    Answer::Reject { reason: "because".to_owned() }
                } else {
                    Answer::Approve { text: None }
                };
                runner::answer(&mut journal, ada.clone(), &step, Some(turn), answer).await?;
            }
            Ok(())
        });
        match answered {
            Ok(()) | Err(AnswerError::Commit(_)) => {}
            Err(error) => panic!("an answer was refused: {error}"),
        }
    }
}

fn reopen(test_env: &TestEnv, run: &RunId) {
    let store = test_env.open_store();
    let request = Request::Protocol(serde_json::json!({ "reopen": StepId::new("a").expect("BUG: a name") }));
    block_on(async {
        let journal =
            Journal::load(&store, &Clock::system(), PROTOCOLS, run).await.expect("it can be loaded");
        let mut journal = journal.expect("it was opened");
        let reopened = runner::request(&mut journal, test_author(), request, None).await;
        reopened.expect("a finished run can be reopened");
    });
}
