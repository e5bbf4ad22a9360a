//! How long an agent may run, and how long it may be silent. By the monotonic clock: a corrected or suspended wall
//! clock ends nobody.

use std::io;
use std::time::{Duration, Instant};

use super::agent::Agent;
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
    pub(super) fn new(started: Instant, launch: &Launch, agent: &Agent) -> io::Result<Self> {
        // A limit beyond the clock's range is none.
        let end = launch.timeout.and_then(|limit| started.checked_add(limit));
        let silence = match launch.silence.and_then(|limit| Some((limit, started.checked_add(limit)?))) {
            Some((limit, deadline)) => Some(Silence { limit, deadline, sizes: agent.log_sizes()? }),
            None => None,
        };
        Ok(Self { end, silence })
    }

    pub(super) fn deadline(&self) -> Option<Instant> {
        let silence = self.silence.as_ref().map(|silence| silence.deadline);
        self.end.into_iter().chain(silence).min()
    }

    /// Which limit has passed, if one has.
    pub(super) fn passed(&mut self, agent: &Agent) -> io::Result<Option<Because>> {
        let now = Instant::now();
        if self.end.is_some_and(|end| now >= end) {
            return Ok(Some(Because::TimedOut));
        }
        let Some(silence) = self.silence.as_mut().filter(|silence| now >= silence.deadline) else {
            return Ok(None);
        };
        let sizes = agent.log_sizes()?;
        if sizes == silence.sizes {
            return Ok(Some(Because::Silent));
        }
        silence.sizes = sizes;
        silence.deadline = now + silence.limit;
        Ok(None)
    }
}
