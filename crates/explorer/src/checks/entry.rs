//! An entry must be the same when it is read from the journal.

use protocol::entry::{BadEntry, Entry, Input};

use super::Violation;
use crate::{Explored, Model};

const RULE: &str = "entries survive encoding";

/// Encodes the entry and decodes it again. Returns the entry in two forms: without the types of its protocol, and with them.
/// Fails unless both forms encode to the same bytes.
///
/// Of all entries with the same input and changes only the first is checked, because encoding takes as long as all other
/// checks together. No other field has a type that depends on the protocol.
pub(crate) fn round_trip<P: Explored>(
    model: &Model<P>,
    entry: Entry,
) -> Result<(Entry, Entry<P>), Vec<Violation>> {
    let unreadable = |error: &BadEntry| vec![unreadable(error)];
    let typed = entry.typed::<P>().map_err(|error| unreadable(&error))?;
    let Entry { input, changes, .. } = &entry;
    let content = match input {
        // Without the evidence: the explorer gives the same with every fact.
        Input::Fact { fact, .. } => serde_json::to_string(&(fact, changes)),
        input => serde_json::to_string(&(input, changes)),
    };
    let content = content.expect("BUG: an entry is plain data");
    if !model.encoded.lock().expect("BUG: nothing panics with the lock").insert(content) {
        return Ok((entry, typed));
    }
    let text = entry.encode();
    let decoded = Entry::decode(&text).map_err(|error| unreadable(&error))?;
    if decoded.encode() != text {
        return Err(vec![Violation::new(RULE, format!("decoded and encoded again, it is not {text}"))]);
    }
    match serde_json::to_string(&decoded.typed::<P>().map_err(|error| unreadable(&error))?) {
        Ok(reencoded) if reencoded == text => Ok((decoded, typed)),
        Ok(reencoded) => Err(vec![Violation::new(RULE, format!("typed, {text} is {reencoded}"))]),
        Err(error) => Err(unreadable(&error.into())),
    }
}

pub(crate) fn unreadable(error: &BadEntry) -> Violation {
    Violation::new(RULE, format!("it cannot be read: {error:?}"))
}
