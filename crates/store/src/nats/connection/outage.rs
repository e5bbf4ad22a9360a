//! Outages, shared by all requests of a session.
//!
//! An outage starts with the first request that fails. It ends when no kind of request fails any more: each kind, reads
//! from one stream or writes to it, recovers with its next answer. All requests share one outage timeout instead of
//! waiting for it one after the other, and the outage is reported to the user once.

use std::collections::HashMap;
use std::fmt;
use std::pin::pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

use super::failure::{BoxError, RequestFailure};
use super::settings::NatsSettings;
use super::timeouts::{Backoff, LONGEST_PAUSE, Timeouts};
use crate::error::Unavailable;
use crate::nats::health::NatsWarning;

/// What is reported to the user while a store is in use.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NatsNotice {
    /// The servers have not answered for longer than expected.
    Waiting {
        server: String,
        /// The error of the last request.
        why: String,
        /// The time until requests fail.
        left: Duration,
    },
    /// A reported outage is over.
    Recovered { server: String, lasted: Duration },
    /// A stream was just created with a configuration other than the requested one.
    Warning(NatsWarning),
}

impl fmt::Display for NatsNotice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Waiting { server, why, left } => {
                let left = left.as_secs();
                write!(f, "waiting for the NATS server `{server}` ({why}); giving up in {left} s")
            }
            Self::Recovered { server, lasted } => {
                write!(f, "the NATS server `{server}` answers again, after {} s", lasted.as_secs())
            }
            Self::Warning(warning) => warning.fmt(f),
        }
    }
}

/// Receives notices. A plain function, because it is called from any task that waits.
pub type NoticeHandler = fn(&NatsNotice);

/// Discards notices.
pub(in crate::nats) fn ignore_notices(_: &NatsNotice) {}

/// Shorter outages are not reported.
const REPORT_AFTER: Duration = Duration::from_secs(2);

/// Reports a connect that takes long: one of several servers may not answer.
pub(super) async fn report_slow_connect<T, E>(
    settings: &NatsSettings,
    timeout: Duration,
    notify: NoticeHandler,
    connecting: impl Future<Output = Result<T, E>>,
) -> Result<T, E> {
    let (started, mut connecting) = (Instant::now(), pin!(connecting));
    if let Ok(connected) = tokio::time::timeout(REPORT_AFTER, &mut connecting).await {
        return connected;
    }
    let (server, why) = (settings.server(), "no answer".to_owned());
    let left = timeout.saturating_sub(started.elapsed());
    notify(&NatsNotice::Waiting { server, why, left });
    let connected = connecting.await;
    if connected.is_ok() {
        notify(&NatsNotice::Recovered { server: settings.server(), lasted: started.elapsed() });
    }
    connected
}

/// Tracks the outages of one session.
#[derive(Debug)]
pub(in crate::nats) struct OutageTracker {
    server: String,
    timeouts: Timeouts,
    notify: NoticeHandler,
    state: Mutex<OutageState>,
}

#[derive(Debug, Default)]
struct OutageState {
    /// The kinds of requests that fail now.
    failing: HashMap<RequestKind, FailureTimes>,
    /// When a kind of request was last answered while others failed. If this kind fails next, its outage starts then.
    answered_at: HashMap<RequestKind, Instant>,
    /// The start of the outage that was reported.
    reported_since: Option<Instant>,
}

/// Reads from one stream, or writes to it. A stream may be readable without accepting writes, and one stream may have a
/// leader while another has none.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct RequestKind {
    stream: String,
    writes: bool,
}

impl RequestKind {
    fn new(stream: &str, writes: bool) -> Self {
        Self { stream: stream.to_owned(), writes }
    }
}

/// Since when a kind of request fails.
#[derive(Debug)]
struct FailureTimes {
    /// The start of the first request that failed, at most one request timeout before its failure.
    since: Instant,
    /// The last failure.
    last: Instant,
}

