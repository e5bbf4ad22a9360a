//! Turns inputs into decisions, and decisions into commits.

use protocol::Protocol;
use protocol::entry::{Author, Evidence, FailureKind, Input};
use protocol::run::{
    Absorbed, Decision, Ending, Fact, Refusal, Request, RunStatus, absorb, consider, proceed, start_queued,
};
use store::CommitError;
use supervisor::Shutdown;

use super::{Engine, EngineError, EngineRequest};
use crate::engine::Notice;
use crate::run::{CommitContext, Journal};

impl<P: Protocol> Engine<'_, P> {
    /// Absorbs a fact. Retries after every conflict: facts are never dropped.
    pub(super) async fn absorb(
        &mut self,
        fact: Fact<P::Step, P::Verdict>,
        evidence: Option<Evidence>,
    ) -> Result<(), EngineError> {
        self.absorb_from(None, fact, evidence).await
    }

    /// Absorbs a fact in the name of `by`, or of this engine.
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

    /// Checks whether a request would be granted, without changing the run.
    pub(super) fn would_grant(&self, request: &Request<P::Step>) -> Result<(), Refusal> {
        let Journal { spec, state, .. } = &self.journal;
        consider(&spec.definition, &mut state.run.clone(), request).map(drop)
    }

    /// Grants a request and starts queued steps in free slots. A request that changes nothing has no entry, except
    /// that the engine's first request always has one: the journal shows which engine drives the run.
    pub(super) async fn request(&mut self, request: EngineRequest<P::Step>) -> Result<(), EngineError> {
        let EngineRequest { request, by, reason } = request;
        loop {
            let Journal { spec, state, .. } = &mut self.journal;
            let before = state.run.status;
            let mut decision = consider(&spec.definition, &mut state.run, &request)?;
            let slots = self.hosts.slots(state, self.engine_config.slots);
            decision.append(start_queued(&spec.definition, &mut state.run, slots));
            if decision.is_nothing() && self.start_recorded {
                return Ok(());
            }
            let input = Input::Request { request: request.clone(), reason: reason.clone() };
            match self.commit(by.clone(), input, decision).await {
                Ok(()) => {
                    self.start_recorded = true;
                    return Ok(());
                }
                Err(CommitError::Conflict { .. }) => self.reload().await?,
                Err(error) => return Err(error.into()),
            }
            // Another client stopped or paused the run meanwhile. That request is newer, so it wins.
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

    /// Performs deferred transitions, each in an entry of its own, then starts queued steps in the slots they freed.
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

    /// Loads the run after another client has committed, and starts queued steps in the slots that this has freed.
    pub(super) async fn catch_up(&mut self) -> Result<(), EngineError> {
        loop {
            self.reload().await?;
            // A later engine performs its own actions.
            let (held, by) = (self.lock.epoch(), self.journal.epoch);
            if by > held {
                return Err(CommitError::Fenced { held, by }.into());
            }
            self.views.mark_stale();
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

    /// Handles a request of the user to exit: first cleanly, then at once. Returns whether to leave the attempts
    /// alive.
    pub(super) async fn interrupt(&mut self) -> Result<bool, EngineError> {
        self.interrupts += 1;
        match self.interrupts {
            1 => self.request(EngineRequest { request: Request::Interrupt, by: None, reason: None }).await?,
            2 => {
                for task in self.attached.values() {
                    task.stop(Shutdown::Twice);
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
            views: self.views.take_marks(),
            backoff: self.engine_config.backoff,
        };
        let marks = context.views.clone();
        let by = by.unwrap_or_else(|| self.engine_config.author.clone());
        let entry = match self.journal.commit(by, input, decision, context).await {
            Ok(entry) => entry,
            Err(error) => {
                self.views.return_marks(marks);
                return Err(error);
            }
        };
        self.performed.clear();
        self.views.mark_stale();
        let revision = self.journal.position.revision;
        tracing::debug!(run = %self.journal.run, %revision, changes = ?entry.changes, "committed");
        self.observer.notice(Notice::Committed { revision, entry: &entry });
        self.write_report(&entry.input);
        Ok(())
    }
}

/// Turns a report that is too large for a commit into an unfit one.
fn too_large<S, V>(fact: Fact<S, V>, size: usize, limit: usize) -> (Fact<S, V>, Option<Evidence>) {
    let error = format!("Agent report is too large: {size} bytes with its commit, the limit is {limit}");
    let fact = match fact {
        Fact::Ended { attempt, .. } => Fact::Ended { attempt, ending: Ending::Failed },
        Fact::BackoffElapsed { attempt } => Fact::BackoffElapsed { attempt },
    };
    let kind = Some(FailureKind::InvalidReport);
    (fact, Some(Evidence { kind, error: Some(error), ..Evidence::default() }))
}
