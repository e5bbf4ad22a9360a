//! Which peer cycle `--continue` continues, and what earlier cycles recommend to a new one.

use std::collections::BTreeSet;
use std::sync::Arc;

use protocol::peer::{
    Continued, Definition, Document, EarlierReview, Peer, PeerCycleId, PeerCycleStatus, Phase, PhaseStatus,
    Scope,
};
use protocol::run::RunStatus;
use protocol::{Outcome, Protocol as _, RunId, TypedMachine};
use runner::{LoadError, ReadRevisionError, RunAtRevision, RunOptions};
use serde_json::Value;
use store::{AnyStore, RunListing};

use super::opening::highest_number_among;
use crate::failure::Failure;
use crate::output;
use crate::workspace;

/// A cycle that can be continued.
#[derive(Debug)]
pub(crate) struct IncompletePeerCycle {
    pub(crate) cycle: PeerCycleId,
    pub(crate) run: RunId,
    pub(crate) definition: Definition,
    pub(crate) options: RunOptions,
    /// The outputs of its completed phases, if it has failed. Then only a new cycle can continue it.
    pub(crate) failed: Option<Continued>,
    /// It has failed, but its run is not finished: it was stopped, and an attempt may still be running.
    pub(crate) is_ending: bool,
    /// The number for that new cycle. If it is taken by then, look again: the cycle that took it may continue the same one.
    pub(crate) next: u64,
}

/// Returns the newest cycle of a scope, or of all scopes, that is not completed. Skips a cycle that a later one continues.
pub(crate) async fn newest_incomplete(
    store: &AnyStore,
    scope: Option<&Scope>,
) -> Result<Option<IncompletePeerCycle>, Failure> {
    // The cycles and `next` come from one listing: a cycle opened later will be found under `next`.
    let rows = store.runs().await?;
    let (mut continued, mut damaged) = (BTreeSet::new(), Vec::new());
    for (cycle, row) in newest_first(&rows, scope) {
        let run = row.run.clone();
        let run_at = match load(store, row).await? {
            LoadedCycle::Found(run_at) => *run_at,
            LoadedCycle::Gone => continue,
            LoadedCycle::Damaged(error) if is_completed(row) || continued.contains(&cycle) => {
                damaged.push((cycle.scope, error));
                continue;
            }
            LoadedCycle::Damaged(error) => return Err(error.into()),
        };
        let TypedMachine { definition, document, .. } = typed(&run_at);
        continued.extend(definition.continues.as_ref().map(|continued| continued.cycle.clone()));
        let failed = match document.metadata.status {
            PeerCycleStatus::Completed => continue,
            PeerCycleStatus::Failed => Some(completed_phases(document)),
            PeerCycleStatus::Initialized | PeerCycleStatus::InProgress => None,
        };
        let cycle = document.cycle_id.clone();
        if !continued.contains(&cycle) {
            // A damaged cycle may already continue this one.
            let has_same_scope = |(scope, _): &(Scope, LoadError)| *scope == cycle.scope;
            if let Some(at) = damaged.iter().position(has_same_scope).filter(|_| failed.is_some()) {
                return Err(damaged.swap_remove(at).1.into());
            }
            let next = highest_number_among(rows.iter().map(|row| &row.run), &cycle.scope) + 1;
            let is_ending = failed.is_some() && !matches!(run_at.state.run.status, RunStatus::Finished(_));
            let (definition, options) = (Definition::clone(definition), run_at.spec.options);
            return Ok(Some(IncompletePeerCycle {
                cycle,
                run,
                definition,
                options,
                failed,
                is_ending,
                next,
            }));
        }
    }
    Ok(None)
}

