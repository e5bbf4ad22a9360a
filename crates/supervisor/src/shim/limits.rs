//! The timeout and the silence limit of an agent, by the monotonic clock: a change of the wall clock ends no agent.

use std::io;
use std::time::{Duration, Instant};

use crate::attempt::{EndReason, Launch};

#[derive(Debug)]
pub(super) struct Limits {
    timeout_at: Option<Instant>,
    silence: Option<Silence>,
}

/// The silence limit. The sizes of the logs are compared only at the deadline; if they have changed, the deadline moves
/// on. So an active agent costs one check per limit, and a silent one is detected after one to two times the limit.
#[derive(Debug)]
struct Silence {
    limit: Duration,
    deadline: Instant,
    /// Of standard output and standard error.
    sizes: [u64; 2],
}

impl Limits {
    /// Starts the limits of an agent that started at `started` with logs of these sizes.
    pub(super) fn new(started: Instant, launch: &Launch, sizes: [u64; 2]) -> Self {
        // A limit beyond the clock's range is no limit.
        let timeout_at = launch.timeout.and_then(|limit| started.checked_add(limit));
        let silence = launch.silence.and_then(|limit| Some((limit, started.checked_add(limit)?)));
        Self { timeout_at, silence: silence.map(|(limit, deadline)| Silence { limit, deadline, sizes }) }
    }

    /// Returns when [`check`](Self::check) must be called next.
    pub(super) fn deadline(&self) -> Option<Instant> {
        let silence = self.silence.as_ref().map(|silence| silence.deadline);
        self.timeout_at.into_iter().chain(silence).min()
    }

    /// Returns the limit that was exceeded, and moves the silence deadline if the logs have grown. Calls `sizes` only at
    /// that deadline.
    pub(super) fn check(
        &mut self,
        now: Instant,
        sizes: impl FnOnce() -> io::Result<[u64; 2]>,
    ) -> io::Result<Option<EndReason>> {
        if self.timeout_at.is_some_and(|timeout_at| now >= timeout_at) {
            return Ok(Some(EndReason::TimedOut));
        }
        let Some(silence) = self.silence.as_mut().filter(|silence| now >= silence.deadline) else {
            return Ok(None);
        };
        let sizes = sizes()?;
        if sizes == silence.sizes {
            return Ok(Some(EndReason::Silent));
        }
        silence.sizes = sizes;
        silence.deadline = now + silence.limit;
        Ok(None)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn launch(timeout: Option<Duration>, silence: Option<Duration>) -> Launch {
        Launch {
            run: "r".parse().unwrap(),
            attempt: "a#1.1".parse().unwrap(),
            store: "/".into(),
            argv: Vec::new(),
            cwd: "/".into(),
            env: Vec::new(),
            timeout,
            silence,
            grace: Duration::ZERO,
            agent_open_files_limit: None,
        }
    }

    #[test]
    fn an_agent_that_keeps_writing_is_not_silent() {
        let (start, second) = (Instant::now(), Duration::from_secs(1));
        let mut limits = Limits::new(start, &launch(None, Some(second)), [0, 0]);
        for round in 1..=5_u64 {
            let now = limits.deadline().unwrap();
            assert_eq!(limits.check(now, || Ok([0, round])).unwrap(), None, "stderr grew");
            assert_eq!(limits.deadline(), Some(now + second));
        }
        let now = limits.deadline().unwrap();
        assert_eq!(limits.check(now, || Ok([0, 5])).unwrap(), Some(EndReason::Silent));
    }

    #[test]
    fn the_logs_are_not_read_before_the_deadline() {
        let (start, second) = (Instant::now(), Duration::from_secs(1));
        let mut limits = Limits::new(start, &launch(Some(3 * second), Some(second)), [0, 0]);
        let never = || panic!("read the sizes");
        assert_eq!(limits.check(start + second / 2, never).unwrap(), None);
        assert_eq!(limits.check(start + 3 * second, never).unwrap(), Some(EndReason::TimedOut));
        let mut none = Limits::new(start, &launch(None, Some(Duration::MAX)), [0, 0]);
        assert_eq!((none.deadline(), none.check(start + second, never).unwrap()), (None, None));
    }
}