/// Retries the requests of one kind. Records their failures and answers in the tracker.
#[derive(Debug, Clone)]
pub(in crate::nats) struct TrackedRequests {
    outages: Arc<OutageTracker>,
    kind: RequestKind,
}

impl OutageTracker {
    pub(in crate::nats) fn new(settings: &NatsSettings, notify: NoticeHandler) -> Arc<Self> {
        let (server, timeouts) = (settings.server(), settings.timeouts);
        Arc::new(Self { server, timeouts, notify, state: Mutex::default() })
    }

    pub(in crate::nats) fn reads(self: &Arc<Self>, stream: &str) -> TrackedRequests {
        self.requests(stream, false)
    }

    pub(in crate::nats) fn writes(self: &Arc<Self>, stream: &str) -> TrackedRequests {
        self.requests(stream, true)
    }

    pub(in crate::nats) fn notify(&self, notice: &NatsNotice) {
        (self.notify)(notice);
    }

    fn requests(self: &Arc<Self>, stream: &str, writes: bool) -> TrackedRequests {
        TrackedRequests { outages: Arc::clone(self), kind: RequestKind::new(stream, writes) }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, OutageState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Records an answer. A stream that accepts writes is readable, too.
    pub(in crate::nats) fn record_answer(&self, stream: &str, writes: bool) {
        let mut outage = self.lock();
        let Some(last) = outage.failing.values().map(|failing| failing.last).max() else { return };
        let now = Instant::now();
        outage.failing.retain(|kind, _| kind.stream != stream || (kind.writes && !writes));
        self.drop_stale(&mut outage, now);
        if !outage.failing.is_empty() {
            let answered_kinds = [false, true].into_iter().filter(|is_write| writes || !is_write);
            outage
                .answered_at
                .extend(answered_kinds.map(|is_write| (RequestKind::new(stream, is_write), now)));
            return;
        }
        outage.answered_at.clear();
        if let Some(since) = outage.reported_since.take() {
            drop(outage);
            // If the last failure is long ago, the outage may have ended unnoticed: count up to that failure.
            let end = if self.is_recent(last, now) { now } else { last };
            (self.notify)(&NatsNotice::Recovered {
                server: self.server.clone(),
                lasted: end.duration_since(since),
            });
        }
    }

    /// Drops failures that are too old to say anything about the servers now.
    fn drop_stale(&self, outage: &mut OutageState, now: Instant) {
        outage.failing.retain(|_, failing| self.is_recent(failing.last, now));
    }

    fn is_recent(&self, last: Instant, now: Instant) -> bool {
        now.duration_since(last) <= self.timeouts.request * 2 + LONGEST_PAUSE
    }

    /// Records a failed request, and returns when the outage started for requests of this kind.
    fn record_failure(&self, kind: &RequestKind, started: Instant, now: Instant, why: &BoxError) -> Instant {
        let mut outage = self.lock();
        self.drop_stale(&mut outage, now);
        if outage.failing.is_empty() {
            *outage = OutageState::default();
        }
        // A request may be a subscription that was opened long ago. It was served at least until one request timeout ago.
        let since = now.checked_sub(self.timeouts.request).map_or(started, |latest| latest.max(started));
        let failing = outage.failing.entry(kind.clone()).or_insert(FailureTimes { since, last: now });
        failing.last = now;
        let since = outage.failing.values().map(|failing| failing.since).min().unwrap_or(now);
        let since = outage.answered_at.get(kind).map_or(since, |answered| since.max(*answered));
        let lasted = now.duration_since(since);
        let left = self.timeouts.outage.saturating_sub(lasted);
        if lasted >= REPORT_AFTER && !left.is_zero() && outage.reported_since.is_none() {
            outage.reported_since = Some(since);
            drop(outage);
            let (server, why) = (self.server.clone(), why.to_string());
            (self.notify)(&NatsNotice::Waiting { server, why, left });
        }
        since
    }
}

impl TrackedRequests {
    pub(super) fn record_failure(&self, started: Instant, now: Instant, why: &BoxError) -> Instant {
        self.outages.record_failure(&self.kind, started, now, why)
    }

