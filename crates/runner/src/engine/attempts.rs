//! Carrying out the outbox: attempts are started, adopted, ended, and listened to.

use protocol::run::{Action, Attempt, Fact, Run, TurnStatus};
use protocol::{AttemptId, Protocol};
use store::Store;
use supervisor::{AttemptDir, ShimLife, Shutdown};

use super::{Engine, EngineError};
use crate::attempt::{self, AttemptEvent, AttemptSpec, Provenance};
use crate::journal::Journal;
use crate::notice::Notice;
use crate::verdict::{Judge, Judged};

impl<P: Protocol, S: Store> Engine<'_, P, S> {
    /// Attends every attempt that may be alive here: recovery is this, and nothing else.
    pub(super) fn take_up(&mut self) -> Result<(), EngineError> {
        let state = &self.journal.state;
        let live_attempts = state.run.live_attempts().map(|(attempt, active)| (attempt, active.status));
        let is_here = |attempt: &Attempt<P::Step>| !self.hosts.is_elsewhere(state, &Run::<P>::id(attempt));
        let live_attempts: Vec<_> = live_attempts.filter(|(attempt, _)| is_here(attempt)).collect();
        let attempts = self.engine_config.attempts_dir();
        let (adopted, open): (Vec<_>, Vec<_>) = live_attempts
            .iter()
            .map(|(attempt, _)| Run::<P>::id(attempt))
            .partition(|id| is_at_work(&AttemptDir::new(&attempts, &self.journal.run, id)));
        self.observer.notice(Notice::Leads { adopted: &adopted, open: &open });
        let remote = self.remote();
        if !remote.is_empty() {
            self.observer.notice(Notice::Remote { attempts: &remote });
        }
        for (attempt, status) in live_attempts {
            self.attend(&attempt, Provenance::Found);
            match status {
                TurnStatus::Stopping => self.order(&Run::<P>::id(&attempt), Shutdown::Once),
                TurnStatus::Running | TurnStatus::Queued | TurnStatus::BackingOff => {}
            }
        }
        Ok(())
    }

    /// Carries out what the outbox holds. What concerns an attempt on another host stays there, for an engine of it.
    pub(super) fn perform(&mut self) -> Result<(), EngineError> {
        let items = self.journal.outbox.iter().filter(|item| !self.performed.contains(&item.id));
        let items: Vec<_> = items.cloned().collect();
        for item in items {
            let action: Action<P::Step> =
                serde_json::from_str(&item.body).expect("BUG: an action of ours cannot be read");
            let (Action::Start { attempt } | Action::End { attempt }) = &action;
            if self.hosts.is_elsewhere(&self.journal.state, &Run::<P>::id(attempt)) {
                continue;
            }
            match &action {
                Action::Start { attempt } => self.attend(attempt, Provenance::New),
                Action::End { attempt } => self.order(&Run::<P>::id(attempt), Shutdown::Once),
            }
            self.performed.insert(item.id);
        }
        Ok(())
    }

    /// Starts or adopts an attempt; one that is attached already, or over, needs nothing.
    fn attend(&mut self, attempt: &Attempt<P::Step>, provenance: Provenance) {
        let id = Run::<P>::id(attempt);
        let active = self.journal.state.run.active_turns.get(&attempt.step);
        let alive = active.is_some_and(|active| {
            active.status.holds_slot()
                && (active.turn, active.attempt_no) == (attempt.turn, attempt.attempt_no)
        });
        if !alive || self.attached.contains_key(&id) {
            return;
        }
        let Journal { spec, document, state, .. } = &self.journal;
        let counted_attempt =
            state.run.active_turns.get(&attempt.step).map_or(0, |active| active.failures) + 1;
        let brief = P::brief(&spec.definition, document, &attempt.step, counted_attempt);
        let options = self.engine_config.options(&spec.options);
        let artifacts_dir = options.location.artifacts_dir();
        let spec = AttemptSpec::new(
            &self.engine_config,
            &self.dir_watcher,
            options,
            artifacts_dir,
            id.clone(),
            brief,
            provenance,
        );
        self.observer.notice(Notice::Output { attempt: &id, stdout: spec.dir.stdout() });
        let orders = attempt::attend(spec, attempt.clone(), self.news.clone());
        self.attached.insert(id, orders);
    }

    pub(super) fn order(&self, attempt: &AttemptId, shutdown: Shutdown) {
        if let Some(orders) = self.attached.get(attempt) {
            orders.end(shutdown);
        }
    }

    /// What the attempts' attendants tell.
    pub(super) async fn absorb_event(&mut self, event: AttemptEvent<P::Step>) -> Result<(), EngineError> {
        match event {
            AttemptEvent::Lingers { attempt } => {
                self.observer
                    .notice(Notice::Lingers { attempt: &attempt, grace: self.engine_config.lingering });
                Ok(())
            }
            AttemptEvent::Partial { attempt } => {
                self.hear_partial(attempt);
                Ok(())
            }
            AttemptEvent::NoProfile { attempt, agent } => {
                Err(EngineError::NoProfile { agent, step: attempt.step.to_string() })
            }
            AttemptEvent::WatchFailed { attempt, source } => Err(EngineError::Attach { attempt, source }),
            AttemptEvent::Ended { attempt, spec, ended } => {
                self.attached.remove(&spec.attempt);
                self.enter_last_partial(&attempt).await?;
                let judge = Judge::<P> {
                    definition: &self.journal.spec.definition,
                    document: &self.journal.document,
                    step: &attempt.step,
                    spec: &spec,
                    boot_id: &self.engine_config.boot_id,
                };
                let Judged { ending, evidence } = judge.judge(&ended);
                self.absorb(Fact::Ended { attempt, ending }, Some(evidence)).await
            }
        }
    }
}

/// Whether an agent of the attempt is still there, as far as one look tells: for people, nothing depends on it.
fn is_at_work(dir: &AttemptDir) -> bool {
    !dir.exit().exists()
        && matches!(supervisor::shim_life(dir), Ok(ShimLife::Alive { .. } | ShimLife::Remote))
}