/// Returns the recommendations of the newest completed cycle's review. Those of a rehearsal are invented, and do not count.
pub(crate) async fn earlier_review(
    store: &AnyStore,
    scope: &Scope,
) -> Result<Option<EarlierReview>, Failure> {
    for (cycle, row) in newest_first(&store.runs().await?, Some(scope)) {
        let document = match load(store, row).await? {
            LoadedCycle::Found(run_at) if run_at.spec.options.is_rehearsal() => continue,
            LoadedCycle::Found(run_at) => Arc::clone(&typed(&run_at).document),
            LoadedCycle::Gone => continue,
            LoadedCycle::Damaged(error) => {
                let why = runner::with_causes(&error);
                output::note(format_args!("cannot read the recommendations of cycle `{cycle}`: {why}"));
                continue;
            }
        };
        if document.metadata.status == PeerCycleStatus::Completed {
            let recommendations = recommendations(&document);
            let cycle = document.cycle_id.clone();
            return Ok(recommendations.map(|recommendations| EarlierReview { cycle, recommendations }));
        }
    }
    Ok(None)
}

enum LoadedCycle {
    Found(Box<RunAtRevision>),
    Gone,
    /// This run is damaged. Other runs are not affected.
    Damaged(LoadError),
}

async fn load(store: &AnyStore, row: &RunListing) -> Result<LoadedCycle, Failure> {
    match RunAtRevision::load(store.as_ref(), crate::program().protocols, &row.run, None).await {
        Ok(Some(run_at)) => Ok(LoadedCycle::Found(Box::new(run_at))),
        Ok(None) => Ok(LoadedCycle::Gone),
        Err(ReadRevisionError::Load(error)) if error.is_damage() => Ok(LoadedCycle::Damaged(error)),
        Err(error) => Err(error.into()),
    }
}

fn typed(run_at: &RunAtRevision) -> &TypedMachine<Peer> {
    TypedMachine::of(run_at.machine()).expect("BUG: the listing names another protocol")
}

/// Whether the listing says that the cycle is completed, also by an unsuccessful review: there is nothing to continue.
fn is_completed(row: &RunListing) -> bool {
    workspace::summary(row).is_some_and(|summary| match summary.status {
        RunStatus::Finished(Outcome::Succeeded | Outcome::Incomplete) => true,
        RunStatus::Finished(Outcome::Failed)
        | RunStatus::Running
        | RunStatus::Paused
        | RunStatus::Stopping(_)
        | RunStatus::Stopped(_)
        | RunStatus::Draining(_)
        | RunStatus::Finishing(_) => false,
    })
}

/// Returns the recommendations of a cycle: in the review's output, or in `insights`, where some reviewers put them.
fn recommendations(document: &Document) -> Option<Value> {
    let review = document.phases.review.output.as_ref();
    let sources = [review, document.insights.as_ref()].into_iter().flatten();
    sources.filter_map(|source| source.get("recommendations")).find(|value| !is_empty(value)).cloned()
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

/// Returns the outputs of the completed phases, up to the first that is not completed.
fn completed_phases(document: &Document) -> Continued {
    let phases = Phase::ALL.into_iter().map(|phase| &document.phases[phase]);
    let completed = phases.take_while(|phase| phase.status == PhaseStatus::Completed);
    let outputs = completed.map(|phase| phase.output.clone().unwrap_or_default()).collect();
    Continued { cycle: document.cycle_id.clone(), outputs }
}

/// Returns the cycles of a scope, highest number first. Without a scope: all cycles, newest first.
fn newest_first<'r>(rows: &'r [RunListing], scope: Option<&Scope>) -> Vec<(PeerCycleId, &'r RunListing)> {
    let cycles = rows.iter().filter(|row| row.protocol == Peer::NAME);
    let cycles = cycles.filter_map(|row| Some((PeerCycleId::from_key(row.run.as_str()).ok()?, row)));
    let mut cycles: Vec<_> =
        cycles.filter(|(cycle, _)| scope.is_none_or(|scope| cycle.scope == *scope)).collect();
    // The listing has the order of insertion, which a recovery may have changed.
    match scope {
        Some(_) => cycles.sort_by_key(|(cycle, _)| std::cmp::Reverse(cycle.number)),
        None => cycles.sort_by_key(|(cycle, row)| std::cmp::Reverse((row.created, cycle.number))),
    }
    cycles
}
