//! A document as its writes made it, one after the other.

use protocol::entry::{Author, Entry, Input};
use protocol::{Revision, Stamp};
use runner::RunAt;
use serde::Serialize;
use serde_json::{Value, json};
use store::StoredEntry;

use crate::failure::{Code, Exit, Failure};
use crate::present::Presentation;
use crate::query::{RunHandle, difference};

/// What changes with every write, and so tells nothing.
const COUNTED: [&str; 4] = ["/sequence", "/history", "/metadata/updated_at", "/updated_at"];

/// One write of a document.
#[derive(Debug, Serialize)]
pub(super) struct Write {
    /// Null where the document does not count its changes.
    pub(super) sequence: Option<u64>,
    pub(super) revision: Revision,
    pub(super) at: Stamp,
    /// What the document's own history says of it, where it keeps one.
    pub(super) phase: Value,
    pub(super) event: Value,
    /// An attempt, a person, or the engine.
    pub(super) by: String,
    /// Where the document changed, as JSON pointers; the empty one is the whole.
    pub(super) changed: Vec<String>,
}

/// Goes from entry to entry.
#[derive(Debug)]
pub(super) struct Follower<'a, P: Presentation> {
    handle: &'a RunHandle,
    pub(super) run_at: RunAt<P>,
}

impl<'a, P: Presentation> Follower<'a, P> {
    pub(super) async fn at(handle: &'a RunHandle, revision: Option<Revision>) -> Result<Self, Failure> {
        Ok(Self { handle, run_at: handle.run_at::<P>(revision).await? })
    }

    /// The write that made the document as it is here, by the entry of its revision.
    pub(super) fn present(&self, stored: &StoredEntry) -> Result<Write, Failure> {
        Ok(self.write(stored.revision, &self.decode(stored)?, vec![String::new()]))
    }

    /// Takes in the next entry; `None` if it has left the document alone.
    pub(super) fn take(&mut self, stored: &StoredEntry) -> Result<Option<Write>, Failure> {
        let entry = self.decode(stored)?;
        let edited = match &entry.input {
            Input::Edited { edit, .. } => Some(paths(&json!(edit))),
            Input::Opened { .. }
            | Input::Fact { .. }
            | Input::Request { .. }
            | Input::Refused { .. }
            | Input::Deferred
            | Input::Recovered { .. } => None,
        };
        let RunAt { spec, state, document, revision, .. } = &mut self.run_at;
        let before = edited.is_none().then(|| document.clone());
        state.fold(&entry);
        *revision = stored.revision;
        let parts = P::record(&spec.definition, document, &entry).map_err(|error| {
            Failure::from_error(Exit::Store, &error).code(Code::Damaged).while_doing(format_args!(
                "cannot follow entry {} of run `{}`",
                stored.revision, self.handle.run
            ))
        })?;
        if parts.is_empty() {
            return Ok(None);
        }
        let changed = match before {
            Some(before) => differing(&json!(before), &json!(document)),
            None => edited.unwrap_or_default(),
        };
        Ok(Some(self.write(stored.revision, &entry, changed)))
    }

    fn write(&self, revision: Revision, entry: &Entry<P>, changed: Vec<String>) -> Write {
        let document = &self.run_at.document;
        let own = P::last_change(document).unwrap_or_default();
        let by = match (&entry.input, &entry.by) {
            (Input::Edited { from: Some(attempt), .. }, _) => attempt.to_string(),
            (_, Author::Person { name, .. }) => name.clone(),
            (_, Author::Engine { .. }) => "engine".to_owned(),
            (_, Author::Client { bucket, .. }) => format!("another client of {bucket}"),
        };
        let (phase, event) = (own["phase"].clone(), own["event"].clone());
        Write { sequence: P::sequence(document), revision, at: entry.at, phase, event, by, changed }
    }

    fn decode(&self, stored: &StoredEntry) -> Result<Entry<P>, Failure> {
        Entry::decode(&stored.body).map_err(|error| {
            Failure::from_error(Exit::Store, &error).while_doing(format_args!(
                "cannot read entry {} of run `{}`",
                stored.revision, self.handle.run
            ))
        })
    }
}

/// Where operations (RFC 6902) lead.
fn paths(operations: &Value) -> Vec<String> {
    let paths =
        operations.as_array().into_iter().flatten().filter_map(|operation| operation["path"].as_str());
    paths.map(str::to_owned).collect()
}

fn differing(old: &Value, new: &Value) -> Vec<String> {
    let found = json!(difference::between(old, new));
    let told = |path: &String| {
        !COUNTED.iter().any(|counted| {
            path.strip_prefix(counted).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
        })
    };
    paths(&found).into_iter().filter(told).collect()
}
