//! Recovers a store on NATS in place: moves messages that Callboard did not write to the object store, fills deleted
//! buckets of documents from the journal, and verifies every run. Other deleted streams cannot be restored and are
//! reported.

use store::{AnyStore, Backend, NatsWarning, Unavailable};

use super::report::RecoveryReport;
use super::{Arguments, lost_stream, unknown_messages, verify};
use crate::failure::{Code, Exit, Failure};
use crate::output;
use crate::workspace::Workspace;

/// Recovers what can be recovered, verifies every run and writes missing views.
pub(super) async fn recover(workspace: &Workspace, arguments: &Arguments) -> Result<Exit, Failure> {
    let settings = workspace.nats.as_deref().expect("BUG: the store is not on NATS");
    let store =
        match AnyStore::connect(settings.clone(), &workspace.location, output::print_nats_notice).await {
            Err(Unavailable::NoStream { server, stream }) => {
                return Err(lost_stream::failure(workspace, settings, server, stream).await);
            }
            store => store?,
        };
    let mut report = RecoveryReport::new(workspace, arguments);
    if let Backend::Nats(nats, _) = store.backend() {
        unknown_messages::set_aside(nats, arguments.dry_run, &mut report).await?;
    }
    let deleted = store.warnings().await?.iter().filter_map(|warning| match warning {
        NatsWarning::StreamDeleted { stream } => Some(format!("the stream `{stream}` was deleted")),
        NatsWarning::OldServer { .. }
        | NatsWarning::FewerReplicas { .. }
        | NatsWarning::LeaseDiffers { .. }
        | NatsWarning::ConfigDiffers { .. } => None,
    });
    let deleted: Vec<_> = deleted.collect();
    let is_deleted = !deleted.is_empty();
    report.damage.extend(deleted);
    if is_deleted && arguments.dry_run {
        report.notes.push("each document in it would be written again from the journal".to_owned());
        return Ok(report.print());
    }
    let buckets = match store.backend() {
        Backend::Nats(nats, _) if !arguments.dry_run => nats.rebuild_buckets().await?,
        Backend::Nats(..) | Backend::Embedded(_) => Vec::new(),
    };
    if !buckets.is_empty() {
        rebuild_documents(workspace, &store, &buckets, &mut report).await?;
    }
    let inconsistencies = verify::verify_and_write_views(workspace, arguments.dry_run, &mut report).await?;
    if inconsistencies == 0 {
        return Ok(report.print());
    }
    let runs = output::count(inconsistencies, "run is", "runs are");
    let message = format!("{runs} inconsistent in the store `{}`", workspace.store_name());
    let mut failure = Failure::new(Exit::Store, message).code(Code::Damaged);
    failure.causes.extend(report.damage);
    Err(failure.hint("restore the streams from a backup with `nats stream restore`"))
}

/// Writes every document into buckets that were deleted. A run whose document cannot be rebuilt is reported and does not
/// stop the others.
async fn rebuild_documents(
    workspace: &Workspace,
    store: &AnyStore,
    buckets: &[String],
    report: &mut RecoveryReport,
) -> Result<(), Failure> {
    let mut written = 0;
    let kinds = workspace.kinds;
    for row in store.runs().await?.iter().filter(|row| kinds.find(&row.protocol).is_some()) {
        match runner::rebuild_document(store, &workspace.clock, kinds, &row.run).await {
            Ok(Some(Some(_))) => written += 1,
            // The document was still there, or the run no longer exists.
            Ok(Some(None) | None) => {}
            Err(error) => report.notes.push(format!(
                "cannot rebuild the document of run `{}`: {}",
                row.run,
                Failure::from(error).message
            )),
        }
    }
    let names: Vec<_> = buckets.iter().map(|bucket| format!("`{bucket}`")).collect();
    let documents = output::count(written, "document was", "documents were");
    report
        .notes
        .push(format!("bucket {} was created again; {documents} written from the journal", names.join(", ")));
    Ok(())
}
