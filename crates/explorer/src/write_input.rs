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
    pub rights: Rights,
}

/// Whether the format permits a write.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Rights {
    Granted,
    Refused,
}

/// The result of a write: an entry input, nothing if the document already contains it, or the kind of refusal.
type Considered = Result<Option<EntryInput>, String>;

/// Considers a write by a client that has read the newest document.
pub(super) fn consider(before: &Node, write: &WriteInput) -> Result<Considered, Violation> {
    let WriteInput { name, author, patch, rights } = write;
    let machine = &before.state.run.machine;
    let edited = machine.edit(&machine.document(), author, patch);
    let wrong = |what: String| Violation::new("only permitted writes are accepted", what);
    match (edited, rights) {
        (Ok(_), Rights::Refused) => Err(wrong(format!("`{name}` is let"))),
        (Err(why), Rights::Granted) => Err(wrong(format!("`{name}` is refused: {why}"))),
        (Err(why), Rights::Refused) if why.to_string().is_empty() => {
            Err(Violation::new("a refusal has a reason", format!("{why:?} is empty")))
        }
        (Err(why), Rights::Refused) => Ok(Err(why.kind().to_owned())),
        (Ok(None), Rights::Granted) => Ok(Ok(None)),
        (Ok(Some(edit)), Rights::Granted) => {
            let from = before
                .state
                .run
                .live_attempts()
                .find(|(attempt, _)| *author == EditAuthor::Step(attempt.step.clone()));
            Ok(Ok(Some(EntryInput::Edited { edit, from: from.map(|(attempt, _)| attempt) })))
        }
    }
}
