//! What a deleted stream of a store on NATS contained, as far as other sources tell.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use protocol::RunId;
use protocol::peer::PeerCycleId;
use serde_json::Value;
use store::{BLOB_STREAM, KvBucket, KvEntry, MissingBlobs, NatsSettings, NatsStore, Unavailable};

use crate::failure::{Code, Exit, Failure};
use crate::output::{count, print_nats_notice};
use crate::workspace::Workspace;

/// Returns the failure with the loss of each run, and the ways to restore it.
pub(super) async fn failure(
    workspace: &Workspace,
    settings: &NatsSettings,
    server: String,
    stream: String,
) -> Failure {
    let is_blob_stream = stream == BLOB_STREAM;
    let mut failure =
        Failure::new(Exit::Store, Unavailable::StreamDeleted { server, stream }).code(Code::NoStream);
    let missing_blobs =
        if is_blob_stream { NatsStore::missing_blobs(settings, print_nats_notice).await } else { Ok(None) };
    let documents = read_documents(settings).await;
    match missing_blobs {
        Ok(Some(runs)) => failure.causes.extend(describe_lost_blobs(&runs, &documents)),
        // The journal is lost, with or without the blobs.
        Ok(None) => failure.causes.extend(describe_lost_journal(workspace, &settings.server(), &documents)),
        // The loss is unknown then; the failure itself stays.
        Err(unavailable) => failure.causes.push(unavailable.to_string()),
    }
    failure = failure.hint("restore the stream from a backup with `nats stream restore`");
    failure = failure
        .hint("or run `callboard import FILE --store DIR` to import an exported run into another store");
    if !documents.is_empty() {
        failure = failure.hint(format!(
            "or run `callboard import --peer {} --write --store DIR` to import the documents of the bucket",
            settings.server()
        ));
    }
    failure.hint(
        "or run `callboard recover --from-view VIEW --workflow WORKFLOW --store DIR` to rebuild a run from its view",
    )
}

/// Describes the loss of the blobs: definitions of runs, and large values.
fn describe_lost_blobs(runs: &[MissingBlobs], documents: &[Document]) -> Vec<String> {
    if runs.is_empty() {
        return vec!["no run had stored anything in it".to_owned()];
    }
    let mut lines = vec![
        "it contained the definition of each run (workflow, prompts, limits) and entries that were too large for a \
         message; everything else is intact"
            .to_owned(),
    ];
    lines.extend(runs.iter().map(|missing_blobs| {
        let MissingBlobs { run, revision, lost } = missing_blobs;
        let mut line = match lost.as_slice() {
            [] => format!("run `{run}` has lost its definition; its entries are intact"),
            lost => {
                let numbers: Vec<_> = lost.iter().map(ToString::to_string).collect();
                let (missing, numbers) = (count(lost.len(), "entry", "entries"), numbers.join(", "));
                format!("run `{run}` has lost its definition and {missing} of {revision}: {numbers}")
            }
        };
        let of_run = documents.iter().filter(|document| is_of_run(document, run));
        let outputs: usize = of_run.map(|document| document.blobs).sum();
        if outputs > 0 {
            let outputs = count(outputs, "output", "outputs");
            line.push_str(&format!("; its document in the bucket has lost {outputs}"));
        }
        line
    }));
    lines
}

fn is_of_run(document: &Document, run: &RunId) -> bool {
    document.run == run.as_str()
}

const VIEW: &str = "the view `run_state.json` in this repository";

/// Lists the runs of a lost journal, from the traces on this machine and in the bucket.
fn describe_lost_journal(workspace: &Workspace, server: &str, documents: &[Document]) -> Vec<String> {
    let mut runs: BTreeMap<String, Vec<String>> = BTreeMap::new();
    let mut add = |run: String, trace: String| runs.entry(run).or_default().push(trace);
    for (run, attempts) in local_attempts(&workspace.location.local_dirs_at(server)) {
        add(run, format!("{} on this machine", count(attempts, "attempt", "attempts")));
    }
    for run in local_views(&workspace.repo) {
        // A run with attempts in the embedded store is taken as one of that store.
        if !workspace.location.attempts_dir().join(&run).exists() {
            add(run, VIEW.to_owned());
        }
    }
    for Document { run, sequence, .. } in documents {
        add(run.clone(), format!("the document in the bucket (sequence {sequence})"));
    }
    if runs.is_empty() {
        return vec!["neither this machine nor the bucket has traces of its runs".to_owned()];
    }
    runs.iter().map(|(run, traces)| describe_lost_run(run, traces)).collect()
}

