//! What a deleted stream of a store on NATS took with it, as far as anybody else knows.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use protocol::RunId;
use protocol::peer::CycleId;
use serde_json::Value;
use store::{BLOB_STREAM, KvBucket, KvEntry, MissingBlobs, NatsSettings, NatsStore, Unavailable};

use crate::failure::{Code, Exit, Failure};
use crate::output::{count, waiting};
use crate::workspace::Workspace;

/// The loss, run by run, and what can be done about it.
pub(super) async fn with(
    workspace: &Workspace,
    settings: &NatsSettings,
    server: String,
    stream: String,
) -> Failure {
    let is_blobs = stream == BLOB_STREAM;
    let mut failure =
        Failure::new(Exit::Store, Unavailable::NoStream { server, stream }).code(Code::NoStream);
    let missing_blobs = if is_blobs { NatsStore::missing_blobs(settings, waiting).await } else { Ok(None) };
    let documents = documents(settings).await;
    match missing_blobs {
        Ok(Some(runs)) => failure.causes.extend(blobs(&runs, &documents)),
        Ok(None) => failure.causes.extend(journal(workspace, &documents)),
        // What it took is not known then; that it is gone is.
        Err(unavailable) => failure.causes.push(unavailable.to_string()),
    }
    failure = failure.hint("`nats stream restore` brings it back from a copy; then all is as it was");
    failure = failure.hint(
        "`callboard import FILE --store DIR` takes a run from an archive, if it was exported before, into another store",
    );
    if !documents.is_empty() {
        failure = failure.hint(format!(
            "`callboard import --peer {} --store DIR` reads the documents of the bucket into another store",
            settings.server()
        ));
    }
    failure
        .hint("`callboard recover --from-view VIEW --workflow WORKFLOW --store DIR` makes a run of its view")
}

/// The journal is there, and what was large or lasts is not.
fn blobs(runs: &[MissingBlobs], documents: &[Document]) -> Vec<String> {
    if runs.is_empty() {
        return vec!["no run had anything in it".to_owned()];
    }
    let mut lines = vec![
        "it held what each run was opened with (workflow, prompts, limits), and what was too large for a message; \
         all else is intact"
            .to_owned(),
    ];
    lines.extend(runs.iter().map(|missing_blobs| {
        let MissingBlobs { run, revision, lost } = missing_blobs;
        let mut line = match lost.as_slice() {
            [] => {
                format!("run `{run}` lacks what it was opened with; all of its {revision} entries are there")
            }
            lost => {
                let numbers: Vec<_> = lost.iter().map(ToString::to_string).collect();
                let (missing, numbers) = (count(lost.len(), "entry", "entries"), numbers.join(", "));
                format!("run `{run}` lacks what it was opened with and {missing} of {revision}: {numbers}")
            }
        };
        let outputs = documents.iter().filter(|document| is_of(document, run)).map(|document| document.blobs);
        let outputs: usize = outputs.sum();
        if outputs > 0 {
            let outputs = count(outputs, "output", "outputs");
            line.push_str(&format!("; its document in the bucket lacks {outputs}"));
        }
        line
    }));
    lines
}

fn is_of(document: &Document, run: &RunId) -> bool {
    document.run == run.as_str()
}

/// The journal is gone, and with it every run.
fn journal(workspace: &Workspace, documents: &[Document]) -> Vec<String> {
    let mut runs: BTreeMap<String, Vec<String>> = BTreeMap::new();
    let mut know = |run: String, what: String| runs.entry(run).or_default().push(what);
    for (run, tries) in tried(workspace.location.root()) {
        know(run, format!("{} on this machine", count(tries, "attempt", "attempts")));
    }
    for run in shown(&workspace.repo) {
        know(run, "its `run_state.json`".to_owned());
    }
    for Document { run, sequence, .. } in documents {
        know(run.clone(), format!("its document in the bucket, sequence {sequence}"));
    }
    if runs.is_empty() {
        return vec!["neither this machine nor the bucket knows of a run that was in it".to_owned()];
    }
    let line =
        |(run, known): (&String, &Vec<String>)| format!("run `{run}` was in it; left: {}", known.join(", "));
    runs.iter().map(line).collect()
}

