//! A store on NATS. Its servers keep what they have sound: here its runs are checked, and what was deleted is named.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use protocol::peer::CycleId;
use serde_json::Value;
use store::{AnyStore, LiveBucket, LiveEntry, NatsSettings, Unavailable};

use super::account::Account;
use super::{Arguments, sound};
use crate::failure::{Code, Exit, Failure};
use crate::here::Here;

/// Verifies every run, and mends the files that show them.
pub(super) async fn check(here: &Here, arguments: &Arguments) -> Result<Exit, Failure> {
    let settings = here.nats.as_deref().expect("BUG: we are here because of it");
    if let Err(Unavailable::NoStream { stream, server }) =
        AnyStore::connect(settings.clone(), &here.location).await
    {
        return Err(lost(here, settings, Unavailable::NoStream { stream, server }).await);
    }
    let mut told = Account::new(here, arguments);
    let flaws = sound::check(here, arguments.dry_run, &mut told).await?;
    if flaws == 0 {
        return Ok(told.tell());
    }
    let what = format!("{flaws} of the runs at `{}` do not add up", here.store_name());
    let mut failure = Failure::new(Exit::Store, what).code(Code::Damaged);
    failure.causes.extend(told.damage);
    Err(failure.hint("nothing was changed; bring the streams back from a copy (`nats stream restore`)"))
}

/// What a deleted stream took with it, as far as anybody else knows.
async fn lost(here: &Here, settings: &NatsSettings, gone: Unavailable) -> Failure {
    let mut failure = Failure::new(Exit::Store, &gone).code(Code::NoStream);
    let mut runs: BTreeMap<String, Vec<String>> = BTreeMap::new();
    let mut know = |run: String, what: String| runs.entry(run).or_default().push(what);
    for (run, tries) in tried(here.location.root()) {
        know(run, format!("{tries} attempts on this machine"));
    }
    for run in shown(&here.repo) {
        know(run, "its `run_state.json`".to_owned());
    }
    let entries = match LiveBucket::find(settings).await {
        Ok(Some(bucket)) => bucket.entries().await.unwrap_or_default(),
        Ok(None) | Err(_) => Vec::new(),
    };
    let documents: Vec<_> = entries.iter().filter_map(document).collect();
    let kept = documents.len();
    for (run, sequence) in documents {
        know(run, format!("its document in the bucket, sequence {sequence}"));
    }
    let lines = runs.iter().map(|(run, known)| format!("run `{run}` was in it; left: {}", known.join(", ")));
    failure.causes.extend(lines);
    if runs.is_empty() {
        failure.causes.push("neither this machine nor the bucket knows of a run that was in it".to_owned());
    }
    failure = failure.hint("`nats stream restore` brings it back from a copy; then all is as it was");
    if kept > 0 {
        failure = failure.hint(format!(
            "`callboard import --peer {} --store DIR` reads the documents of the bucket into another store",
            settings.server()
        ));
    }
    failure
        .hint("`callboard recover --from-view VIEW --workflow WORKFLOW --store DIR` makes a run of its view")
}

/// Runs with attempts on this machine, of whichever store on NATS, and how many.
fn tried(root: &Path) -> Vec<(String, usize)> {
    let list = |path: &Path| fs::read_dir(path).into_iter().flatten().filter_map(Result::ok);
    let homes = list(&root.join("nats")).flat_map(|store| {
        let homes: Vec<_> = list(&store.path().join("attempts")).collect();
        homes
    });
    let counted = homes.map(|home| {
        let tries = list(&home.path()).map(|seat| list(&seat.path()).count()).sum();
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

/// The cycle whose document an entry is, and how often it was changed.
fn document(entry: &LiveEntry) -> Option<(String, u64)> {
    CycleId::from_key(&entry.key).ok()?;
    let document: Value = serde_json::from_slice(&entry.value).ok()?;
    Some((entry.key.clone(), document.get("sequence")?.as_u64()?))
}
