//! What people ask of a run: committed by the command, acted on by whoever is the engine.

use protocol::run::Request;
use protocol::steps::Steps;
use protocol::{RunId, SeatName};
use runner::Journal;
use store::{Leader, SqliteStore, Store as _};

use crate::failure::{Exit, Failure};
use crate::here;
use crate::render;

type Run = Journal<Steps, SqliteStore>;

/// Commits a request, unless it comes from inside an attempt: agents do not steer the run they are part of.
pub(crate) async fn make(
    journal: &mut Run,
    doing: &str,
    request: Request<SeatName>,
    reason: Option<String>,
) -> Result<(), Failure> {
    let run = journal.run.clone();
    refuse_agents(journal, doing, &request).await?;
    runner::request(journal, here::person(), request, reason)
        .await
        .map_err(|error| Failure::from(error).while_doing(format_args!("cannot {doing} run `{run}`")))
}

/// Refuses, and writes into the journal that it did.
pub(crate) async fn refuse_agents(
    journal: &mut Run,
    doing: &str,
    request: &Request<SeatName>,
) -> Result<(), Failure> {
    let attempt = supervisor::enclosing_attempt().map_err(|error| {
        Failure::new(Exit::Bug, "cannot tell who started this command").because(Some(&error))
    })?;
    let Some(attempt) = attempt else { return Ok(()) };
    runner::note_refusal(journal, here::person(), request.clone(), attempt.clone()).await?;
    Err(Failure::new(
        Exit::Refused,
        format!("cannot {doing} run `{}` from inside attempt `{attempt}`", journal.run),
    )
    .hint("agents report; people steer"))
}

/// The step of that name.
pub(crate) fn step(journal: &Run, name: &str) -> Result<SeatName, Failure> {
    let definition = &journal.frozen.definition;
    if let Some(id) = definition.step_ids().find(|id| id.as_str() == name) {
        return Ok(id.clone());
    }
    let names = definition.step_ids().map(SeatName::as_str);
    let failure = Failure::usage(format!("run `{}` has no step `{name}`", journal.run));
    Err(match protocol::steps::load::closest(name, names) {
        Some(meant) => failure.hint(format!("did you mean `{meant}`?")),
        None => failure.hint(format!("`callboard show {}` lists its steps", journal.run)),
    })
}

/// Says whether the run goes on by itself.
pub(crate) async fn tell_who_goes_on(store: &SqliteStore, run: &RunId) -> Result<Exit, Failure> {
    match store.leader(run).await? {
        Some(Leader { pid, .. }) => render::note(format_args!("its engine, process {pid}, goes on")),
        None => render::note(format_args!("`callboard resume {run}` goes on with it")),
    }
    Ok(Exit::Delivered)
}
