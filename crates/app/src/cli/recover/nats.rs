//! Recovers a store on NATS in place. Messages in the journal that were not written by Callboard are moved to the object store.
//! Deleted buckets of documents are created again and filled from the journal. Every run is verified. Any other deleted stream
//! cannot be restored and is reported.

use runner::JudgedExternalWrite;
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
            Err(Unavailable::StreamDeleted { server, stream }) => {
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
        let names: Vec<_> = buckets.iter().map(|bucket| format!("`{bucket}`")).collect();
        let (noun, verb) = if names.len() == 1 { ("bucket", "was") } else { ("buckets", "were") };
        report.notes.push(format!("{noun} {} {verb} created again", names.join(", ")));
    }
    // Even if no bucket is missing: an earlier `recover` may have created the buckets and ended before it wrote the documents.
    let rebuild_errors = if arguments.dry_run {
        Vec::new()
    } else {
        rebuild_documents(workspace, &store, &buckets, &mut report).await?
    };
    let inconsistencies = verify::verify_and_write_views(workspace, arguments.dry_run, &mut report).await?;
    let is_whole = rebuild_errors.is_empty();
    report.damage.extend(rebuild_errors);
    if inconsistencies == 0 {
        let exit = report.print();
        return Ok(if is_whole { exit } else { Exit::Failed });
    }
    let runs = output::count(inconsistencies, "run is", "runs are");
    let message = format!("{runs} inconsistent in the store `{}`", workspace.store_name());
    let mut failure = Failure::new(Exit::Store, message).code(Code::Damaged);
    failure.causes.extend(report.damage);
    Err(failure.hint("restore the streams from a backup with `nats stream restore`"))
}

/// Writes every document that its bucket does not have. `created_buckets` are those that were deleted. A document that cannot be
/// rebuilt does not stop the others: returns an error message for each of them.
async fn rebuild_documents(
    workspace: &Workspace,
    store: &AnyStore,
    created_buckets: &[String],
    report: &mut RecoveryReport,
) -> Result<Vec<String>, Failure> {
    let (mut written, mut rebuild_errors) = (0, Vec::new());
    let protocols = workspace.protocols;
    for row in store.runs().await?.iter().filter(|row| protocols.find(&row.protocol).is_some()) {
        match runner::rebuild_document(store, &workspace.clock, protocols, &row.run).await {
            // Sequence 0: the bucket had no message under the key. The document was written.
            Ok(Some(Some(JudgedExternalWrite { sequence: 0, bucket, .. }))) => {
                written += 1;
                if !created_buckets.contains(&bucket) {
                    report.damage.push(format!("the bucket `{bucket}` had no document of run `{}`", row.run));
                }
            }
            // Another client had written to the document. The write was accepted, or the document restored.
            Ok(Some(Some(judged))) => report.notes.push(judged.to_string()),
            // The document was still there, or the run no longer exists.
            Ok(Some(None) | None) => {}
            Err(error) => rebuild_errors.push(format!(
                "cannot rebuild the document of run `{}`: {}",
                row.run,
                Failure::from(error).message
            )),
        }
    }
    if written > 0 {
        let documents = output::count(written, "document was", "documents were");
        report.notes.push(format!("{documents} written from the journal"));
    }
    Ok(rebuild_errors)
}
