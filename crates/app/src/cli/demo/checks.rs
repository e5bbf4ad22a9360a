//! The checks at the end of the demo.

use std::collections::BTreeMap;
use std::os::unix::process::ExitStatusExt as _;
use std::process::ExitStatus;

use protocol::AttemptId;
use rustix::process::Signal;

use super::agent_log::{AgentEvent, LogLine};
use super::journal::AttemptEvent;

/// What the demo observed: the journal, the agents' log, and the processes.
#[derive(Debug, Clone)]
pub(super) struct Observed {
    /// The process ids of the engine that was killed, and of the engine that resumed the run.
    pub(super) engine_pids: [u32; 2],
    pub(super) first_exit: ExitStatus,
    pub(super) second_exit: ExitStatus,
    /// The start of the attempt that was running when the first engine was killed.
    pub(super) running_at_kill: LogLine,
    /// Whether that agent was alive after the engine was dead.
    pub(super) agent_survived: bool,
    pub(super) journal_at_kill: Vec<AttemptEvent>,
    pub(super) journal: Vec<AttemptEvent>,
    pub(super) agent_log: Vec<LogLine>,
    pub(super) test_passed_before: bool,
    pub(super) test_passes_now: bool,
    /// The number of processes that still carried the mark of an attempt after the run.
    pub(super) processes_left: u32,
}

/// A statement about the demo, and whether it was true.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct DemoCheck {
    pub(super) passed: bool,
    pub(super) statement: String,
}

impl Observed {
    /// All checks, in the order of the demo.
    pub(super) fn checks(&self) -> Vec<DemoCheck> {
        vec![
            self.engine_was_killed(),
            self.agent_was_adopted(),
            self.each_attempt_ran_once(),
            self.finished_work_is_not_repeated(),
            self.gate_looped_back(),
            self.run_succeeded(),
            self.no_process_is_left(),
        ]
    }

    fn engine_was_killed(&self) -> DemoCheck {
        let passed = self.first_exit.signal() == Some(Signal::KILL.as_raw());
        let statement = format!(
            "engine {} was killed by signal 9 while {} was running",
            self.engine_pids[0], self.running_at_kill.attempt
        );
        DemoCheck { passed, statement }
    }

    /// The attempt started under the first engine and reported to the second, as the same process.
    fn agent_was_adopted(&self) -> DemoCheck {
        let LogLine { attempt, pid, .. } = &self.running_at_kill;
        let started_by: Vec<_> = starts(&self.journal)
            .filter(|(id, _)| *id == attempt)
            .map(|(_, engine_pid)| engine_pid)
            .collect();
        let reported_to: Vec<_> = ends(&self.journal)
            .filter(|(id, reported, _)| *id == attempt && *reported)
            .map(|(.., engine_pid)| engine_pid)
            .collect();
        let ended: Vec<_> = self.log_lines(AgentEvent::End).filter(|line| line.attempt == *attempt).collect();
        let passed = self.agent_survived
            && started_by == [Some(self.engine_pids[0])]
            && reported_to == [Some(self.engine_pids[1])]
            && ended.iter().map(|line| line.pid).collect::<Vec<_>>() == [*pid];
        DemoCheck {
            passed,
            statement: format!(
                "{attempt} survived the kill as process {pid} and reported to the next engine"
            ),
        }
    }

    /// The journal and the agents' log have the same attempts, each once.
    fn each_attempt_ran_once(&self) -> DemoCheck {
        let in_journal = counts(starts(&self.journal).map(|(id, _)| id));
        let in_agent_log = counts(self.log_lines(AgentEvent::Start).map(|line| &line.attempt));
        let passed = !in_journal.is_empty()
            && in_journal == in_agent_log
            && in_journal.values().all(|times| *times == 1);
        let statement = format!("each of the {} attempts ran exactly once", in_journal.len());
        DemoCheck { passed, statement }
    }

    fn finished_work_is_not_repeated(&self) -> DemoCheck {
        let finished: Vec<_> = ends(&self.journal_at_kill).map(|(id, ..)| id).collect();
        let again = starts(&self.journal)
            .skip(starts(&self.journal_at_kill).count())
            .any(|(id, _)| finished.contains(&id));
        let names: Vec<_> = finished.iter().map(ToString::to_string).collect();
        let statement = format!("{} finished before the kill and did not run again", names.join(" and "));
        DemoCheck { passed: !finished.is_empty() && !again, statement }
    }

    fn gate_looped_back(&self) -> DemoCheck {
        let passed = self.journal_at_kill.contains(&AttemptEvent::LoopedBack)
            && !self.test_passed_before
            && self.test_passes_now;
        DemoCheck {
            passed,
            statement: "the test failed, the gate looped back to `fix`, and the test passes now".to_owned(),
        }
    }

    fn run_succeeded(&self) -> DemoCheck {
        let passed = self.second_exit.success();
        DemoCheck {
            passed,
            statement: format!("engine {} resumed the run and the run succeeded", self.engine_pids[1]),
        }
    }

    fn no_process_is_left(&self) -> DemoCheck {
        DemoCheck { passed: self.processes_left == 0, statement: "no process of the run is left".to_owned() }
    }

    fn log_lines(&self, event: AgentEvent) -> impl Iterator<Item = &LogLine> {
        self.agent_log.iter().filter(move |line| line.event == event)
    }
}

/// Returns the attempts that started, each with the engine that started it.
fn starts(journal: &[AttemptEvent]) -> impl Iterator<Item = (&AttemptId, Option<u32>)> {
    journal.iter().filter_map(|event| match event {
        AttemptEvent::Started { attempt, engine_pid } => Some((attempt, *engine_pid)),
        AttemptEvent::Ended { .. } | AttemptEvent::LoopedBack => None,
    })
}

