//! What somebody else has put on the subjects of runs: no run goes on behind it. It is kept, and taken out of the way.

use store::NatsStore;

use super::report::RecoveryReport;
use crate::failure::Failure;

/// Sets all of it aside, or says what would be.
pub(super) async fn set_aside(
    store: &NatsStore,
    dry_run: bool,
    told: &mut RecoveryReport,
) -> Result<(), Failure> {
    for stranger in store.unknown_messages().await? {
        let (run, sequence, name) = (&stranger.run, stranger.sequence, stranger.name());
        told.damage.push(format!("message {sequence} of run `{run}` was not written by callboard"));
        if dry_run {
            told.notes.push(format!(
                "message {sequence} would be kept as `{name}`, and the run would go on without it"
            ));
            continue;
        }
        store.quarantine_message(&stranger).await?;
        told.notes.push(format!(
            "message {sequence} is kept as `{name}` (`nats object get callboard-blobs {name}`); the run goes on without it"
        ));
    }
    Ok(())
}
