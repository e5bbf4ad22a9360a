//! Performs the outbox: starts, adopts and stops attempts, and absorbs what their tasks report.

use std::path::PathBuf;

use protocol::entry::FailureKind;
use protocol::report::{Report, ReportIdentity};
use protocol::run::{Action, Ending, Fact, TurnStatus};
use protocol::{AttemptId, StepKind};
use supervisor::checks::StopFlag;
use supervisor::{AttemptDir, Mark, ShimStatus, Shutdown};

use super::Notice;
use super::{Engine, EngineError};
use crate::attempt::{
    AttemptEvent, AttemptOrigin, AttemptResult, AttemptSpec, Classifier, EffectEnd, PendingEffect,
    TaskHandle, fail_effect, spawn_effect, spawn_task,
};
use crate::run::Journal;

impl Engine<'_> {
    /// Attaches to every attempt that may be alive on this host: its task adopts a live shim, finds out how the attempt
    /// ended, or starts it if no shim has claimed it. Recovery needs nothing else.
    pub(super) fn adopt_attempts(&mut self) {
        let state = &self.journal.state;
        let live_attempts = state.run.live_attempts().map(|(attempt, active)| (attempt, active.status));
        let is_local = |attempt: &AttemptId| !self.this_host.is_remote(state, attempt);
        let live_attempts: Vec<_> = live_attempts.filter(|(attempt, _)| is_local(attempt)).collect();
        let attempts_dir = self.engine_config.attempts_dir();
        let (adopted, without_shim): (Vec<_>, Vec<_>) = live_attempts
            .iter()
            .map(|(attempt, _)| attempt.clone())
            .partition(|id| has_live_shim(&AttemptDir::new(&attempts_dir, &self.journal.run, id)));
        self.observer.notice(Notice::Started { adopted: &adopted, without_shim: &without_shim });
        let remote = self.remote_attempts();
        if !remote.is_empty() {
            self.observer.notice(Notice::Remote { attempts: &remote });
        }
        for (attempt, status) in live_attempts {
            self.attach(&attempt, AttemptOrigin::MaybeStarted);
            match status {
                TurnStatus::Stopping => self.stop_attempt(&attempt, Shutdown::Graceful),
                TurnStatus::Running | TurnStatus::Queued | TurnStatus::BackingOff | TurnStatus::Waiting => {}
            }
        }
    }

    /// Performs the actions in the outbox. Actions on attempts of other hosts stay there for an engine on that host.
    pub(super) fn perform(&mut self) {
        let items = self.journal.outbox.iter().filter(|item| !self.performed.contains(&item.id));
        let items: Vec<_> = items.cloned().collect();
        for item in items {
            let action: Action =
                serde_json::from_str(&item.body).expect("BUG: an action of ours cannot be read");
            let (Action::Start { attempt } | Action::Stop { attempt }) = &action;
            if self.this_host.is_remote(&self.journal.state, attempt) {
                continue;
            }
            match &action {
                Action::Start { attempt } => self.attach(attempt, AttemptOrigin::New),
                Action::Stop { attempt } => self.stop_attempt(attempt, Shutdown::Graceful),
            }
            self.performed.insert(item.id);
        }
    }

    /// Starts or adopts an attempt. Does nothing if it is attached already or has ended.
    fn attach(&mut self, attempt: &AttemptId, origin: AttemptOrigin) {
        let active = self.journal.state.run.active_turns.get(&attempt.step);
        let alive = active.is_some_and(|active| {
            active.status.has_live_attempt()
                && (active.turn, active.attempt_no) == (attempt.turn, attempt.attempt_no)
        });
        if !alive || self.attached.contains_key(attempt) {
            return;
        }
        let kind = self.journal.machine().step_kind(&attempt.step);
        let task = match kind {
            StepKind::Agent | StepKind::Command => self.attach_process(attempt, kind, origin),
            StepKind::Effect => self.perform_effect(attempt),
            StepKind::Person => panic!("BUG: attempt `{attempt}` of a step that waits for a person"),
        };
        self.attached.insert(attempt.clone(), task);
    }

    fn attach_process(&mut self, attempt: &AttemptId, kind: StepKind, origin: AttemptOrigin) -> TaskHandle {
        let Journal { spec, state, .. } = &self.journal;
        let counted_attempt =
            state.run.active_turns.get(&attempt.step).map_or(0, |active| active.failures) + 1;
        let brief = self.journal.machine().brief(&attempt.step, counted_attempt);
        let options = self.engine_config.options(&spec.options);
        let spec = AttemptSpec::new(
            &self.engine_config,
            &self.dir_watcher,
            options,
            self.journal.kind().info().name,
            (attempt.clone(), kind),
            brief,
            origin,
        );
        self.observer.notice(Notice::StartingOrAdopting { attempt, stdout: spec.dir.stdout() });
        spawn_task(spec, attempt.clone(), self.event_sender.clone())
    }

    /// Performs an effect. If an earlier engine has performed it, it is found by its idempotency key and not repeated.
    fn perform_effect(&self, attempt: &AttemptId) -> TaskHandle {
        let Journal { run, spec, .. } = &self.journal;
        let effect = self.journal.machine().effect(&attempt.step);
        let stop = match StopFlag::new() {
            Ok(stop) => stop,
            Err(error) => return fail_effect(attempt.clone(), &error, &self.event_sender),
        };
        let local_dir = &self.engine_config.local_dir;
        let pending_effect = PendingEffect {
            run: run.clone(),
            attempt: attempt.clone(),
            arguments: effect.as_ref().map(|effect| effect.arguments.clone()).unwrap_or_default(),
            repo_dir: PathBuf::from(&spec.options.location.repo_dir),
            run_worktrees: spec
                .options
                .run_worktrees()
                .map(|run_worktrees| run_worktrees.stopped_by(stop.clone())),
            rehearsal: spec.options.is_rehearsal(),
            checks: spec.options.checks.clone(),
            dir: AttemptDir::new(&self.engine_config.attempts_dir(), run, attempt),
            mark: Mark { store: local_dir.clone(), run: run.clone(), attempt: attempt.clone() },
            stop,
        };
        spawn_effect(&self.engine_config.effects, effect, pending_effect, self.event_sender.clone())
    }

    fn stop_attempt(&self, attempt: &AttemptId, shutdown: Shutdown) {
        if let Some(task) = self.attached.get(attempt) {
            task.stop(shutdown);
        }
    }

    /// Absorbs an event of an attempt's task.
    pub(super) async fn absorb_event(&mut self, event: AttemptEvent) -> Result<(), EngineError> {
        match event {
            AttemptEvent::Lingering { attempt } => {
                self.observer.notice(Notice::Lingering {
                    attempt: &attempt,
                    linger_timeout: self.engine_config.linger_timeout,
                });
                Ok(())
            }
            AttemptEvent::Partial { attempt } => {
                self.queue_partial_report(attempt);
                Ok(())
            }
            AttemptEvent::NoAdapter(missing) => Err(EngineError::NoAdapter(vec![missing])),
            AttemptEvent::EffectEnded { attempt, ended } => {
                self.attached.remove(&attempt);
                let AttemptResult { ending, evidence } = self.effect_result(&attempt, ended);
                self.absorb(Fact::Ended { attempt, ending }, Some(evidence)).await
            }
            AttemptEvent::WatchFailed { attempt, source } => Err(EngineError::Attach { attempt, source }),
            AttemptEvent::Ended { attempt, spec, end } => {
                self.attached.remove(&spec.attempt);
                self.commit_last_partial_report(&attempt).await?;
                let classifier = Classifier {
                    machine: self.journal.machine(),
                    spec: &spec,
                    boot_id: &self.engine_config.boot_id,
                };
                let AttemptResult { ending, evidence } = classifier.classify(&end);
                self.absorb(Fact::Ended { attempt, ending }, Some(evidence)).await
            }
        }
    }
}

