//! What people ask of a run. Whoever is its engine acts on it; if nobody is, the command is the engine until it is done.

pub(crate) mod emergency_copy;
pub(crate) mod restore;
pub(crate) mod views;

use std::fmt;

use protocol::RunId;
use protocol::run::{Request, RunStatus};
use runner::{Engine, EngineError, EngineExit, EngineRequest, Journal, Overrides};
use store::{AnyStore, EngineHolder, EngineLockError, Store as _, Tenure};

use crate::engine;
use crate::engine::process;
use crate::failure::{Code, Exit, Failure};
use crate::output;
use crate::present::Presentation;
use crate::query::hosts;
use crate::workspace::{self, Workspace};

/// A request with who it is told to.
#[derive(Debug, Clone)]
pub(crate) struct ControlRequest<P: Presentation> {
    /// What to say if it fails: "cannot … run".
    pub(crate) doing: String,
    pub(crate) request: Request<P::Step>,
    pub(crate) reason: Option<String>,
}

/// Who has taken up a wish.
#[derive(Debug)]
pub(crate) enum Taken {
    /// The engine of the run has been told. One that is stopped hears of it when it goes on.
    ByEngine { pid: u32, host: Option<String>, stopped: bool },
    /// Nobody else was there: we were the engine.
    ByUs,
}

impl<P: Presentation> ControlRequest<P> {
    /// Makes the request, and returns when it has been committed.
    pub(crate) async fn make(
        self,
        workspace: &Workspace,
        store: &AnyStore,
        run: &RunId,
    ) -> Result<Taken, Failure> {
        let mut journal = workspace.load::<P>(store, run).await?;
        refuse_agents(&mut journal, &self.doing, &self.request).await?;
        let failed = |error: Failure| error.while_doing(format_args!("cannot {} run `{run}`", self.doing));
        match lock::<P>(workspace, store, run, Tenure::OneShot, &mut ()).await? {
            Led::ByUs(engine) => {
                engine.handle(self.asked()).await.map_err(|error| failed(error.into()))?;
                Ok(Taken::ByUs)
            }
            Led::ByAnother { pid, host, stopped } => {
                let told = runner::request(
                    &mut journal,
                    workspace::person(),
                    self.request.clone(),
                    self.reason.clone(),
                );
                told.await.map_err(|error| failed(error.into()))?;
                if stopped {
                    output::note(format_args!(
                        "its engine, process {pid}, is stopped; {}",
                        how_to_continue(pid)
                    ));
                }
                Ok(Taken::ByEngine { pid, host, stopped })
            }
        }
    }

    /// Makes the request, and returns when the run rests.
    pub(crate) async fn fulfil(
        self,
        workspace: &Workspace,
        store: &AnyStore,
        run: &RunId,
    ) -> Result<(), Failure> {
        let mut journal = workspace.load::<P>(store, run).await?;
        refuse_agents(&mut journal, &self.doing, &self.request).await?;
        let failed = |error: Failure| error.while_doing(format_args!("cannot {} run `{run}`", self.doing));
        let mut told = false;
        loop {
            // The engine that was told may be gone because it has done it.
            if told {
                journal.reload().await?;
                if is_at_rest(&journal) {
                    return Ok(());
                }
            }
            let (pid, stopped) = match lock::<P>(workspace, store, run, Tenure::Engine, &mut ()).await? {
                Led::ByUs(engine) => {
                    let (_keep, interrupts) = tokio::sync::mpsc::unbounded_channel();
                    return match engine.drive(self.asked(), interrupts).await {
                        // It was granted when we told the engine, and the run has ended by itself since.
                        Err(EngineError::Refused(_)) if told => Ok(()),
                        Ok(EngineExit::Remote) => {
                            Err(failed(out_of_reach::<P>(workspace, store, run).await?))
                        }
                        rest => rest.map(drop).map_err(|error| failed(error.into())),
                    };
                }
                Led::ByAnother { pid, stopped, .. } => (pid, stopped),
            };
            if !told {
                let made = runner::request(
                    &mut journal,
                    workspace::person(),
                    self.request.clone(),
                    self.reason.clone(),
                );
                made.await.map_err(|error| failed(error.into()))?;
                told = true;
            }
            if stopped {
                // It will do as it is told when it goes on, and that may be never.
                return Err(failed(Failure::new(
                    Exit::Store,
                    format_args!("its engine, process {pid}, is stopped"),
                ))
                .hint(format_args!("{}; it does then what it was told", how_to_continue(pid)))
                .hint(format_args!(
                    "or `kill -KILL {pid}`, and `callboard {} {run}` does it without",
                    self.doing
                )));
            }
            let Some(engine) = process::Engine::of(store, run).await? else { continue };
            let named = process::process(engine.holder.pid, engine.host().as_deref());
            output::note(format_args!("waiting for its engine, {named}"));
            tokio::select! {
                rested = rests(store, &mut journal) => return rested,
                gone = engine.gone(store, run) => gone?,
            }
        }
    }

