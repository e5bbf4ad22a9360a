//! Attempts that run longer than usual.
//!
//! The usual duration of a step is the median duration of its attempts that ended with a report, in earlier turns of this run
//! and in recent runs of the same workflow. Failed attempts do not count: they say nothing about the duration of the work.
//! An attempt is slow after [twice](FACTOR) the usual duration, and at least [5 seconds](MARGIN) more. A median needs
//! [three](MIN_SAMPLES) samples.

use std::collections::BTreeMap;
use std::time::Duration;

use protocol::entry::{Entry, Input};
use protocol::run::{AttemptConsequence, Change};
use protocol::{Revision, StepId, StepKind, Timestamp};
use runner::{History, RunAtRevision};
use serde::Serialize;

use crate::failure::Failure;
use crate::query::RunHandle;
use crate::query::steps::StepActivity;
use crate::workspace;

const FACTOR: u32 = 2;
/// Keeps very short attempts from being called slow.
const MARGIN: Duration = Duration::from_secs(5);
const MIN_SAMPLES: usize = 3;
const MAX_SAMPLES: usize = 20;
/// How many other runs are read, newest first.
const MAX_RUNS: usize = 10;
/// How many entries of each other run are read, newest first.
const MAX_ENTRIES: u64 = 512;

/// An attempt that exceeds its usual duration.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct SlowAttempt {
    /// The usual duration: a median.
    pub(crate) baseline_ms: u64,
    pub(crate) elapsed_ms: u64,
    /// The number of attempts behind the median.
    pub(crate) samples: usize,
}

/// Marks the running attempts that exceed their usual duration. `history` is that of this run.
pub(crate) async fn mark_slow(
    handle: &RunHandle,
    run_at: &RunAtRevision,
    history: &History,
    now: Timestamp,
    steps: &mut BTreeMap<StepId, StepActivity>,
) -> Result<(), Failure> {
    let running = steps.iter_mut().filter_map(|(step, activity)| match activity {
        // An attempt shorter than the margin cannot be slow; most calls end here.
        StepActivity::Running { since, slow, kind, .. } if now.since(*since) >= MARGIN => {
            Some((step, (*since, slow, *kind)))
        }
        _ => None,
    });
    let mut running: BTreeMap<_, _> = running.collect();
    if running.is_empty() {
        return Ok(());
    }
    let mut samples: Samples =
        running.iter().map(|(step, (.., kind))| ((*step).clone(), (*kind, Vec::new()))).collect();
    for record in history.attempts.iter().rev() {
        if let Some(end) = &record.end
            && end.consequence == AttemptConsequence::Reported
        {
            add_sample(&mut samples, &record.id.step, record.kind, end.took);
        }
    }
    add_other_runs(handle, run_at, now, &mut samples).await?;
    for (step, (since, slow, _)) in &mut running {
        **slow = samples.get(*step).and_then(|(_, samples)| compare(now.since(*since), samples));
    }
    Ok(())
}

/// For each step, the kind of its running attempt, and how long attempts of that kind took. Kinds are not mixed: how long checks
/// take says nothing about an agent.
type Samples = BTreeMap<StepId, (StepKind, Vec<Duration>)>;

fn add_sample(samples: &mut Samples, step: &StepId, step_kind: StepKind, took: Option<Duration>) {
    if let (Some((kind, samples)), Some(took)) = (samples.get_mut(step), took)
        && *kind == step_kind
        && samples.len() < MAX_SAMPLES
    {
        samples.push(took);
    }
}

async fn add_other_runs(
    handle: &RunHandle,
    run_at: &RunAtRevision,
    now: Timestamp,
    samples: &mut Samples,
) -> Result<(), Failure> {
    let rows = handle.store.runs().await?;
    let is_same_workflow = |row: &&store::RunListing| {
        row.protocol == run_at.kind().info().name
            && row.run != handle.run
            && workspace::summary(row).is_some_and(|summary| {
                // The scripted agent of a rehearsal is faster than a real one.
                summary.title == run_at.spec.title
                    && summary.is_rehearsal == run_at.spec.options.is_rehearsal()
            })
    };
    for row in rows.iter().rev().filter(is_same_workflow).take(MAX_RUNS) {
        if samples.values().all(|(_, samples)| samples.len() >= MAX_SAMPLES) {
            break;
        }
        let after = Revision(row.revision.0.saturating_sub(MAX_ENTRIES));
        for stored in handle.store.entries_between(&row.run, after, row.revision).await?.iter().rev() {
            // Skip the rest of this run: another version has written it.
            let Ok(entry) = Entry::decode(&stored.body) else { break };
            if entry.at <= now
                && let Some((step, kind, took)) = reported(&entry)
            {
                add_sample(samples, &step, kind, Some(took));
            }
        }
    }
    Ok(())
}

/// Returns the step, the kind and the duration of the attempt that ended with a report in this entry.
fn reported(entry: &Entry) -> Option<(StepId, StepKind, Duration)> {
    let Input::Fact { evidence: Some(evidence), .. } = &entry.input else { return None };
    let took = Duration::from_millis(evidence.duration_ms?);
    entry.changes.iter().find_map(|change| match change {
        Change::Ended { attempt, consequence: AttemptConsequence::Reported, kind } => {
            Some((attempt.step.clone(), *kind, took))
        }
        _ => None,
    })
}

/// Returns `Some` if an attempt with this elapsed time is slow.
fn compare(elapsed: Duration, samples: &[Duration]) -> Option<SlowAttempt> {
    if samples.len() < MIN_SAMPLES {
        return None;
    }
    let median_duration = median(samples);
    let millis = |duration: Duration| u64::try_from(duration.as_millis()).unwrap_or(u64::MAX);
    let limit = median_duration.saturating_mul(FACTOR).max(median_duration.saturating_add(MARGIN));
    (elapsed >= limit).then(|| SlowAttempt {
        baseline_ms: millis(median_duration),
        elapsed_ms: millis(elapsed),
        samples: samples.len(),
    })
}

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
    fn a_median_needs_three_samples() {
        assert_eq!(compare(Duration::from_secs(3600), &seconds(&[1, 1])), None);
        assert!(compare(Duration::from_secs(3600), &seconds(&[1, 1, 1])).is_some());
    }

    #[test]
    fn an_outlier_does_not_move_the_median() {
        let slow = compare(Duration::from_secs(11 * 60), &seconds(&[240, 230, 9000, 250, 1])).unwrap();
        assert_eq!((slow.baseline_ms, slow.elapsed_ms, slow.samples), (240_000, 660_000, 5));
    }

    #[test]
    fn an_attempt_is_slow_after_twice_the_median_and_at_least_five_more_seconds() {
        let minutes = seconds(&[60, 60, 60, 60]);
        assert!(compare(Duration::from_secs(119), &minutes).is_none());
        assert!(compare(Duration::from_secs(120), &minutes).is_some());
        let short = seconds(&[1, 1, 1]);
        assert!(compare(Duration::from_secs(5), &short).is_none(), "less than the margin");
        assert!(compare(Duration::from_secs(6), &short).is_some());
    }
}
