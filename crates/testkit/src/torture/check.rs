//! What must hold after a tortured workflow.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use super::workflow::{Part, RandomWorkflow, Step};
use crate::reader::Seen;
use crate::scene::Scene;

/// What the journal tells of a run.
#[derive(Debug, Default)]
pub(super) struct Found {
    pub(super) attempts: usize,
    pub(super) interrupted: usize,
    pub(super) failed: usize,
    /// Attempts whose end another engine saw than the one that began them.
    pub(super) adopted: usize,
    /// Ways back that were taken.
    pub(super) resets: usize,
}

/// The life of one step.
#[derive(Debug, Default)]
struct Life {
    began: Vec<String>,
    over: Vec<String>,
    /// Reports that were accepted.
    reported: u32,
    repeats: u32,
    interrupted: u32,
    gave_up: u32,
    /// Ended because another step had failed for good.
    stopped: u32,
    /// How often it was sent back.
    resets: u32,
    /// It is done: to begin again it must have been sent back.
    done: bool,
    again_without_reason: Vec<String>,
}

/// Panics at the first promise that does not hold.
pub(super) fn check(
    scene: &Scene,
    workflow: &RandomWorkflow,
    shim_kills: &BTreeMap<String, u32>,
    seen: &Seen,
    seed: u64,
) -> Found {
    let journal = scene.journal("trial");
    let Journal { lives, adopted, resets } = Journal::read(&journal);
    let ledger = scene.ledger();
    let begun = ledger.begun();
    let distinct: BTreeSet<_> = begun.iter().collect();
    assert_eq!(begun.len(), distinct.len(), "seed {seed}: an attempt ran twice: {begun:?}");
    let document = scene.document("trial");
    let somebody_died = lives.values().any(|life| life.gave_up > 0);
    let mut found = Found { adopted, resets, ..Found::default() };
    for step in &workflow.steps {
        let id = step.id.as_str();
        let about = format!("seed {seed}, step {step:?}, {:?}, ledger {:?}", lives.get(id), ledger.order());
        let life = lives.get(id).unwrap_or_else(|| panic!("never began: {about}"));
        check_life(step, life, shim_kills.get(id).copied().unwrap_or_default(), somebody_died, &about);
        assert!(ledger.ends_of(id) as u32 >= life.reported, "it reported without having ended: {about}");
        let shown = &document["steps"][id];
        assert_eq!(shown["status"], "COMPLETED", "{about}");
        assert_eq!(shown["iteration_count"], life.resets, "it was sent back otherwise than shown: {about}");
        let report = shown["report_path"].as_str().unwrap_or_default();
        assert!(std::path::Path::new(report).is_file(), "no report at `{report}`: {about}");
        found.attempts += life.began.len();
        found.interrupted += life.interrupted as usize;
        found.failed += (life.repeats + life.gave_up) as usize;
    }
    scene.expect_no_orphans();
    assert!(seen.bad.is_empty(), "seed {seed}: a reader saw bad views: {:#?}", seen.bad);
    let quarantine = scene.store().join("quarantine");
    assert!(!quarantine.exists(), "seed {seed}: a view of our own was taken for a stranger's");
    found
}

fn check_life(step: &Step, life: &Life, kills: u32, somebody_died: bool, about: &str) {
    assert!(life.done, "it was never done: {about}");
    assert!(life.again_without_reason.is_empty(), "it was done and began again: {about}");
    let (began, over): (BTreeSet<_>, BTreeSet<_>) = (life.began.iter().collect(), life.over.iter().collect());
    assert_eq!(life.began.len(), began.len(), "an attempt began twice: {about}");
    assert_eq!(life.over.len(), over.len(), "an attempt was over twice: {about}");
    assert_eq!(began, over, "an attempt was lost: {about}");
    // Every accepted report but the last one was made good by a way back.
    assert!(
        life.reported <= 1 + life.resets,
        "its report was accepted more often than it was asked: {about}"
    );
    assert!(life.interrupted <= kills, "interrupted more often than its shim was killed ({kills}): {about}");
    assert!(life.stopped == 0 || somebody_died, "stopped without a reason: {about}");
    match step.part {
        Part::Stumbles { .. } => assert!(life.gave_up == 0, "it failed otherwise than planned: {about}"),
        Part::Dies => assert!(life.gave_up <= 1, "it died more than once: {about}"),
        Part::Works { .. } | Part::Gate { .. } => {
            assert_eq!((life.repeats, life.gave_up), (0, 0), "it failed though it was not to: {about}");
        }
    }
}

struct Journal {
    lives: BTreeMap<String, Life>,
    adopted: usize,
    resets: usize,
}

impl Journal {
    fn read(lines: &[Value]) -> Self {
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
        let Some(seat) = attempt["seat"].as_str() else { return };
        let id = format!("{seat}#{}.{}", attempt["turn"], attempt["try"]);
        let life = self.lives.entry(seat.to_owned()).or_default();
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
