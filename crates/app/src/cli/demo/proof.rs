//! Whether the story holds: each claim against what was seen.

use std::collections::BTreeMap;
use std::os::unix::process::ExitStatusExt as _;
use std::process::ExitStatus;

use protocol::AttemptId;
use rustix::process::Signal;

use super::journal::AttemptEvent;
use super::ledger::{Note, When};

/// Everything that was seen. The journal is the store's word, the ledger the agents'; the rest was seen by us.
#[derive(Debug, Clone)]
pub(super) struct Evidence {
    /// The engine that was killed and the one after it.
    pub(super) engines: [u32; 2],
    pub(super) first_ended: ExitStatus,
    pub(super) second_ended: ExitStatus,
    /// Who was at work when the first engine was killed.
    pub(super) at_work: Note,
    /// That process lived when the first engine was dead.
    pub(super) outlived: bool,
    pub(super) journal_at_kill: Vec<AttemptEvent>,
    pub(super) journal: Vec<AttemptEvent>,
    pub(super) ledger: Vec<Note>,
    pub(super) passed_before: bool,
    pub(super) passes_now: bool,
    /// Processes with the mark of one of the attempts, after the end.
    pub(super) left_behind: u32,
}

/// A claim, and whether it is true.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Finding {
    pub(super) holds: bool,
    pub(super) claim: String,
}

impl Evidence {
    /// Every claim of the story, in its order.
    pub(super) fn findings(&self) -> Vec<Finding> {
        vec![
            self.was_killed(),
            self.was_adopted(),
            self.ran_once(),
            self.finished_stayed_finished(),
            self.gate_sent_back(),
            self.has_succeeded(),
            self.nobody_is_left(),
        ]
    }

    fn was_killed(&self) -> Finding {
        let holds = self.first_ended.signal() == Some(Signal::KILL.as_raw());
        let claim = format!(
            "engine {} was killed by signal 9 while {} was at work",
            self.engines[0], self.at_work.attempt
        );
        Finding { holds, claim }
    }

    /// Begun under the first engine, reported under the second, and the same process in between.
    fn was_adopted(&self) -> Finding {
        let Note { attempt, pid, .. } = &self.at_work;
        let begun_by: Vec<_> =
            begun(&self.journal).filter(|(id, _)| *id == attempt).map(|(_, engine)| engine).collect();
        let reported_to: Vec<_> = over(&self.journal)
            .filter(|(id, reported, _)| *id == attempt && *reported)
            .map(|(.., engine)| engine)
            .collect();
        let ended: Vec<_> = self.notes(When::End).filter(|note| note.attempt == *attempt).collect();
        let holds = self.outlived
            && begun_by == [self.engines[0]]
            && reported_to == [self.engines[1]]
            && ended.iter().map(|note| note.pid).collect::<Vec<_>>() == [*pid];
        Finding {
            holds,
            claim: format!("{attempt} outlived it: process {pid} before, the same process at its end"),
        }
    }

    /// The store and the agents agree on what ran, and nothing ran twice.
    fn ran_once(&self) -> Finding {
        let told = counted(begun(&self.journal).map(|(id, _)| id));
        let noted = counted(self.notes(When::Begin).map(|note| &note.attempt));
        let holds = !told.is_empty() && told == noted && told.values().all(|times| *times == 1);
        let claim = format!("{} attempts, and each ran exactly once", told.len());
        Finding { holds, claim }
    }

    fn finished_stayed_finished(&self) -> Finding {
        let finished: Vec<_> = over(&self.journal_at_kill).map(|(id, ..)| id).collect();
        let again = begun(&self.journal)
            .skip(begun(&self.journal_at_kill).count())
            .any(|(id, _)| finished.contains(&id));
        let names: Vec<_> = finished.iter().map(ToString::to_string).collect();
        let claim = format!("{} were finished before the kill and did not run again", names.join(" and "));
        Finding { holds: !finished.is_empty() && !again, claim }
    }

    fn gate_sent_back(&self) -> Finding {
        let holds =
            self.journal_at_kill.contains(&AttemptEvent::WentBack) && !self.passed_before && self.passes_now;
        Finding {
            holds,
            claim: "the test failed, the gate sent the wrong fix back, the test passes now".to_owned(),
        }
    }

    fn has_succeeded(&self) -> Finding {
        let holds = self.second_ended.success();
        Finding { holds, claim: format!("engine {} succeeded the run", self.engines[1]) }
    }

    fn nobody_is_left(&self) -> Finding {
        Finding { holds: self.left_behind == 0, claim: "no process of any attempt is left".to_owned() }
    }

    fn notes(&self, when: When) -> impl Iterator<Item = &Note> {
        self.ledger.iter().filter(move |note| note.when == when)
    }
}

fn begun(journal: &[AttemptEvent]) -> impl Iterator<Item = (&AttemptId, u32)> {
    journal.iter().filter_map(|happening| match happening {
        AttemptEvent::Began { attempt, engine } => Some((attempt, *engine)),
        AttemptEvent::Ended { .. } | AttemptEvent::WentBack => None,
    })
}

