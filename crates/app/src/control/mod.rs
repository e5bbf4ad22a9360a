//! Requests of users: pause, stop, resume, retry, skip.
//!
//! If the run has an engine, the request is committed and the engine acts on it. Otherwise the command takes the engine
//! lock and acts itself.

pub(crate) mod emergency_copy;
pub(crate) mod restore;
pub(crate) mod start_again;
pub(crate) mod views;

use std::fmt;
use std::time::Duration;

use protocol::RunId;
use protocol::run::{Request, RunStatus};
use runner::{Engine, EngineError, EngineExit, EngineRequest, Journal, Overrides};
use store::{AnyStore, EngineHolder, EngineLockError, LockPurpose};

use crate::engine;
use crate::engine::process;
use crate::failure::{Code, Exit, Failure};
use crate::learnings;
use crate::output;
use crate::present::run_status;
use crate::query::hosts;
use crate::workspace::{self, Workspace};

#[derive(Debug, Clone)]
pub(crate) struct ControlRequest {
    /// Completes the error "cannot … run `x`".
    pub(crate) action: String,
    pub(crate) request: Request,
    pub(crate) reason: Option<String>,
}

/// The process that acts on a request.
#[derive(Debug)]
pub(crate) enum HandledBy {
    /// The engine of the run. One that a signal such as Ctrl-Z has stopped acts when it continues.
    Engine { pid: u32, host: Option<String>, stopped: bool },
    /// The run had no engine, so this process has acted.
    ThisProcess,
}

impl ControlRequest {
    /// Commits the request and returns without waiting for its effect.
    pub(crate) async fn submit(
        self,
        workspace: &Workspace,
        store: &AnyStore,
        run: &RunId,
    ) -> Result<HandledBy, Failure> {
        let mut journal = workspace.load(store, run).await?;
        refuse_inside_attempt_and_record(&mut journal, &self.action, &self.request).await?;
        match lock_engine(workspace, store, run, LockPurpose::OneShot, &mut ()).await? {
            LockOutcome::Acquired(engine) => {
                let handled = engine.handle(self.engine_request()).await;
                handled.map_err(|error| self.failed(run, error.into()))?;
                learnings::add_if_ended(workspace, store, &journal).await?;
                Ok(HandledBy::ThisProcess)
            }
            LockOutcome::HeldBy { pid, host, stopped } => {
                self.commit(&mut journal).await?;
                if stopped {
                    output::note(format_args!(
                        "its engine, process {pid}, is stopped; {}",
                        hint_to_continue(pid)
                    ));
                }
                Ok(HandledBy::Engine { pid, host, stopped })
            }
        }
    }

    /// Commits the request and returns when the run is stopped or finished.
    pub(crate) async fn submit_and_wait(
        self,
        workspace: &Workspace,
        store: &AnyStore,
        run: &RunId,
    ) -> Result<(), Failure> {
        let mut journal = workspace.load(store, run).await?;
        refuse_inside_attempt_and_record(&mut journal, &self.action, &self.request).await?;
        let mut is_committed = false;
        loop {
            // The engine may have acted on the request and exited.
            if is_committed {
                journal.reload().await?;
                if is_idle(&journal) {
                    return Ok(());
                }
            }
            let (pid, stopped) =
                match lock_engine(workspace, store, run, LockPurpose::Engine, &mut ()).await? {
                    LockOutcome::Acquired(engine) => {
                        let (_sender, interrupts) = tokio::sync::mpsc::unbounded_channel();
                        return match engine.drive(self.engine_request(), interrupts).await {
                            // The request was accepted before, and the run has ended since.
                            Err(EngineError::Refused(_)) if is_committed => Ok(()),
                            Ok(EngineExit::Remote) => {
                                Err(self.failed(run, attempts_on_other_hosts(workspace, store, run).await?))
                            }
                            Ok(_) => learnings::add_if_ended(workspace, store, &journal).await,
                            Err(error) => Err(self.failed(run, error.into())),
                        };
                    }
                    LockOutcome::HeldBy { pid, stopped, .. } => (pid, stopped),
                };
            if !is_committed {
                self.commit(&mut journal).await?;
                is_committed = true;
            }
            if stopped {
                // It acts on the request when it continues, which may be never.
                let failure =
                    Failure::new(Exit::Store, format_args!("its engine, process {pid}, is stopped"));
                return Err(self
                    .failed(run, failure)
                    .hint(format_args!("{}; it then acts on the request", hint_to_continue(pid)))
                    .hint(format_args!(
                        "or run `kill -KILL {pid}`, then `callboard {} {run}` again",
                        self.action
                    )));
            }
            let Some(engine) = process::EngineProcess::of(store, run).await? else { continue };
            let named = process::process_name(engine.holder.pid, engine.host().as_deref());
            output::note(format_args!("waiting for its engine, {named}"));
            tokio::select! {
                idle = wait_until_idle(store, &mut journal) => return idle,
                gone = engine.wait_until_gone(store, run) => gone?,
            }
        }
    }

