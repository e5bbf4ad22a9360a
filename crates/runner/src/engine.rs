//! The loop: one input, one decision, one commit, then the actions; and again.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use protocol::entry::{Evidence, Input};
use protocol::run::{
    Absorbed, Action, Attempt, Decision, Ending, Fact, Halt, Phase, Posture, Refusal, Request, Run, absorb,
    consider, proceed, seat_waiting,
};
use protocol::{AttemptId, Outcome, Protocol, Revision, RunId, View};
use store::{CommitError, Lead, LeadError, ReadError, Store, WriteError};
use supervisor::{Lookout, Shutdown};
use tokio::sync::mpsc;
use tokio::time::Instant;

use crate::attempt::{self, Cast, Happening, Lost, Orders};
use crate::house::House;
use crate::journal::{Journal, LoadError, Luggage};
use crate::notice::{Notice, Observer};
use crate::verdict::{Judge, Judged};
use crate::views::{Firmness, Views};

/// How an engine leaves its run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Rest {
    Finished(Outcome),
    Halted(Halt),
    /// Told three times to go: attempts may be alive, and can be adopted.
    Abandoned,
}

/// Why an engine had to stop. What was committed stands, attempts work on, `resume` goes on from there.
#[derive(Debug, thiserror::Error)]
pub enum EngineError {
    #[error("there is no run `{0}`")]
    NoSuchRun(RunId),
    #[error(transparent)]
    Lead(#[from] LeadError),
    #[error(transparent)]
    Load(#[from] LoadError),
    #[error(transparent)]
    Read(#[from] ReadError),
    #[error(transparent)]
    Commit(#[from] CommitError),
    #[error(transparent)]
    Marks(#[from] WriteError),
    #[error("it was refused: {0}")]
    Refused(#[from] Refusal),
    #[error("nobody plays agent `{agent}`, which `{seat}` asks for")]
    NoPlayer { agent: String, seat: String },
    #[error("could not set up the watch over attempts")]
    Lookout(#[source] std::io::Error),
    #[error("could not attend `{attempt}`")]
    Attend { attempt: AttemptId, source: Lost },
    #[error("could not write `{}`", path.display())]
    View { path: PathBuf, source: std::io::Error },
}

/// The one process that acts for a run.
pub struct Engine<'o, P: Protocol, S: Store> {
    journal: Journal<P, S>,
    lead: Lead,
    house: House,
    lookout: Lookout,
    observer: &'o mut dyn Observer<P>,
    /// Attempts we attend.
    attended: BTreeMap<AttemptId, Orders>,
    news: mpsc::UnboundedSender<Happening<P::Seat>>,
    heard: mpsc::UnboundedReceiver<Happening<P::Seat>>,
    /// Actions that were carried out; the acknowledgement rides in the next commit.
    performed: BTreeSet<String>,
    views: Views,
    /// The document has changed since its view was written.
    view_is_stale: bool,
    /// The journal shows that we lead.
    introduced: bool,
    interrupts: u32,
}

impl<P: Protocol, S: Store> fmt::Debug for Engine<'_, P, S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Engine").field("run", &self.journal.run).field("attended", &self.attended).finish()
    }
}

impl<'o, P: Protocol, S: Store> Engine<'o, P, S> {
    /// Takes the lead of a run and loads it.
    pub async fn lead(
        store: &S,
        house: House,
        run: &RunId,
        observer: &'o mut dyn Observer<P>,
    ) -> Result<Self, EngineError> {
        let lead = store.lead(run).await?;
        let journal = Journal::load(store, &house.clock, run).await?;
        let journal = journal.ok_or_else(|| EngineError::NoSuchRun(run.clone()))?;
        let (news, heard) = mpsc::unbounded_channel();
        let quarantine = house.store_root.join("quarantine").join(run.as_str());
        Ok(Self {
            views: Views::new(&journal.views, quarantine),
            journal,
            lead,
            lookout: Lookout::new().map_err(EngineError::Lookout)?,
            house,
            observer,
            attended: BTreeMap::new(),
            news,
            heard,
            performed: BTreeSet::new(),
            view_is_stale: true,
            introduced: false,
            interrupts: 0,
        })
    }

    pub fn journal(&self) -> &Journal<P, S> {
        &self.journal
    }

    /// Acts until the run rests. `asked` is what the command that made us the engine wants of the run; each message
    /// on `interrupts` is one wish of the user that we go.
    pub async fn play(
        mut self,
        asked: Request<P::Seat>,
        mut interrupts: mpsc::UnboundedReceiver<()>,
    ) -> Result<Rest, EngineError> {
        // A request that will be refused is refused before anything moves.
        consider(&self.journal.frozen.definition, &mut self.journal.folded.run.clone(), &asked)?;
        // Watch first, look second: what is committed in between is seen twice, not missed.
        let watch = self.journal.store.watch(&self.journal.run, self.journal.position.revision).await?;
        let mut others = follow(watch);
        self.take_up()?;
        self.recognise_views().await?;
        self.request(asked).await?;
        loop {
            self.proceed().await?;
            self.perform()?;
            self.show();
            if let Some(rest) = self.rest() {
                return self.come_to_rest(rest).await;
            }
            let (timer, view_due) = (self.next_timer(), self.view_due());
            tokio::select! {
                Some(happening) = self.heard.recv() => self.absorb_happening(happening).await?,
                attempt = rested(timer) => self.absorb(Fact::Rested { attempt }, None).await?,
                () = until(view_due) => {}
                Some(newest) = others.recv() => {
                    if newest? > self.journal.position.revision {
                        self.catch_up().await?;
                    }
                }
                Some(()) = interrupts.recv() => {
                    if self.interrupt().await? {
                        return self.come_to_rest(Rest::Abandoned).await;
                    }
                }
            }
        }
    }

    /// Attends every attempt that may be alive: recovery is this, and nothing else.
    fn take_up(&mut self) -> Result<(), EngineError> {
        let seated: Vec<_> =
            self.journal.folded.run.seated().map(|(attempt, chair)| (attempt, chair.posture)).collect();
        let ids: Vec<_> = seated.iter().map(|(attempt, _)| Run::<P>::id(attempt)).collect();
        self.observer.notice(Notice::Leads { adopted: &ids });
        for (attempt, posture) in seated {
            self.attend(&attempt)?;
            match posture {
                Posture::Ending => self.order(&Run::<P>::id(&attempt), Shutdown::Once),
                Posture::Playing | Posture::Called | Posture::Resting => {}
            }
        }
        Ok(())
    }

    /// Finishes what an earlier engine may have left undone after its last commit: the views of that revision. They
    /// are known for ours before we change the document.
    async fn recognise_views(&mut self) -> Result<(), EngineError> {
        let revision = self.journal.position.revision;
        if let Some(last) = self.journal.entry(revision).await? {
            self.show_report(&last.input);
        }
        self.show_now();
        Ok(())
    }

    /// Carries out what the outbox holds.
    fn perform(&mut self) -> Result<(), EngineError> {
        let items = self.journal.outbox.iter().filter(|item| !self.performed.contains(&item.id));
        let items: Vec<_> = items.cloned().collect();
        for item in items {
            let action: Action<P::Seat> =
                serde_json::from_str(&item.body).expect("BUG: an action of ours cannot be read");
            match action {
                Action::Start { attempt } => self.attend(&attempt)?,
                Action::End { attempt } => self.order(&Run::<P>::id(&attempt), Shutdown::Once),
            }
            self.performed.insert(item.id);
        }
        Ok(())
    }

    /// Starts or adopts an attempt; one that is attended already, or over, needs nothing.
    fn attend(&mut self, attempt: &Attempt<P::Seat>) -> Result<(), EngineError> {
        let id = Run::<P>::id(attempt);
        let alive = self.journal.folded.run.seated().any(|(seated, _)| seated == *attempt);
        if !alive || self.attended.contains_key(&id) {
            return Ok(());
        }
        let Journal { frozen, document, .. } = &self.journal;
        let brief = P::brief(&frozen.definition, document, &attempt.seat, &id);
        let staging = self.house.staging(&frozen.staging);
        let player = self.house.player(&staging, &brief.agent).ok_or_else(|| EngineError::NoPlayer {
            agent: brief.agent.clone(),
            seat: attempt.seat.to_string(),
        })?;
        let artifacts_dir = P::artifacts_dir(&staging.stage);
        let cast = Cast::new(
            &self.house,
            &self.lookout,
            &frozen.staging,
            artifacts_dir,
            id.clone(),
            brief,
            player.clone(),
        );
        self.observer.notice(Notice::Output { attempt: &id, stdout: cast.dir.stdout() });
        let orders = attempt::attend(cast, attempt.clone(), self.news.clone());
        self.attended.insert(id, orders);
        Ok(())
    }

    fn order(&self, attempt: &AttemptId, shutdown: Shutdown) {
        if let Some(orders) = self.attended.get(attempt) {
            orders.end(shutdown);
        }
    }

    /// What the attempts' attendants tell.
    async fn absorb_happening(&mut self, happening: Happening<P::Seat>) -> Result<(), EngineError> {
        match happening {
            Happening::Lingers { attempt } => {
                self.observer.notice(Notice::Lingers { attempt: &attempt, grace: self.house.lingering });
                Ok(())
            }
            Happening::Lost { attempt, source } => Err(EngineError::Attend { attempt, source }),
            Happening::Over { attempt, cast, ended } => {
                self.attended.remove(&cast.attempt);
                let judge = Judge::<P> {
                    definition: &self.journal.frozen.definition,
                    seat: &attempt.seat,
                    cast: &cast,
                    boot_id: &self.house.boot_id,
                };
                let Judged { ending, evidence } = judge.judge(&ended);
                self.absorb(Fact::Over { attempt, ending }, Some(evidence)).await
            }
        }
    }

    /// Absorbs a fact, however often others are first: a fact is never given up.
    async fn absorb(
        &mut self,
        mut fact: Fact<P::Seat, P::Verdict>,
        mut evidence: Option<Evidence>,
    ) -> Result<(), EngineError> {
        loop {
            let Journal { frozen, folded, .. } = &mut self.journal;
            let mut decision = match absorb(&frozen.definition, &mut folded.run, fact.clone()) {
                Absorbed::Decided(decision) => decision,
                Absorbed::Ignored(stale) => {
                    tracing::debug!(run = %self.journal.run, ?fact, %stale, "ignored");
                    return Ok(());
                }
            };
            decision.append(seat_waiting(&frozen.definition, &mut folded.run, self.house.places));
            let input = Input::Fact { fact: fact.clone(), evidence: evidence.clone().map(Box::new) };
            match self.commit(input, decision).await {
                Ok(()) => return Ok(()),
                Err(CommitError::Conflict { .. }) => self.journal.reload().await?,
                Err(CommitError::TooLarge { size, limit }) => {
                    self.journal.reload().await?;
                    (fact, evidence) = too_large(fact, size, limit);
                }
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// Makes a request of our own and gives free places. What is already so needs no entry, except that the first
    /// request of an engine always has one: the journal shows who took the lead.
    async fn request(&mut self, request: Request<P::Seat>) -> Result<(), EngineError> {
        loop {
            let Journal { frozen, folded, .. } = &mut self.journal;
            let mut decision = consider(&frozen.definition, &mut folded.run, &request)?;
            decision.append(seat_waiting(&frozen.definition, &mut folded.run, self.house.places));
            if decision.is_nothing() && self.introduced {
                return Ok(());
            }
            match self.commit(Input::Request { request: request.clone(), reason: None }, decision).await {
                Ok(()) => {
                    self.introduced = true;
                    return Ok(());
                }
                Err(CommitError::Conflict { .. }) => self.journal.reload().await?,
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// Does what is due without any news, each thing in an entry of its own.
    async fn proceed(&mut self) -> Result<(), EngineError> {
        loop {
            let Journal { frozen, folded, .. } = &mut self.journal;
            let Some(mut decision) = proceed(&frozen.definition, &mut folded.run) else { return Ok(()) };
            decision.append(seat_waiting(&frozen.definition, &mut folded.run, self.house.places));
            match self.commit(Input::Due, decision).await {
                Ok(()) => {}
                Err(CommitError::Conflict { .. }) => self.journal.reload().await?,
                Err(error) => return Err(error.into()),
            }
        }
    }

    async fn commit(&mut self, input: Input<P>, decision: Decision<P>) -> Result<(), CommitError> {
        let luggage = Luggage {
            epoch: Some(self.lead.epoch()),
            acknowledged: self.performed.iter().cloned().collect(),
            views: self.views.take_marks(),
            backoff: self.house.backoff,
        };
        let marks = luggage.views.clone();
        let entry = match self.journal.commit(self.house.author.clone(), input, decision, luggage).await {
            Ok(entry) => entry,
            Err(error) => {
                self.views.give_back(marks);
                return Err(error);
            }
        };
        self.performed.clear();
        self.view_is_stale = true;
        let revision = self.journal.position.revision;
        tracing::debug!(run = %self.journal.run, %revision, changes = ?entry.changes, "committed");
        self.observer.notice(Notice::Committed { revision, entry: &entry });
        self.show_report(&entry.input);
        Ok(())
    }

    /// Somebody else has committed: read the run again; the loop performs what that brought.
    async fn catch_up(&mut self) -> Result<(), EngineError> {
        self.journal.reload().await?;
        self.view_is_stale = true;
        // A resumed run has places to give.
        let Journal { frozen, folded, .. } = &mut self.journal;
        let decision = seat_waiting(&frozen.definition, &mut folded.run, self.house.places);
        if decision.is_nothing() {
            return Ok(());
        }
        self.journal.reload().await?;
        self.request(Request::Resume).await
    }

    /// The user wants us to go: cleanly, at once, now. Says whether to abandon the attempts.
    async fn interrupt(&mut self) -> Result<bool, EngineError> {
        self.interrupts += 1;
        match self.interrupts {
            1 => self.request(Request::Interrupt).await?,
            2 => {
                for orders in self.attended.values() {
                    orders.end(Shutdown::Twice);
                }
            }
            _ => return Ok(true),
        }
        Ok(false)
    }

    fn rest(&self) -> Option<Rest> {
        if !self.attended.is_empty() {
            return None;
        }
        match self.journal.folded.run.phase {
            Phase::Finished(outcome) => Some(Rest::Finished(outcome)),
            Phase::Halted(halt) => Some(Rest::Halted(halt)),
            Phase::Open | Phase::Paused | Phase::Halting(_) | Phase::Draining(_) | Phase::Closing(_) => None,
        }
    }

    async fn come_to_rest(mut self, rest: Rest) -> Result<Rest, EngineError> {
        let view = P::view(&self.journal.document);
        let path = PathBuf::from(&view.path);
        self.write_view(&view, Firmness::AtRest).map_err(|source| EngineError::View { path, source })?;
        self.journal.store.mark_views(&self.journal.run, self.views.take_marks()).await?;
        Ok(rest)
    }

    /// Writes the document's view if it is stale and its time has come.
    fn show(&mut self) {
        if self.view_is_stale && self.views.not_before() <= std::time::Instant::now() {
            self.show_now();
        }
    }

    fn show_now(&mut self) {
        let view = P::view(&self.journal.document);
        match self.write_view(&view, Firmness::Paced) {
            Ok(()) => self.view_is_stale = false,
            Err(error) => {
                // Not lost: it stays stale, is tried again, and ends the command aloud if it still fails at rest.
                self.views.back_off();
                self.observer.notice(Notice::ViewFailed { view: PathBuf::from(&view.path), error: &error });
            }
        }
    }

    /// The latest report of a seat is a file of the seed's layout, too.
    fn show_report(&mut self, input: &Input<P>) {
        let Input::Fact { fact: Fact::Over { attempt, .. }, evidence: Some(evidence) } = input else {
            return;
        };
        let Some(report) = &evidence.report else { return };
        let Some(path) = P::report_path(&self.journal.document, &attempt.seat) else { return };
        let mut body = serde_json::to_string_pretty(report).expect("BUG: a report is plain data");
        body.push('\n');
        let view = View { path, body };
        if let Err(error) = self.write_view(&view, Firmness::Paced) {
            self.observer.notice(Notice::ViewFailed { view: PathBuf::from(&view.path), error: &error });
        }
    }

    fn write_view(&mut self, view: &View, firmness: Firmness) -> std::io::Result<()> {
        if let Some(aside) = self.views.write(view, self.journal.position.revision, firmness)? {
            self.observer.notice(Notice::SetAside { view: aside.view, kept: aside.kept });
        }
        Ok(())
    }

    fn view_due(&self) -> Option<Instant> {
        self.view_is_stale.then(|| self.views.not_before().into())
    }

    /// The back-off that elapses first, unless the run starts nothing now.
    fn next_timer(&self) -> Option<(Duration, Attempt<P::Seat>)> {
        let folded = &self.journal.folded;
        match folded.run.phase {
            Phase::Open => {}
            Phase::Paused
            | Phase::Halting(_)
            | Phase::Halted(_)
            | Phase::Draining(_)
            | Phase::Closing(_)
            | Phase::Finished(_) => return None,
        }
        let resting = folded.run.chairs.iter().filter(|(_, chair)| chair.posture == Posture::Resting);
        let now = self.house.clock.now();
        resting
            .map(|(seat, chair)| {
                let attempt = Attempt { seat: seat.clone(), turn: chair.turn, try_no: chair.try_no };
                let wait = folded.timers.get(&Run::<P>::id(&attempt)).map_or(Duration::ZERO, |timer| {
                    // Farther away than it was set for: the clock was set back meanwhile.
                    timer.due.since(now).min(Duration::from_millis(timer.length_ms))
                });
                (wait, attempt)
            })
            .min()
    }
}

/// A report that no commit can hold is unfit.
fn too_large<S, V>(fact: Fact<S, V>, size: usize, limit: usize) -> (Fact<S, V>, Option<Evidence>) {
    let error = format!("Agent report is too large: {size} bytes with its commit, the limit is {limit}");
    let fact = match fact {
        Fact::Over { attempt, .. } => Fact::Over { attempt, ending: Ending::Failed },
        Fact::Rested { attempt } => Fact::Rested { attempt },
    };
    (fact, Some(Evidence { error: Some(error), ..Evidence::default() }))
}

/// Follows the journal beside the loop, which need not look at the store at every turn.
fn follow(mut watch: store::Watch) -> mpsc::UnboundedReceiver<Result<Revision, ReadError>> {
    let (tell, told) = mpsc::unbounded_channel();
    tokio::spawn(async move {
        loop {
            let newest = watch.next().await.map(|_| watch.after());
            let failed = newest.is_err();
            if tell.send(newest).is_err() || failed {
                return;
            }
        }
    });
    told
}

async fn rested<S>(timer: Option<(Duration, Attempt<S>)>) -> Attempt<S> {
    match timer {
        Some((wait, attempt)) => {
            tokio::time::sleep(wait).await;
            attempt
        }
        None => std::future::pending().await,
    }
}

async fn until(instant: Option<Instant>) {
    match instant {
        Some(instant) => tokio::time::sleep_until(instant).await,
        None => std::future::pending().await,
    }
}
