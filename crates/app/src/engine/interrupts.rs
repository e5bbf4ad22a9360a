//! Ctrl-C and SIGTERM: the third one ends the engine at once.

use std::cell::Cell;
use std::time::Duration;

use protocol::RunId;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::mpsc;

use crate::failure::{Exit, Failure};

/// After this many interrupts the engine no longer waits for its agents: it exits and leaves them running.
const FORCED_EXIT_INTERRUPTS: usize = 3;

/// How long the engine may take to exit after the last of them. Then the program exits without it.
const FORCED_EXIT_DELAY: Duration = Duration::from_secs(2);

/// Returns a channel with one message per Ctrl-C or SIGTERM.
pub(crate) fn interrupts() -> Result<mpsc::UnboundedReceiver<()>, Failure> {
    let (sender, receiver) = mpsc::unbounded_channel();
    for kind in [SignalKind::interrupt(), SignalKind::terminate()] {
        let mut signals = signal(kind)
            .map_err(|error| Failure::new(Exit::Bug, "cannot handle signals").because(Some(&error)))?;
        let sender = sender.clone();
        tokio::spawn(async move { while signals.recv().await.is_some() && sender.send(()).is_ok() {} });
    }
    Ok(receiver)
}

/// Forwards interrupts to the engine. The returned future completes [`FORCED_EXIT_DELAY`] after the last of
/// [`FORCED_EXIT_INTERRUPTS`]: an engine that waits for its store does not receive interrupts, and dropping it is as safe as
/// killing it.
pub(super) fn forward_interrupts(
    mut interrupts: mpsc::UnboundedReceiver<()>,
    was_interrupted: &Cell<bool>,
) -> (mpsc::UnboundedReceiver<()>, impl Future<Output = ()>) {
    let (sender, receiver) = mpsc::unbounded_channel();
    let forced_exit = async move {
        for _ in 0..FORCED_EXIT_INTERRUPTS {
            if interrupts.recv().await.is_none() || sender.send(()).is_err() {
                std::future::pending::<()>().await;
            }
            was_interrupted.set(true);
        }
        tokio::time::sleep(FORCED_EXIT_DELAY).await;
    };
    (receiver, forced_exit)
}

pub(super) fn forced_exit_failure(run: &RunId) -> Failure {
    Failure::new(
        Exit::Interrupted,
        format_args!("exited without stopping run `{run}`: its store does not answer"),
    )
    .hint(format_args!("its agents may be running; run `callboard resume {run}` to adopt them"))
}
