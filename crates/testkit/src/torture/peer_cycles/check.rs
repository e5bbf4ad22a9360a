//! Checks what must hold after a trial of peer cycles.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use protocol::peer::transition::recognise;
use protocol::peer::{
    Document, Peer, PeerCycleStatus, Phase, PhaseStatus, RuleViolations, Transition, check_document,
};
use protocol::{PROTOCOLS, Revision, RunId};
use runner::RunAtRevision;

use super::super::Tally;
use super::super::chaos::Chaos;
use super::super::run_history::{RunHistory, StepHistory};
use super::random::{Behaviour, RandomPeerCycle};
use crate::harness;
use crate::test_env::TestEnv;

/// Panics at the first guarantee that does not hold. Each run of the trial is a peer cycle that continues the one before it,
/// which failed. Only the last one is completed.
pub(super) fn check(chaos: &Chaos<'_>, cycle: &RandomPeerCycle, seed: u64, tally: &mut Tally) {
    let mut completed: BTreeMap<Phase, usize> = BTreeMap::new();
    let runs = chaos.runs(seed);
    for (at, listed) in runs.iter().enumerate() {
        let run = listed["run"].as_str().unwrap_or_default();
        let about = format!("seed {seed}, `{run}`, {cycle:?}");
        assert!(
            matches!(listed["status"].as_str(), Some("succeeded" | "incomplete" | "failed")),
            "it never ended: {listed}, {about}"
        );
        let documents = documents(chaos.test_env, run);
        check_writes(&documents, &about);
        let last = documents.last().unwrap_or_else(|| panic!("it has no document: {about}"));
        let is_last = at + 1 == runs.len();
        let status = if is_last { PeerCycleStatus::Completed } else { PeerCycleStatus::Failed };
        assert_eq!(last.metadata.status, status, "{about}:\n{}", last.render());
        let succeeded = is_last && !cycle.review_fails;
        assert_eq!(listed["status"] == "succeeded", succeeded, "{about}:\n{}", last.render());
        let run_history = RunHistory::read(&chaos.test_env.journal(run));
        check_phases(chaos, cycle, run, last, &run_history.steps, &about);
        for (phase, shown) in last.phases.iter().filter(|(_, shown)| shown.status == PhaseStatus::Completed) {
            match shown.reused_from {
                Some(_) => tally.reused += 1,
                None => *completed.entry(phase).or_default() += 1,
            }
        }
        tally.peer_cycles += 1;
        tally.documents += documents.len();
        tally.add_history(&run_history);
    }
    let once = Phase::ALL.map(|phase| (phase, 1));
    assert_eq!(completed, once.into(), "seed {seed}: not every phase was completed once: {cycle:?}");
    tally.phases += completed.len();
    check_no_attempt_ran_twice(chaos, seed);
    chaos.test_env.expect_no_orphans();
}

/// Returns the documents of a run, one for each revision.
fn documents(test_env: &TestEnv, run: &str) -> Vec<Arc<Document>> {
    let store = test_env.open_store();
    let run = RunId::new(run).expect("`ls` gives names");
    let at = |revision| {
        let run_at = harness::block_on(RunAtRevision::load(store.as_ref(), PROTOCOLS, &run, revision));
        run_at.expect("it can be read").expect("there is such a run")
    };
    let document = |revision| at(Some(Revision(revision))).machine().document().typed::<Peer>();
    (1..=at(None).newest.0).map(document).collect()
}

/// Every document keeps the rules, and differs from the one before by at most one write.
fn check_writes(documents: &[Arc<Document>], about: &str) {
    let mut before: Option<&Document> = None;
    for (revision, document) in (1..).zip(documents) {
        let about = || format!("revision {revision}, {about}:\n{}", document.render());
        assert_eq!(check_document(document), RuleViolations::default(), "{}", about());
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

/// Compares the phases of the last document with the attempts in the journal. A phase may fail only as its agent was told to,
/// or by a stop. It may be interrupted only by the kill of its shim.
fn check_phases(
    chaos: &Chaos<'_>,
    cycle: &RandomPeerCycle,
    run: &str,
    last: &Document,
    histories: &BTreeMap<String, StepHistory>,
    about: &str,
) {
    // Phases that made the cycle fail: without an attempt left, or cancelled by a stop.
    let mut fatal = 0;
    for (phase, shown) in last.phases.iter() {
        let none = StepHistory::default();
        let history = histories.get(phase.as_str()).unwrap_or(&none);
        let about = format!("{phase}, {history:?}, {about}:\n{}", last.render());
        history.check_attempts(&about);
        assert!(shown.reused_from.is_none() || history.started.is_empty(), "it ran again: {about}");
        assert!(history.restarted_without_reason.is_empty(), "it was done and started again: {about}");
        let kills = chaos.shim_kills.get(&(run.to_owned(), phase.to_string())).copied().unwrap_or_default();
        assert!(
            history.interrupted <= kills,
            "interrupted more often than its shim was killed ({kills}): {about}"
        );
        let stopped = chaos.stopped.iter().any(|stopped| stopped == run);
        assert!(history.without_result == 0 || stopped, "ended without a result for no reason: {about}");
        let cancelled = shown.errors().iter().filter(|error| error.kind == "cancelled").count();
        assert!(cancelled == 0 || (cancelled == 1 && stopped), "cancelled without a reason: {about}");
        let failures = (history.retries + history.exhausted) as usize;
        assert_eq!(shown.errors().len(), failures + cancelled, "a failed attempt was not recorded: {about}");
        match cycle.behaviour(phase) {
            Behaviour::Works { .. } => assert_eq!(failures, 0, "it failed unexpectedly: {about}"),
            Behaviour::FailsFirst { .. } => {
                assert_eq!(history.exhausted, 0, "it was exhausted unexpectedly: {about}");
            }
            Behaviour::ExhaustsOnce => {
                assert!(history.exhausted <= 1, "it was exhausted more than once: {about}");
            }
        }
        fatal += history.exhausted as usize + cancelled;
    }
    let failed = usize::from(last.metadata.status == PeerCycleStatus::Failed);
    assert_eq!(fatal, failed, "it failed for another reason: {about}:\n{}", last.render());
}

/// Checks the file `started`, to which the agents of the trial add a line when they start.
fn check_no_attempt_ran_twice(chaos: &Chaos<'_>, seed: u64) {
    let log = std::fs::read_to_string(chaos.test_env.agent_dir().join("started")).unwrap_or_default();
    let mut names = BTreeSet::new();
    let twice = log.lines().find(|line| !names.insert(*line));
    assert_eq!(twice, None, "seed {seed}: an attempt ran twice:\n{log}");
}
