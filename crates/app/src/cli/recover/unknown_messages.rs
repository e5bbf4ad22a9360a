//! Messages that other programs have published on the subjects of runs. A run cannot continue after such a
//! message, so they are moved to the object store.

use store::NatsStore;

use super::report::RecoveryReport;
use crate::failure::Failure;

/// Moves these messages to the object store. In a dry run, only reports them.
pub(super) async fn set_aside(
    store: &NatsStore,
    dry_run: bool,
    report: &mut RecoveryReport,
) -> Result<(), Failure> {
    for message in store.unknown_messages().await? {
        let (run, sequence, name) = (&message.run, message.sequence, message.name());
        report.damage.push(format!("message {sequence} of run `{run}` was not written by callboard"));
        if dry_run {
            report.notes.push(format!("message {sequence} would be moved to the object `{name}`"));
            continue;
        }
        store.quarantine_message(&message).await?;
        report.notes.push(format!(
            "message {sequence} was moved to the object `{name}` (`nats object get callboard-blobs {name}`)"
        ));
    }
    Ok(())
}
