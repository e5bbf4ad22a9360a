//! How long we put up with a server: two budgets, for a lost race and for an outage, and none of them endless.

use std::time::Duration;

use tokio::time::Instant;

use super::fault::{Fault, Source};
use super::outage::Asked;
use super::plain::plainly;
use crate::error::Unavailable;
use crate::store::RACE_TIMEOUT;

/// How long to wait for what.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Patience {
    /// For the answer to one question.
    pub answer: Duration,
    /// For a race with others over one subject.
    pub conflict: Duration,
    /// For servers that do not answer, or have no leader. The crash of one takes 4 to 9 seconds.
    pub outage: Duration,
}

impl Default for Patience {
    fn default() -> Self {
        Self { answer: Duration::from_secs(5), conflict: RACE_TIMEOUT, outage: Duration::from_secs(60) }
    }
}

/// The first pause, and the longest.
const FIRST_PAUSE: Duration = Duration::from_millis(20);
pub(super) const LONGEST_PAUSE: Duration = Duration::from_secs(1);

/// What is left of a budget. It is spent from the first fault on.
#[derive(Debug)]
pub(super) struct Budget {
    server: String,
    doing: &'static str,
    length: Duration,
    since: Option<Instant>,
    /// When the question was asked that has not been answered.
    asked_at: Instant,
    pause: Duration,
    /// What is asked, if it is not a race but an outage that this is for: then it is spent from the first fault of anybody
    /// on.
    asked: Option<Asked>,
}

impl Budget {
    /// For a race.
    pub(super) fn new(server: &str, doing: &'static str, length: Duration) -> Self {
        let (server, asked_at) = (server.to_owned(), Instant::now());
        Self { server, doing, length, since: None, asked_at, pause: FIRST_PAUSE, asked: None }
    }

    /// For an outage.
    pub(super) fn shared(server: &str, doing: &'static str, length: Duration, asked: Asked) -> Self {
        Self { asked: Some(asked), ..Self::new(server, doing, length) }
    }

    /// Waits a little after a fault that may pass, each time longer; gives up when it will not pass, or not in time.
    pub(super) async fn bear(&mut self, fault: Fault) -> Result<(), Unavailable> {
        let source = match fault {
            Fault::Passing(source) | Fault::Unanswered(source) | Fault::Sequence(source) => plainly(source),
            Fault::Gone { stream } => {
                return Err(Unavailable::NoStream { server: self.server.clone(), stream });
            }
            Fault::Replaced => return Err(Unavailable::OtherStore { server: self.server.clone() }),
            Fault::Lasting(source) => return Err(self.spent(source)),
        };
        let now = Instant::now();
        let all = self.asked.as_ref().map_or(now, |asked| asked.missed(self.asked_at, now, &source));
        let since = all.min(*self.since.get_or_insert(all));
        if now >= since + self.length {
            // Without a connection nothing was waited for: whoever asks again and again leaves the client no time to make one.
            tokio::task::yield_now().await;
            return Err(self.spent(source));
        }
        // Half of it by chance, so that those who met once do not meet again.
        tokio::time::sleep(self.pause.mul_f64(0.5 + fastrand::f64() / 2.0)).await;
        self.pause = (self.pause * 2).min(LONGEST_PAUSE);
        self.asked_at = Instant::now();
        Ok(())
    }

    fn spent(&self, source: Source) -> Unavailable {
        Unavailable::Server { server: self.server.clone(), doing: self.doing, source }
    }
}
