//! An outage as everybody meets it who asks the same servers: it begins with the first question that is not answered,
//! whoever asked it, and ends with the answer to it. So it costs one patience, and not one for each question; and people are
//! told of it.

use std::collections::HashMap;
use std::fmt;
use std::pin::pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

use super::fault::{Fault, Source};
use super::note::Note;
use super::patience::{Budget, LONGEST_PAUSE, Patience};
use super::settings::NatsSettings;
use crate::error::Unavailable;

/// What people are told while a store is used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Waiting {
    /// It takes longer than people expect.
    Begun {
        server: String,
        /// What the last question got for an answer.
        why: String,
        /// When we give up, from now on.
        left: Duration,
    },
    /// It was told, and is over.
    Over { server: String, lasted: Duration },
    /// Something was made just now, and not as it was asked for.
    Made(Note),
}

impl fmt::Display for Waiting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Begun { server, why, left } => {
                let left = left.as_secs();
                write!(f, "waiting for the NATS server `{server}` ({why}); giving up in {left} s")
            }
            Self::Over { server, lasted } => {
                write!(f, "the NATS server `{server}` answers again, after {} s", lasted.as_secs())
            }
            Self::Made(note) => note.fmt(f),
        }
    }
}

/// Who is told. A plain function: it is called from wherever somebody happens to wait.
pub type Tell = fn(&Waiting);

/// For those who have nobody to tell.
pub(super) fn nobody(_: &Waiting) {}

/// Shorter outages are not worth a word.
const UNTOLD: Duration = Duration::from_secs(2);

/// Tells people of a connection that takes long: of three servers one may be silent, and then nobody knows what is waited for.
pub(super) async fn telling<T, E>(
    settings: &NatsSettings,
    longest: Duration,
    tell: Tell,
    connecting: impl Future<Output = Result<T, E>>,
) -> Result<T, E> {
    let (begun, mut connecting) = (Instant::now(), pin!(connecting));
    if let Ok(connected) = tokio::time::timeout(UNTOLD, &mut connecting).await {
        return connected;
    }
    let (server, why) = (settings.server(), "it does not answer".to_owned());
    let left = longest.saturating_sub(begun.elapsed());
    tell(&Waiting::Begun { server, why, left });
    let connected = connecting.await;
    if connected.is_ok() {
        tell(&Waiting::Over { server: settings.server(), lasted: begun.elapsed() });
    }
    connected
}

/// The outages of one connection.
#[derive(Debug)]
pub(super) struct Outages {
    server: String,
    patience: Patience,
    tell: Tell,
    now: Mutex<Outage>,
}

#[derive(Debug, Default)]
struct Outage {
    missing: HashMap<Question, Missing>,
    /// When a question was last answered while others were not: for it the outage has begun no earlier.
    heard: HashMap<Question, Instant>,
    /// Since when the outage has been that people were told of.
    told: Option<Instant>,
}

/// A stream can be readable and take no writes; and one can have a leader while another has none.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Question {
    stream: String,
    writes: bool,
}

impl Question {
    fn new(stream: &str, writes: bool) -> Self {
        Self { stream: stream.to_owned(), writes }
    }
}

/// A question that has no answer yet.
#[derive(Debug)]
struct Missing {
    since: Instant,
    last: Instant,
}

/// A question that is being asked.
#[derive(Debug, Clone)]
pub(super) struct Asked {
    outages: Arc<Outages>,
    question: Question,
}

impl Outages {
    pub(super) fn new(settings: &NatsSettings, tell: Tell) -> Arc<Self> {
        let (server, patience) = (settings.server(), settings.patience);
        Arc::new(Self { server, patience, tell, now: Mutex::default() })
    }

    pub(super) fn reads(self: &Arc<Self>, stream: &str) -> Asked {
        self.asked(stream, false)
    }

    pub(super) fn writes(self: &Arc<Self>, stream: &str) -> Asked {
        self.asked(stream, true)
    }

