//! The story itself: set the scene, run, kill in the middle, resume, count what it cost.

use std::time::Duration;

use protocol::RunId;
use supervisor::Mark;

use super::engine::Engine;
use super::hold::Hold;
use super::journal::{self, AttemptEvent};
use super::ledger::{self, Note, Wakeup, When};
use super::proof::{Evidence, Finding};
use super::sandbox::{RUN, Sandbox};
use crate::failure::{Exit, Failure};
use crate::output::{self, BOLD, CYAN, DIM, GREEN, RED, styled};

/// How long one act may take before something is wrong. Agents that nobody lets go on have the same limit.
const LONGEST_ACT: Duration = Duration::from_secs(60);

/// Prints, and leaves time to read.
#[derive(Debug)]
pub(super) struct Teller {
    pub(super) paced: bool,
}

impl Teller {
    fn say(&self, text: impl std::fmt::Display) {
        output::data(text);
    }

    /// A command as somebody would type it.
    fn prompt(&self, command: &str) {
        self.say(format_args!("\n{} {}", styled(GREEN, "$"), styled(BOLD, command)));
    }

    /// A line of an engine. The folder's name means nothing to anybody.
    fn relay(&self, sandbox: &Sandbox, line: &str) {
        let line = line.replace(&*sandbox.root().to_string_lossy(), "…");
        if !line.is_empty() {
            self.say(format_args!("{} {line}", styled(DIM, "│")));
        }
    }

    async fn pause(&self, seconds: f64) {
        if self.paced {
            tokio::time::sleep(Duration::from_secs_f64(seconds)).await;
        }
    }
}

/// Tells the story and answers what it was worth.
pub(super) async fn tell(sandbox: &Sandbox, teller: &Teller) -> Result<Vec<Finding>, Failure> {
    let begun = std::time::Instant::now();
    let passed_before = set_the_scene(sandbox, teller).await?;
    let mut bell = sandbox.listen()?;

    let mut first = begin(sandbox, teller, &["run", "workflow.yaml", "--run-id", RUN])?;
    let at_work = within(until_the_coder_is_back(sandbox, teller, &mut first, &mut bell)).await?;
    let agent = Hold::of(at_work.pid).map_err(cannot_look)?;
    tell_what_the_gate_found(teller, &journal::read(sandbox).await?, &at_work);
    teller.pause(2.0).await;

    teller.prompt(&format!("kill -9 {}", first.pid));
    first.kill()?;
    let first_ended = within(first.ended()).await?;
    let outlived = agent.is_alive().map_err(cannot_look)?;
    let journal_at_kill = journal::read(sandbox).await?;
    teller.say(format_args!(
        "Engine {} is dead. Agent {} {}.",
        first.pid,
        at_work.pid,
        if outlived { "works on: nobody told it" } else { "is dead, too" }
    ));
    teller.pause(2.0).await;

    let mut second = begin(sandbox, teller, &["resume", RUN])?;
    let second_ended = within(until_it_rests(sandbox, teller, &mut second, &mut bell, &at_work)).await?;
    teller.pause(0.5).await;

    let evidence = Evidence {
        engines: [first.pid, second.pid],
        first_ended,
        second_ended,
        outlived,
        journal_at_kill,
        journal: journal::read(sandbox).await?,
        ledger: ledger::read(&sandbox.ledger()).map_err(cannot_look)?,
        passed_before,
        passes_now: sandbox.test().await?.passes,
        left_behind: kill_marked(sandbox)?,
        at_work,
    };
    let findings = evidence.findings();
    tell_findings(teller, &findings).await;
    teller.say(format_args!(
        "\n{}",
        styled(DIM, format_args!("Told in {}.", output::duration(begun.elapsed())))
    ));
    Ok(findings)
}

/// Shows what there is, and whether the test passes.
async fn set_the_scene(sandbox: &Sandbox, teller: &Teller) -> Result<bool, Failure> {
    teller.say(styled(BOLD, "A bug, three agents, and a kill -9. No model, no network."));
    teller.say("");
    for (step, what) in [
        ("fix", "a coder: its first fix will be wrong"),
        ("test", "a gate: runs the test, and sends `fix` back if it fails"),
        ("docs", "a writer: notes what changed"),
    ] {
        teller.say(format_args!("  {}  {what}", styled(CYAN, format_args!("{step:<4}"))));
    }
    teller.pause(1.5).await;
    teller.prompt("sh test.sh");
    let tested = sandbox.test().await?;
    for line in &tested.said {
        teller.say(line);
    }
    teller.pause(1.5).await;
    Ok(tested.passes)
}

