//! The names of things: runs, steps, attempts, revisions, epochs.
//!
//! Ids are checked once, where text comes in, and are safe ever after: as a file name, in an environment variable,
//! in a log line. They print as people say them; [`AttemptId`] `reviewer#2.1` is the reviewer's second turn, first attempt.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

/// Longest step name we accept.
pub const LONGEST_STEP_ID: usize = 100;
/// Longest run id we accept: the key of a `peer` cycle with the longest spec name and the largest number fits, and with
/// our suffixes it still fits every file system's 255 bytes.
pub const LONGEST_RUN_ID: usize = 240;

/// Why a text cannot be a name.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BadName {
    #[error("it is empty")]
    Empty,
    #[error("it has {found} characters, the limit is {limit}")]
    TooLong { found: usize, limit: usize },
    #[error("it begins with `{0}`; begin with a letter or a digit")]
    BadStart(char),
    #[error("it contains `{0}`; use letters, digits, `.`, `_` and `-`")]
    BadCharacter(char),
}

/// What a name may consist of besides letters and digits, and how long it may be.
struct Grammar {
    others: &'static [char],
    longest: usize,
}

fn check_name(text: &str, grammar: &Grammar) -> Result<(), BadName> {
    let first = text.chars().next().ok_or(BadName::Empty)?;
    if let Some(bad) = text.chars().find(|c| !(c.is_ascii_alphanumeric() || grammar.others.contains(c))) {
        return Err(BadName::BadCharacter(bad));
    }
    if !(first.is_ascii_alphanumeric() || first == '_') {
        return Err(BadName::BadStart(first));
    }
    match text.len() {
        found if found > grammar.longest => Err(BadName::TooLong { found, limit: grammar.longest }),
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
            /// Accepts a text that is safe as a file name and on a command line.
            pub fn new(text: impl AsRef<str>) -> Result<Self, BadName> {
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
            type Err = BadName;
            fn from_str(text: &str) -> Result<Self, BadName> {
                Self::new(text)
            }
        }

        impl TryFrom<String> for $name {
            type Error = BadName;
            fn try_from(text: String) -> Result<Self, BadName> {
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
    /// One execution of a protocol. `=` is in the keys of `peer` cycles, where it escapes a byte.
    RunId: Grammar { others: &['.', '_', '-', '='], longest: LONGEST_RUN_ID }
}

name! {
    /// Whoever is asked and reports, by name: a step, a role, a person.
    StepId: Grammar { others: &['.', '_', '-'], longest: LONGEST_STEP_ID }
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
    /// One asking of a step. Turns of a step only grow and are never reset.
    Turn(u32)
}
number! {
    /// A repeat within a turn, from 1.
    AttemptNo(u32)
}
number! {
    /// How many commits a run has: +1 per commit. Not the store's token.
    Revision(u64)
}
number! {
    /// Which engine holds the run; whoever sees a higher one is fenced.
    Epoch(u64)
}

/// One attempt of a step's turn. It is at once the key, the fence against stragglers and the log line.
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

/// A text that is not of the form `step#turn.try`.
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
        let (found, limit) = (LONGEST_RUN_ID + 1, LONGEST_RUN_ID);
        assert_eq!(RunId::new("x".repeat(found)), Err(BadName::TooLong { found, limit }));
        assert!(RunId::new("f8c1a491").is_ok() && StepId::new("code_review.2").is_ok());
        assert!(StepId::new("a=b").is_err() && RunId::new("=3A").is_err());
    }
}
