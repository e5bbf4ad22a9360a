//! Back-off timers: stored as wall-clock times in the journal, waited for on the monotonic clock.

use std::collections::BTreeMap;
use std::time::Duration;

use protocol::AttemptId;
use protocol::run::TurnStatus;
use tokio::time::Instant;

use super::Engine;

/// When each back-off elapses. Computed once, when the engine first sees the back-off, so that setting the wall clock has no
/// effect.
#[derive(Debug, Default)]
pub(super) struct Deadlines(BTreeMap<AttemptId, Instant>);

impl Engine<'_> {
    /// Returns the back-off that elapses first. `None` if there is no back-off, or the run starts nothing in its present status.
    pub(super) fn next_timer(&mut self) -> Option<(Instant, AttemptId)> {
        let state = &self.journal.state;
        if !state.run.status.may_start_steps() {
            return None;
        }
        let (now, wall) = (Instant::now(), self.engine_config.clock.now());
        let backing_off =
            state.run.active_turns.iter().filter(|(_, active)| active.status == TurnStatus::BackingOff);
        let attempts = backing_off.map(|(step, active)| active.attempt_id(step));
        let mut deadlines = BTreeMap::new();
        let timers = attempts.map(|attempt| {
            let deadline = *self.deadlines.0.entry(attempt.clone()).or_insert_with(|| {
                // If the wall clock was set back while no engine ran, the difference is too long: wait no longer than the whole
                // back-off.
                let remaining = state.timers.get(&attempt).map_or(Duration::ZERO, |timer| {
                    timer.fires_at.since(wall).min(Duration::from_millis(timer.length_ms))
                });
                now + remaining
            });
            deadlines.insert(attempt.clone(), deadline);
            (deadline, attempt)
        });
        let next = timers.min();
        // Forget the back-offs that have elapsed.
        self.deadlines.0 = deadlines;
        next
    }
}

/// Waits for a back-off and returns its attempt. Without a timer, waits forever.
pub(super) async fn backoff_elapsed(timer: Option<(Instant, AttemptId)>) -> AttemptId {
    match timer {
        Some((deadline, attempt)) => {
            tokio::time::sleep_until(deadline).await;
            attempt
        }
        None => std::future::pending().await,
    }
}

/// Sleeps until an instant; without one, forever.
pub(crate) async fn sleep_until(instant: Option<Instant>) {
    match instant {
        Some(instant) => tokio::time::sleep_until(instant).await,
        None => std::future::pending().await,
    }
}