    /// Returns a back-off bounded by the outage timeout.
    pub(in crate::nats) fn backoff(self, doing: &'static str) -> Backoff {
        let OutageTracker { server, timeouts, .. } = &*self.outages;
        let (server, timeout) = (server.clone(), timeouts.outage);
        Backoff::for_outage(&server, doing, timeout, self)
    }

    /// Repeats a request until it is answered, or the outage timeout has passed.
    pub(in crate::nats) async fn retry<T, A: Future<Output = Result<T, RequestFailure>>>(
        self,
        doing: &'static str,
        mut request: impl FnMut() -> A,
    ) -> Result<T, Unavailable> {
        let mut outage = self.clone().backoff(doing);
        loop {
            match request().await {
                Ok(answer) => {
                    self.outages.record_answer(&self.kind.stream, self.kind.writes);
                    return Ok(answer);
                }
                Err(failure) => outage.wait(failure).await?,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn outages(notify: NoticeHandler) -> Arc<OutageTracker> {
        OutageTracker::new(&"nats://one".parse().unwrap(), notify)
    }

    async fn fail(requests: TrackedRequests) -> Unavailable {
        let requests = requests.retry("ask", async || Err::<(), _>(RequestFailure::temporary("no leader")));
        requests.await.unwrap_err()
    }

    #[tokio::test(start_paused = true)]
    async fn all_requests_share_one_outage_timeout() {
        let (outages, begin) = (outages(ignore_notices), Instant::now());
        fail(outages.writes("journal")).await;
        assert!(begin.elapsed() >= Timeouts::default().outage);
        let begin = Instant::now();
        for requests in [outages.reads("journal"), outages.writes("leases"), outages.reads("blobs")] {
            fail(requests).await;
        }
        assert!(begin.elapsed().is_zero(), "the same outage is not waited for twice");
    }

    #[tokio::test(start_paused = true)]
    async fn an_answer_ends_an_outage_and_the_next_one_has_its_own_timeout() {
        let outages = outages(ignore_notices);
        fail(outages.reads("journal")).await;
        outages.reads("journal").retry("ask", async || Ok(())).await.unwrap();
        let begin = Instant::now();
        fail(outages.reads("journal")).await;
        assert!(begin.elapsed() >= Timeouts::default().outage);
    }

    /// A stream of a cluster without a majority may still be readable.
    #[tokio::test(start_paused = true)]
    async fn a_readable_stream_does_not_end_an_outage_of_writes() {
        let outages = outages(ignore_notices);
        fail(outages.writes("journal")).await;
        outages.reads("journal").retry("ask", async || Ok(())).await.unwrap();
        outages.writes("leases").retry("ask", async || Ok(())).await.unwrap();
        let begin = Instant::now();
        fail(outages.writes("journal")).await;
        assert!(begin.elapsed().is_zero());
    }

    #[tokio::test(start_paused = true)]
    async fn a_failure_that_is_not_repeated_expires() {
        let outages = outages(ignore_notices);
        fail(outages.reads("blobs")).await;
        tokio::time::advance(Duration::from_secs(3600)).await;
        let begin = Instant::now();
        fail(outages.reads("journal")).await;
        assert!(begin.elapsed() >= Timeouts::default().outage);
    }

    /// One stream may have lost its leader for good.
    #[tokio::test(start_paused = true)]
    async fn a_stream_that_answers_has_its_own_timeout_though_another_has_failed() {
        for writes in [false, true] {
            let outages = outages(ignore_notices);
            fail(outages.writes("leases")).await;
            outages.writes("journal").retry("ask", async || Ok(())).await.unwrap();
            let begin = Instant::now();
            fail(outages.requests("journal", writes)).await;
            assert!(begin.elapsed() >= Timeouts::default().outage);
        }
    }

    /// A write that was not acknowledged may turn out to be stored when the stream is read. Then it is not repeated.
    #[tokio::test(start_paused = true)]
    async fn recovery_is_reported_even_if_the_failed_request_is_not_repeated() {
        static REPORTED: Mutex<Vec<String>> = Mutex::new(Vec::new());
        let outages = outages(|notice| REPORTED.lock().unwrap().push(notice.to_string()));
        let mut outage = outages.writes("journal").backoff("commit to");
        for _ in 0..12 {
            outage.wait(RequestFailure::temporary("no leader")).await.unwrap();
        }
        tokio::time::advance(Duration::from_secs(3600)).await;
        outages.reads("leases").retry("ask", async || Ok(())).await.unwrap();
        let reported = std::mem::take(&mut *REPORTED.lock().unwrap());
        let [_, recovered] = &reported[..] else { panic!("{reported:?}") };
        let lasted = recovered.split(' ').rev().nth(1).and_then(|seconds| seconds.parse().ok());
        assert!((1..60).contains(&lasted.unwrap_or(0)), "{recovered}");
    }

    #[tokio::test(start_paused = true)]
    async fn an_outage_is_reported_once_and_its_end_once() {
        static REPORTED: Mutex<Vec<String>> = Mutex::new(Vec::new());
        let outages = outages(|notice| REPORTED.lock().unwrap().push(notice.to_string()));
        let mut failures = 0..12;
        let requests = || {
            std::future::ready(
                failures.next().map_or(Ok(()), |_| Err(RequestFailure::temporary("no leader"))),
            )
        };
        outages.reads("journal").retry("ask", requests).await.unwrap();
        outages.reads("journal").retry("ask", async || Ok(())).await.unwrap();
        let reported = std::mem::take(&mut *REPORTED.lock().unwrap());
        let [waiting, recovered] = &reported[..] else { panic!("{reported:?}") };
        assert!(
            waiting.starts_with("waiting for the NATS server `nats://one` (no leader); giving up in 5"),
            "{waiting}"
        );
        assert!(recovered.starts_with("the NATS server `nats://one` answers again, after "), "{recovered}");
    }

    #[tokio::test(start_paused = true)]
    async fn a_slow_connect_is_reported_and_a_fast_one_is_not() {
        static REPORTED: Mutex<Vec<String>> = Mutex::new(Vec::new());
        let settings = "nats://one,nats://two".parse().unwrap();
        let notices_of_connect = async |seconds, answer: Result<(), ()>| {
            let connecting = async {
                tokio::time::sleep(Duration::from_secs(seconds)).await;
                answer
            };
            let notify = |notice: &NatsNotice| REPORTED.lock().unwrap().push(notice.to_string());
            let _ = report_slow_connect(&settings, Duration::from_secs(10), notify, connecting).await;
            std::mem::take(&mut *REPORTED.lock().unwrap())
        };
        assert_eq!(notices_of_connect(1, Ok(())).await, [""; 0]);
        let waiting = "waiting for the NATS server `nats://one,nats://two` (no answer); giving up in 8 s";
        let recovered = "the NATS server `nats://one,nats://two` answers again, after 6 s";
        assert_eq!(notices_of_connect(6, Ok(())).await, [waiting, recovered]);
        assert_eq!(notices_of_connect(6, Err(())).await, [waiting], "the caller reports the error");
    }

    #[tokio::test(start_paused = true)]
    async fn a_short_outage_is_not_reported() {
        let outages = outages(|notice| panic!("{notice}"));
        let mut failures = 0..3;
        let requests = || {
            std::future::ready(
                failures.next().map_or(Ok(()), |_| Err(RequestFailure::temporary("no leader"))),
            )
        };
        outages.reads("journal").retry("ask", requests).await.unwrap();
    }
}