fn begin(sandbox: &Sandbox, teller: &Teller, arguments: &[&str]) -> Result<Engine, Failure> {
    teller.prompt(&format!("callboard {}", arguments.join(" ")));
    Engine::start(sandbox, arguments)
}

/// The attempt in whose middle the engine is killed: the coder, sent back by the gate.
const IN_THE_MIDDLE: &str = "fix#2.1";

/// Follows the first engine until the coder is at work for the second time: by the engine's word and by its own.
async fn until_the_coder_is_back(
    sandbox: &Sandbox,
    teller: &Teller,
    engine: &mut Engine,
    bell: &mut Wakeup,
) -> Result<Note, Failure> {
    let mut told = false;
    let mut noted = None;
    loop {
        tokio::select! {
            line = engine.line() => {
                let line = line?.ok_or_else(ended_early)?;
                teller.relay(sandbox, &line);
                told |= line.contains(IN_THE_MIDDLE);
            }
            notes = bell.next() => {
                let mut notes = notes.map_err(cannot_look)?.into_iter();
                noted = notes.find(|note| note.attempt.to_string() == IN_THE_MIDDLE);
            }
        }
        if told && let Some(note) = noted.take_if(|note| note.when == When::Begin) {
            return Ok(note);
        }
    }
}

fn tell_what_the_gate_found(teller: &Teller, journal: &[AttemptEvent], at_work: &Note) {
    let found = journal.iter().rev().find_map(|happening| match happening {
        AttemptEvent::Ended { logs, .. } => logs.first(),
        AttemptEvent::Began { .. } | AttemptEvent::WentBack => None,
    });
    teller.say(format_args!(
        "\nThe gate ran the test: {}.\nThe coder is at work again, as process {}.",
        styled(RED, found.map_or("it said nothing", String::as_str)),
        at_work.pid
    ));
}

/// Follows the second engine to its end. The coder is let go on when it has been taken up, or when somebody else has
/// begun: then the story is broken, but it shall end.
async fn until_it_rests(
    sandbox: &Sandbox,
    teller: &Teller,
    engine: &mut Engine,
    bell: &mut Wakeup,
    at_work: &Note,
) -> Result<std::process::ExitStatus, Failure> {
    let mut idea = None;
    loop {
        let taken_up = tokio::select! {
            line = engine.line() => {
                let Some(line) = line? else { break };
                teller.relay(sandbox, &line);
                line.contains(IN_THE_MIDDLE)
            }
            notes = bell.next() => {
                let notes = notes.map_err(cannot_look)?;
                notes.last().is_some_and(|note| note.attempt != at_work.attempt)
            }
        };
        if taken_up && idea.is_none() {
            teller.pause(1.5).await;
            idea = Some(sandbox.inspire()?);
        }
    }
    engine.ended().await
}

async fn tell_findings(teller: &Teller, findings: &[Finding]) {
    let holds = findings.iter().all(|finding| finding.holds);
    let title = if holds { "What the kill cost: nothing." } else { "This is not how it should have gone." };
    teller.say(format_args!(
        "\n{} {}",
        styled(BOLD, title),
        styled(DIM, "By journal, agents' ledger and /proc:")
    ));
    for Finding { holds, claim } in findings {
        let sign = if *holds { styled(GREEN, "✓") } else { styled(RED, "✗ not so:") };
        teller.say(format_args!("  {sign} {claim}"));
        teller.pause(0.25).await;
    }
}

/// Looks for processes of every attempt that has begun, and ends them.
fn kill_marked(sandbox: &Sandbox) -> Result<u32, Failure> {
    let store = journal::location(sandbox)?.root().to_owned();
    let run = RunId::new(RUN).expect("BUG: the demo's run has a name");
    let mut left = 0;
    for note in ledger::read(&sandbox.ledger()).map_err(cannot_look)? {
        if note.when == When::Begin {
            let mark = Mark { store: store.clone(), run: run.clone(), attempt: note.attempt };
            left += supervisor::kill_marked(&mark).map_err(cannot_look)?;
        }
    }
    Ok(left)
}

async fn within<T>(act: impl Future<Output = Result<T, Failure>>) -> Result<T, Failure> {
    tokio::time::timeout(LONGEST_ACT, act).await.unwrap_or_else(|_| {
        let seconds = LONGEST_ACT.as_secs();
        Err(Failure::new(Exit::Failed, format!("the demo does not get on: nothing for {seconds} s")))
    })
}

fn ended_early() -> Failure {
    Failure::new(Exit::Failed, "the engine ended before it could be killed; what it said is above")
}

fn cannot_look(error: impl Into<std::io::Error>) -> Failure {
    let error = error.into();
    Failure::new(Exit::Bug, "cannot see what became of the demo's agents").because(Some(&error))
}