fn over(journal: &[AttemptEvent]) -> impl Iterator<Item = (&AttemptId, bool, u32)> {
    journal.iter().filter_map(|happening| match happening {
        AttemptEvent::Ended { attempt, engine, reported, .. } => Some((attempt, *reported, *engine)),
        AttemptEvent::Began { .. } | AttemptEvent::WentBack => None,
    })
}

fn counted<'a>(attempts: impl Iterator<Item = &'a AttemptId>) -> BTreeMap<&'a AttemptId, u32> {
    let mut times = BTreeMap::new();
    for attempt in attempts {
        *times.entry(attempt).or_insert(0) += 1;
    }
    times
}

#[cfg(test)]
mod tests {
    use super::*;

    const ENGINES: [u32; 2] = [10, 20];

    fn id(text: &str) -> AttemptId {
        text.parse().unwrap()
    }

    fn note(when: When, attempt: &str, pid: i32) -> Note {
        Note { when, attempt: id(attempt), pid }
    }

    fn began(attempt: &str, engine: u32) -> AttemptEvent {
        AttemptEvent::Began { attempt: id(attempt), engine }
    }

    fn reported(attempt: &str, engine: u32) -> AttemptEvent {
        AttemptEvent::Ended { attempt: id(attempt), engine, reported: true, logs: Vec::new() }
    }

    /// What a demo leaves that went well.
    fn evidence() -> Evidence {
        let journal = vec![
            began("fix#1.1", 10),
            reported("fix#1.1", 10),
            began("test#1.1", 10),
            reported("test#1.1", 10),
            AttemptEvent::WentBack,
            began("fix#2.1", 10),
            reported("fix#2.1", 20),
            began("test#2.1", 20),
            reported("test#2.1", 20),
        ];
        let attempts = [("fix#1.1", 1), ("test#1.1", 2), ("fix#2.1", 3), ("test#2.1", 4)];
        let notes = |(attempt, pid)| [note(When::Begin, attempt, pid), note(When::End, attempt, pid)];
        Evidence {
            engines: ENGINES,
            first_ended: ExitStatus::from_raw(9),
            second_ended: ExitStatus::from_raw(0),
            at_work: note(When::Begin, "fix#2.1", 3),
            outlived: true,
            journal_at_kill: journal[..6].to_vec(),
            journal,
            ledger: attempts.into_iter().flat_map(notes).collect(),
            passed_before: false,
            passes_now: true,
            left_behind: 0,
        }
    }

    #[track_caller]
    fn expect_broken(claim: &str, spoil: impl FnOnce(&mut Evidence)) {
        let mut evidence = evidence();
        spoil(&mut evidence);
        let broken: Vec<_> = evidence.findings().into_iter().filter(|finding| !finding.holds).collect();
        assert!(broken.iter().any(|finding| finding.claim.contains(claim)), "{broken:?}");
    }

    #[test]
    fn a_story_that_went_well_holds() {
        let broken: Vec<_> = evidence().findings().into_iter().filter(|finding| !finding.holds).collect();
        assert_eq!(broken, []);
    }

    #[test]
    fn an_engine_that_ended_otherwise_was_not_killed() {
        expect_broken("killed by signal 9", |seen| seen.first_ended = ExitStatus::from_raw(15));
    }

    #[test]
    fn who_was_begun_anew_was_not_adopted() {
        expect_broken("outlived it", |seen| seen.journal.push(began("fix#2.1", 20)));
        expect_broken("outlived it", |seen| seen.outlived = false);
        expect_broken("outlived it", |seen| seen.journal[6] = reported("fix#2.1", 10));
        expect_broken("outlived it", |seen| seen.journal[6] = reported("fix#2.2", 20));
        expect_broken("outlived it", |seen| seen.ledger[5].pid = 99);
    }

    #[test]
    fn an_attempt_that_ran_twice_or_that_only_one_side_knows_is_told() {
        expect_broken("exactly once", |seen| seen.ledger.push(note(When::Begin, "fix#1.1", 5)));
        expect_broken("exactly once", |seen| seen.ledger.push(note(When::Begin, "fix#9.9", 5)));
        expect_broken("exactly once", |seen| seen.journal.push(began("docs#1.1", 20)));
        expect_broken("exactly once", |seen| {
            seen.journal.clear();
            seen.ledger.clear();
        });
    }

    #[test]
    fn finished_work_that_is_begun_again_is_told_and_so_is_a_kill_before_anything_was_finished() {
        expect_broken("did not run again", |seen| seen.journal.push(began("test#1.1", 20)));
        expect_broken("did not run again", |seen| seen.journal_at_kill.clear());
    }

    #[test]
    fn a_test_that_never_failed_or_does_not_pass_is_told() {
        expect_broken("the test passes now", |seen| seen.passed_before = true);
        expect_broken("the test passes now", |seen| seen.passes_now = false);
        expect_broken("the test passes now", |seen| {
            seen.journal_at_kill.retain(|it| *it != AttemptEvent::WentBack);
        });
    }

    #[test]
    fn an_failed_run_and_a_process_left_behind_are_told() {
        expect_broken("succeeded", |seen| seen.second_ended = ExitStatus::from_raw(1 << 8));
        expect_broken("is left", |seen| seen.left_behind = 1);
    }
}