    pub(super) fn tell(&self, news: &Waiting) {
        (self.tell)(news);
    }

    fn asked(self: &Arc<Self>, stream: &str, writes: bool) -> Asked {
        Asked { outages: Arc::clone(self), question: Question::new(stream, writes) }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Outage> {
        self.now.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whoever takes our writes can also be read.
    pub(super) fn answered(&self, stream: &str, writes: bool) {
        let mut outage = self.lock();
        let Some(last) = outage.missing.values().map(|missing| missing.last).max() else { return };
        let now = Instant::now();
        outage.missing.retain(|question, _| question.stream != stream || (question.writes && !writes));
        self.forget(&mut outage, now);
        if !outage.missing.is_empty() {
            let answered = [false, true].into_iter().filter(|is_write| writes || !is_write);
            outage.heard.extend(answered.map(|writes| (Question::new(stream, writes), now)));
            return;
        }
        outage.heard.clear();
        if let Some(since) = outage.told.take() {
            drop(outage);
            // Where nobody has asked for long it was over long ago.
            let end = if self.is_of_now(last, now) { now } else { last };
            (self.tell)(&Waiting::Over { server: self.server.clone(), lasted: end.duration_since(since) });
        }
    }

    /// A question that nobody asks any more says nothing of now.
    fn forget(&self, outage: &mut Outage, now: Instant) {
        outage.missing.retain(|_, missing| self.is_of_now(missing.last, now));
    }

    fn is_of_now(&self, last: Instant, now: Instant) -> bool {
        now.duration_since(last) <= self.patience.answer * 2 + LONGEST_PAUSE
    }

    /// Since when there has been an outage for whoever asks this question, now that it was not answered.
    fn missed(&self, question: &Question, asked_at: Instant, now: Instant, why: &Source) -> Instant {
        let mut outage = self.lock();
        self.forget(&mut outage, now);
        if outage.missing.is_empty() {
            *outage = Outage::default();
        }
        // Whoever listens has asked long ago, and was heard until now.
        let since = now.checked_sub(self.patience.answer).map_or(asked_at, |heard| heard.max(asked_at));
        let missing = outage.missing.entry(question.clone()).or_insert(Missing { since, last: now });
        missing.last = now;
        let since = outage.missing.values().map(|missing| missing.since).min().unwrap_or(now);
        let since = outage.heard.get(question).map_or(since, |heard| since.max(*heard));
        let lasted = now.duration_since(since);
        let left = self.patience.outage.saturating_sub(lasted);
        if lasted >= UNTOLD && !left.is_zero() && outage.told.is_none() {
            outage.told = Some(since);
            drop(outage);
            let (server, why) = (self.server.clone(), why.to_string());
            (self.tell)(&Waiting::Begun { server, why, left });
        }
        since
    }
}

impl Asked {
    pub(super) fn missed(&self, asked_at: Instant, now: Instant, why: &Source) -> Instant {
        self.outages.missed(&self.question, asked_at, now, why)
    }

    /// What is left of our patience with the servers.
    pub(super) fn budget(self, doing: &'static str) -> Budget {
        let Outages { server, patience, .. } = &*self.outages;
        let (server, length) = (server.clone(), patience.outage);
        Budget::shared(&server, doing, length, self)
    }

    /// Asks until there is an answer, or our patience is at its end.
    pub(super) async fn insist<T, A: Future<Output = Result<T, Fault>>>(
        self,
        doing: &'static str,
        mut ask: impl FnMut() -> A,
    ) -> Result<T, Unavailable> {
        let mut outage = self.clone().budget(doing);
        loop {
            match ask().await {
                Ok(answer) => {
                    self.outages.answered(&self.question.stream, self.question.writes);
                    return Ok(answer);
                }
                Err(fault) => outage.bear(fault).await?,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn outages(tell: Tell) -> Arc<Outages> {
        Outages::new(&"nats://one".parse().unwrap(), tell)
    }

    async fn give_up(asked: Asked) -> Unavailable {
        let asked = asked.insist("ask", async || Err::<(), _>(Fault::passing("no leader")));
        asked.await.unwrap_err()
    }

    #[tokio::test(start_paused = true)]
    async fn an_outage_costs_one_patience_whatever_is_asked() {
        let (outages, begin) = (outages(nobody), Instant::now());
        give_up(outages.writes("journal")).await;
        assert!(begin.elapsed() >= Patience::default().outage);
        let begin = Instant::now();
        for asked in [outages.reads("journal"), outages.writes("leases"), outages.reads("blobs")] {
            give_up(asked).await;
        }
        assert!(begin.elapsed().is_zero(), "the same outage: nobody waits again");
    }

    #[tokio::test(start_paused = true)]
    async fn an_answer_ends_an_outage_and_the_next_one_is_waited_for_anew() {
        let outages = outages(nobody);
        give_up(outages.reads("journal")).await;
        outages.reads("journal").insist("ask", async || Ok(())).await.unwrap();
        let begin = Instant::now();
        give_up(outages.reads("journal")).await;
        assert!(begin.elapsed() >= Patience::default().outage);
    }

    /// As when a cluster has lost its majority: its last leader may still be read.
    #[tokio::test(start_paused = true)]
    async fn who_can_read_is_not_told_that_writes_are_taken() {
        let outages = outages(nobody);
        give_up(outages.writes("journal")).await;
        outages.reads("journal").insist("ask", async || Ok(())).await.unwrap();
        outages.writes("leases").insist("ask", async || Ok(())).await.unwrap();
        let begin = Instant::now();
        give_up(outages.writes("journal")).await;
        assert!(begin.elapsed().is_zero());
    }

    #[tokio::test(start_paused = true)]
    async fn a_question_that_nobody_repeats_is_of_an_outage_of_long_ago() {
        let outages = outages(nobody);
        give_up(outages.reads("blobs")).await;
        tokio::time::advance(Duration::from_secs(3600)).await;
        let begin = Instant::now();
        give_up(outages.reads("journal")).await;
        assert!(begin.elapsed() >= Patience::default().outage);
    }

    /// As when a stream has lost its leader for good: the others need no patience of its own.
    #[tokio::test(start_paused = true)]
    async fn a_stream_that_answers_is_waited_for_though_another_was_given_up() {
        for writes in [false, true] {
            let outages = outages(nobody);
            give_up(outages.writes("leases")).await;
            outages.writes("journal").insist("ask", async || Ok(())).await.unwrap();
            let begin = Instant::now();
            give_up(outages.asked("journal", writes)).await;
            assert!(begin.elapsed() >= Patience::default().outage);
        }
    }

    /// As when a write has landed unheard and was found by reading: nobody writes it again.
    #[tokio::test(start_paused = true)]
    async fn that_it_is_over_is_told_also_if_nobody_repeats_the_question() {
        static TOLD: Mutex<Vec<String>> = Mutex::new(Vec::new());
        let outages = outages(|news| TOLD.lock().unwrap().push(news.to_string()));
        let mut outage = outages.writes("journal").budget("commit to");
        for _ in 0..12 {
            outage.bear(Fault::passing("no leader")).await.unwrap();
        }
        tokio::time::advance(Duration::from_secs(3600)).await;
        outages.reads("leases").insist("ask", async || Ok(())).await.unwrap();
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
        let asked = || std::future::ready(times.next().map_or(Ok(()), |_| Err(Fault::passing("no leader"))));
        outages.reads("journal").insist("ask", asked).await.unwrap();
        outages.reads("journal").insist("ask", async || Ok(())).await.unwrap();
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
            let tell = |news: &Waiting| TOLD.lock().unwrap().push(news.to_string());
            let _ = telling(&settings, Duration::from_secs(10), tell, connecting).await;
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
        let asked = || std::future::ready(times.next().map_or(Ok(()), |_| Err(Fault::passing("no leader"))));
        outages.reads("journal").insist("ask", asked).await.unwrap();
    }
}
