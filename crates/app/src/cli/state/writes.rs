//! The writes to a document, one after the other.

use protocol::entry::{Author, BadEntry, Entry, Input};
use protocol::{Revision, RunId, Timestamp};
use runner::RunAtRevision;
use serde::Serialize;
use serde_json::{Value, json};
use store::StoredEntry;

use crate::failure::{Code, Exit, Failure};
use crate::query::{RunHandle, difference};

/// Fields that change with every write, and so are not listed.
const BOOKKEEPING: [&str; 4] = ["/sequence", "/history", "/metadata/updated_at", "/updated_at"];

/// One write to a document.
#[derive(Debug, Serialize)]
pub(super) struct Write {
    /// `None` if the document has no sequence.
    pub(super) sequence: Option<u64>,
    pub(super) revision: Revision,
    pub(super) at: Timestamp,
    /// The phase and the event of the newest entry in the document's own history; null if there is none.
    pub(super) phase: Value,
    pub(super) event: Value,
    /// An attempt, a person, or the engine.
    pub(super) by: String,
    /// JSON pointers to the changed fields; the empty pointer is the whole document.
    pub(super) changed: Vec<String>,
}

/// Follows a document from a revision on: applies entries, one after the other, and describes each as a write.
#[derive(Debug)]
pub(super) struct Follower<'a> {
    handle: &'a RunHandle,
    pub(super) run_at: RunAtRevision,
}

impl<'a> Follower<'a> {
    /// Starts at a revision, or at the newest one.
    pub(super) async fn at(handle: &'a RunHandle, revision: Option<Revision>) -> Result<Self, Failure> {
        Ok(Self { handle, run_at: handle.run_at(revision).await? })
    }

    /// Describes the current revision as a write of the whole document. `stored` is the entry of this revision.
    pub(super) fn current(&self, stored: &StoredEntry) -> Result<Write, Failure> {
        Ok(self.describe_write(stored.revision, &self.decode(stored)?, vec![String::new()]))
    }

    /// Applies the next entry. Returns `None` if it did not change the document.
    pub(super) fn apply(&mut self, stored: &StoredEntry) -> Result<Option<Write>, Failure> {
        let entry = self.decode(stored)?;
        // An edit names the fields that it changes. After other inputs the document is compared with the one before.
        let edited = match &entry.input {
            Input::Edited { edit, .. } => Some(paths(edit)),
            Input::Opened { .. }
            | Input::Fact { .. }
            | Input::Request { .. }
            | Input::Refused { .. }
            | Input::Deferred
            | Input::Recovered { .. } => None,
        };
        let RunAtRevision { state, revision, .. } = &mut self.run_at;
        let before = edited.is_none().then(|| state.run.machine.document());
        state.fold(&entry).map_err(|error| unreadable(&self.handle.run, stored, &error))?;
        *revision = stored.revision;
        // `fold` leaves the document as it is; `record` applies the entry to it and returns the parts that changed.
        let changed_parts = state.run.machine.record(&entry).map_err(|error| {
            Failure::from_error(Exit::Store, &error)
                .code(Code::Damaged)
                .context(format_args!("cannot apply entry {} of run `{}`", stored.revision, self.handle.run))
        })?;
        if changed_parts.is_empty() {
            return Ok(None);
        }
        let changed = match before {
            Some(before) => changed_paths(&before.to_value(), &self.run_at.machine().document().to_value()),
            None => edited.unwrap_or_default(),
        };
        Ok(Some(self.describe_write(stored.revision, &entry, changed)))
    }

    fn describe_write(&self, revision: Revision, entry: &Entry, changed: Vec<String>) -> Write {
        let document = self.run_at.machine().document();
        let newest = document.last_change().unwrap_or_default();
        let by = match (&entry.input, &entry.by) {
            (Input::Edited { from: Some(attempt), .. }, _) => attempt.to_string(),
            (_, Author::Person { name, .. }) => name.clone(),
            (_, Author::Engine { .. }) => "engine".to_owned(),
            (_, Author::BucketClient { bucket, .. }) => format!("another client of {bucket}"),
        };
        let (phase, event) = (newest["phase"].clone(), newest["event"].clone());
        Write { sequence: document.sequence(), revision, at: entry.at, phase, event, by, changed }
    }

    fn decode(&self, stored: &StoredEntry) -> Result<Entry, Failure> {
        Entry::decode(&stored.body).map_err(|error| unreadable(&self.handle.run, stored, &error))
    }
}

fn unreadable(run: &RunId, stored: &StoredEntry, error: &BadEntry) -> Failure {
    let context = format!("cannot parse entry {} of run `{run}`", stored.revision);
    Failure::from_error(Exit::Store, error).context(context)
}

/// The paths of JSON Patch operations (RFC 6902).
fn paths(operations: &Value) -> Vec<String> {
    let paths =
        operations.as_array().into_iter().flatten().filter_map(|operation| operation["path"].as_str());
    paths.map(str::to_owned).collect()
}

/// Returns the JSON pointers of the fields that differ, without the bookkeeping.
fn changed_paths(old: &Value, new: &Value) -> Vec<String> {
    let found = json!(difference::between(old, new));
    let is_listed = |path: &String| {
        !BOOKKEEPING.iter().any(|field| {
            path.strip_prefix(field).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
        })
    };
    paths(&found).into_iter().filter(is_listed).collect()
}
