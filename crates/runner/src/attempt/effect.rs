//! Effects: changes of the outside world that the engine makes itself, exactly once.
//!
//! The attempt of an effect is committed before it is performed. An engine that finds such an attempt looks for the result
//! in the outside world first, so an effect is not repeated if the engine before was killed in between.

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use protocol::checks::{CheckResult, CheckSpec};
use protocol::{AttemptId, Effect, RunId, RunLocation, Turn};
use serde_json::{Map, Value};
use supervisor::checks::{CheckError, CheckRunner, StopFlag};
use supervisor::git::RunWorktrees;
use supervisor::{AttemptDir, Mark};
use tokio::sync::mpsc;

use super::task::{AttemptEvent, TaskHandle};
use crate::error_chain::with_causes;

/// One kind of effect. Both functions may block.
pub trait PerformEffect: Debug + Send + Sync {
    /// Returns the result of the effect if it was performed before.
    fn find(&self, pending_effect: &PendingEffect) -> Result<Option<Map<String, Value>>, String>;
    /// Performs the effect and returns its result.
    fn perform(&self, pending_effect: &PendingEffect) -> Result<Map<String, Value>, String>;
}

/// The effects that an engine can perform, by name.
pub type Effects = BTreeMap<&'static str, Arc<dyn PerformEffect>>;

/// An effect that is to be performed.
#[derive(Debug, Clone)]
pub struct PendingEffect {
    pub run: RunId,
    /// The attempt that performs it.
    pub attempt: AttemptId,
    pub arguments: Value,
    pub repo_dir: PathBuf,
    /// The worktrees of the run, if it has any.
    pub run_worktrees: Option<RunWorktrees>,
    /// The run is a rehearsal: nothing that belongs to the user may change.
    pub rehearsal: bool,
    /// The checks that a merged tree must pass.
    pub checks: Vec<CheckSpec>,
    /// The directory for the output of checks.
    pub dir: AttemptDir,
    /// The environment variables by which the processes of a check are found.
    pub mark: Mark,
    /// Requested if the attempt is to end. Only checks can be stopped: a change of the outside world is made or not.
    pub stop: StopFlag,
}

impl PendingEffect {
    /// Returns the idempotency key, which is the same for all attempts of a turn: `RUN/STEP#TURN`. With the
    /// argument `effect_id`, it is the same for all turns that have this id: `RUN/STEP:EFFECT_ID`.
    pub fn key(&self) -> String {
        let AttemptId { step, turn: Turn(turn), .. } = &self.attempt;
        match self.arguments["effect_id"].as_str() {
            Some(effect_id) => format!("{}/{step}:{effect_id}", self.run),
            None => format!("{}/{step}#{turn}", self.run),
        }
    }

    /// Returns the path of an artifact. A file below `.agents/runs/` is in the repository. Any other is in the integration
    /// worktree, if the run has worktrees; it is created if no step has worked there yet.
    pub(super) fn artifact_path(&self, artifact: &str) -> Result<PathBuf, String> {
        let is_in_run_dir = format!("/{artifact}").starts_with(RunLocation::RUNS_DIR);
        match self.run_worktrees.as_ref().filter(|_| !is_in_run_dir) {
            Some(run_worktrees) => {
                Ok(run_worktrees.prepare(None).map_err(|error| with_causes(&error))?.join(artifact))
            }
            None => Ok(self.repo_dir.join(artifact)),
        }
    }

    /// Runs the checks in a tree. A rehearsal does not run them.
    pub(super) fn check(&self, tree: &Path) -> Result<Vec<CheckResult>, CheckError> {
        if self.rehearsal {
            return Ok(supervisor::checks::rehearsed(&self.checks));
        }
        let env = self.mark.variables().map(|(name, value)| (name.to_owned(), value)).to_vec();
        let runner = CheckRunner { tree, logs_dir: self.dir.path(), env, stop: self.stop.clone() };
        runner.run(&self.checks, |result| tracing::info!(result = result.summary(), "check"))
    }

    /// Kills the checks that a killed engine has left running, because they work in the tree that is used again.
    pub(super) fn kill_checks(&self) -> io::Result<()> {
        if !self.checks.is_empty() && !self.rehearsal {
            supervisor::kill_marked(&self.mark)?;
        }
        Ok(())
    }
}

/// How an effect ended.
#[derive(Debug)]
pub(crate) struct EffectEnd {
    pub(crate) result: Result<Map<String, Value>, String>,
    pub(crate) took: Duration,
    /// The attempt was asked to stop, and the effect was not performed.
    pub(crate) is_stopped: bool,
}

/// Ends an effect that could not be started, because the operating system refused a resource.
pub(crate) fn fail_effect(
    attempt: AttemptId,
    error: &io::Error,
    events: &mpsc::UnboundedSender<AttemptEvent>,
) -> TaskHandle {
    let result = Err(format!("cannot perform the effect: {error}"));
    let ended = EffectEnd { result, took: Duration::ZERO, is_stopped: false };
    // If the engine is gone, the next one performs the effect.
    let _ = events.send(AttemptEvent::EffectEnded { attempt, ended });
    TaskHandle::ended()
}

/// Spawns the task of an effect.
pub(crate) fn spawn_effect(
    effects: &Effects,
    effect: Option<Effect>,
    pending_effect: PendingEffect,
    events: mpsc::UnboundedSender<AttemptEvent>,
) -> TaskHandle {
    let performer = effect.and_then(|effect| effects.get(effect.name).map(Arc::clone));
    let handle = TaskHandle::of_effect(pending_effect.stop.clone());
    let span = tracing::info_span!("attempt", id = %pending_effect.attempt);
    tokio::task::spawn_blocking(move || {
        let _entered = span.enter();
        let start = Instant::now();
        let result = match &performer {
            None => Err("this program cannot perform the effect".to_owned()),
            Some(performer) => find_or_perform(performer.as_ref(), &pending_effect),
        };
        let is_stopped = result.is_err() && pending_effect.stop.is_requested();
        let ended = EffectEnd { result, took: start.elapsed(), is_stopped };
        // If the engine is gone, the next one finds the result.
        let _ = events.send(AttemptEvent::EffectEnded { attempt: pending_effect.attempt, ended });
    });
    handle
}

fn find_or_perform(
    performer: &dyn PerformEffect,
    pending_effect: &PendingEffect,
) -> Result<Map<String, Value>, String> {
    match performer.find(pending_effect)? {
        Some(found) => {
            tracing::info!(key = pending_effect.key(), "effect found");
            Ok(found)
        }
        None => performer.perform(pending_effect),
    }
}
