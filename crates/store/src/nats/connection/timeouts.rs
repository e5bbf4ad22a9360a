//! How long we put up with a server: two budgets, for a lost race and for an outage, and none of them endless.

use std::time::Duration;

use tokio::time::Instant;

use super::failure::{RequestFailure, Source, describe};
use super::outage::Requests;
use crate::error::Unavailable;
use crate::store::RACES;

/// How long to wait for what.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Timeouts {
    /// For the answer to one question.
    pub request: Duration,
    /// For a race with others over one subject.
    pub conflict: Duration,
    /// For servers that do not answer, or have no leader. The crash of one takes 4 to 9 seconds.
    pub outage: Duration,
}

impl Default for Timeouts {
    fn default() -> Self {
        Self { request: Duration::from_secs(5), conflict: RACES, outage: Duration::from_secs(60) }
    }
}

/// The first pause, and the longest.
const FIRST_PAUSE: Duration = Duration::from_millis(20);
pub(in crate::nats) const LONGEST_PAUSE: Duration = Duration::from_secs(1);

/// What is left of a budget. It is spent from the first fault on.
#[derive(Debug)]
pub(in crate::nats) struct Backoff {
    server: String,
    doing: &'static str,
    length: Duration,
    since: Option<Instant>,
    /// When the question was asked that has not been answered.
    started: Instant,
    pause: Duration,
    /// What is asked, if it is not a race but an outage that this is for: then it is spent from the first fault of anybody
    /// on.
    requests: Option<Requests>,
}

impl Backoff {
    /// For a race.
    pub(in crate::nats) fn for_conflict(server: &str, doing: &'static str, length: Duration) -> Self {
        let (server, started) = (server.to_owned(), Instant::now());
        Self { server, doing, length, since: None, started, pause: FIRST_PAUSE, requests: None }
    }

    /// For an outage.
    pub(in crate::nats) fn for_outage(
        server: &str,
        doing: &'static str,
        length: Duration,
        requests: Requests,
    ) -> Self {
        Self { requests: Some(requests), ..Self::for_conflict(server, doing, length) }
    }

    /// Waits a little after a fault that may pass, each time longer; gives up when it will not pass, or not in time.
    pub(in crate::nats) async fn wait(&mut self, failure: RequestFailure) -> Result<(), Unavailable> {
        let source = match failure {
            RequestFailure::Temporary(source)
            | RequestFailure::Unanswered(source)
            | RequestFailure::WrongSequence(source) => describe(source),
            RequestFailure::StreamDeleted { stream } => {
                return Err(Unavailable::NoStream { server: self.server.clone(), stream });
            }
            RequestFailure::StoreReplaced => {
                return Err(Unavailable::OtherStore { server: self.server.clone() });
            }
            RequestFailure::Permanent(source) => return Err(self.unavailable(source)),
        };
        let now = Instant::now();
        let all = self
            .requests
            .as_ref()
            .map_or(now, |requests| requests.record_failure(self.started, now, &source));
        let since = all.min(*self.since.get_or_insert(all));
        if now >= since + self.length {
            // Without a connection nothing was waited for: whoever asks again and again leaves the client no time to make one.
            tokio::task::yield_now().await;
            return Err(self.unavailable(source));
        }
        // Half of it by chance, so that those who met once do not meet again.
        tokio::time::sleep(self.pause.mul_f64(0.5 + fastrand::f64() / 2.0)).await;
        self.pause = (self.pause * 2).min(LONGEST_PAUSE);
        self.started = Instant::now();
        Ok(())
    }

    fn unavailable(&self, source: Source) -> Unavailable {
        Unavailable::Server { server: self.server.clone(), doing: self.doing, source }
    }
}
