//! The log of the scripted agent: which attempts really started and ended.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::{fmt, fs};

use crate::wait;

/// One line of the log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AgentEvent {
    Begin {
        attempt: String,
        pid: i32,
    },
    End {
        attempt: String,
    },
    /// A process in a session of its own that the agent left behind.
    Grandchild {
        attempt: String,
        pid: i32,
    },
}

impl AgentEvent {
    fn parse(line: &str) -> Self {
        let words: Vec<_> = line.split(' ').collect();
        let pid = |word: &str| word.parse().unwrap_or_else(|_| panic!("bad pid in the agent log: {line}"));
        match words.as_slice() {
            ["begin", attempt, number] => Self::Begin { attempt: (*attempt).to_owned(), pid: pid(number) },
            ["end", attempt] => Self::End { attempt: (*attempt).to_owned() },
            ["grandchild", attempt, number] => {
                Self::Grandchild { attempt: (*attempt).to_owned(), pid: pid(number) }
            }
            _ => panic!("bad line in the agent log: {line}"),
        }
    }
}

/// The agent log of a test environment.
#[derive(Debug, Clone)]
pub struct AgentLog(PathBuf);

impl AgentLog {
    pub(crate) fn new(path: PathBuf) -> Self {
        Self(path)
    }

    pub fn lines(&self) -> Vec<AgentEvent> {
        let text = fs::read_to_string(&self.0).unwrap_or_default();
        text.lines().map(AgentEvent::parse).collect()
    }

    /// Returns starts and ends in their order, without the pids: `begin a#1.1`, `end a#1.1`.
    pub fn starts_and_ends(&self) -> Vec<String> {
        let word = |line| match line {
            AgentEvent::Begin { attempt, .. } => Some(format!("begin {attempt}")),
            AgentEvent::End { attempt } => Some(format!("end {attempt}")),
            AgentEvent::Grandchild { .. } => None,
        };
        self.lines().into_iter().filter_map(word).collect()
    }

    /// Returns the attempts that started, in their order.
    pub fn started(&self) -> Vec<String> {
        let started = |line| match line {
            AgentEvent::Begin { attempt, .. } => Some(attempt),
            AgentEvent::End { .. } | AgentEvent::Grandchild { .. } => None,
        };
        self.lines().into_iter().filter_map(started).collect()
    }

    /// Returns the attempts that started, in their order. Fails if one of them started twice.
    #[track_caller]
    pub fn started_once(&self, about: impl fmt::Display) -> Vec<String> {
        let started = self.started();
        let distinct: BTreeSet<_> = started.iter().collect();
        assert_eq!(started.len(), distinct.len(), "{about}: an attempt ran twice: {started:?}");
        started
    }

    /// Returns how many attempts of a step ended.
    pub fn count_ends(&self, step: &str) -> usize {
        let prefix = format!("{step}#");
        let ended =
            |line: &AgentEvent| matches!(line, AgentEvent::End { attempt } if attempt.starts_with(&prefix));
        self.lines().iter().filter(|line| ended(line)).count()
    }

    /// Waits until an attempt has started. Returns its pid.
    #[track_caller]
    pub fn wait_for_start(&self, attempt: &str) -> i32 {
        wait::wait_until(self.directory(), &format!("the start of {attempt}"), || {
            self.lines().into_iter().find_map(|line| match line {
                AgentEvent::Begin { attempt: started, pid } if started == attempt => Some(pid),
                AgentEvent::Begin { .. } | AgentEvent::End { .. } | AgentEvent::Grandchild { .. } => None,
            })
        })
    }

    /// Waits until an attempt has left a process behind. Returns its pid.
    #[track_caller]
    pub fn wait_for_grandchild(&self, attempt: &str) -> i32 {
        wait::wait_until(self.directory(), &format!("the grandchild of {attempt}"), || {
            self.lines().into_iter().find_map(|line| match line {
                AgentEvent::Grandchild { attempt: started, pid } if started == attempt => Some(pid),
                AgentEvent::Begin { .. } | AgentEvent::End { .. } | AgentEvent::Grandchild { .. } => None,
            })
        })
    }

    #[track_caller]
    pub fn wait_for_end(&self, attempt: &str) {
        wait::wait_until(self.directory(), &format!("the end of {attempt}"), || {
            self.lines().contains(&AgentEvent::End { attempt: attempt.to_owned() }).then_some(())
        });
    }

    fn directory(&self) -> &Path {
        self.0.parent().expect("the log is in a directory")
    }
}
