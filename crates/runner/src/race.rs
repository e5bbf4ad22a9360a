//! How long somebody who lost a race with an edit waits before deciding anew.

use std::time::Duration;

/// Before each attempt after the first: 100, 300 and 900 ms, unless the store has another length set for races.
#[derive(Debug)]
pub(crate) struct Waits {
    unit: Duration,
    shares: std::slice::Iter<'static, u32>,
}

const SHARES: [u32; 3] = [1, 3, 9];

impl Waits {
    /// Waits that last so long together.
    pub(crate) fn within(race_timeout: Duration) -> Self {
        Self { unit: race_timeout / SHARES.iter().sum::<u32>(), shares: SHARES.iter() }
    }

    /// Waits once more, at most as long as its turn is: cut by up to half at random, so that those who lost a race together
    /// do not meet again. Says whether there was a turn left.
    pub(crate) async fn once_more(&mut self) -> bool {
        let Some(wait) = self.next() else { return false };
        tokio::time::sleep(wait.mul_f64(0.5 + fastrand::f64() / 2.0)).await;
        true
    }

    fn next(&mut self) -> Option<Duration> {
        self.shares.next().map(|share| self.unit * *share)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use store::{NatsSettings, NatsStore, Store as _, Timeouts};

    fn all(mut waits: Waits) -> Vec<Duration> {
        std::iter::from_fn(|| waits.next()).collect()
    }

    #[test]
    fn waits_last_as_long_as_is_set_for_the_store() {
        let settings: NatsSettings = "nats://one".parse().unwrap();
        let store = testkit::nats::any(NatsStore::new(settings.clone()));
        assert_eq!(all(Waits::within(store.race_timeout())), [100, 300, 900].map(Duration::from_millis));
        let timeouts = Timeouts { conflict: Duration::from_secs(26), ..settings.timeouts };
        let patient = testkit::nats::any(NatsStore::new(NatsSettings { timeouts, ..settings }));
        assert_eq!(all(Waits::within(patient.race_timeout())), [2, 6, 18].map(Duration::from_secs));
    }

    #[tokio::test(start_paused = true)]
    async fn a_race_is_lost_when_it_has_been_waited_three_times() {
        let mut waits = Waits::within(Duration::from_secs(13));
        let begin = tokio::time::Instant::now();
        for _ in 0..3 {
            assert!(waits.once_more().await);
        }
        assert!(!waits.once_more().await);
        assert!((6..=13).contains(&begin.elapsed().as_secs()), "{:?}", begin.elapsed());
    }
}