    fn asked(&self) -> EngineRequest<P::Step> {
        EngineRequest {
            request: self.request.clone(),
            by: Some(workspace::person()),
            reason: self.reason.clone(),
        }
    }
}

enum Led<'a, P: Presentation> {
    ByUs(Box<Engine<'a, P, AnyStore>>),
    ByAnother {
        pid: u32,
        /// If it is another one than this.
        host: Option<String>,
        stopped: bool,
    },
}

/// What was asked for is so as far as this host goes; attempts on others cannot be ended from here.
async fn out_of_reach<P: Presentation>(
    workspace: &Workspace,
    store: &AnyStore,
    run: &RunId,
) -> Result<Failure, Failure> {
    let journal = workspace.load::<P>(store, run).await?;
    let what = "attempts of it are on other hosts, and cannot be ended from here";
    let mut failure = Failure::new(Exit::NeedsPerson, what);
    for (host, attempts) in hosts::remote(store, &journal.state) {
        failure = failure.hint(hosts::advice_to_end(run, &host, &attempts));
    }
    Ok(failure)
}

fn how_to_continue(pid: u32) -> String {
    format!("`kill -CONT {pid}`, or `fg` in its terminal, lets it go on")
}

async fn lock<'a, P: Presentation>(
    workspace: &Workspace,
    store: &AnyStore,
    run: &RunId,
    tenure: Tenure,
    nobody: &'a mut (),
) -> Result<Led<'a, P>, Failure> {
    let engine_config = engine::as_guest(engine::engine_config(workspace, Overrides::default())?, store);
    match Engine::<P, _>::lock(store, engine_config, run, tenure, nobody).await {
        Ok(engine) => match engine::is_kept_here(workspace, store, run, &engine.journal().spec.options) {
            Ok(()) => Ok(Led::ByUs(Box::new(engine))),
            Err(failure) => {
                engine.release().await;
                Err(failure)
            }
        },
        Err(EngineError::EngineLock(EngineLockError::Held { pid, host, stopped, .. })) => {
            let host = Some(host).filter(|host| *host != store::host_name());
            Ok(Led::ByAnother { pid, host, stopped })
        }
        Err(error) => Err(error.into()),
    }
}

/// Waits until nobody of the run is alive.
async fn rests<P: Presentation>(store: &AnyStore, journal: &mut Journal<P, AnyStore>) -> Result<(), Failure> {
    let mut watch = store.watch(&journal.run, journal.position.revision).await?;
    while !is_at_rest(journal) {
        watch.next().await?;
        journal.reload().await?;
    }
    Ok(())
}

fn is_at_rest<P: Presentation>(journal: &Journal<P, AnyStore>) -> bool {
    match journal.state.run.status {
        RunStatus::Stopped(_) | RunStatus::Finished(_) => true,
        RunStatus::Running
        | RunStatus::Paused
        | RunStatus::Stopping(_)
        | RunStatus::Draining(_)
        | RunStatus::Finishing(_) => false,
    }
}

/// Agents do not steer the run they are part of. Refuses, and writes into the journal that it did.
pub(crate) async fn refuse_agents<P: Presentation>(
    journal: &mut Journal<P, AnyStore>,
    doing: &str,
    request: &Request<P::Step>,
) -> Result<(), Failure> {
    let Some(attempt) = enclosing_attempt()? else { return Ok(()) };
    runner::record_refusal(journal, workspace::person(), request.clone(), attempt.clone()).await?;
    Err(from_inside(format_args!("{doing} run `{}`", journal.run), &attempt))
}

/// The same for what concerns no run that could write it down.
pub(crate) fn refuse_agents_outright(doing: &str) -> Result<(), Failure> {
    match enclosing_attempt()? {
        None => Ok(()),
        Some(attempt) => Err(from_inside(doing, &attempt)),
    }
}

fn enclosing_attempt() -> Result<Option<String>, Failure> {
    supervisor::enclosing_attempt().map_err(|error| {
        Failure::new(Exit::Bug, "cannot tell who started this command").because(Some(&error))
    })
}

fn from_inside(doing: impl fmt::Display, attempt: &str) -> Failure {
    Failure::new(Exit::Refused, format_args!("cannot {doing} from inside attempt `{attempt}`"))
        .code(Code::FromInside)
        .hint("agents report; people steer")
}

/// Says whether the run goes on by itself.
pub(crate) fn tell_who_goes_on(run: &RunId, taken: &Taken) {
    match taken {
        // That has been said.
        Taken::ByEngine { stopped: true, .. } => {}
        Taken::ByEngine { pid, host, stopped: false } => {
            output::note(format_args!("its engine, {}, goes on", process::process(*pid, host.as_deref())));
        }
        Taken::ByUs => output::note(format_args!("`callboard resume {run}` goes on with it")),
    }
}

/// The engine of a run, if it has one. Somebody on an errand is none.
pub(crate) async fn engine_of(store: &AnyStore, run: &RunId) -> Result<Option<EngineHolder>, Failure> {
    Ok(store.engine_holder(run).await?.filter(|holder| holder.tenure == Tenure::Engine))
}
