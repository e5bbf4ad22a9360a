//! The attempts of a run, as its journal records them.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

/// The attempts of one step or phase.
#[derive(Debug, Default)]
pub(super) struct StepHistory {
    pub(super) started: Vec<String>,
    pub(super) ended: Vec<String>,
    /// Reports that were accepted.
    pub(super) reported: u32,
    pub(super) retries: u32,
    pub(super) interrupted: u32,
    pub(super) exhausted: u32,
    /// Ended without a result, because another step was exhausted or the run was stopped: the attempt was stopped, or
    /// it failed and is not retried.
    pub(super) without_result: u32,
    /// How often a loop-back reset it.
    pub(super) loop_backs: u32,
    /// Whether it is done. It may start again only after a reset, in its next phase, or after failed checks.
    pub(super) done: bool,
    pub(super) restarted_without_reason: Vec<String>,
}

impl StepHistory {
    /// Fails unless every attempt that started ended exactly once, and none started twice.
    pub(super) fn check_attempts(&self, about: &str) {
        let (started, ended): (BTreeSet<_>, BTreeSet<_>) =
            (self.started.iter().collect(), self.ended.iter().collect());
        assert_eq!(self.started.len(), started.len(), "an attempt started twice: {about}");
        assert_eq!(self.ended.len(), ended.len(), "an attempt ended twice: {about}");
        assert_eq!(started, ended, "an attempt was lost: {about}");
    }
}

/// The attempts of all steps.
pub(super) struct RunHistory {
    pub(super) steps: BTreeMap<String, StepHistory>,
    /// Attempts whose start and end were recorded by different engines.
    pub(super) adopted: usize,
    /// Loop-backs, each counted once, however many steps it reset.
    pub(super) loop_backs: usize,
}

impl RunHistory {
    /// Reads the lines of `callboard log --json`.
    pub(super) fn read(lines: &[Value]) -> Self {
        let mut run_history = Self { steps: BTreeMap::new(), adopted: 0, loop_backs: 0 };
        let mut started_by = BTreeMap::new();
        for line in lines {
            let by = line["entry"]["by"]["pid"].as_u64();
            for change in line["entry"]["changes"].as_array().into_iter().flatten() {
                run_history.add(change, by, &mut started_by);
            }
        }
        run_history
    }

    fn add(&mut self, change: &Value, by: Option<u64>, started_by: &mut BTreeMap<String, Option<u64>>) {
        for step in change["transition"]["reset"]["steps"].as_array().into_iter().flatten() {
            let history = self.steps.entry(step.as_str().unwrap_or_default().to_owned()).or_default();
            history.loop_backs += 1;
            history.done = false;
        }
        let transition = &change["transition"];
        // These steps start again without a reset: they enter their next phase, such as the checks or the approval after
        // the work, or their checks have failed.
        let continuing = [&transition["entered"]["step"], &transition["checks_failed"]];
        for step in continuing.into_iter().filter_map(Value::as_str) {
            self.steps.entry(step.to_owned()).or_default().done = false;
        }
        self.loop_backs += usize::from(!change["transition"]["reset"].is_null());
        let Some(attempt) = change["attempt"].as_str() else { return };
        let id = attempt.to_owned();
        let (step, _) = id.split_once('#').unwrap_or_else(|| panic!("`{id}` is not an attempt"));
        let history = self.steps.entry(step.to_owned()).or_default();
        match change["change"].as_str() {
            Some("started") => {
                if history.done {
                    history.restarted_without_reason.push(id.clone());
                }
                history.started.push(id.clone());
                started_by.insert(id, by);
            }
            Some("ended") => {
                self.adopted += usize::from(started_by.get(&id) != Some(&by));
                history.ended.push(id.clone());
                let consequence = &change["consequence"];
                match consequence.as_str() {
                    Some("reported") => {
                        history.reported += 1;
                        history.done = true;
                    }
                    Some("exhausted") => history.exhausted += 1,
                    Some("released" | "failed_while_draining") => history.without_result += 1,
                    _ if consequence.get("will_retry").is_some() => history.retries += 1,
                    _ if consequence.get("interrupted").is_some() => history.interrupted += 1,
                    _ => panic!("`{id}` ended in an unexpected way: {consequence}"),
                }
            }
            _ => {}
        }
    }
}
