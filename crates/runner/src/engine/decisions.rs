//! Inputs become decisions, decisions become commits.

use protocol::Protocol;
use protocol::entry::{Author, Evidence, FailureKind, Input};
use protocol::run::{
    Absorbed, Decision, Ending, Fact, Refusal, Request, RunStatus, absorb, consider, proceed, start_queued,
};
use store::{CommitError, Store};
use supervisor::Shutdown;

use super::{Engine, EngineError, EngineRequest};
use crate::journal::{CommitContext, Journal};
use crate::notice::Notice;

impl<P: Protocol, S: Store> Engine<'_, P, S> {
    /// Absorbs a fact, however often others are first: a fact is never given up.
    pub(super) async fn absorb(
        &mut self,
        fact: Fact<P::Step, P::Verdict>,
        evidence: Option<Evidence>,
    ) -> Result<(), EngineError> {
        self.absorb_from(None, fact, evidence).await
    }

    /// The same of a fact that somebody else vouches for.
    pub(super) async fn absorb_from(
        &mut self,
        by: Option<Author>,
        mut fact: Fact<P::Step, P::Verdict>,
        mut evidence: Option<Evidence>,
    ) -> Result<(), EngineError> {
        loop {
            let Journal { spec, state, .. } = &mut self.journal;
            let mut decision = match absorb(&spec.definition, &mut state.run, fact.clone()) {
                Absorbed::Decided(decision) => decision,
                Absorbed::Ignored(stale) => {
                    tracing::debug!(run = %self.journal.run, ?fact, %stale, "ignored");
                    return Ok(());
                }
            };
            let slots = self.hosts.slots(state, self.engine_config.slots);
            decision.append(start_queued(&spec.definition, &mut state.run, slots));
            let input = Input::Fact { fact: fact.clone(), evidence: evidence.clone().map(Box::new) };
            match self.commit(by.clone(), input, decision).await {
                Ok(()) => return Ok(()),
                Err(CommitError::Conflict { .. }) => self.reload().await?,
                Err(CommitError::TooLarge { size, limit }) => {
                    self.reload().await?;
                    (fact, evidence) = too_large(fact, size, limit);
                }
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// Whether a request would be granted, without moving anything.
    pub(super) fn would_grant(&self, request: &Request<P::Step>) -> Result<(), Refusal> {
        let Journal { spec, state, .. } = &self.journal;
        consider(&spec.definition, &mut state.run.clone(), request).map(drop)
    }

    /// Makes a request and gives free places. What is already so needs no entry, except that the first request of an
    /// engine always has one: the journal shows who took the lead.
    pub(super) async fn request(&mut self, asked: EngineRequest<P::Step>) -> Result<(), EngineError> {
        let EngineRequest { request, by, reason } = asked;
        loop {
            let Journal { spec, state, .. } = &mut self.journal;
            let before = state.run.status;
            let mut decision = consider(&spec.definition, &mut state.run, &request)?;
            let slots = self.hosts.slots(state, self.engine_config.slots);
            decision.append(start_queued(&spec.definition, &mut state.run, slots));
            if decision.is_nothing() && self.introduced {
                return Ok(());
            }
            let input = Input::Request { request: request.clone(), reason: reason.clone() };
            match self.commit(by.clone(), input, decision).await {
                Ok(()) => {
                    self.introduced = true;
                    return Ok(());
                }
                Err(CommitError::Conflict { .. }) => self.reload().await?,
                Err(error) => return Err(error.into()),
            }
            // Somebody stopped or paused the run since we looked: the later word holds, we do not undo it.
            if request == Request::Resume && self.journal.state.run.status != before && self.is_held() {
                return Ok(());
            }
        }
    }

    fn is_held(&self) -> bool {
        match self.journal.state.run.status {
            RunStatus::Paused | RunStatus::Stopping(_) | RunStatus::Stopped(_) => true,
            RunStatus::Running
            | RunStatus::Draining(_)
            | RunStatus::Finishing(_)
            | RunStatus::Finished(_) => false,
        }
    }

    /// Does what is due without any news, each thing in an entry of its own; then gives the places that this has freed.
    pub(super) async fn proceed(&mut self) -> Result<(), EngineError> {
        let mut proceeded = false;
        loop {
            let Journal { spec, state, .. } = &mut self.journal;
            let decision = match proceed(&spec.definition, &mut state.run) {
                Some(decision) => decision,
                None if proceeded => {
                    let slots = self.hosts.slots(state, self.engine_config.slots);
                    start_queued(&spec.definition, &mut state.run, slots)
                }
                None => return Ok(()),
            };
            if decision.is_nothing() {
                return Ok(());
            }
            match self.commit(None, Input::Deferred, decision).await {
                Ok(()) => proceeded = true,
                Err(CommitError::Conflict { .. }) => self.reload().await?,
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// Somebody else has committed: read the run again, and give the places that this has freed; the loop performs
    /// what it brought.
    pub(super) async fn catch_up(&mut self) -> Result<(), EngineError> {
        loop {
            self.reload().await?;
            // What a later engine committed is for it to carry out.
            let (held, by) = (self.lock.epoch(), self.journal.epoch);
            if by > held {
                return Err(CommitError::Fenced { held, by }.into());
            }
            self.showing.is_stale();
            let Journal { spec, state, .. } = &mut self.journal;
            let slots = self.hosts.slots(state, self.engine_config.slots);
            let decision = start_queued(&spec.definition, &mut state.run, slots);
            if decision.is_nothing() {
                return Ok(());
            }
            match self.commit(None, Input::Deferred, decision).await {
                Ok(()) => return Ok(()),
                Err(CommitError::Conflict { .. }) => {}
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// The user wants us to go: cleanly, at once, now. Says whether to abandon the attempts.
    pub(super) async fn interrupt(&mut self) -> Result<bool, EngineError> {
        self.interrupts += 1;
        match self.interrupts {
            1 => self.request(EngineRequest { request: Request::Interrupt, by: None, reason: None }).await?,
            2 => {
                for orders in self.attached.values() {
                    orders.end(Shutdown::Twice);
                }
            }
            _ => return Ok(true),
        }
        Ok(false)
    }

    pub(super) async fn commit(
        &mut self,
        by: Option<Author>,
        input: Input<P>,
        decision: Decision<P>,
    ) -> Result<(), CommitError> {
        let context = CommitContext {
            epoch: Some(self.lock.epoch()),
            acknowledged: self.performed.iter().cloned().collect(),
            views: self.showing.take_marks(),
            backoff: self.engine_config.backoff,
        };
        let marks = context.views.clone();
        let by = by.unwrap_or_else(|| self.engine_config.author.clone());
        let entry = match self.journal.commit(by, input, decision, context).await {
            Ok(entry) => entry,
            Err(error) => {
                self.showing.give_back(marks);
                return Err(error);
            }
        };
        self.performed.clear();
        self.showing.is_stale();
        let revision = self.journal.position.revision;
        tracing::debug!(run = %self.journal.run, %revision, changes = ?entry.changes, "committed");
        self.observer.notice(Notice::Committed { revision, entry: &entry });
        self.show_report(&entry.input);
        Ok(())
    }
}

/// A report that no commit can hold is unfit.
fn too_large<S, V>(fact: Fact<S, V>, size: usize, limit: usize) -> (Fact<S, V>, Option<Evidence>) {
    let error = format!("Agent report is too large: {size} bytes with its commit, the limit is {limit}");
    let fact = match fact {
        Fact::Ended { attempt, .. } => Fact::Ended { attempt, ending: Ending::Failed },
        Fact::BackoffElapsed { attempt } => Fact::BackoffElapsed { attempt },
    };
    let kind = Some(FailureKind::InvalidReport);
    (fact, Some(Evidence { kind, error: Some(error), ..Evidence::default() }))
}
