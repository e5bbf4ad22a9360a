//! The back-off between two tries to commit an edit that met a conflict.

use std::time::Duration;

/// Waits at most 100, 300 and 900 ms before the second, third and fourth try; in proportion if the store has another
/// conflict timeout than 1.3 s.
#[derive(Debug)]
pub(crate) struct ConflictBackoff {
    /// The length of the first wait.
    unit: Duration,
    multiples: std::slice::Iter<'static, u32>,
}

/// The lengths of the waits, as multiples of the first one.
const MULTIPLES: [u32; 3] = [1, 3, 9];

impl ConflictBackoff {
    /// Divides a total time between the waits.
    pub(crate) fn within(total: Duration) -> Self {
        Self { unit: total / MULTIPLES.iter().sum::<u32>(), multiples: MULTIPLES.iter() }
    }

    /// Waits before the next try. Returns `false` if there is none left. Each wait is cut by up to half at
    /// random, so that clients that conflicted once do not conflict again.
    pub(crate) async fn wait(&mut self) -> bool {
        let Some(wait) = self.next() else { return false };
        tokio::time::sleep(wait.mul_f64(0.5 + fastrand::f64() / 2.0)).await;
        true
    }

    fn next(&mut self) -> Option<Duration> {
        self.multiples.next().map(|multiple| self.unit * *multiple)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use store::{NatsSettings, NatsStore, Store as _, Timeouts};

    fn waits(mut backoff: ConflictBackoff) -> Vec<Duration> {
        std::iter::from_fn(|| backoff.next()).collect()
    }

    #[test]
    fn the_waits_add_up_to_the_conflict_timeout_of_the_store() {
        let settings: NatsSettings = "nats://one".parse().unwrap();
        let store = NatsStore::new(settings.clone());
        assert_eq!(
            waits(ConflictBackoff::within(store.conflict_timeout())),
            [100, 300, 900].map(Duration::from_millis)
        );
        let timeouts = Timeouts { conflict: Duration::from_secs(26), ..settings.timeouts };
        let with_long_timeout = NatsStore::new(NatsSettings { timeouts, ..settings });
        assert_eq!(
            waits(ConflictBackoff::within(with_long_timeout.conflict_timeout())),
            [2, 6, 18].map(Duration::from_secs)
        );
    }

    #[tokio::test(start_paused = true)]
    async fn there_are_three_waits() {
        let mut backoff = ConflictBackoff::within(Duration::from_secs(13));
        let begin = tokio::time::Instant::now();
        for _ in 0..3 {
            assert!(backoff.wait().await);
        }
        assert!(!backoff.wait().await);
        assert!((6..=13).contains(&begin.elapsed().as_secs()), "{:?}", begin.elapsed());
    }
}
