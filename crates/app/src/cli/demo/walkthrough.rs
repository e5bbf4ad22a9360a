//! The demo itself: show the bug, start a run, kill the engine, resume the run, check the result.

use std::time::Duration;

use protocol::RunId;
use rustix::process::Pid;
use supervisor::Mark;

use super::agent_log::{self, AgentEvent, LogLine, Wakeup};
use super::checks::{DemoCheck, Observed};
use super::engine::Engine;
use super::journal::{self, AttemptEvent};
use super::sandbox::{RUN, Sandbox};
use crate::failure::{Exit, Failure};
use crate::output::{self, BOLD, CYAN, DIM, GREEN, RED, styled};

/// The limit for each part of the demo. A coder that is not told to continue has the same limit.
const PART_TIMEOUT: Duration = Duration::from_secs(60);

/// Prints, with pauses to read.
#[derive(Debug)]
pub(super) struct Printer {
    pub(super) paced: bool,
}

impl Printer {
    fn line(&self, text: impl std::fmt::Display) {
        output::data(text);
    }

    /// Prints a command as a user would type it.
    fn command(&self, command: &str) {
        self.line(format_args!("\n{} {}", styled(GREEN, "$"), styled(BOLD, command)));
    }

    /// Prints a line of an engine, without the path of the temporary folder.
    fn engine_line(&self, sandbox: &Sandbox, line: &str) {
        let line = line.replace(&*sandbox.root().to_string_lossy(), "…");
        if !line.is_empty() {
            self.line(format_args!("{} {line}", styled(DIM, "│")));
        }
    }

    async fn pause(&self, seconds: f64) {
        if self.paced {
            tokio::time::sleep(Duration::from_secs_f64(seconds)).await;
        }
    }
}

/// Runs the demo and returns the results of its checks.
pub(super) async fn run(sandbox: &Sandbox, printer: &Printer) -> Result<Vec<DemoCheck>, Failure> {
    let started = std::time::Instant::now();
    let test_passed_before = introduce(sandbox, printer).await?;
    let mut wakeup = sandbox.listen()?;

    let mut first = start_engine(sandbox, printer, &["run", "workflow.yaml", "--run-id", RUN])?;
    let running_at_kill =
        with_timeout(until_coder_is_back(sandbox, printer, &mut first, &mut wakeup)).await?;
    let pid = Pid::from_raw(running_at_kill.pid).expect("BUG: a process has a pid");
    let agent = linux::Process::running(pid).map_err(cannot_observe)?;
    print_gate_result(printer, &journal::read(sandbox).await?, &running_at_kill);
    printer.pause(2.0).await;

    printer.command(&format!("kill -9 {}", first.pid));
    first.kill()?;
    let first_exit = with_timeout(first.wait()).await?;
    let agent_survived = !agent.has_ended().map_err(cannot_observe)?;
    let journal_at_kill = journal::read(sandbox).await?;
    printer.line(format_args!(
        "Engine {} is dead. Agent {} {}.",
        first.pid,
        running_at_kill.pid,
        if agent_survived { "is still running" } else { "is dead, too" }
    ));
    printer.pause(2.0).await;

    let mut second = start_engine(sandbox, printer, &["resume", RUN])?;
    let second_exit =
        with_timeout(until_engine_ends(sandbox, printer, &mut second, &mut wakeup, &running_at_kill)).await?;
    printer.pause(0.5).await;

    let observed = Observed {
        engine_pids: [first.pid, second.pid],
        first_exit,
        second_exit,
        agent_survived,
        journal_at_kill,
        journal: journal::read(sandbox).await?,
        agent_log: agent_log::read(&sandbox.agent_log()).map_err(cannot_observe)?,
        test_passed_before,
        test_passes_now: sandbox.test().await?.passes,
        processes_left: kill_remaining(sandbox)?,
        running_at_kill,
    };
    let checks = observed.checks();
    print_checks(printer, &checks).await;
    printer.line(format_args!(
        "\n{}",
        styled(DIM, format_args!("The demo took {}.", output::duration(started.elapsed())))
    ));
    Ok(checks)
}

/// Introduces the agents and runs the failing test. Returns whether it passes.
async fn introduce(sandbox: &Sandbox, printer: &Printer) -> Result<bool, Failure> {
    printer.line(styled(BOLD, "Three scripted agents fix a bug, and the engine is killed while they work."));
    printer.line("");
    for (step, what) in [
        ("fix", "a coder, whose first fix is wrong"),
        ("test", "a gate, which runs the test and loops back to `fix` if it fails"),
        ("docs", "a writer, which describes the changes"),
    ] {
        printer.line(format_args!("  {}  {what}", styled(CYAN, format_args!("{step:<4}"))));
    }
    printer.pause(1.5).await;
    printer.command("sh test.sh");
    let tested = sandbox.test().await?;
    for line in &tested.output {
        printer.line(line);
    }
    printer.pause(1.5).await;
    Ok(tested.passes)
}

fn start_engine(sandbox: &Sandbox, printer: &Printer, arguments: &[&str]) -> Result<Engine, Failure> {
    printer.command(&format!("callboard {}", arguments.join(" ")));
    Engine::start(sandbox, arguments)
}