impl Engine<'_> {
    /// Turns the end of an effect into the result of its attempt: a report that the engine writes, or a failure.
    fn effect_result(&self, attempt: &AttemptId, ended: EffectEnd) -> AttemptResult {
        let EffectEnd { result, took, is_stopped } = ended;
        let duration_ms = u64::try_from(took.as_millis()).ok();
        let machine = self.journal.machine();
        match result {
            Ok(fields) => {
                let expected = ReportIdentity {
                    run_id: self.journal.run.clone(),
                    step_id: attempt.step.clone(),
                    agent: machine.agent(&attempt.step),
                };
                AttemptResult::of_report(
                    machine,
                    Report::completed(&expected, self.journal.now(), fields),
                    duration_ms,
                )
            }
            Err(error) if is_stopped => {
                AttemptResult::failure(Ending::Stopped, FailureKind::Cancelled, error, duration_ms)
            }
            Err(error) => {
                AttemptResult::failure(Ending::Failed, FailureKind::EffectFailed, error, duration_ms)
            }
        }
    }
}

/// Returns whether the attempt's shim seems to be alive. For display only.
fn has_live_shim(dir: &AttemptDir) -> bool {
    !dir.exit().exists()
        && matches!(supervisor::shim_status(dir), Ok(ShimStatus::Alive { .. } | ShimStatus::InOtherContainer))
}