    /// Commits the request for the engine of the run.
    async fn commit(&self, journal: &mut Journal) -> Result<(), Failure> {
        let run = journal.run.clone();
        let (request, reason) = (self.request.clone(), self.reason.clone());
        let committed = runner::request(journal, workspace::person_author(), request, reason).await;
        report_early_answers(journal);
        committed.map(drop).map_err(|error| self.failed(&run, error.into()))
    }

    fn failed(&self, run: &RunId, failure: Failure) -> Failure {
        failure.context(format_args!("cannot {} run `{run}`", self.action))
    }

    fn engine_request(&self) -> EngineRequest {
        EngineRequest {
            request: self.request.clone(),
            by: Some(workspace::person_author()),
            reason: self.reason.clone(),
        }
    }
}

enum LockOutcome<'a> {
    Acquired(Box<Engine<'a>>),
    HeldBy {
        pid: u32,
        /// Its host, if it is not this one.
        host: Option<String>,
        /// Whether a signal such as Ctrl-Z has stopped it.
        stopped: bool,
    },
}

/// Reports the answer files that commits of this process have moved aside.
pub(crate) fn report_early_answers(journal: &mut Journal) {
    std::mem::take(&mut journal.early_answers).iter().for_each(output::note);
}

/// Returns the failure of a request that could stop only the attempts on this host.
async fn attempts_on_other_hosts(
    workspace: &Workspace,
    store: &AnyStore,
    run: &RunId,
) -> Result<Failure, Failure> {
    let journal = workspace.load(store, run).await?;
    let message = "it has attempts on other hosts, which cannot be stopped from here";
    let mut failure = Failure::new(Exit::NeedsPerson, message);
    for (host, attempts) in hosts::remote(store, &journal.state) {
        failure = failure.hint(hosts::advice_to_stop(run, &host, &attempts));
    }
    Ok(failure)
}

fn hint_to_continue(pid: u32) -> String {
    format!("run `kill -CONT {pid}`, or `fg` in its terminal, to continue it")
}

/// Takes the engine lock of the run, or returns its holder.
async fn lock_engine<'a>(
    workspace: &Workspace,
    store: &AnyStore,
    run: &RunId,
    purpose: LockPurpose,
    observer: &'a mut (),
) -> Result<LockOutcome<'a>, Failure> {
    let engine_config =
        engine::with_local_dir_path(engine::engine_config(workspace, Overrides::default())?, store);
    match Engine::lock(store, engine_config, run, purpose, observer).await {
        Ok(engine) => match engine::check_local_dir(workspace, store, run, &engine.journal().spec.options) {
            Ok(()) => Ok(LockOutcome::Acquired(Box::new(engine))),
            Err(failure) => {
                engine.release().await;
                Err(failure)
            }
        },
        Err(EngineError::EngineLock(EngineLockError::Held { pid, host, stopped, .. })) => {
            let host = Some(host).filter(|host| *host != linux::host_name());
            Ok(LockOutcome::HeldBy { pid, host, stopped })
        }
        Err(error) => Err(error.into()),
    }
}

/// Waits until the run is stopped or finished.
async fn wait_until_idle(store: &AnyStore, journal: &mut Journal) -> Result<(), Failure> {
    let mut watch = store.watch(&journal.run, journal.position.revision).await?;
    while !is_idle(journal) {
        watch.next().await?;
        journal.reload().await?;
    }
    Ok(())
}