/// Returns the attempts that ended, each with whether it reported and the engine that recorded the end.
fn ends(journal: &[AttemptEvent]) -> impl Iterator<Item = (&AttemptId, bool, Option<u32>)> {
    journal.iter().filter_map(|event| match event {
        AttemptEvent::Ended { attempt, engine_pid, reported, .. } => Some((attempt, *reported, *engine_pid)),
        AttemptEvent::Started { .. } | AttemptEvent::LoopedBack => None,
    })
}

fn counts<'a>(attempts: impl Iterator<Item = &'a AttemptId>) -> BTreeMap<&'a AttemptId, u32> {
    let mut times = BTreeMap::new();
    for attempt in attempts {
        *times.entry(attempt).or_insert(0) += 1;
    }
    times
}

#[cfg(test)]
mod tests {
    use super::*;

    const ENGINE_PIDS: [u32; 2] = [10, 20];

    fn id(text: &str) -> AttemptId {
        text.parse().unwrap()
    }

    fn line(event: AgentEvent, attempt: &str, pid: i32) -> LogLine {
        LogLine { event, attempt: id(attempt), pid }
    }

    fn started(attempt: &str, engine_pid: u32) -> AttemptEvent {
        AttemptEvent::Started { attempt: id(attempt), engine_pid: Some(engine_pid) }
    }

    fn reported(attempt: &str, engine_pid: u32) -> AttemptEvent {
        AttemptEvent::Ended {
            attempt: id(attempt),
            engine_pid: Some(engine_pid),
            reported: true,
            logs: Vec::new(),
        }
    }

    /// What a successful demo observes.
    fn observed() -> Observed {
        let journal = vec![
            started("fix#1.1", 10),
            reported("fix#1.1", 10),
            started("test#1.1", 10),
            reported("test#1.1", 10),
            AttemptEvent::LoopedBack,
            started("fix#2.1", 10),
            reported("fix#2.1", 20),
            started("test#2.1", 20),
            reported("test#2.1", 20),
        ];
        let attempts = [("fix#1.1", 1), ("test#1.1", 2), ("fix#2.1", 3), ("test#2.1", 4)];
        let log_lines =
            |(attempt, pid)| [line(AgentEvent::Start, attempt, pid), line(AgentEvent::End, attempt, pid)];
        Observed {
            engine_pids: ENGINE_PIDS,
            first_exit: ExitStatus::from_raw(9),
            second_exit: ExitStatus::from_raw(0),
            running_at_kill: line(AgentEvent::Start, "fix#2.1", 3),
            agent_survived: true,
            journal_at_kill: journal[..6].to_vec(),
            journal,
            agent_log: attempts.into_iter().flat_map(log_lines).collect(),
            test_passed_before: false,
            test_passes_now: true,
            processes_left: 0,
        }
    }

    #[track_caller]
    fn expect_failed(statement: &str, change: impl FnOnce(&mut Observed)) {
        let mut observed = observed();
        change(&mut observed);
        let failed: Vec<_> = observed.checks().into_iter().filter(|check| !check.passed).collect();
        assert!(failed.iter().any(|check| check.statement.contains(statement)), "{failed:?}");
    }

    #[test]
    fn a_successful_demo_passes_all_checks() {
        let failed: Vec<_> = observed().checks().into_iter().filter(|check| !check.passed).collect();
        assert_eq!(failed, []);
    }

    #[test]
    fn an_engine_that_ended_otherwise_fails_the_check() {
        expect_failed("killed by signal 9", |observed| observed.first_exit = ExitStatus::from_raw(15));
    }

    #[test]
    fn an_agent_that_was_started_again_was_not_adopted() {
        expect_failed("survived", |observed| observed.journal.push(started("fix#2.1", 20)));
        expect_failed("survived", |observed| observed.agent_survived = false);
        expect_failed("survived", |observed| observed.journal[6] = reported("fix#2.1", 10));
        expect_failed("survived", |observed| observed.journal[6] = reported("fix#2.2", 20));
        expect_failed("survived", |observed| observed.agent_log[5].pid = 99);
    }

    #[test]
    fn an_attempt_that_ran_twice_or_is_in_one_log_only_fails_the_check() {
        expect_failed("exactly once", |observed| {
            observed.agent_log.push(line(AgentEvent::Start, "fix#1.1", 5));
        });
        expect_failed("exactly once", |observed| {
            observed.agent_log.push(line(AgentEvent::Start, "fix#9.9", 5));
        });
        expect_failed("exactly once", |observed| observed.journal.push(started("docs#1.1", 20)));
        expect_failed("exactly once", |observed| {
            observed.journal.clear();
            observed.agent_log.clear();
        });
    }

    #[test]
    fn repeated_work_fails_the_check_and_so_does_a_kill_before_any_work_was_finished() {
        expect_failed("did not run again", |observed| observed.journal.push(started("test#1.1", 20)));
        expect_failed("did not run again", |observed| observed.journal_at_kill.clear());
    }

    #[test]
    fn a_test_that_never_failed_or_does_not_pass_fails_the_check() {
        expect_failed("the test passes now", |observed| observed.test_passed_before = true);
        expect_failed("the test passes now", |observed| observed.test_passes_now = false);
        expect_failed("the test passes now", |observed| {
            observed.journal_at_kill.retain(|it| *it != AttemptEvent::LoopedBack);
        });
    }

    #[test]
    fn a_failed_run_and_a_remaining_process_fail_the_check() {
        expect_failed("succeeded", |observed| observed.second_exit = ExitStatus::from_raw(1 << 8));
        expect_failed("is left", |observed| observed.processes_left = 1);
    }
}
