//! Turns inputs into decisions, and decisions into commits.

use std::sync::Arc;

use protocol::entry::{Author, Evidence, FailureKind, Input};
use protocol::run::{
    Absorbed, Change, Decision, Ending, Fact, Refusal, Request, RunStatus, absorb, consider,
    make_deferred_transition, start_queued,
};
use store::CommitError;
use supervisor::Shutdown;

use super::{Engine, EngineError, EngineRequest};
use crate::engine::Notice;
use crate::run::CommitContext;

impl Engine<'_> {
    /// Absorbs a fact. Retries after every conflict: facts are never dropped.
    pub(super) async fn absorb(&mut self, fact: Fact, evidence: Option<Evidence>) -> Result<(), EngineError> {
        self.absorb_from(None, fact, evidence).await
    }

    /// Absorbs a fact. The entry names `by` as its author, or this engine. A report that is too large for a commit
    /// becomes a failure.
    pub(super) async fn absorb_from(
        &mut self,
        by: Option<Author>,
        fact: Fact,
        evidence: Option<Evidence>,
    ) -> Result<(), EngineError> {
        match self.absorb_once(by.clone(), fact.clone(), evidence).await {
            Err(EngineError::Commit(CommitError::TooLarge { size, limit })) => {
                self.reload().await?;
                let (fact, evidence) = fail_as_too_large(fact, size, limit);
                self.absorb_once(by, fact, evidence).await
            }
            absorbed => absorbed,
        }
    }

    async fn absorb_once(
        &mut self,
        by: Option<Author>,
        fact: Fact,
        evidence: Option<Evidence>,
    ) -> Result<(), EngineError> {
        let evidence = evidence.map(Arc::new);
        self.decide(by, |engine| match absorb(&mut engine.journal.state.run, fact.clone()) {
            Absorbed::Decided(mut decision) => {
                decision.append(engine.start_queued());
                Ok(Some((Input::Fact { fact: fact.clone(), evidence: evidence.clone() }, decision)))
            }
            Absorbed::Ignored(stale) => {
                tracing::debug!(?fact, %stale, "ignored");
                Ok(None)
            }
        })
        .await
        .map(drop)
    }

    /// Commits what `decide` returns, and returns whether there was anything to commit. After a conflict it loads the run
    /// and decides again: facts are never dropped.
    pub(super) async fn decide(
        &mut self,
        by: Option<Author>,
        mut decide: impl FnMut(&mut Self) -> Result<Option<(Input, Decision)>, EngineError>,
    ) -> Result<bool, EngineError> {
        loop {
            let Some((input, decision)) = decide(self)? else { return Ok(false) };
            match self.commit(by.clone(), input, decision).await {
                Ok(()) => return Ok(true),
                Err(CommitError::Conflict { .. }) => self.reload().await?,
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// Starts queued steps in free slots.
    fn start_queued(&mut self) -> Decision {
        let slots = self.this_host.slots(&self.journal.state, self.engine_config.slots);
        start_queued(&mut self.journal.state.run, slots)
    }

    /// Checks whether a request would be granted, without changing the run.
    pub(super) fn would_grant(&self, request: &Request) -> Result<(), Refusal> {
        consider(&mut self.journal.state.run.clone(), request).map(drop)
    }

    /// Grants a request and starts queued steps in free slots. A request that changes nothing has no entry, except
    /// that the engine's first request always has one: the journal shows which engine drives the run.
    pub(super) async fn request(&mut self, request: EngineRequest) -> Result<(), EngineError> {
        let EngineRequest { request, by, reason } = request;
        let before = self.journal.state.run.status;
        let mut has_lost_race = false;
        let committed = self.decide(by, |engine| {
            // Another client stopped or paused the run meanwhile. That request is newer, so it wins.
            let is_overruled = has_lost_race
                && request == Request::Resume
                && engine.journal.state.run.status != before
                && engine.is_paused_or_stopped();
            has_lost_race = true;
            if is_overruled {
                return Ok(None);
            }
            let mut decision = consider(&mut engine.journal.state.run, &request)?;
            decision.append(engine.start_queued());
            if decision.is_nothing() && engine.start_recorded {
                return Ok(None);
            }
            Ok(Some((Input::Request { request: request.clone(), reason: reason.clone() }, decision)))
        });
        self.start_recorded |= committed.await?;
        Ok(())
    }

    fn is_paused_or_stopped(&self) -> bool {
        match self.journal.state.run.status {
            RunStatus::Paused | RunStatus::Stopping(_) | RunStatus::Stopped(_) => true,
            RunStatus::Running
            | RunStatus::Draining(_)
            | RunStatus::Finishing(_)
            | RunStatus::Finished(_) => false,
        }
    }

    /// Performs deferred transitions, each in an entry of its own, then starts queued steps in the slots they freed.
    pub(super) async fn make_deferred_transitions(&mut self) -> Result<(), EngineError> {
        let deferred = |engine: &mut Self| {
            let decision = make_deferred_transition(&mut engine.journal.state.run);
            Ok(decision.map(|decision| (Input::Deferred, decision)))
        };
        let mut proceeded = false;
        loop {
            // Show the cause of the transition in the views first: an answer, a failed gate.
            if self.journal.machine().deferred().is_some() {
                self.write_stale_views();
            }
            if !self.decide(None, deferred).await? {
                break;
            }
            proceeded = true;
        }
        if !proceeded {
            return Ok(());
        }
        // Show its result, too: steps that the next entry starts are pending until then.
        self.write_stale_views();
        self.fill_slots().await
    }

    /// Starts queued steps in free slots, in an entry of its own. Its input is `Deferred`, too: no fact and no request
    /// caused it.
    async fn fill_slots(&mut self) -> Result<(), EngineError> {
        let fill = |engine: &mut Self| {
            let decision = engine.start_queued();
            Ok((!decision.is_nothing()).then_some((Input::Deferred, decision)))
        };
        self.decide(None, fill).await.map(drop)
    }

    /// Loads the run after another client has committed, and starts queued steps in the slots that this has freed.
    pub(super) async fn catch_up(&mut self) -> Result<(), EngineError> {
        let before = self.journal.state.run.status;
        self.reload().await?;
        // A later engine performs its own actions.
        let (held, by) = (self.lock.epoch(), self.journal.epoch);
        if by > held {
            return Err(CommitError::Fenced { held, by }.into());
        }
        self.views.mark_stale();
        if self.journal.state.run.status != before {
            self.show_status_now();
        }
        self.fill_slots().await
    }

    /// Handles an interrupt by the user (Ctrl-C, SIGTERM): the first asks the attempts to end, the second kills them.
    /// Returns true for the third: the engine exits and leaves the attempts alive.
    pub(super) async fn interrupt(&mut self) -> Result<bool, EngineError> {
        self.interrupts += 1;
        match self.interrupts {
            1 => self.request(EngineRequest { request: Request::Interrupt, by: None, reason: None }).await?,
            2 => {
                for task in self.attached.values() {
                    task.stop(Shutdown::Immediate);
                }
            }
            _ => return Ok(true),
        }
        Ok(false)
    }

    pub(super) async fn commit(
        &mut self,
        by: Option<Author>,
        input: Input,
        decision: Decision,
    ) -> Result<(), CommitError> {
        let context = CommitContext {
            epoch: Some(self.lock.epoch()),
            acknowledged: self.performed.iter().cloned().collect(),
            views: self.views.take_view_marks(),
            backoff: self.engine_config.backoff,
        };
        let marks = context.views.clone();
        let by = by.unwrap_or_else(|| self.engine_config.author.clone());
        let entry = match self.journal.commit(by, input, decision, context).await {
            Ok(entry) => entry,
            Err(error) => {
                self.views.put_back_view_marks(marks);
                return Err(error);
            }
        };
        self.performed.clear();
        self.views.mark_stale();
        let revision = self.journal.position.revision;
        tracing::debug!(%revision, changes = ?entry.changes, "committed");
        self.observer.notice(Notice::Committed { machine: self.journal.machine(), revision, entry: &entry });
        self.write_report_view(&entry.input);
        self.notice_early_answers(&entry.changes);
        if entry.changes.iter().any(|change| matches!(change, Change::Status { .. })) {
            self.show_status_now();
        }
        Ok(())
    }
}

/// Turns the end of an attempt whose report is too large for a commit into a failure.
fn fail_as_too_large(fact: Fact, size: usize, limit: usize) -> (Fact, Option<Evidence>) {
    let error = format!("Agent report is too large: {size} bytes with its commit, the limit is {limit}");
    let fact = match fact {
        Fact::Ended { attempt, .. } => Fact::Ended { attempt, ending: Ending::Failed },
        Fact::BackoffElapsed { .. } | Fact::Answered { .. } => fact,
    };
    let kind = Some(FailureKind::InvalidReport);
    (fact, Some(Evidence { kind, error: Some(error), ..Evidence::default() }))
}