/// Runs with attempts on this machine, of whichever store on NATS, and how many.
fn tried(root: &Path) -> Vec<(String, usize)> {
    let list = |path: &Path| fs::read_dir(path).into_iter().flatten().filter_map(Result::ok);
    let homes = list(&root.join("nats")).flat_map(|store| {
        let homes: Vec<_> = list(&store.path().join("attempts")).collect();
        homes
    });
    let counted = homes.map(|home| {
        let tries = list(&home.path()).map(|step| list(&step.path()).count()).sum();
        (home.file_name().to_string_lossy().into_owned(), tries)
    });
    counted.collect()
}

/// Runs that have a view here.
fn shown(repo: &Path) -> Vec<String> {
    let runs = fs::read_dir(repo.join(".agents").join("runs")).into_iter().flatten().filter_map(Result::ok);
    let runs = runs.filter(|run| run.path().join("run_state.json").is_file());
    runs.map(|run| run.file_name().to_string_lossy().into_owned()).collect()
}

/// The document of a cycle, as an entry of the bucket.
struct Document {
    run: String,
    /// How often it was changed.
    sequence: u64,
    /// How much of it stands elsewhere, being large.
    blobs: usize,
}

async fn documents(settings: &NatsSettings) -> Vec<Document> {
    let entries = match KvBucket::find(settings, waiting).await {
        Ok(Some(bucket)) => bucket.entries().await.unwrap_or_default(),
        Ok(None) | Err(_) => Vec::new(),
    };
    entries.iter().filter_map(document).collect()
}

fn document(entry: &KvEntry) -> Option<Document> {
    CycleId::from_key(&entry.key).ok()?;
    let document: Value = serde_json::from_slice(&entry.value).ok()?;
    let sequence = document.get("sequence")?.as_u64()?;
    Some(Document { run: entry.key.clone(), sequence, blobs: blobs_in(&document) })
}

/// How many values were taken out of a document because of their size.
fn blobs_in(value: &Value) -> usize {
    match value {
        Value::Object(members) if members.contains_key("$blob") => 1,
        Value::Object(members) => members.values().map(blobs_in).sum(),
        Value::Array(_) | Value::String(_) | Value::Number(_) | Value::Bool(_) | Value::Null => 0,
    }
}

#[cfg(test)]
mod tests {
    use protocol::Revision;

    use super::*;

    #[test]
    fn what_a_run_lacks_without_its_blobs_is_told_piece_by_piece() {
        let value = serde_json::json!({
            "sequence": 4,
            "phases": {
                "plan": { "output": { "$blob": "sha256:1", "bytes": 200_000 } },
                "execute": { "output": { "summary": "short" } },
            },
        });
        let key = "peer.global.cycle.1";
        let entry = KvEntry { key: key.to_owned(), revision: 9, value: value.to_string().into() };
        let documents = [document(&entry).unwrap()];
        let missing_blobs = |name: &str, lost: &[u64]| MissingBlobs {
            run: RunId::new(name).unwrap(),
            revision: Revision(7),
            lost: lost.iter().copied().map(Revision).collect(),
        };
        let told = blobs(&[missing_blobs("small", &[]), missing_blobs(key, &[3, 5])], &documents);
        assert_eq!(
            told[1..],
            [
                "run `small` lacks what it was opened with; all of its 7 entries are there",
                "run `peer.global.cycle.1` lacks what it was opened with and 2 entries of 7: 3, 5; \
                 its document in the bucket lacks 1 output",
            ]
        );
        assert_eq!(blobs(&[], &documents), ["no run had anything in it"]);
    }
}
