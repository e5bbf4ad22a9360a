//! Writes of agents and people to a document.

use super::Violation;
use super::transition::Node;
use protocol::edit::{EditAuthor, Patch};
use protocol::entry::Input as EntryInput;

/// A possible write, permitted or not.
#[derive(Debug, Clone, PartialEq)]
pub struct WriteInput {
    /// In a word or two, for tables. The state remembers the write by this name.
    pub name: &'static str,
    pub author: EditAuthor,
    pub patch: Patch,
    pub permission: WritePermission,
}

/// Whether the format permits a write.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WritePermission {
    Granted,
    Refused,
}

/// The result of a write: an entry input, nothing if the document already contains it, or the kind of refusal.
type Considered = Result<Option<EntryInput>, String>;

/// Considers a write whose author has read the newest document.
pub(super) fn consider(before: &Node, write: &WriteInput) -> Result<Considered, Violation> {
    let WriteInput { name, author, patch, permission } = write;
    let machine = &before.state.run.machine;
    let edited = machine.edit(&machine.document(), author, patch);
    let wrong = |what: String| Violation::new("only permitted writes are accepted", what);
    match (edited, permission) {
        (Ok(_), WritePermission::Refused) => {
            Err(wrong(format!("`{name}` is accepted, and the format does not permit it")))
        }
        (Err(why), WritePermission::Granted) => Err(wrong(format!("`{name}` is refused: {why}"))),
        (Err(why), WritePermission::Refused) if why.to_string().is_empty() => {
            Err(Violation::new("a refusal has a reason", format!("{why:?} is empty")))
        }
        (Err(why), WritePermission::Refused) => Ok(Err(why.kind().to_owned())),
        (Ok(None), WritePermission::Granted) => Ok(Ok(None)),
        (Ok(Some(edit)), WritePermission::Granted) => {
            let from = before
                .state
                .run
                .live_attempts()
                .find(|(attempt, _)| *author == EditAuthor::Step(attempt.step.clone()));
            Ok(Ok(Some(EntryInput::Edited { edit, from: from.map(|(attempt, _)| attempt) })))
        }
    }
}
