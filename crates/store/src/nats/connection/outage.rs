//! An outage as everybody meets it who asks the same servers: it begins with the first question that is not answered,
//! whoever asked it, and ends with the answer to it. So it costs one patience, and not one for each question; and people are
//! told of it.

use std::collections::HashMap;
use std::fmt;
use std::pin::pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

use super::failure::{RequestFailure, Source};
use super::settings::NatsSettings;
use super::timeouts::{Backoff, LONGEST_PAUSE, Timeouts};
use crate::error::Unavailable;
use crate::nats::health::NatsWarning;

/// What people are told while a store is used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NatsNotice {
    /// It takes longer than people expect.
    Waiting {
        server: String,
        /// What the last question got for an answer.
        why: String,
        /// When we give up, from now on.
        left: Duration,
    },
    /// It was told, and is over.
    Recovered { server: String, lasted: Duration },
    /// Something was made just now, and not as it was asked for.
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
            Self::Warning(note) => note.fmt(f),
        }
    }
}

/// Who is told. A plain function: it is called from wherever somebody happens to wait.
pub type Notify = fn(&NatsNotice);

/// For those who have nobody to tell.
pub(in crate::nats) fn ignore(_: &NatsNotice) {}

/// Shorter outages are not worth a word.
const REPORT_AFTER: Duration = Duration::from_secs(2);

/// Tells people of a connection that takes long: of three servers one may be silent, and then nobody knows what is waited for.
pub(in crate::nats) async fn report_slow_connect<T, E>(
    settings: &NatsSettings,
    longest: Duration,
    notify: Notify,
    connecting: impl Future<Output = Result<T, E>>,
) -> Result<T, E> {
    let (begun, mut connecting) = (Instant::now(), pin!(connecting));
    if let Ok(connected) = tokio::time::timeout(REPORT_AFTER, &mut connecting).await {
        return connected;
    }
    let (server, why) = (settings.server(), "it does not answer".to_owned());
    let left = longest.saturating_sub(begun.elapsed());
    notify(&NatsNotice::Waiting { server, why, left });
    let connected = connecting.await;
    if connected.is_ok() {
        notify(&NatsNotice::Recovered { server: settings.server(), lasted: begun.elapsed() });
    }
    connected
}

/// The outages of one connection.
#[derive(Debug)]
pub(in crate::nats) struct OutageTracker {
    server: String,
    timeouts: Timeouts,
    notify: Notify,
    now: Mutex<OutageState>,
}

#[derive(Debug, Default)]
struct OutageState {
    unanswered: HashMap<RequestKind, Unanswered>,
    /// When a question was last answered while others were not: for it the outage has begun no earlier.
    answered_at: HashMap<RequestKind, Instant>,
    /// Since when the outage has been that people were told of.
    reported_since: Option<Instant>,
}

/// A stream can be readable and take no writes; and one can have a leader while another has none.
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

/// A question that has no answer yet.
#[derive(Debug)]
struct Unanswered {
    since: Instant,
    last: Instant,
}

/// A question that is being asked.
#[derive(Debug, Clone)]
pub(in crate::nats) struct Requests {
    outages: Arc<OutageTracker>,
    question: RequestKind,
}

impl OutageTracker {
    pub(in crate::nats) fn new(settings: &NatsSettings, notify: Notify) -> Arc<Self> {
        let (server, timeouts) = (settings.server(), settings.timeouts);
        Arc::new(Self { server, timeouts, notify, now: Mutex::default() })
    }

    pub(in crate::nats) fn reads(self: &Arc<Self>, stream: &str) -> Requests {
        self.requests(stream, false)
    }

    pub(in crate::nats) fn writes(self: &Arc<Self>, stream: &str) -> Requests {
        self.requests(stream, true)
    }

    pub(in crate::nats) fn notify(&self, news: &NatsNotice) {
        (self.notify)(news);
    }