/// Whether the run is stopped or finished, so that no attempt is alive.
fn is_idle(journal: &Journal) -> bool {
    match journal.state.run.status {
        RunStatus::Stopped(_) | RunStatus::Finished(_) => true,
        RunStatus::Running
        | RunStatus::Paused
        | RunStatus::Stopping(_)
        | RunStatus::Draining(_)
        | RunStatus::Finishing(_) => false,
    }
}

/// How long the lock of a killed engine may stay held: a child process that it was starting has inherited it.
const RELEASE_TIME: Duration = Duration::from_millis(200);

/// Refuses a request that would change nothing because the run has an engine, if its protocol refuses such requests. An
/// engine on another host does not count: the command can follow it.
pub(crate) async fn refuse_while_engine_runs(
    store: &AnyStore,
    journal: &Journal,
    action: &str,
) -> Result<(), Failure> {
    let run = &journal.run;
    if !journal.kind().info().refuses_noop_requests {
        return Ok(());
    }
    let engine = live_engine_of(store, run).await?.filter(EngineHolder::is_local);
    let Some(engine) = engine else { return Ok(()) };
    let (status, pid) = (run_status::name(journal.state.run.status), engine.pid);
    Err(Failure::new(Exit::Refused, format_args!("it is {status}, and its engine is process {pid}"))
        .code(Code::Refused)
        .detail("status", status)
        .context(format_args!("cannot {action} run `{run}`")))
}

/// Refuses a request from inside an attempt, and records the refusal in the journal. Agents do not control their own run.
pub(crate) async fn refuse_inside_attempt_and_record(
    journal: &mut Journal,
    action: &str,
    request: &Request,
) -> Result<(), Failure> {
    let Some(attempt) = enclosing_attempt()? else { return Ok(()) };
    runner::record_refusal(journal, workspace::person_author(), request.clone(), attempt.clone()).await?;
    Err(inside_attempt(format_args!("{action} run `{}`", journal.run), &attempt))
}

/// Refuses a command from inside an attempt, without an entry in a journal.
pub(crate) fn refuse_inside_attempt(action: &str) -> Result<(), Failure> {
    match enclosing_attempt()? {
        None => Ok(()),
        Some(attempt) => Err(inside_attempt(action, &attempt)),
    }
}

fn enclosing_attempt() -> Result<Option<String>, Failure> {
    supervisor::enclosing_attempt().map_err(|error| {
        Failure::new(Exit::Bug, "cannot determine the parent processes of this command").because(Some(&error))
    })
}

fn inside_attempt(action: impl fmt::Display, attempt: &str) -> Failure {
    Failure::new(Exit::Refused, format_args!("cannot {action} from inside attempt `{attempt}`"))
        .code(Code::InsideAttempt)
        .hint("ask a person to run this command outside the attempt")
}

/// Prints whether the run continues by itself after a request.
pub(crate) fn note_how_run_continues(run: &RunId, handled_by: &HandledBy) {
    match handled_by {
        // `submit` has printed how to continue the engine.
        HandledBy::Engine { stopped: true, .. } => {}
        HandledBy::Engine { pid, host, stopped: false } => {
            output::note(format_args!(
                "its engine, {}, continues",
                process::process_name(*pid, host.as_deref())
            ));
        }
        HandledBy::ThisProcess => output::note(format_args!("run `callboard resume {run}` to continue")),
    }
}

/// Returns the engine of a run. A command that holds the lock for one request is not an engine.
pub(crate) async fn engine_of(store: &AnyStore, run: &RunId) -> Result<Option<EngineHolder>, Failure> {
    Ok(store.engine_holder(run).await?.filter(|holder| holder.purpose == LockPurpose::Engine))
}

/// Returns the engine of a run. Waits for the end of a local one: it may have been killed, and still be named as the holder
/// of its lock.
pub(crate) async fn live_engine_of(store: &AnyStore, run: &RunId) -> Result<Option<EngineHolder>, Failure> {
    let Some(engine) = process::EngineProcess::of(store, run).await? else { return Ok(None) };
    let is_gone = engine.holder.is_local()
        && tokio::time::timeout(RELEASE_TIME, engine.wait_until_gone(store, run)).await.is_ok();
    Ok((!is_gone).then_some(engine.holder))
}
