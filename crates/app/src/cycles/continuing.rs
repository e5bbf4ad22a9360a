//! Which cycle is gone on with, and what earlier ones leave to a new one.

use std::collections::BTreeSet;

use protocol::peer::{
    Advice, Continued, CycleId, CycleStatus, Definition, Document, Peer, Phase, PhaseStatus, Scope,
};
use protocol::run::RunStatus;
use protocol::{Outcome, Protocol as _, RunId};
use runner::{LoadError, RunAt, RunAtError, RunOptions};
use serde_json::Value;
use store::{AnyStore, RunRow, Store as _};

use super::opening::highest_among;
use crate::failure::Failure;
use crate::output;
use crate::workspace;

/// A cycle that can be gone on with.
#[derive(Debug)]
pub(crate) struct Continuable {
    pub(crate) cycle: CycleId,
    pub(crate) run: RunId,
    pub(crate) definition: Definition,
    pub(crate) options: RunOptions,
    /// What its completed phases have produced, if it has failed: then only a new cycle can go on with it.
    pub(crate) failed: Option<Continued>,
    /// It has failed, and somebody may still be at work in it: it was stopped, and nobody was left to see to that.
    pub(crate) is_ending: bool,
    /// The number of that new cycle, unless there is one by now: then it has to be looked at again, for it may go on with
    /// the same.
    pub(crate) next: u64,
}

/// The newest cycle of a scope, or of all, that is not completed. One that a later cycle continues is passed over: the
/// later one stands for both.
pub(crate) async fn newest_incomplete(
    store: &AnyStore,
    scope: Option<&Scope>,
) -> Result<Option<Continuable>, Failure> {
    // One look for both: a cycle that is not among these has a number that we will find taken.
    let rows = store.runs().await?;
    let (mut continued, mut unread) = (BTreeSet::new(), Vec::new());
    for (cycle, row) in newest_first(&rows, scope) {
        let run = row.run.clone();
        let run_at = match look(store, row).await? {
            Look::Found(run_at) => *run_at,
            Look::Gone => continue,
            Look::Unread(error) if is_succeeded(row) => {
                unread.push((cycle.scope, error));
                continue;
            }
            Look::Unread(error) => return Err(error.into()),
        };
        let RunAt { spec, state, document, .. } = run_at;
        continued.extend(spec.definition.continues.as_ref().map(|continued| continued.cycle.clone()));
        let failed = match document.metadata.status {
            CycleStatus::Completed => continue,
            CycleStatus::Failed => Some(completed(&document)),
            CycleStatus::Initialized | CycleStatus::InProgress => None,
        };
        let cycle = document.cycle_id;
        if !continued.contains(&cycle) {
            // One that nobody can read may have gone on with this one already.
            let of_this = |(scope, _): &(Scope, LoadError)| *scope == cycle.scope;
            if let Some(at) = unread.iter().position(of_this).filter(|_| failed.is_some()) {
                return Err(unread.swap_remove(at).1.into());
            }
            let next = highest_among(rows.iter().map(|row| &row.run), &cycle.scope) + 1;
            let (definition, options) = (spec.definition, spec.options);
            let is_ending = failed.is_some() && !matches!(state.run.status, RunStatus::Finished(_));
            return Ok(Some(Continuable { cycle, run, definition, options, failed, is_ending, next }));
        }
    }
    Ok(None)
}

/// What the newest completed cycle's review recommends.
pub(crate) async fn advice(store: &AnyStore, scope: &Scope) -> Result<Option<Advice>, Failure> {
    for (cycle, row) in newest_first(&store.runs().await?, Some(scope)) {
        let document = match look(store, row).await? {
            Look::Found(run_at) => run_at.document,
            Look::Gone => continue,
            Look::Unread(error) => {
                let why = runner::with_causes(&error);
                output::note(format_args!("what was recommended in cycle `{cycle}` is not known: {why}"));
                continue;
            }
        };
        if document.metadata.status == CycleStatus::Completed {
            let recommendations = recommendations(&document);
            let cycle = document.cycle_id;
            return Ok(recommendations.map(|recommendations| Advice { cycle, recommendations }));
        }
    }
    Ok(None)
}

enum Look {
    Found(Box<RunAt<Peer>>),
    Gone,
    /// Something is wrong with this one, and with no other.
    Unread(LoadError),
}

async fn look(store: &AnyStore, row: &RunRow) -> Result<Look, Failure> {
    match RunAt::<Peer>::at(store, &row.run, None).await {
        Ok(Some(run_at)) => Ok(Look::Found(Box::new(run_at))),
        Ok(None) => Ok(Look::Gone),
        Err(RunAtError::Load(error)) if is_of_this_run(&error) => Ok(Look::Unread(error)),
        Err(error) => Err(error.into()),
    }
}

fn is_of_this_run(error: &LoadError) -> bool {
    match error {
        LoadError::Entry { .. } | LoadError::Damaged { .. } | LoadError::Corrupted { .. } => true,
        LoadError::Read(_)
        | LoadError::OtherProtocol { .. }
        | LoadError::ExternalWrite { .. }
        | LoadError::Contended { .. } => false,
    }
}

/// Whether the list of runs says that there is nothing to go on with in it.
fn is_succeeded(row: &RunRow) -> bool {
    workspace::summary(row).is_some_and(|summary| summary.status == RunStatus::Finished(Outcome::Succeeded))
}

/// The recommendations stand in the review's output; some reviewers put them among what they have learnt.
fn recommendations(document: &Document) -> Option<Value> {
    let review = document.phases.review.output.as_ref();
    let places = [review, document.insights.as_ref()].into_iter().flatten();
    places.filter_map(|place| place.get("recommendations")).find(|value| !is_empty(value)).cloned()
}

fn is_empty(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::String(text) => text.trim().is_empty(),
        Value::Array(items) => items.is_empty(),
        Value::Object(fields) => fields.values().all(is_empty),
        Value::Bool(_) | Value::Number(_) => false,
    }
}

/// The outputs of the phases that were completed, from the first on.
fn completed(document: &Document) -> Continued {
    let phases = Phase::ALL.into_iter().map(|phase| &document.phases[phase]);
    let completed = phases.take_while(|phase| phase.status == PhaseStatus::Completed);
    let outputs = completed.map(|phase| phase.output.clone().unwrap_or_default()).collect();
    Continued { cycle: document.cycle_id.clone(), outputs }
}

/// The cycles of a scope, the highest number first; or all of them, the one that was opened last first.
fn newest_first<'r>(rows: &'r [RunRow], scope: Option<&Scope>) -> Vec<(CycleId, &'r RunRow)> {
    let cycles = rows.iter().rev().filter(|row| row.protocol == Peer::NAME);
    let cycles = cycles.filter_map(|row| Some((CycleId::from_key(row.run.as_str()).ok()?, row)));
    let mut cycles: Vec<_> =
        cycles.filter(|(cycle, _)| scope.is_none_or(|scope| cycle.scope == *scope)).collect();
    if scope.is_some() {
        cycles.sort_by_key(|(cycle, _)| std::cmp::Reverse(cycle.number));
    }
    cycles
}
