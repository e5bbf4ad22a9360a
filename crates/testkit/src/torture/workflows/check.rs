//! What must hold after a tortured workflow.

use std::collections::{BTreeMap, BTreeSet};

use super::super::lives::{Journal, Life};
use super::random::{Part, RandomWorkflow, Step};
use crate::reader::Seen;
use crate::scene::Scene;

/// Panics at the first promise that does not hold; answers what the journal tells.
pub(super) fn check(
    scene: &Scene,
    workflow: &RandomWorkflow,
    shim_kills: &BTreeMap<(String, String), u32>,
    seen: &Seen,
    seed: u64,
) -> Journal {
    let journal = Journal::read(&scene.journal("trial"));
    let lives = &journal.lives;
    let ledger = scene.ledger();
    let begun = ledger.begun();
    let distinct: BTreeSet<_> = begun.iter().collect();
    assert_eq!(begun.len(), distinct.len(), "seed {seed}: an attempt ran twice: {begun:?}");
    let document = scene.document("trial");
    let somebody_died = lives.values().any(|life| life.gave_up > 0);
    for step in &workflow.steps {
        let id = step.id.as_str();
        let about = format!("seed {seed}, step {step:?}, {:?}, ledger {:?}", lives.get(id), ledger.order());
        let life = lives.get(id).unwrap_or_else(|| panic!("never began: {about}"));
        let kills = shim_kills.get(&("trial".to_owned(), id.to_owned())).copied().unwrap_or_default();
        check_life(step, life, kills, somebody_died, &about);
        assert!(ledger.ends_of(id) as u32 >= life.reported, "it reported without having ended: {about}");
        let shown = &document["steps"][id];
        assert_eq!(shown["status"], "COMPLETED", "{about}");
        assert_eq!(shown["iteration_count"], life.resets, "it was sent back otherwise than shown: {about}");
        let report = shown["report_path"].as_str().unwrap_or_default();
        assert!(std::path::Path::new(report).is_file(), "no report at `{report}`: {about}");
    }
    scene.expect_no_orphans();
    assert!(seen.bad.is_empty(), "seed {seed}: a reader saw bad views: {:#?}", seen.bad);
    let quarantine = scene.store().join("quarantine");
    assert!(!quarantine.exists(), "seed {seed}: a view of our own was taken for a stranger's");
    journal
}

fn check_life(step: &Step, life: &Life, kills: u32, somebody_died: bool, about: &str) {
    assert!(life.done, "it was never done: {about}");
    assert!(life.again_without_reason.is_empty(), "it was done and began again: {about}");
    life.is_whole(about);
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
