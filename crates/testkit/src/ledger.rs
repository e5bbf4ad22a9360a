//! What the scripted agent noted: who really began, and who came to an end.

use std::fs;
use std::path::{Path, PathBuf};

use crate::wait;

/// One line of the ledger.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Line {
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

impl Line {
    fn parse(line: &str) -> Self {
        let words: Vec<_> = line.split(' ').collect();
        let pid = |word: &str| word.parse().unwrap_or_else(|_| panic!("bad pid in the ledger: {line}"));
        match words.as_slice() {
            ["begin", attempt, number] => Self::Begin { attempt: (*attempt).to_owned(), pid: pid(number) },
            ["end", attempt] => Self::End { attempt: (*attempt).to_owned() },
            ["grandchild", attempt, number] => {
                Self::Grandchild { attempt: (*attempt).to_owned(), pid: pid(number) }
            }
            _ => panic!("bad line in the ledger: {line}"),
        }
    }
}

/// The ledger of a scene.
#[derive(Debug, Clone)]
pub struct Ledger(PathBuf);

impl Ledger {
    pub(crate) fn new(path: PathBuf) -> Self {
        Self(path)
    }

    pub fn lines(&self) -> Vec<Line> {
        let text = fs::read_to_string(&self.0).unwrap_or_default();
        text.lines().map(Line::parse).collect()
    }

    /// Begins and ends in their order, without the pids: `begin a#1.1`, `end a#1.1`.
    pub fn order(&self) -> Vec<String> {
        let word = |line| match line {
            Line::Begin { attempt, .. } => Some(format!("begin {attempt}")),
            Line::End { attempt } => Some(format!("end {attempt}")),
            Line::Grandchild { .. } => None,
        };
        self.lines().into_iter().filter_map(word).collect()
    }

    /// Attempts that began, in their order.
    pub fn begun(&self) -> Vec<String> {
        let begun = |line| match line {
            Line::Begin { attempt, .. } => Some(attempt),
            Line::End { .. } | Line::Grandchild { .. } => None,
        };
        self.lines().into_iter().filter_map(begun).collect()
    }

    /// How many attempts of a step came to an end.
    pub fn ends_of(&self, step: &str) -> usize {
        let prefix = format!("{step}#");
        let ended = |line: &Line| matches!(line, Line::End { attempt } if attempt.starts_with(&prefix));
        self.lines().iter().filter(|line| ended(line)).count()
    }

    /// Waits until an attempt has begun, and tells its process.
    #[track_caller]
    pub fn wait_for_begin(&self, attempt: &str) -> i32 {
        wait::until(self.directory(), &format!("the begin of {attempt}"), || {
            self.lines().into_iter().find_map(|line| match line {
                Line::Begin { attempt: begun, pid } if begun == attempt => Some(pid),
                Line::Begin { .. } | Line::End { .. } | Line::Grandchild { .. } => None,
            })
        })
    }

    /// Waits until an attempt has left a process behind, and tells which.
    #[track_caller]
    pub fn wait_for_grandchild(&self, attempt: &str) -> i32 {
        wait::until(self.directory(), &format!("the grandchild of {attempt}"), || {
            self.lines().into_iter().find_map(|line| match line {
                Line::Grandchild { attempt: begun, pid } if begun == attempt => Some(pid),
                Line::Begin { .. } | Line::End { .. } | Line::Grandchild { .. } => None,
            })
        })
    }

    #[track_caller]
    pub fn wait_for_end(&self, attempt: &str) {
        wait::until(self.directory(), &format!("the end of {attempt}"), || {
            self.lines().contains(&Line::End { attempt: attempt.to_owned() }).then_some(())
        });
    }

    fn directory(&self) -> &Path {
        self.0.parent().expect("the ledger lies in a directory")
    }
}
