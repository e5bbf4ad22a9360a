//! The mailboxes: messages that the engine writes from reports, each received by one turn.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use super::super::definition::GroupId;
use super::super::step::{PmStep, Role, Step};
use super::{Document, compact_timestamp, message_part_path};
use crate::check::schema;
use crate::{StepId, Timestamp, Turn};

/// A file in `messages/`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Mailbox {
    DevToQa,
    QaToTechlead,
    TechleadToDev,
    /// Not in the original: what QA found goes back to the developer.
    QaToDev,
    /// Not in the original: what the project manager should know.
    ToPm,
}

impl Mailbox {
    pub(in crate::team) const ALL: [Self; 5] =
        [Self::DevToQa, Self::QaToTechlead, Self::TechleadToDev, Self::QaToDev, Self::ToPm];

    /// Returns the path of the file, relative to `coordination/`.
    pub fn file(self) -> &'static str {
        match self {
            Self::DevToQa => "messages/dev_to_qa.json",
            Self::QaToTechlead => "messages/qa_to_techlead.json",
            Self::TechleadToDev => "messages/techlead_to_dev.json",
            Self::QaToDev => "messages/qa_to_dev.json",
            Self::ToPm => "messages/to_pm.json",
        }
    }

    /// Returns whether the original has the file.
    pub(super) fn is_original_file(name: &str) -> bool {
        ![Self::QaToDev, Self::ToPm].iter().any(|mailbox| mailbox.file() == name)
    }

    /// Returns the schema of the file. A file that the original does not have may contain anything.
    pub(in crate::team) fn schema(self) -> &'static str {
        match self {
            Self::DevToQa => include_str!("../../../../../docs/schema/team/dev_to_qa.schema.json"),
            Self::QaToTechlead => include_str!("../../../../../docs/schema/team/qa_to_techlead.schema.json"),
            Self::TechleadToDev => {
                include_str!("../../../../../docs/schema/team/techlead_to_dev.schema.json")
            }
            Self::QaToDev | Self::ToPm => "{}",
        }
    }

    /// Returns what an agent wrote as the body of a message: without the members that the engine sets, and without those
    /// that the schema does not allow.
    pub(in crate::team) fn body(self, mut written: Map<String, Value>) -> Map<String, Value> {
        for name in ["id", "group_id", "from", "to", "timestamp", "read"] {
            written.remove(name);
        }
        let schema = serde_json::from_str(self.schema()).expect("BUG: the schema is JSON");
        for violation in schema::violations(&schema, &json!({ "messages": [&written] })) {
            let below = violation.pointer.strip_prefix("/messages/0/").unwrap_or_default();
            let name = below.split('/').next().unwrap_or_default();
            written.remove(&name.replace("~1", "/").replace("~0", "~"));
        }
        written
    }

    /// Returns the sender and the recipient.
    fn sender_and_recipient(self) -> (&'static str, &'static str) {
        match self {
            Self::DevToQa => ("developer", "qa_expert"),
            Self::QaToTechlead => ("qa_expert", "tech_lead"),
            Self::TechleadToDev => ("tech_lead", "developer"),
            Self::QaToDev => ("qa_expert", "developer"),
            Self::ToPm => ("orchestrator", "project_manager"),
        }
    }

    /// Returns whether the step reads the mailbox.
    pub(in crate::team) fn is_read_by(self, step: &Step) -> bool {
        match self {
            Self::DevToQa => matches!(step, Step::Group(_, Role::Qa)),
            Self::QaToTechlead => matches!(step, Step::Group(_, Role::TechLead)),
            Self::TechleadToDev | Self::QaToDev => matches!(step, Step::Group(_, Role::Developer)),
            Self::ToPm => matches!(step, Step::Pm(PmStep::Plan | PmStep::Check)),
        }
    }
}

/// One message.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Message {
    pub mailbox: Mailbox,
    pub group: Option<GroupId>,
    pub id: String,
    pub timestamp: Timestamp,
    /// The members that messages of only this mailbox have.
    pub body: Map<String, Value>,
    /// The turn whose attempts receive it. Set by the commit that starts the first of them; from then on the message is `read`.
    pub received_by: Option<(StepId, Turn)>,
}

impl Message {
    /// Returns the message as its mailbox file has it.
    pub(in crate::team) fn to_json(&self) -> Value {
        let (from, to) = self.mailbox.sender_and_recipient();
        let mut shown = json!({
            "id": self.id, "group_id": self.group.as_ref().map_or("", |group| group.as_str()),
            "from": from, "to": to, "timestamp": self.timestamp,
        });
        let members = shown.as_object_mut().expect("BUG: a message is an object");
        members.extend(self.body.clone());
        members.insert("read".to_owned(), self.received_by.is_some().into());
        shown
    }
}

impl Document {
    /// Appends a message and returns the path of its part.
    pub(in crate::team) fn send(
        &mut self,
        mailbox: Mailbox,
        group: Option<&GroupId>,
        at: Timestamp,
        body: Map<String, Value>,
    ) -> String {
        let number = self.messages.len();
        self.messages.push(Message {
            mailbox,
            group: group.cloned(),
            id: format!("msg_{}_{}", compact_timestamp(at), number + 1),
            timestamp: at,
            body,
            received_by: None,
        });
        message_part_path(number)
    }

    /// Marks the messages that wait for the step as received by this turn, and returns the paths of the parts that
    /// changed.
    pub(in crate::team) fn mark_received(&mut self, step: &Step, turn: Turn) -> Vec<String> {
        let mut touched = Vec::new();
        for (number, message) in self.messages.iter_mut().enumerate() {
            let is_for = message.mailbox.is_read_by(step)
                && step.group().is_none_or(|group| message.group.as_ref() == Some(group));
            if is_for && message.received_by.is_none() {
                message.received_by = Some((step.id(), turn));
                touched.push(message_part_path(number));
            }
        }
        touched
    }

    /// Returns the messages that the attempts of this turn receive.
    pub(in crate::team) fn received(&self, step: &Step, turn: Turn) -> Vec<Value> {
        let id = step.id();
        let received = |message: &&Message| {
            message.received_by.as_ref().is_some_and(|(reader, in_turn)| *reader == id && *in_turn == turn)
        };
        self.messages.iter().filter(received).map(Message::to_json).collect()
    }
}
