//! Timeouts, and the back-off between retries.

use std::time::Duration;

use tokio::time::Instant;

use super::failure::{BoxError, RequestFailure, describe};
use super::outage::TrackedRequests;
use crate::error::Unavailable;
use crate::store::DEFAULT_CONFLICT_TIMEOUT;

/// How long to wait for a request, a conflict and an outage.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Timeouts {
    /// For the answer to one request.
    pub request: Duration,
    /// For conflicts with other writers of one subject.
    pub conflict: Duration,
    /// For servers that do not answer or have no leader. An election after a crash takes 4 to 9 seconds.
    pub outage: Duration,
}

impl Default for Timeouts {
    fn default() -> Self {
        Self {
            request: Duration::from_secs(5),
            conflict: DEFAULT_CONFLICT_TIMEOUT,
            outage: Duration::from_secs(60),
        }
    }
}

/// The first pause, and the longest.
const FIRST_PAUSE: Duration = Duration::from_millis(20);
pub(super) const LONGEST_PAUSE: Duration = Duration::from_secs(1);

/// A back-off between retries, with a deadline. The time counts from the first failure.
#[derive(Debug)]
pub(in crate::nats) struct Backoff {
    server: String,
    doing: &'static str,
    timeout: Duration,
    /// When the first failure was, or the outage that it belongs to started.
    since: Option<Instant>,
    /// When the current request was started.
    started: Instant,
    pause: Duration,
    /// Set for an outage: the time then counts from the first failure of any request. Not set for a conflict.
    requests: Option<TrackedRequests>,
}

impl Backoff {
    /// Counts the timeout from the first call of [`wait`](Self::wait).
    pub(super) fn with_own_timeout(server: &str, doing: &'static str, timeout: Duration) -> Self {
        let (server, started) = (server.to_owned(), Instant::now());
        Self { server, doing, timeout, since: None, started, pause: FIRST_PAUSE, requests: None }
    }

    /// Counts the timeout from the start of the outage, which all requests of a session share.
    pub(super) fn for_outage(
        server: &str,
        doing: &'static str,
        timeout: Duration,
        requests: TrackedRequests,
    ) -> Self {
        Self { requests: Some(requests), ..Self::with_own_timeout(server, doing, timeout) }
    }

    /// Sleeps after a failure, longer each time. Fails if a retry cannot succeed, or the deadline has passed.
    pub(in crate::nats) async fn wait(&mut self, failure: RequestFailure) -> Result<(), Unavailable> {
        let source = match failure {
            RequestFailure::Temporary(source)
            | RequestFailure::Unanswered(source)
            | RequestFailure::WrongSequence(source) => describe(source),
            RequestFailure::StreamDeleted { stream } => {
                return Err(Unavailable::StreamDeleted { server: self.server.clone(), stream });
            }
            RequestFailure::StoreReplaced => {
                return Err(Unavailable::StoreReplaced { server: self.server.clone() });
            }
            RequestFailure::Permanent(source) => return Err(self.unavailable(source)),
        };
        let now = Instant::now();
        let outage_start = self
            .requests
            .as_ref()
            .map_or(now, |requests| requests.record_failure(self.started, now, &source));
        let since = outage_start.min(*self.since.get_or_insert(outage_start));
        if now >= since + self.timeout {
            // Yield before failing: without a connection requests fail without waiting, and the client's task must run
            // to reconnect.
            tokio::task::yield_now().await;
            return Err(self.unavailable(source));
        }
        // Jitter, so that competing writers do not collide again.
        tokio::time::sleep(self.pause.mul_f64(0.5 + fastrand::f64() / 2.0)).await;
        self.pause = (self.pause * 2).min(LONGEST_PAUSE);
        self.started = Instant::now();
        Ok(())
    }

    fn unavailable(&self, source: BoxError) -> Unavailable {
        Unavailable::Server { server: self.server.clone(), doing: self.doing, source }
    }
}
