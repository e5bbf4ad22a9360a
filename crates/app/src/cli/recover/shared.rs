//! A store on NATS. Its servers keep what they have sound: here its runs are checked, and what was deleted is named.

use protocol::RunId;
use store::{AnyStore, NatsWarning, Store as _, Unavailable};

use super::report::RecoveryReport;
use super::{Arguments, lost, sound, strangers};
use crate::failure::{Code, Exit, Failure};
use crate::output;
use crate::present::{self, Deed, Presentation};
use crate::workspace::Workspace;

/// Verifies every run, and mends the files that show them.
pub(super) async fn check(workspace: &Workspace, arguments: &Arguments) -> Result<Exit, Failure> {
    let settings = workspace.nats.as_deref().expect("BUG: we are here because of it");
    let store = match AnyStore::connect(settings.clone(), &workspace.location, output::waiting).await {
        Err(Unavailable::NoStream { server, stream }) => {
            return Err(lost::with(workspace, settings, server, stream).await);
        }
        store => store?,
    };
    let mut told = RecoveryReport::new(workspace, arguments);
    if let AnyStore::Nats(nats, _) = &store {
        strangers::set_aside(nats, arguments.dry_run, &mut told).await?;
    }
    let deleted = store.warnings().await?.iter().filter_map(|note| match note {
        NatsWarning::StreamDeleted { stream } => Some(format!("the stream `{stream}` was deleted")),
        NatsWarning::OldServer { .. }
        | NatsWarning::FewerReplicas { .. }
        | NatsWarning::LeaseDiffers { .. }
        | NatsWarning::ConfigDiffers { .. } => None,
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
        rebuild(workspace, &store, &buckets, &mut told).await?;
    }
    let inconsistencies = sound::check(workspace, arguments.dry_run, &mut told).await?;
    if inconsistencies == 0 {
        return Ok(told.tell());
    }
    let what = format!("{inconsistencies} of the runs at `{}` do not add up", workspace.store_name());
    let mut failure = Failure::new(Exit::Store, what).code(Code::Damaged);
    failure.causes.extend(told.damage);
    Err(failure.hint("nothing was changed; bring the streams back from a copy (`nats stream restore`)"))
}

/// Puts every document back into buckets that were deleted. A run whose journal does not give it is told, and keeps no other
/// from its own.
async fn rebuild(
    workspace: &Workspace,
    store: &AnyStore,
    buckets: &[String],
    told: &mut RecoveryReport,
) -> Result<(), Failure> {
    let mut written = 0;
    for row in store.runs().await?.iter().filter(|row| present::is_known(&row.protocol)) {
        match present::by_name(&row.protocol, &row.run, Rebuilding { workspace, store, run: &row.run }).await
        {
            Ok(true) => written += 1,
            Ok(false) => {}
            Err(failure) => told.notes.push(format!("the document of run `{}`: {}", row.run, failure.what)),
        }
    }
    let names: Vec<_> = buckets.iter().map(|bucket| format!("`{bucket}`")).collect();
    let documents = output::count(written, "document was", "documents were");
    told.notes
        .push(format!("bucket {} is there again; {documents} written from the journal", names.join(", ")));
    Ok(())
}

/// To put the document of one run back. Says whether it had to be.
struct Rebuilding<'a> {
    workspace: &'a Workspace,
    store: &'a AnyStore,
    run: &'a RunId,
}

impl Deed for Rebuilding<'_> {
    type Done = bool;

    async fn with<P: Presentation>(self) -> Result<bool, Failure> {
        let Self { workspace, store, run } = self;
        let settled = runner::rebuild_document::<P, _>(store, &workspace.clock, run).await?;
        Ok(settled.flatten().is_some())
    }
}
