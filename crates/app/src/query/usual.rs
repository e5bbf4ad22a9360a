//! What takes longer than usual.
//!
//! *Usual* is the median of how long attempts of the same step took that ended with a report: in earlier turns of this
//! run, and in recent runs of the same workflow. Failed attempts say nothing about how long the work takes. An attempt
//! takes *longer* when it has taken [twice](FACTOR) that and at least [5 seconds](MARGIN) more. With fewer than
//! [three](ENOUGH) to compare with, nothing is said.

use std::collections::BTreeMap;
use std::time::Duration;

use protocol::entry::{Entry, Input};
use protocol::run::{Change, Exit};
use protocol::{Revision, Stamp, StepId};
use runner::{History, RunAt};
use serde::Serialize;
use store::Store as _;

use super::RunHandle;
use super::steps::Doing;
use crate::failure::Failure;
use crate::present::Presentation;
use crate::workspace;

/// How many times the usual length is longer than usual.
const FACTOR: u32 = 2;
/// And by how much at least: twice as long as a run_at is still a run_at.
const MARGIN: Duration = Duration::from_secs(5);
/// Fewer than this many are no measure.
const ENOUGH: usize = 3;
/// More than this many are not asked for.
const PLENTY: usize = 20;
/// How many other runs are looked at, newest first.
const RUNS: usize = 10;
/// How many entries of each, newest first.
const ENTRIES: u64 = 512;

/// An attempt that takes longer than usual.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct Slow {
    pub(crate) usual_ms: u64,
    pub(crate) now_ms: u64,
    /// How many attempts it is compared with.
    pub(crate) compared: usize,
}

/// Marks those at work that take longer than usual.
pub(crate) async fn mark<P: Presentation>(
    handle: &RunHandle,
    run_at: &RunAt<P>,
    history: &History,
    now: Stamp,
    steps: &mut BTreeMap<StepId, Doing>,
) -> Result<(), Failure> {
    let at_work = steps.iter_mut().filter_map(|(step, doing)| match doing {
        // One that has just begun cannot be slow, and most have.
        Doing::AtWork { since, slow, .. } if now.since(*since) >= MARGIN => Some((step, (*since, slow))),
        _ => None,
    });
    let mut at_work: BTreeMap<_, _> = at_work.collect();
    if at_work.is_empty() {
        return Ok(());
    }
    let mut samples: BTreeMap<StepId, Vec<Duration>> =
        at_work.keys().map(|step| ((*step).clone(), Vec::new())).collect();
    for attempted in history.attempts.iter().rev() {
        if let Some(over) = &attempted.over
            && over.exit == Exit::Reported
        {
            keep(&mut samples, &attempted.id.step, over.took);
        }
    }
    from_other_runs(handle, run_at, now, &mut samples).await?;
    for (step, (since, slow)) in &mut at_work {
        **slow = samples.get(*step).and_then(|samples| slower(now.since(*since), samples));
    }
    Ok(())
}

fn keep(samples: &mut BTreeMap<StepId, Vec<Duration>>, step: &StepId, took: Option<Duration>) {
    if let (Some(samples), Some(took)) = (samples.get_mut(step), took)
        && samples.len() < PLENTY
    {
        samples.push(took);
    }
}

async fn from_other_runs<P: Presentation>(
    handle: &RunHandle,
    run_at: &RunAt<P>,
    now: Stamp,
    samples: &mut BTreeMap<StepId, Vec<Duration>>,
) -> Result<(), Failure> {
    let rows = handle.store.runs().await?;
    let is_alike = |row: &&store::RunRow| {
        row.protocol == P::NAME
            && row.run != handle.run
            && workspace::summary(row).is_some_and(|summary| summary.title == run_at.spec.title)
    };
    for row in rows.iter().rev().filter(is_alike).take(RUNS) {
        if samples.values().all(|samples| samples.len() >= PLENTY) {
            break;
        }
        let after = Revision(row.revision.0.saturating_sub(ENTRIES));
        for stored in handle.store.entries_between(&row.run, after, row.revision).await?.iter().rev() {
            // A run of another version is no reason not to show this one.
            let Ok(entry) = Entry::<P>::decode(&stored.body) else { break };
            if entry.at <= now
                && let Some((step, took)) = reported(&entry)
            {
                keep(samples, &step, Some(took));
            }
        }
    }
    Ok(())
}

/// The attempt that the entry says ended with a report, and how long it took.
fn reported<P: Presentation>(entry: &Entry<P>) -> Option<(StepId, Duration)> {
    let Input::Fact { evidence: Some(evidence), .. } = &entry.input else { return None };
    let took = Duration::from_millis(evidence.duration_ms?);
    entry.changes.iter().find_map(|change| match change {
        Change::Ended { attempt, exit: Exit::Reported } => Some((P::step_id(&attempt.step), took)),
        _ => None,
    })
}

/// Compares a length of time with those that are usual.
fn slower(now: Duration, samples: &[Duration]) -> Option<Slow> {
    if samples.len() < ENOUGH {
        return None;
    }
    let usual = median(samples);
    let millis = |length: Duration| u64::try_from(length.as_millis()).unwrap_or(u64::MAX);
    (now >= usual.saturating_mul(FACTOR).max(usual.saturating_add(MARGIN))).then(|| Slow {
        usual_ms: millis(usual),
        now_ms: millis(now),
        compared: samples.len(),
    })
}

/// The middle one, or the mean of the two in the middle.
fn median(samples: &[Duration]) -> Duration {
    let mut sorted = samples.to_vec();
    sorted.sort_unstable();
    let middle = sorted.len() / 2;
    if sorted.len().is_multiple_of(2) { (sorted[middle - 1] + sorted[middle]) / 2 } else { sorted[middle] }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seconds(lengths: &[u64]) -> Vec<Duration> {
        lengths.iter().copied().map(Duration::from_secs).collect()
    }

    #[test]
    fn two_are_too_few_to_compare_with() {
        assert_eq!(slower(Duration::from_secs(3600), &seconds(&[1, 1])), None);
        assert!(slower(Duration::from_secs(3600), &seconds(&[1, 1, 1])).is_some());
    }

    #[test]
    fn one_odd_length_among_many_moves_nothing() {
        let slow = slower(Duration::from_secs(11 * 60), &seconds(&[240, 230, 9000, 250, 1])).unwrap();
        assert_eq!((slow.usual_ms, slow.now_ms, slow.compared), (240_000, 660_000, 5));
    }

    #[test]
    fn longer_means_twice_as_long_and_worth_a_word() {
        let minutes = seconds(&[60, 60, 60, 60]);
        assert!(slower(Duration::from_secs(119), &minutes).is_none());
        assert!(slower(Duration::from_secs(120), &minutes).is_some());
        let moments = seconds(&[1, 1, 1]);
        assert!(slower(Duration::from_secs(5), &moments).is_none(), "five times as long, and still a run_at");
        assert!(slower(Duration::from_secs(6), &moments).is_some());
    }
}
