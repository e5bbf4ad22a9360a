//! Questions of a run to people, their answers, and the ids of the items of the inbox.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::{StepId, Turn};

/// Why something waits for a person.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum InboxItemKind {
    Approval,
    Question,
    /// An agent hands a problem that it cannot decide to a person.
    Escalation,
    /// An agent asks which of several options to take.
    Decision,
    /// Something outside of the run keeps an agent from going on.
    Blocker,
    /// A limit of a `team` run is reached, or one of its groups needs a decision to go on.
    LimitReached,
    FailedRun,
    /// A step without progress for the configured time.
    Stalled,
    /// A step waits until a condition outside of the run is true.
    Condition,
}

impl InboxItemKind {
    /// Returns the kind as people see it. JSON has the name of the variant instead.
    pub fn word(self) -> &'static str {
        match self {
            Self::Approval => "approval",
            Self::Question => "question",
            Self::Escalation => "escalation",
            Self::Decision => "decision",
            Self::Blocker => "blocker",
            Self::LimitReached => "limit reached",
            Self::FailedRun => "failed run",
            Self::Stalled => "no progress",
            Self::Condition => "condition",
        }
    }
}

/// What a person is asked.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Question {
    pub kind: InboxItemKind,
    pub text: String,
    /// What `choose` may name; empty if there is nothing to choose.
    pub options: Vec<AnswerOption>,
}

/// What `choose` may name.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum AnswerOption {
    Plain(String),
    /// The answer must say why.
    WithReason(String),
}

impl Question {
    /// Returns a question whose answer is `approve` or `reject`.
    pub fn approval(text: impl Into<String>) -> Self {
        Self { kind: InboxItemKind::Approval, text: text.into(), options: Vec::new() }
    }

    /// Returns the answers that it takes, as arguments of `callboard answer`.
    pub fn answers(&self) -> Vec<String> {
        let fixed: &[&str] = match self.kind {
            InboxItemKind::Approval => &["approve", "reject --reason WHY"],
            InboxItemKind::Blocker => &["resolve", "workaround --text HOW"],
            InboxItemKind::Condition => &["resolve"],
            InboxItemKind::Question
            | InboxItemKind::Escalation
            | InboxItemKind::Decision
            | InboxItemKind::LimitReached
            | InboxItemKind::FailedRun
            | InboxItemKind::Stalled
                if self.options.is_empty() =>
            {
                &["--text ANSWER"]
            }
            InboxItemKind::Question
            | InboxItemKind::Escalation
            | InboxItemKind::Decision
            | InboxItemKind::LimitReached
            | InboxItemKind::FailedRun
            | InboxItemKind::Stalled => &[],
        };
        let choices = self.options.iter().map(|option| match option {
            AnswerOption::Plain(word) => format!("choose {}", shell_words::quote(word)),
            AnswerOption::WithReason(word) => format!("choose {} --reason WHY", shell_words::quote(word)),
        });
        fixed.iter().map(|answer| (*answer).to_owned()).chain(choices).collect()
    }
}

/// The answer of a person.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "answer")]
pub enum Answer {
    Approve {
        #[serde(default, skip_serializing_if = "Option::is_none")]
        text: Option<String>,
    },
    Reject {
        reason: String,
    },
    Choose {
        option: String,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        reason: Option<String>,
    },
    /// The problem is solved.
    Resolve {
        #[serde(default, skip_serializing_if = "Option::is_none")]
        text: Option<String>,
    },
    /// The problem remains; this is how to go on without a solution.
    Workaround {
        text: String,
    },
    Text {
        text: String,
    },
}

impl Answer {
    /// Returns the reason or the text, if it has one.
    pub fn text(&self) -> Option<&str> {
        match self {
            Self::Reject { reason } => Some(reason),
            Self::Approve { text } | Self::Choose { reason: text, .. } | Self::Resolve { text } => {
                text.as_deref()
            }
            Self::Workaround { text } | Self::Text { text } => Some(text),
        }
    }
}

/// The answer in words: `reject: too dark`.
impl fmt::Display for Answer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Approve { .. } => f.write_str("approve")?,
            Self::Reject { .. } => f.write_str("reject")?,
            Self::Choose { option, .. } => write!(f, "choose {option}")?,
            Self::Resolve { .. } => f.write_str("resolve")?,
            Self::Workaround { .. } => f.write_str("workaround")?,
            Self::Text { .. } => f.write_str("text")?,
        }
        match self.text() {
            Some(text) => write!(f, ": {text}"),
            None => Ok(()),
        }
    }
}

/// A file that can answer the question of a step. The engine watches it while the step waits.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AnswerFile {
    /// It is written for one question, and moved aside when it is taken as the answer. The path is absolute.
    OneQuestion(String),
    /// Several questions read it, and it stays. The path is absolute.
    Conditions(String),
}

impl AnswerFile {
    pub fn path(&self) -> &str {
        match self {
            Self::OneQuestion(path) | Self::Conditions(path) => path,
        }
    }
}

/// Something that waits for a person and is not a step of its own, such as a question in a report.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OpenItem<S = StepId> {
    /// The step that raised it.
    pub step: S,
    /// Names it among the items of the step.
    pub item: String,
    pub question: Question,
    /// What to type to deal with it, in a sentence.
    pub hint: String,
}

/// The id, inside its run, of something that waits for a person: `STEP#TURN[:ITEM]`. People may leave out the turn.
///
/// `ITEM` is one of several that the protocol lists for a step, such as an open question of a review.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InboxItemId {
    pub step: StepId,
    pub turn: Option<Turn>,
    pub item: Option<String>,
}

impl fmt::Display for InboxItemId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.step)?;
        if let Some(turn) = self.turn {
            write!(f, "#{turn}")?;
        }
        match &self.item {
            Some(item) => write!(f, ":{item}"),
            None => Ok(()),
        }
    }
}

/// A text that does not have the form `STEP[#TURN][:ITEM]`.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not the id of a question such as `approve#1`")]
pub struct InvalidInboxItemId(String);

impl FromStr for InboxItemId {
    type Err = InvalidInboxItemId;

    fn from_str(text: &str) -> Result<Self, InvalidInboxItemId> {
        let parse = || {
            let (rest, item) = match text.split_once(':') {
                Some((_, "")) => return None,
                Some((rest, item)) => (rest, Some(item.to_owned())),
                None => (text, None),
            };
            let (step, turn) = match rest.split_once('#') {
                Some((step, turn)) => (step, Some(Turn(turn.parse().ok()?))),
                None => (rest, None),
            };
            Some(Self { step: StepId::new(step).ok()?, turn, item })
        };
        parse().ok_or_else(|| InvalidInboxItemId(text.to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_item_id_prints_as_it_parses() {
        for text in ["approve", "approve#2", "lamp.approve#10", "review#1:2"] {
            assert_eq!(text.parse::<InboxItemId>().unwrap().to_string(), text);
        }
        for text in ["", "#1", "a#", "a#x", "a#1:", "a b#1"] {
            assert!(text.parse::<InboxItemId>().is_err(), "{text} should be refused");
        }
    }

    #[test]
    fn an_answer_is_stored_with_its_kind() {
        let answer = Answer::Reject { reason: "too dark".to_owned() };
        let json = serde_json::to_value(&answer).unwrap();
        assert_eq!(json, serde_json::json!({ "answer": "reject", "reason": "too dark" }));
        assert_eq!(serde_json::from_value::<Answer>(json).unwrap(), answer);
        assert_eq!(answer.to_string(), "reject: too dark");
    }
}