/// The attempt during which the engine is killed: the coder, after the loop-back. `fix#2.1` is attempt 1 of turn 2 of step
/// `fix`.
const ATTEMPT_AT_KILL: &str = "fix#2.1";

/// Follows the first engine until both it and the coder have reported the start of the coder's second turn.
async fn until_coder_is_back(
    sandbox: &Sandbox,
    printer: &Printer,
    engine: &mut Engine,
    wakeup: &mut Wakeup,
) -> Result<LogLine, Failure> {
    let mut printed = false;
    let mut logged = None;
    loop {
        tokio::select! {
            line = engine.line() => {
                let line = line?.ok_or_else(ended_early)?;
                printer.engine_line(sandbox, &line);
                printed |= line.contains(ATTEMPT_AT_KILL);
            }
            lines = wakeup.next() => {
                let mut lines = lines.map_err(cannot_observe)?.into_iter();
                logged = lines.find(|line| line.attempt.to_string() == ATTEMPT_AT_KILL);
            }
        }
        if printed && let Some(line) = logged.take_if(|line| line.event == AgentEvent::Start) {
            return Ok(line);
        }
    }
}

fn print_gate_result(printer: &Printer, journal: &[AttemptEvent], running_at_kill: &LogLine) {
    let first_log = journal.iter().rev().find_map(|event| match event {
        AttemptEvent::Ended { logs, .. } => logs.first(),
        AttemptEvent::Started { .. } | AttemptEvent::LoopedBack => None,
    });
    printer.line(format_args!(
        "\nThe test failed: {}.\nThe coder is running again, as process {}.",
        styled(RED, first_log.map_or("no output", String::as_str)),
        running_at_kill.pid
    ));
}

/// Follows the second engine to its end. The coder waits until the demo lets it continue: when the engine has adopted it, or
/// when another attempt has started. In the second case a check fails, but the demo ends.
async fn until_engine_ends(
    sandbox: &Sandbox,
    printer: &Printer,
    engine: &mut Engine,
    wakeup: &mut Wakeup,
    running_at_kill: &LogLine,
) -> Result<std::process::ExitStatus, Failure> {
    // The pipe must stay open until the coder has read from it.
    let mut continue_pipe = None;
    loop {
        let may_continue = tokio::select! {
            line = engine.line() => {
                let Some(line) = line? else { break };
                printer.engine_line(sandbox, &line);
                line.contains(ATTEMPT_AT_KILL)
            }
            lines = wakeup.next() => {
                let lines = lines.map_err(cannot_observe)?;
                lines.last().is_some_and(|line| line.attempt != running_at_kill.attempt)
            }
        };
        if may_continue && continue_pipe.is_none() {
            printer.pause(1.5).await;
            continue_pipe = Some(sandbox.let_coder_continue()?);
        }
    }
    engine.wait().await
}

async fn print_checks(printer: &Printer, checks: &[DemoCheck]) {
    let passed = checks.iter().all(|check| check.passed);
    let title = if passed { "Nothing was lost and nothing ran twice." } else { "The demo failed." };
    printer.line(format_args!(
        "\n{} {}",
        styled(BOLD, title),
        styled(DIM, "Checked in the journal, the agents' log and /proc:")
    ));
    for DemoCheck { passed, statement } in checks {
        let symbol = if *passed { styled(GREEN, "✓") } else { styled(RED, "✗ failed:") };
        printer.line(format_args!("  {symbol} {statement}"));
        printer.pause(0.25).await;
    }
}

/// Kills the remaining processes of all attempts and returns their number.
///
/// Every process of an attempt carries its mark: environment variables with the store, the run and the attempt.
/// `kill_marked` kills the processes that have them.
fn kill_remaining(sandbox: &Sandbox) -> Result<u32, Failure> {
    let store = journal::location(sandbox)?.root().to_owned();
    let run = RunId::new(RUN).expect("BUG: the demo's run has a name");
    let mut left = 0;
    for line in agent_log::read(&sandbox.agent_log()).map_err(cannot_observe)? {
        if line.event == AgentEvent::Start {
            let mark = Mark { store: store.clone(), run: run.clone(), attempt: line.attempt };
            left += supervisor::kill_marked(&mark).map_err(cannot_observe)?;
        }
    }
    Ok(left)
}

/// Fails if a part of the demo takes longer than `PART_TIMEOUT`.
async fn with_timeout<T>(part: impl Future<Output = Result<T, Failure>>) -> Result<T, Failure> {
    tokio::time::timeout(PART_TIMEOUT, part).await.unwrap_or_else(|_| {
        let seconds = PART_TIMEOUT.as_secs();
        Err(Failure::new(Exit::Failed, format!("the demo timed out after {seconds} s")))
    })
}

fn ended_early() -> Failure {
    Failure::new(Exit::Failed, "the engine ended before it could be killed; its output is above")
}

fn cannot_observe(error: impl Into<std::io::Error>) -> Failure {
    let error = error.into();
    Failure::new(Exit::Bug, "cannot observe the demo's agents").because(Some(&error))
}
