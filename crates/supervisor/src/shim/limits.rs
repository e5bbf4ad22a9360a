//! How long an agent may run, and how long it may be silent. By the monotonic clock: a corrected or suspended wall
//! clock ends nobody.

use std::io;
use std::time::{Duration, Instant};

use crate::exit::Because;
use crate::launch::Launch;

#[derive(Debug)]
pub(super) struct Limits {
    end: Option<Instant>,
    silence: Option<Silence>,
}

/// The sizes are looked at only when the deadline has come; if they changed meanwhile, it moves on. So a talkative
/// agent costs one look per limit, and a silent one is noticed after one to two times the limit.
#[derive(Debug)]
struct Silence {
    limit: Duration,
    deadline: Instant,
    sizes: [u64; 2],
}

impl Limits {
    /// For an agent that started at that run_at with logs of these sizes.
    pub(super) fn new(started: Instant, launch: &Launch, sizes: [u64; 2]) -> Self {
        // A limit beyond the clock's range is none.
        let end = launch.timeout.and_then(|limit| started.checked_add(limit));
        let silence = launch.silence.and_then(|limit| Some((limit, started.checked_add(limit)?)));
        Self { end, silence: silence.map(|(limit, deadline)| Silence { limit, deadline, sizes }) }
    }

    pub(super) fn deadline(&self) -> Option<Instant> {
        let silence = self.silence.as_ref().map(|silence| silence.deadline);
        self.end.into_iter().chain(silence).min()
    }

    /// Which limit has passed by now, if one has. The logs' sizes are asked for only if they matter.
    pub(super) fn passed(
        &mut self,
        now: Instant,
        sizes: impl FnOnce() -> io::Result<[u64; 2]>,
    ) -> io::Result<Option<Because>> {
        if self.end.is_some_and(|end| now >= end) {
            return Ok(Some(Because::TimedOut));
        }
        let Some(silence) = self.silence.as_mut().filter(|silence| now >= silence.deadline) else {
            return Ok(None);
        };
        let sizes = sizes()?;
        if sizes == silence.sizes {
            return Ok(Some(Because::Silent));
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
            descriptors: None,
        }
    }

    #[test]
    fn an_agent_that_keeps_talking_is_not_silent() {
        let (start, second) = (Instant::now(), Duration::from_secs(1));
        let mut limits = Limits::new(start, &launch(None, Some(second)), [0, 0]);
        for round in 1..=5_u64 {
            let now = limits.deadline().unwrap();
            assert_eq!(limits.passed(now, || Ok([0, round])).unwrap(), None, "stderr grew");
            assert_eq!(limits.deadline(), Some(now + second));
        }
        let now = limits.deadline().unwrap();
        assert_eq!(limits.passed(now, || Ok([0, 5])).unwrap(), Some(Because::Silent));
    }

    #[test]
    fn the_logs_are_not_looked_at_before_their_time() {
        let (start, second) = (Instant::now(), Duration::from_secs(1));
        let mut limits = Limits::new(start, &launch(Some(3 * second), Some(second)), [0, 0]);
        let never = || panic!("looked");
        assert_eq!(limits.passed(start + second / 2, never).unwrap(), None);
        assert_eq!(limits.passed(start + 3 * second, never).unwrap(), Some(Because::TimedOut));
        let mut none = Limits::new(start, &launch(None, Some(Duration::MAX)), [0, 0]);
        assert_eq!((none.deadline(), none.passed(start + second, never).unwrap()), (None, None));
    }
}
