//! What a report or an answer says, as far as `decide` depends on it.

use serde::{Deserialize, Serialize};

use super::step::Addressee;

/// The result of a step that an agent, a person or the engine worked on.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// Triage: the issue can be worked on.
    Proceed,
    Analysed,
    Written,
    /// The work differs from the commit it started from.
    Changed,
    /// The work changes nothing.
    EmptyChange,
    /// The work touches what it must not, or lacks the required test.
    DisallowedChange,
    BuildPassed,
    BuildFailed,
    Approved,
    Rejected,
    /// The agent needs answers before it can go on.
    Asks(Vec<Pending>),
    /// An agent or a person has answered.
    Answered,
    /// A person refuses to answer, resolve or unblock, which ends the run.
    Refused,
    /// The effect was performed.
    Performed,
    /// There is no remote to push to.
    NotPushed,
}

/// What an agent waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Pending {
    Question(Addressee),
    /// A problem that a person must resolve, or this agent if the report requires no person.
    Escalation(Addressee),
    /// Triage or the reviewer stops the run until a person decides.
    Block,
}

impl Pending {
    /// Returns the agent or person that has to answer.
    pub fn addressee(self) -> Addressee {
        match self {
            Self::Question(addressee) | Self::Escalation(addressee) => addressee,
            Self::Block => Addressee::Human,
        }
    }

    /// Returns the same item, addressed to a person.
    pub(super) fn for_person(self) -> Self {
        match self {
            Self::Question(_) => Self::Question(Addressee::Human),
            Self::Escalation(_) => Self::Escalation(Addressee::Human),
            Self::Block => Self::Block,
        }
    }
}
