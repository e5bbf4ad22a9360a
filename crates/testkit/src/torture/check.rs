//! What must hold after a tortured workflow.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use super::workflow::RandomWorkflow;
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
}

/// The life of one step.
#[derive(Debug, Default)]
struct Life {
    began: Vec<String>,
    reported: u32,
    repeats: u32,
    interrupted: u32,
    after_the_report: Vec<String>,
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
    let (lives, adopted) = lives(&journal);
    let ledger = scene.ledger();
    let begun = ledger.begun();
    let distinct: BTreeSet<_> = begun.iter().collect();
    assert_eq!(begun.len(), distinct.len(), "seed {seed}: an attempt ran twice: {begun:?}");
    let document = scene.document("trial");
    let mut found = Found { adopted, ..Found::default() };
    for step in &workflow.steps {
        let id = step.id.as_str();
        let about = format!("seed {seed}, step {id}, {:?}, ledger {:?}", lives.get(id), ledger.order());
        let life = lives.get(id).unwrap_or_else(|| panic!("never began: {about}"));
        let failures = u32::from(step.fails.is_some());
        let kills = shim_kills.get(id).copied().unwrap_or_default();
        assert_eq!(life.reported, 1, "its report was not accepted exactly once: {about}");
        assert!(life.after_the_report.is_empty(), "it began again after its report: {about}");
        assert_eq!(life.repeats, failures, "it failed otherwise than planned: {about}");
        assert!(
            life.interrupted <= kills,
            "interrupted more often than its shim was killed ({kills}): {about}"
        );
        // Repeats need a reason: a planned failure or a killed shim, never a killed engine.
        assert_eq!(
            life.began.len() as u32,
            1 + failures + life.interrupted,
            "began without a reason: {about}"
        );
        let ends = ledger.ends_of(id) as u32;
        assert!(ends > failures, "it was never finished: {about}");
        assert!(ends <= 1 + failures + life.interrupted, "something finished ran again: {about}");
        let shown = &document["steps"][id];
        assert_eq!(shown["status"], "COMPLETED", "{about}");
        assert_eq!(shown["attempts"], 1 + failures, "interrupted tries are not counted: {about}");
        let report = shown["report_path"].as_str().unwrap_or_default();
        assert!(std::path::Path::new(report).is_file(), "no report at `{report}`: {about}");
        found.attempts += life.began.len();
        found.interrupted += life.interrupted as usize;
        found.failed += life.repeats as usize;
    }
    scene.expect_no_orphans();
    assert!(seen.bad.is_empty(), "seed {seed}: a reader saw bad views: {:#?}", seen.bad);
    let quarantine = scene.store().join("quarantine");
    assert!(!quarantine.exists(), "seed {seed}: a view of our own was taken for a stranger's");
    found
}

fn lives(journal: &[Value]) -> (BTreeMap<String, Life>, usize) {
    let mut lives: BTreeMap<String, Life> = BTreeMap::new();
    let mut began_by: BTreeMap<String, &Value> = BTreeMap::new();
    let mut adopted = 0;
    for line in journal {
        let by = &line["entry"]["by"]["pid"];
        for change in line["entry"]["changes"].as_array().into_iter().flatten() {
            let attempt = &change["attempt"];
            let Some(seat) = attempt["seat"].as_str() else { continue };
            let id = format!("{seat}#{}.{}", attempt["turn"], attempt["try"]);
            let life = lives.entry(seat.to_owned()).or_default();
            match (change["change"].as_str(), &change["exit"]) {
                (Some("began"), _) => {
                    if life.reported > 0 {
                        life.after_the_report.push(id.clone());
                    }
                    life.began.push(id.clone());
                    began_by.insert(id, by);
                }
                (Some("over"), exit) => {
                    adopted += usize::from(began_by.get(&id) != Some(&by));
                    match exit.as_str() {
                        Some("reported") => life.reported += 1,
                        _ if exit.get("repeats").is_some() => life.repeats += 1,
                        _ if exit.get("interrupted").is_some() => life.interrupted += 1,
                        _ => panic!("`{id}` is over in an unexpected way: {exit}"),
                    }
                }
                _ => {}
            }
        }
    }
    (lives, adopted)
}
