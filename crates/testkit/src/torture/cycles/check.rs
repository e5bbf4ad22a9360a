//! What must hold after tortured cycles.

use std::collections::{BTreeMap, BTreeSet};

use protocol::peer::transition::recognise;
use protocol::peer::{Checked, CycleStatus, Document, Peer, Phase, PhaseStatus, Transition, check_document};
use protocol::{Revision, RunId};
use runner::RunAt;

use super::super::Tally;
use super::super::killer::Killer;
use super::super::lives::{Journal, Life};
use super::random::{Part, RandomCycle};
use crate::harness;
use crate::scene::Scene;

/// Panics at the first promise that does not hold.
pub(super) fn check(killer: &Killer<'_>, cycle: &RandomCycle, seed: u64, tally: &mut Tally) {
    let mut played: BTreeMap<Phase, usize> = BTreeMap::new();
    let runs = killer.runs(seed);
    for (at, listed) in runs.iter().enumerate() {
        let run = listed["run"].as_str().unwrap_or_default();
        let about = format!("seed {seed}, `{run}`, {cycle:?}");
        assert!(
            matches!(listed["phase"].as_str(), Some("succeeded" | "failed")),
            "it never ended: {listed}, {about}"
        );
        let documents = documents(killer.scene, run);
        check_writes(&documents, &about);
        let last = documents.last().unwrap_or_else(|| panic!("it has no document: {about}"));
        let is_last = at + 1 == runs.len();
        let status = if is_last { CycleStatus::Completed } else { CycleStatus::Failed };
        assert_eq!(last.metadata.status, status, "{about}:\n{}", last.render());
        let succeeded = is_last && !cycle.finds_fault;
        assert_eq!(listed["phase"] == "succeeded", succeeded, "{about}:\n{}", last.render());
        let journal = Journal::read(&killer.scene.journal(run));
        check_lives(killer, cycle, run, last, &journal.lives, &about);
        for (phase, shown) in last.phases.iter().filter(|(_, shown)| shown.status == PhaseStatus::Completed) {
            match shown.reused_from {
                Some(_) => tally.reused += 1,
                None => *played.entry(phase).or_default() += 1,
            }
        }
        tally.cycles += 1;
        tally.documents += documents.len();
        tally.add_lives(&journal);
    }
    let once = Phase::ALL.map(|phase| (phase, 1));
    assert_eq!(played, once.into(), "seed {seed}: not every phase was completed once: {cycle:?}");
    tally.phases += played.len();
    nobody_ran_twice(killer, seed);
    killer.scene.expect_no_orphans();
}

/// The documents of a run, one for each revision.
fn documents(scene: &Scene, run: &str) -> Vec<Document> {
    let store = scene.open_store();
    let run = RunId::new(run).expect("`ls` gives names");
    let at = |revision| {
        let run_at = harness::wait(RunAt::<Peer>::at(&store, &run, revision));
        run_at.expect("it can be read").expect("there is such a run")
    };
    (1..=at(None).newest.0).map(|revision| at(Some(Revision(revision))).document).collect()
}

/// Every document that there ever was keeps the rules, and each is one write after the one before, or the same.
fn check_writes(documents: &[Document], about: &str) {
    let mut before: Option<&Document> = None;
    for (revision, document) in (1..).zip(documents) {
        let about = || format!("revision {revision}, {about}:\n{}", document.render());
        assert_eq!(check_document(document), Checked::default(), "{}", about());
        let write = recognise(before, document).unwrap_or_else(|invalid| panic!("{invalid}: {}", about()));
        let expected = match (before, write) {
            (None, _) => 1,
            (Some(before), Transition::Unchanged) => before.sequence,
            (Some(before), _) => before.sequence + 1,
        };
        assert_eq!(document.sequence, expected, "`{write}` is not counted: {}", about());
        before = Some(document);
    }
}

fn check_lives(
    killer: &Killer<'_>,
    cycle: &RandomCycle,
    run: &str,
    last: &Document,
    lives: &BTreeMap<String, Life>,
    about: &str,
) {
    let mut gave_up = 0;
    for (phase, shown) in last.phases.iter() {
        let unborn = Life::default();
        let life = lives.get(phase.as_str()).unwrap_or(&unborn);
        let about = format!("{phase}, {life:?}, {about}:\n{}", last.render());
        life.is_whole(&about);
        assert!(shown.reused_from.is_none() || life.began.is_empty(), "it was played again: {about}");
        assert!(life.again_without_reason.is_empty(), "it was done and began again: {about}");
        let kills = killer.shims.get(&(run.to_owned(), phase.to_string())).copied().unwrap_or_default();
        assert!(
            life.interrupted <= kills,
            "interrupted more often than its shim was killed ({kills}): {about}"
        );
        let stopped = killer.stopped.iter().any(|stopped| stopped == run);
        assert!(life.stopped == 0 || stopped, "stopped without a reason: {about}");
        let cancelled = shown.errors().iter().filter(|error| error.kind == "cancelled").count();
        assert!(cancelled == 0 || (cancelled == 1 && stopped), "cancelled without a reason: {about}");
        let failures = (life.repeats + life.gave_up) as usize;
        assert_eq!(shown.errors().len(), failures + cancelled, "a failed attempt was not kept: {about}");
        match cycle.part(phase) {
            Part::Works { .. } => assert_eq!(failures, 0, "it failed though it was not to: {about}"),
            Part::Stumbles { .. } => assert_eq!(life.gave_up, 0, "it failed otherwise than planned: {about}"),
            Part::Dies => assert!(life.gave_up <= 1, "it died more than once: {about}"),
        }
        gave_up += life.gave_up as usize + cancelled;
    }
    let failed = usize::from(last.metadata.status == CycleStatus::Failed);
    assert_eq!(gave_up, failed, "it failed for another reason: {about}:\n{}", last.render());
}

/// By the agents' own account.
fn nobody_ran_twice(killer: &Killer<'_>, seed: u64) {
    let played = std::fs::read_to_string(killer.scene.kit().join("played")).unwrap_or_default();
    let mut names = BTreeSet::new();
    let twice = played.lines().find(|line| !names.insert(*line));
    assert_eq!(twice, None, "seed {seed}: an attempt ran twice:\n{played}");
}
