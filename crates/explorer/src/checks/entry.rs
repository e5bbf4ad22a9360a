//! An entry must be the same when it is read from the journal.

use protocol::entry::{BadEntry, Entry, Input};

use super::Violation;
use crate::{Explored, Model};

const RULE: &str = "entries survive encoding";

/// Returns the entry as it is read from the journal, and the same with the types of its protocol. Both must encode to the
/// bytes that were stored.
///
/// Entries that differ only in their time are checked once: encoding takes as long as all other checks together.
pub(crate) fn stored<P: Explored>(
    model: &Model<P>,
    entry: Entry,
) -> Result<(Entry, Entry<P>), Vec<Violation>> {
    let lost = |error: &BadEntry| vec![lost(error)];
    let typed = entry.typed::<P>().map_err(|error| lost(&error))?;
    let Entry { input, changes, .. } = &entry;
    let content = match input {
        // The explorer gives the same evidence with every fact.
        Input::Fact { fact, .. } => serde_json::to_string(&(fact, changes)),
        input => serde_json::to_string(&(input, changes)),
    };
    let content = content.expect("BUG: an entry is plain data");
    if !model.encoded.lock().expect("BUG: nothing panics with the lock").insert(content) {
        return Ok((entry, typed));
    }
    let text = entry.encode();
    let stored = Entry::decode(&text).map_err(|error| lost(&error))?;
    if stored.encode() != text {
        return Err(vec![Violation::new(RULE, format!("decoded and encoded again, it is not {text}"))]);
    }
    match serde_json::to_string(&stored.typed::<P>().map_err(|error| lost(&error))?) {
        Ok(again) if again == text => Ok((stored, typed)),
        Ok(again) => Err(vec![Violation::new(RULE, format!("typed, {text} is {again}"))]),
        Err(error) => Err(lost(&error.into())),
    }
}

pub(crate) fn lost(error: &BadEntry) -> Violation {
    Violation::new(RULE, format!("it cannot be read: {error:?}"))
}