    fn requests(self: &Arc<Self>, stream: &str, writes: bool) -> Requests {
        Requests { outages: Arc::clone(self), question: RequestKind::new(stream, writes) }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, OutageState> {
        self.now.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whoever takes our writes can also be read.
    pub(in crate::nats) fn record_answer(&self, stream: &str, writes: bool) {
        let mut outage = self.lock();
        let Some(last) = outage.unanswered.values().map(|unanswered| unanswered.last).max() else { return };
        let now = Instant::now();
        outage.unanswered.retain(|question, _| question.stream != stream || (question.writes && !writes));
        self.drop_stale(&mut outage, now);
        if !outage.unanswered.is_empty() {
            let answered = [false, true].into_iter().filter(|is_write| writes || !is_write);
            outage.answered_at.extend(answered.map(|writes| (RequestKind::new(stream, writes), now)));
            return;
        }
        outage.answered_at.clear();
        if let Some(since) = outage.reported_since.take() {
            drop(outage);
            // Where nobody has asked for long it was over long ago.
            let end = if self.is_recent(last, now) { now } else { last };
            (self.notify)(&NatsNotice::Recovered {
                server: self.server.clone(),
                lasted: end.duration_since(since),
            });
        }
    }

    /// A question that nobody asks any more says nothing of now.
    fn drop_stale(&self, outage: &mut OutageState, now: Instant) {
        outage.unanswered.retain(|_, unanswered| self.is_recent(unanswered.last, now));
    }

    fn is_recent(&self, last: Instant, now: Instant) -> bool {
        now.duration_since(last) <= self.timeouts.request * 2 + LONGEST_PAUSE
    }

    /// Since when there has been an outage for whoever asks this question, now that it was not answered.
    fn record_failure(
        &self,
        question: &RequestKind,
        started: Instant,
        now: Instant,
        why: &Source,
    ) -> Instant {
        let mut outage = self.lock();
        self.drop_stale(&mut outage, now);
        if outage.unanswered.is_empty() {
            *outage = OutageState::default();
        }
        // Whoever listens has asked long ago, and was heard until now.
        let since = now.checked_sub(self.timeouts.request).map_or(started, |heard| heard.max(started));
        let unanswered = outage.unanswered.entry(question.clone()).or_insert(Unanswered { since, last: now });
        unanswered.last = now;
        let since = outage.unanswered.values().map(|unanswered| unanswered.since).min().unwrap_or(now);
        let since = outage.answered_at.get(question).map_or(since, |heard| since.max(*heard));
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

impl Requests {
    pub(in crate::nats) fn record_failure(&self, started: Instant, now: Instant, why: &Source) -> Instant {
        self.outages.record_failure(&self.question, started, now, why)
    }

    /// What is left of our patience with the servers.
    pub(in crate::nats) fn backoff(self, doing: &'static str) -> Backoff {
        let OutageTracker { server, timeouts, .. } = &*self.outages;
        let (server, length) = (server.clone(), timeouts.outage);
        Backoff::for_outage(&server, doing, length, self)
    }

    /// Asks until there is an answer, or our patience is at its end.
    pub(in crate::nats) async fn retry<T, A: Future<Output = Result<T, RequestFailure>>>(
        self,
        doing: &'static str,
        mut ask: impl FnMut() -> A,
    ) -> Result<T, Unavailable> {
        let mut outage = self.clone().backoff(doing);
        loop {
            match ask().await {
                Ok(answer) => {
                    self.outages.record_answer(&self.question.stream, self.question.writes);
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

    fn outages(notify: Notify) -> Arc<OutageTracker> {
        OutageTracker::new(&"nats://one".parse().unwrap(), notify)
    }

    async fn give_up(requests: Requests) -> Unavailable {
        let requests = requests.retry("ask", async || Err::<(), _>(RequestFailure::temporary("no leader")));
        requests.await.unwrap_err()
    }

    #[tokio::test(start_paused = true)]
    async fn an_outage_costs_one_patience_whatever_is_asked() {
        let (outages, begin) = (outages(ignore), Instant::now());
        give_up(outages.writes("journal")).await;
        assert!(begin.elapsed() >= Timeouts::default().outage);
        let begin = Instant::now();
        for requests in [outages.reads("journal"), outages.writes("leases"), outages.reads("blobs")] {
            give_up(requests).await;
        }
        assert!(begin.elapsed().is_zero(), "the same outage: nobody waits again");
    }

    #[tokio::test(start_paused = true)]
    async fn an_answer_ends_an_outage_and_the_next_one_is_waited_for_anew() {
        let outages = outages(ignore);
        give_up(outages.reads("journal")).await;
        outages.reads("journal").retry("ask", async || Ok(())).await.unwrap();
        let begin = Instant::now();
        give_up(outages.reads("journal")).await;
        assert!(begin.elapsed() >= Timeouts::default().outage);
    }

    /// As when a cluster has lost its majority: its last leader may still be read.
    #[tokio::test(start_paused = true)]
    async fn who_can_read_is_not_told_that_writes_are_taken() {
        let outages = outages(ignore);
        give_up(outages.writes("journal")).await;
        outages.reads("journal").retry("ask", async || Ok(())).await.unwrap();
        outages.writes("leases").retry("ask", async || Ok(())).await.unwrap();
        let begin = Instant::now();
        give_up(outages.writes("journal")).await;
        assert!(begin.elapsed().is_zero());
    }

    #[tokio::test(start_paused = true)]
    async fn a_question_that_nobody_repeats_is_of_an_outage_of_long_ago() {
        let outages = outages(ignore);
        give_up(outages.reads("blobs")).await;
        tokio::time::advance(Duration::from_secs(3600)).await;
        let begin = Instant::now();
        give_up(outages.reads("journal")).await;
        assert!(begin.elapsed() >= Timeouts::default().outage);
    }

    /// As when a stream has lost its leader for good: the others need no patience of its own.
    #[tokio::test(start_paused = true)]
    async fn a_stream_that_answers_is_waited_for_though_another_was_given_up() {
        for writes in [false, true] {
            let outages = outages(ignore);
            give_up(outages.writes("leases")).await;
            outages.writes("journal").retry("ask", async || Ok(())).await.unwrap();
            let begin = Instant::now();
            give_up(outages.requests("journal", writes)).await;
            assert!(begin.elapsed() >= Timeouts::default().outage);
        }
    }

    /// As when a write has landed unheard and was found by reading: nobody writes it again.
    #[tokio::test(start_paused = true)]
    async fn that_it_is_over_is_told_also_if_nobody_repeats_the_question() {
        static TOLD: Mutex<Vec<String>> = Mutex::new(Vec::new());
        let outages = outages(|news| TOLD.lock().unwrap().push(news.to_string()));
        let mut outage = outages.writes("journal").backoff("commit to");
        for _ in 0..12 {
            outage.wait(RequestFailure::temporary("no leader")).await.unwrap();
        }
        tokio::time::advance(Duration::from_secs(3600)).await;
        outages.reads("leases").retry("ask", async || Ok(())).await.unwrap();
        let told = std::mem::take(&mut *TOLD.lock().unwrap());
        let [_, over] = &told[..] else { panic!("{told:?}") };
        let lasted = over.split(' ').rev().nth(1).and_then(|seconds| seconds.parse().ok());
        assert!((1..60).contains(&lasted.unwrap_or(0)), "{over}");
    }

    #[tokio::test(start_paused = true)]
    async fn people_are_told_once_that_we_wait_and_once_that_it_is_over() {
        static TOLD: Mutex<Vec<String>> = Mutex::new(Vec::new());
        let outages = outages(|news| TOLD.lock().unwrap().push(news.to_string()));
        let mut times = 0..12;
        let requests = || {
            std::future::ready(times.next().map_or(Ok(()), |_| Err(RequestFailure::temporary("no leader"))))
        };
        outages.reads("journal").retry("ask", requests).await.unwrap();
        outages.reads("journal").retry("ask", async || Ok(())).await.unwrap();
        let told = std::mem::take(&mut *TOLD.lock().unwrap());
        let [begun, over] = &told[..] else { panic!("{told:?}") };
        assert!(
            begun.starts_with("waiting for the NATS server `nats://one` (no leader); giving up in 5"),
            "{begun}"
        );
        assert!(over.starts_with("the NATS server `nats://one` answers again, after "), "{over}");
    }

    #[tokio::test(start_paused = true)]
    async fn a_connection_that_takes_long_is_told_and_a_quick_one_is_not() {
        static TOLD: Mutex<Vec<String>> = Mutex::new(Vec::new());
        let settings = "nats://one,nats://two".parse().unwrap();
        let took = async |seconds, answer: Result<(), ()>| {
            let connecting = async {
                tokio::time::sleep(Duration::from_secs(seconds)).await;
                answer
            };
            let notify = |news: &NatsNotice| TOLD.lock().unwrap().push(news.to_string());
            let _ = report_slow_connect(&settings, Duration::from_secs(10), notify, connecting).await;
            std::mem::take(&mut *TOLD.lock().unwrap())
        };
        assert_eq!(took(1, Ok(())).await, [""; 0]);
        let waiting =
            "waiting for the NATS server `nats://one,nats://two` (it does not answer); giving up in 8 s";
        let over = "the NATS server `nats://one,nats://two` answers again, after 6 s";
        assert_eq!(took(6, Ok(())).await, [waiting, over]);
        assert_eq!(took(6, Err(())).await, [waiting], "the error says the rest");
    }

    #[tokio::test(start_paused = true)]
    async fn nobody_is_told_of_a_moment() {
        let outages = outages(|news| panic!("{news}"));
        let mut times = 0..3;
        let requests = || {
            std::future::ready(times.next().map_or(Ok(()), |_| Err(RequestFailure::temporary("no leader"))))
        };
        outages.reads("journal").retry("ask", requests).await.unwrap();
    }
}
