//! What the journal tells of the attempts of a run.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

/// The life of one step, or of a phase.
#[derive(Debug, Default)]
pub(super) struct Life {
    pub(super) began: Vec<String>,
    pub(super) over: Vec<String>,
    /// Reports that were accepted.
    pub(super) reported: u32,
    pub(super) repeats: u32,
    pub(super) interrupted: u32,
    pub(super) gave_up: u32,
    /// Ended because another step had failed for good, or the run was stopped.
    pub(super) stopped: u32,
    /// How often it was sent back.
    pub(super) resets: u32,
    /// It is done: to begin again it must have been sent back.
    pub(super) done: bool,
    pub(super) again_without_reason: Vec<String>,
}

impl Life {
    /// Every attempt that began is over, once, and none began twice.
    pub(super) fn is_whole(&self, about: &str) {
        let (began, over): (BTreeSet<_>, BTreeSet<_>) =
            (self.began.iter().collect(), self.over.iter().collect());
        assert_eq!(self.began.len(), began.len(), "an attempt began twice: {about}");
        assert_eq!(self.over.len(), over.len(), "an attempt was over twice: {about}");
        assert_eq!(began, over, "an attempt was lost: {about}");
    }
}

/// What the journal tells of all steps.
pub(super) struct Journal {
    pub(super) lives: BTreeMap<String, Life>,
    /// Attempts whose end another engine saw than the one that began them.
    pub(super) adopted: usize,
    /// Ways back that were taken.
    pub(super) resets: usize,
}

impl Journal {
    pub(super) fn read(lines: &[Value]) -> Self {
        let mut journal = Self { lives: BTreeMap::new(), adopted: 0, resets: 0 };
        let mut began_by = BTreeMap::new();
        for line in lines {
            let by = line["entry"]["by"]["pid"].as_u64();
            for change in line["entry"]["changes"].as_array().into_iter().flatten() {
                journal.take(change, by, &mut began_by);
            }
        }
        journal
    }

    fn take(&mut self, change: &Value, by: Option<u64>, began_by: &mut BTreeMap<String, Option<u64>>) {
        for step in change["play"]["reset"]["steps"].as_array().into_iter().flatten() {
            let life = self.lives.entry(step.as_str().unwrap_or_default().to_owned()).or_default();
            life.resets += 1;
            life.done = false;
        }
        self.resets += usize::from(!change["play"]["reset"].is_null());
        let attempt = &change["attempt"];
        let Some(step) = attempt["step"].as_str() else { return };
        let id = format!("{step}#{}.{}", attempt["turn"], attempt["attempt"]);
        let life = self.lives.entry(step.to_owned()).or_default();
        match change["change"].as_str() {
            Some("began") => {
                if life.done {
                    life.again_without_reason.push(id.clone());
                }
                life.began.push(id.clone());
                began_by.insert(id, by);
            }
            Some("over") => {
                self.adopted += usize::from(began_by.get(&id) != Some(&by));
                life.over.push(id.clone());
                let exit = &change["exit"];
                match exit.as_str() {
                    Some("reported") => {
                        life.reported += 1;
                        life.done = true;
                    }
                    Some("gave_up") => life.gave_up += 1,
                    Some("dismissed" | "drained") => life.stopped += 1,
                    _ if exit.get("repeats").is_some() => life.repeats += 1,
                    _ if exit.get("interrupted").is_some() => life.interrupted += 1,
                    _ => panic!("`{id}` is over in an unexpected way: {exit}"),
                }
            }
            _ => {}
        }
    }
}
