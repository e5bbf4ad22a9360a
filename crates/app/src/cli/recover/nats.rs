//! Recovers a store on NATS in place: moves messages that Callboard did not write to the object store, fills deleted
//! buckets of documents from the journal, and verifies every run. Other deleted streams cannot be restored and are
//! reported.

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
    // Not only after a deletion: an earlier `recover` may have ended between the buckets and their documents.
    let unwritten = if arguments.dry_run {
        Vec::new()
    } else {
        rebuild_documents(workspace, &store, &buckets, &mut report).await?
    };
    let inconsistencies = verify::verify_and_write_views(workspace, arguments.dry_run, &mut report).await?;
    if inconsistencies == 0 {
        let is_whole = unwritten.is_empty();
        report.damage.extend(unwritten);
        let exit = report.print();
        return Ok(if is_whole { exit } else { Exit::Failed });
    }
    let runs = output::count(inconsistencies, "run is", "runs are");
    let message = format!("{runs} inconsistent in the store `{}`", workspace.store_name());
    let mut failure = Failure::new(Exit::Store, message).code(Code::Damaged);
    failure.causes.extend(report.damage);
    Err(failure.hint("restore the streams from a backup with `nats stream restore`"))
}

/// Writes every document that its bucket does not have. A document that cannot be rebuilt does not stop the
/// others. Returns why, for each of these.
async fn rebuild_documents(
    workspace: &Workspace,
    store: &AnyStore,
    created: &[String],
    report: &mut RecoveryReport,
) -> Result<Vec<String>, Failure> {
    let (mut written, mut unwritten) = (0, Vec::new());
    let protocols = workspace.protocols;
    for row in store.runs().await?.iter().filter(|row| protocols.find(&row.protocol).is_some()) {
        match runner::rebuild_document(store, &workspace.clock, protocols, &row.run).await {
            // The bucket had no message under the key.
            Ok(Some(Some(JudgedExternalWrite { sequence: 0, bucket, .. }))) => {
                written += 1;
                if !created.contains(&bucket) {
                    report.damage.push(format!("the bucket `{bucket}` had no document of run `{}`", row.run));
                }
            }
            Ok(Some(Some(judged))) => report.notes.push(judged.to_string()),
            // The document was still there, or the run no longer exists.
            Ok(Some(None) | None) => {}
            Err(error) => unwritten.push(format!(
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
    Ok(unwritten)
}
