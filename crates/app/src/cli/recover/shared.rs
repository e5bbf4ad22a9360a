//! A store on NATS. Its servers keep what they have sound: here its runs are checked, and what was deleted is named.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use protocol::RunId;
use protocol::peer::CycleId;
use serde_json::Value;
use store::{AnyStore, LiveBucket, LiveEntry, NatsSettings, Note, Store as _, Unavailable};

use super::account::Account;
use super::{Arguments, sound, strangers};
use crate::face::{self, Deed, Face};
use crate::failure::{Code, Exit, Failure};
use crate::here::Here;
use crate::render;

/// Verifies every run, and mends the files that show them.
pub(super) async fn check(here: &Here, arguments: &Arguments) -> Result<Exit, Failure> {
    let settings = here.nats.as_deref().expect("BUG: we are here because of it");
    let store = match AnyStore::connect(settings.clone(), &here.location, render::waiting).await {
        Err(gone @ Unavailable::NoStream { .. }) => return Err(lost(here, settings, gone).await),
        store => store?,
    };
    let mut told = Account::new(here, arguments);
    if let AnyStore::Nats(nats, _) = &store {
        strangers::set_aside(nats, arguments.dry_run, &mut told).await?;
    }
    let deleted = store.notes().await?.iter().filter_map(|note| match note {
        Note::Gone { stream } => Some(format!("the stream `{stream}` was deleted")),
        Note::OldServer { .. } | Note::FewerReplicas { .. } | Note::OtherSettings { .. } => None,
    });
    let deleted: Vec<_> = deleted.collect();
    let is_deleted = !deleted.is_empty();
    told.damage.extend(deleted);
    if is_deleted && arguments.dry_run {
        told.notes.push("each document in it would be written again from the journal".to_owned());
        return Ok(told.tell());
    }
    let buckets = match &store {
        AnyStore::Nats(nats, _) => nats.rebuild_buckets().await?,
        AnyStore::Embedded(_) => Vec::new(),
    };
    if !buckets.is_empty() {
        rebuild(here, &store, &buckets, &mut told).await?;
    }
    let flaws = sound::check(here, arguments.dry_run, &mut told).await?;
    if flaws == 0 {
        return Ok(told.tell());
    }
    let what = format!("{flaws} of the runs at `{}` do not add up", here.store_name());
    let mut failure = Failure::new(Exit::Store, what).code(Code::Damaged);
    failure.causes.extend(told.damage);
    Err(failure.hint("nothing was changed; bring the streams back from a copy (`nats stream restore`)"))
}

/// Puts every document back into buckets that were deleted. A run whose journal does not give it is told, and keeps no other
/// from its own.
async fn rebuild(
    here: &Here,
    store: &AnyStore,
    buckets: &[String],
    told: &mut Account,
) -> Result<(), Failure> {
    let mut written = 0;
    for row in store.runs().await?.iter().filter(|row| face::is_known(&row.protocol)) {
        match face::by_name(&row.protocol, &row.run, Rebuilding { here, store, run: &row.run }).await {
            Ok(true) => written += 1,
            Ok(false) => {}
            Err(failure) => told.notes.push(format!("the document of run `{}`: {}", row.run, failure.what)),
        }
    }
    let names: Vec<_> = buckets.iter().map(|bucket| format!("`{bucket}`")).collect();
    let documents = render::count(written, "document was", "documents were");
    told.notes
        .push(format!("bucket {} is there again; {documents} written from the journal", names.join(", ")));
    Ok(())
}

/// To put the document of one run back. Says whether it had to be.
struct Rebuilding<'a> {
    here: &'a Here,
    store: &'a AnyStore,
    run: &'a RunId,
}

impl Deed for Rebuilding<'_> {
    type Done = bool;

    async fn with<P: Face>(self) -> Result<bool, Failure> {
        let Self { here, store, run } = self;
        let settled = runner::rebuild_document::<P, _>(store, &here.clock, run).await?;
        Ok(settled.flatten().is_some())
    }
}

/// What a deleted stream took with it, as far as anybody else knows.
async fn lost(here: &Here, settings: &NatsSettings, gone: Unavailable) -> Failure {
    let mut failure = Failure::new(Exit::Store, &gone).code(Code::NoStream);
    let mut runs: BTreeMap<String, Vec<String>> = BTreeMap::new();
    let mut know = |run: String, what: String| runs.entry(run).or_default().push(what);
    for (run, tries) in tried(here.location.root()) {
        know(run, format!("{} on this machine", render::count(tries, "attempt", "attempts")));
    }
    for run in shown(&here.repo) {
        know(run, "its `run_state.json`".to_owned());
    }
    let entries = match LiveBucket::find(settings, render::waiting).await {
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
