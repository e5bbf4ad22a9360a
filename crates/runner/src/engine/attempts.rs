//! Performs the outbox: starts, adopts and stops attempts, and absorbs what their tasks report.

use protocol::run::{Action, Attempt, Fact, Run, TurnStatus};
use protocol::{AttemptId, Protocol};
use supervisor::{AttemptDir, ShimStatus, Shutdown};

use super::Notice;
use super::{Engine, EngineError};
use crate::attempt::{AttemptEvent, AttemptResult, AttemptSpec, Classifier, Provenance, spawn_task};
use crate::run::Journal;

impl<P: Protocol> Engine<'_, P> {
    /// Attaches to every attempt that may be alive on this host. Recovery needs nothing else.
    pub(super) fn adopt_attempts(&mut self) {
        let state = &self.journal.state;
        let live_attempts = state.run.live_attempts().map(|(attempt, active)| (attempt, active.status));
        let is_local = |attempt: &Attempt<P::Step>| !self.hosts.is_remote(state, &Run::<P>::id(attempt));
        let live_attempts: Vec<_> = live_attempts.filter(|(attempt, _)| is_local(attempt)).collect();
        let attempts_dir = self.engine_config.attempts_dir();
        let (adopted, open): (Vec<_>, Vec<_>) = live_attempts
            .iter()
            .map(|(attempt, _)| Run::<P>::id(attempt))
            .partition(|id| has_live_shim(&AttemptDir::new(&attempts_dir, &self.journal.run, id)));
        self.observer.notice(Notice::Started { adopted: &adopted, open: &open });
        let remote = self.remote();
        if !remote.is_empty() {
            self.observer.notice(Notice::Remote { attempts: &remote });
        }
        for (attempt, status) in live_attempts {
            self.attach(&attempt, Provenance::Found);
            match status {
                TurnStatus::Stopping => self.stop_attempt(&Run::<P>::id(&attempt), Shutdown::Once),
                TurnStatus::Running | TurnStatus::Queued | TurnStatus::BackingOff => {}
            }
        }
    }

    /// Performs the actions in the outbox. Actions on attempts of other hosts stay there for an engine on that host.
    pub(super) fn perform(&mut self) {
        let items = self.journal.outbox.iter().filter(|item| !self.performed.contains(&item.id));
        let items: Vec<_> = items.cloned().collect();
        for item in items {
            let action: Action<P::Step> =
                serde_json::from_str(&item.body).expect("BUG: an action of ours cannot be read");
            let (Action::Start { attempt } | Action::End { attempt }) = &action;
            if self.hosts.is_remote(&self.journal.state, &Run::<P>::id(attempt)) {
                continue;
            }
            match &action {
                Action::Start { attempt } => self.attach(attempt, Provenance::New),
                Action::End { attempt } => self.stop_attempt(&Run::<P>::id(attempt), Shutdown::Once),
            }
            self.performed.insert(item.id);
        }
    }

    /// Starts or adopts an attempt. Does nothing if it is attached already or has ended.
    fn attach(&mut self, attempt: &Attempt<P::Step>, provenance: Provenance) {
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
        let task = spawn_task(spec, attempt.clone(), self.event_sender.clone());
        self.attached.insert(id, task);
    }

    fn stop_attempt(&self, attempt: &AttemptId, shutdown: Shutdown) {
        if let Some(task) = self.attached.get(attempt) {
            task.stop(shutdown);
        }
    }

    /// Absorbs an event of an attempt's task.
    pub(super) async fn absorb_event(&mut self, event: AttemptEvent<P::Step>) -> Result<(), EngineError> {
        match event {
            AttemptEvent::Lingering { attempt } => {
                self.observer.notice(Notice::Lingering {
                    attempt: &attempt,
                    grace: self.engine_config.linger_timeout,
                });
                Ok(())
            }
            AttemptEvent::Partial { attempt } => {
                self.queue_partial_report(attempt);
                Ok(())
            }
            AttemptEvent::NoProfile { attempt, agent } => {
                Err(EngineError::NoProfile { agent, step: attempt.step.to_string() })
            }
            AttemptEvent::WatchFailed { attempt, source } => Err(EngineError::Attach { attempt, source }),
            AttemptEvent::Ended { attempt, spec, end } => {
                self.attached.remove(&spec.attempt);
                self.commit_last_partial_report(&attempt).await?;
                let classifier = Classifier::<P> {
                    definition: &self.journal.spec.definition,
                    document: &self.journal.document,
                    step: &attempt.step,
                    spec: &spec,
                    boot_id: &self.engine_config.boot_id,
                };
                let AttemptResult { ending, evidence } = classifier.classify(&end);
                self.absorb(Fact::Ended { attempt, ending }, Some(evidence)).await
            }
        }
    }
}

/// Returns whether the attempt's shim seems to be alive. For display only.
fn has_live_shim(dir: &AttemptDir) -> bool {
    !dir.exit().exists()
        && matches!(supervisor::shim_status(dir), Ok(ShimStatus::Alive { .. } | ShimStatus::Remote))
}
