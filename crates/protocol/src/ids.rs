//! Ids of runs, steps and attempts; numbers of turns, attempts, revisions and epochs.
//!
//! Ids are checked when they are created, so they are safe as file names, in environment variables and in log lines. The
//! [`AttemptId`] `reviewer#2.1` is the first attempt of the second turn of the step `reviewer`.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

/// The longest step id.
pub const MAX_STEP_ID_LEN: usize = 100;
/// The longest run id. It has room for the key of a `peer` cycle with the longest spec name and the largest number, and
/// with the suffixes that Callboard adds it stays within the 255 bytes of a file name.
pub const MAX_RUN_ID_LEN: usize = 240;

/// Why a text cannot be an id.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum InvalidId {
    #[error("it is empty")]
    Empty,
    #[error("it has {found} characters, the limit is {limit}")]
    TooLong { found: usize, limit: usize },
    #[error("it begins with `{0}`; begin with a letter, a digit or `_`")]
    BadStart(char),
    #[error("it contains `{0}`; use letters, digits, `.`, `_` and `-`")]
    BadCharacter(char),
}

/// The characters of an id besides letters and digits, and its maximum length. An id begins with a letter, a digit or `_`.
struct Grammar {
    others: &'static [char],
    max_len: usize,
}

fn check_name(text: &str, grammar: &Grammar) -> Result<(), InvalidId> {
    let first = text.chars().next().ok_or(InvalidId::Empty)?;
    if let Some(bad) = text.chars().find(|c| !(c.is_ascii_alphanumeric() || grammar.others.contains(c))) {
        return Err(InvalidId::BadCharacter(bad));
    }
    if !(first.is_ascii_alphanumeric() || first == '_') {
        return Err(InvalidId::BadStart(first));
    }
    match text.len() {
        found if found > grammar.max_len => Err(InvalidId::TooLong { found, limit: grammar.max_len }),
        _ => Ok(()),
    }
}

macro_rules! name {
    ($(#[$doc:meta])* $name:ident: $grammar:expr) => {
        $(#[$doc])*
        #[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[serde(try_from = "String", into = "String")]
        pub struct $name(Arc<str>);

        impl $name {
            /// Creates an id. Fails if the text is not safe as a file name or on a command line.
            pub fn new(text: impl AsRef<str>) -> Result<Self, InvalidId> {
                let text = text.as_ref();
                check_name(text, &$grammar).map(|()| Self(text.into()))
            }

            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.pad(&self.0)
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "`{}`", self.0)
            }
        }

        impl FromStr for $name {
            type Err = InvalidId;
            fn from_str(text: &str) -> Result<Self, InvalidId> {
                Self::new(text)
            }
        }

        impl TryFrom<String> for $name {
            type Error = InvalidId;
            fn try_from(text: String) -> Result<Self, InvalidId> {
                Self::new(text)
            }
        }

        impl From<$name> for String {
            fn from(name: $name) -> String {
                name.0.as_ref().to_owned()
            }
        }

        impl AsRef<str> for $name {
            fn as_ref(&self) -> &str {
                &self.0
            }
        }
    };
}

name! {
    /// The id of a run. `=` occurs in the keys of `peer` cycles, where it escapes a byte.
    RunId: Grammar { others: &['.', '_', '-', '='], max_len: MAX_RUN_ID_LEN }
}

name! {
    /// The id of a step.
    StepId: Grammar { others: &['.', '_', '-'], max_len: MAX_STEP_ID_LEN }
}

macro_rules! number {
    ($(#[$doc:meta])* $name:ident($inner:ty)) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
        #[serde(transparent)]
        pub struct $name(pub $inner);

        impl $name {
            #[must_use]
            pub fn next(self) -> Self {
                Self(self.0 + 1)
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Display::fmt(&self.0, f)
            }
        }
    };
}

number! {
    /// The number of a turn of a step, from 1. It only grows, and is never reset.
    Turn(u32)
}
number! {
    /// The number of an attempt within its turn, from 1.
    AttemptNo(u32)
}
number! {
    /// The number of commits of a run. Not to be confused with the token of the store.
    Revision(u64)
}
number! {
    /// The number of the engine that holds the run: each later engine of the run has a higher one. An engine that sees a
    /// higher epoch than its own is fenced.
    Epoch(u64)
}

/// The id of an attempt: in keys, in log lines, and to recognise reports of superseded attempts.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct AttemptId {
    pub step: StepId,
    pub turn: Turn,
    pub attempt_no: AttemptNo,
}

impl fmt::Display for AttemptId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}#{}.{}", self.step, self.turn, self.attempt_no)
    }
}

impl fmt::Debug for AttemptId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "`{self}`")
    }
}

/// A text that does not have the form `step#turn.attempt`.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not an attempt id such as `reviewer#2.1`")]
pub struct BadAttemptId(String);

impl FromStr for AttemptId {
    type Err = BadAttemptId;

    fn from_str(text: &str) -> Result<Self, BadAttemptId> {
        let parse = || {
            let (step, numbers) = text.split_once('#')?;
            let (turn, attempt_no) = numbers.split_once('.')?;
            let number = |digits: &str| digits.parse::<u32>().ok().filter(|n| n.to_string() == digits);
            Some(Self {
                step: StepId::new(step).ok()?,
                turn: Turn(number(turn)?),
                attempt_no: AttemptNo(number(attempt_no)?),
            })
        };
        parse().ok_or_else(|| BadAttemptId(text.to_owned()))
    }
}

impl TryFrom<String> for AttemptId {
    type Error = BadAttemptId;
    fn try_from(text: String) -> Result<Self, BadAttemptId> {
        text.parse()
    }
}

impl From<AttemptId> for String {
    fn from(id: AttemptId) -> String {
        id.to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_attempt_id_prints_as_it_parses() {
        for text in ["reviewer#2.1", "a.b-c_d#10.12"] {
            assert_eq!(text.parse::<AttemptId>().unwrap().to_string(), text);
        }
        for text in ["reviewer", "reviewer#2", "reviewer#2.01", "#1.1", "a/b#1.1", "a#-1.1", "a#1.1.1"] {
            assert!(text.parse::<AttemptId>().is_err(), "{text} should be refused");
        }
    }

    #[test]
    fn the_key_of_every_cycle_is_a_run_id() {
        use crate::peer::names::{MAX_SAFE_INTEGER, MAX_SPEC_KEY_BYTES};
        use crate::peer::{Scope, SpecName};
        let longest = SpecName::new(&"x".repeat(MAX_SPEC_KEY_BYTES)).unwrap();
        let key = Scope::Spec(longest).cycle(MAX_SAFE_INTEGER).key();
        assert_eq!(RunId::new(&key).unwrap().as_str(), key);
        assert!(RunId::new(Scope::Spec(SpecName::new("a:cycle:9 日本").unwrap()).cycle(1).key()).is_ok());
    }

    #[test]
    fn names_that_could_leave_their_directory_are_refused() {
        for text in ["", ".", "..", "a/b", "a b", "-rf", ".hidden", "ä", "a\0b"] {
            assert!(RunId::new(text).is_err(), "{text:?} should be refused");
        }
        let (found, limit) = (MAX_RUN_ID_LEN + 1, MAX_RUN_ID_LEN);
        assert_eq!(RunId::new("x".repeat(found)), Err(InvalidId::TooLong { found, limit }));
        assert!(RunId::new("f8c1a491").is_ok() && StepId::new("code_review.2").is_ok());
        assert!(StepId::new("a=b").is_err() && RunId::new("=3A").is_err());
    }
}
