//! What agents and people write into a document themselves.

use protocol::edit::{EditAuthor, Patch};
use protocol::entry::Input as EntryInput;
use protocol::run::Run;

use super::transition::RunAt;
use super::{Broken, Explored, Scene};

/// Something that somebody could write, whether or not they may.
#[derive(Debug, Clone, PartialEq)]
pub struct Writing<S> {
    /// In a word or two, for tables. What has been written is remembered by this name.
    pub name: &'static str,
    pub hand: EditAuthor<S>,
    pub patch: Patch,
    pub rights: Rights,
}

/// Whether a writing is to be taken, by what the seed says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Rights {
    Granted,
    Refused,
}

/// What a writing becomes: an entry's input, nothing where all is so already, or the word for why not.
type Considered<P> = Result<Option<EntryInput<P>>, String>;

/// Considers a writing by somebody who has just read the document.
pub(super) fn consider<P: Explored>(
    scene: &Scene<P>,
    before: &RunAt<P>,
    writing: &Writing<P::Step>,
) -> Result<Considered<P>, Broken> {
    let Writing { name, hand, patch, rights } = writing;
    let document = &before.document;
    let edited = P::edit(&scene.definition, document, document, hand, patch);
    let wrong = |what: String| Broken::new("who may write is let, and nobody else", what);
    match (edited, rights) {
        (Ok(_), Rights::Refused) => Err(wrong(format!("`{name}` is let"))),
        (Err(why), Rights::Granted) => Err(wrong(format!("`{name}` is refused: {why}"))),
        (Err(why), Rights::Refused) if why.to_string().is_empty() => {
            Err(Broken::new("a refusal says why", format!("{why:?} has no words")))
        }
        (Err(why), Rights::Refused) => Ok(Err(why.kind().to_owned())),
        (Ok(None), Rights::Granted) => Ok(Ok(None)),
        (Ok(Some(edit)), Rights::Granted) => {
            let from = before
                .state
                .run
                .live_attempts()
                .find(|(attempt, _)| *hand == EditAuthor::Step(attempt.step.clone()));
            let from = from.map(|(attempt, _)| Run::<P>::id(&attempt));
            Ok(Ok(Some(EntryInput::Edited { edit, from })))
        }
    }
}