/// Describes what remains of a run. A view does not say which store its run was in.
fn describe_lost_run(run: &str, traces: &[String]) -> String {
    match traces {
        [view] if view == VIEW => format!("the journal may have had run `{run}`; what remains: {VIEW}"),
        traces => format!("the journal of run `{run}` is lost; what remains: {}", traces.join(", ")),
    }
}

/// Returns the runs with attempts in local directories of shared stores, and the number of their attempts.
fn local_attempts(local_dirs: &[PathBuf]) -> Vec<(String, usize)> {
    let list = |path: &Path| fs::read_dir(path).into_iter().flatten().filter_map(Result::ok);
    let runs = local_dirs.iter().flat_map(|local_dir| list(&local_dir.join("attempts")));
    let counted = runs.map(|run| {
        let attempts = list(&run.path()).map(|step| list(&step.path()).count()).sum();
        (run.file_name().to_string_lossy().into_owned(), attempts)
    });
    counted.collect()
}

/// Returns the runs with a view in the repository.
fn local_views(repo: &Path) -> Vec<String> {
    let runs = fs::read_dir(repo.join(".agents").join("runs")).into_iter().flatten().filter_map(Result::ok);
    let runs = runs.filter(|run| run.path().join("run_state.json").is_file());
    runs.map(|run| run.file_name().to_string_lossy().into_owned()).collect()
}

/// What the bucket tells about the document of a peer cycle.
struct Document {
    run: String,
    /// The number of its changes.
    sequence: u64,
    /// The number of its values that are blobs.
    blobs: usize,
}

async fn read_documents(settings: &NatsSettings) -> Vec<Document> {
    let entries = match KvBucket::find(settings, print_nats_notice).await {
        Ok(Some(bucket)) => bucket.entries().await.unwrap_or_default(),
        Ok(None) | Err(_) => Vec::new(),
    };
    entries.iter().filter_map(parse_document).collect()
}

/// Parses the entry of a peer cycle. Returns `None` for other entries of the bucket.
fn parse_document(entry: &KvEntry) -> Option<Document> {
    PeerCycleId::from_key(&entry.key).ok()?;
    let document: Value = serde_json::from_slice(&entry.value).ok()?;
    let sequence = document.get("sequence")?.as_u64()?;
    Some(Document { run: entry.key.clone(), sequence, blobs: count_blobs(&document) })
}

/// Counts the values of a document that are blobs.
fn count_blobs(value: &Value) -> usize {
    match value {
        Value::Object(members) if members.contains_key("$blob") => 1,
        Value::Object(members) => members.values().map(count_blobs).sum(),
        Value::Array(_) | Value::String(_) | Value::Number(_) | Value::Bool(_) | Value::Null => 0,
    }
}

#[cfg(test)]
mod tests {
    use protocol::Revision;

    use super::*;

    #[test]
    fn the_loss_of_each_run_without_its_blobs_is_listed() {
        let value = serde_json::json!({
            "sequence": 4,
            "phases": {
                "plan": { "output": { "$blob": "sha256:1", "bytes": 200_000 } },
                "execute": { "output": { "summary": "short" } },
            },
        });
        let key = "peer.global.cycle.1";
        let entry = KvEntry { key: key.to_owned(), revision: 9, value: value.to_string().into() };
        let documents = [parse_document(&entry).unwrap()];
        let missing_blobs = |name: &str, lost: &[u64]| MissingBlobs {
            run: RunId::new(name).unwrap(),
            revision: Revision(7),
            lost: lost.iter().copied().map(Revision).collect(),
        };
        let report =
            describe_lost_blobs(&[missing_blobs("small", &[]), missing_blobs(key, &[3, 5])], &documents);
        assert_eq!(
            report[1..],
            [
                "run `small` has lost its definition; its entries are intact",
                "run `peer.global.cycle.1` has lost its definition and 2 entries of 7: 3, 5; \
                 its document in the bucket has lost 1 output",
            ]
        );
        assert_eq!(describe_lost_blobs(&[], &documents), ["no run had stored anything in it"]);
        let only_view = describe_lost_run("old", &[VIEW.to_owned()]);
        assert!(only_view.starts_with("the journal may have had run `old`"), "{only_view}");
    }
}
