//! Entries, as an engine or a command would write them.

use std::time::Duration;

use protocol::entry::{Author, ENTRY_VERSION, Entry, Evidence, FailureKind, Input as EntryInput, Timer};
use protocol::run::{Change, Decision, Ending, Exit, Fact, Run};
use protocol::{ParsedReport, Stamp};

use super::transition::Node;
use super::{Explored, Scene, Violation};

/// Returns the entry of a decision, one second after the last entry.
pub(super) fn of<P: Explored>(before: &Node<P>, input: EntryInput<P>, decision: Decision<P>) -> Entry<P> {
    let at = before.state.at.plus(Duration::from_secs(1));
    let by = match &input {
        EntryInput::Request { .. } | EntryInput::Edited { .. } => {
            Author::Person { name: "ada".to_owned(), host: "here".to_owned() }
        }
        EntryInput::Opened { .. }
        | EntryInput::Fact { .. }
        | EntryInput::Refused { .. }
        | EntryInput::Deferred
        | EntryInput::Recovered { .. } => {
            Author::Engine { host: "here".to_owned(), boot_id: "boot".to_owned(), pid: 1 }
        }
    };
    let timers = timers::<P>(&decision, at);
    Entry { v: ENTRY_VERSION, at, by, input, timers, changes: decision.changes, actions: decision.actions }
}

/// Returns the entry input of a fact, with its evidence. Checks that a report is read as the verdict it was made for.
pub(super) fn fact<P: Explored>(
    scene: &Scene<P>,
    before: &Node<P>,
    fact: &Fact<P::Step, P::Verdict>,
) -> Result<EntryInput<P>, Violation> {
    let evidence = match fact {
        Fact::BackoffElapsed { .. } => None,
        Fact::Ended { attempt, ending } => Some(Box::new(match ending {
            Ending::Reported(verdict) => {
                let report = P::report(&scene.definition, &attempt.step, verdict);
                let read = P::parse_report(&scene.definition, &before.document, &attempt.step, &report);
                if read != ParsedReport::Verdict(verdict.clone()) {
                    let what = format!("{verdict:?} of `{attempt}` is read as {read:?}");
                    return Err(Violation::new("a report is read as its verdict", what));
                }
                Evidence { report: Some(report), duration_ms: Some(1), ..Evidence::default() }
            }
            Ending::Failed => {
                evidence(FailureKind::NoReport, "Agent process exited with code 1 without a report")
            }
            Ending::Interrupted => {
                evidence(FailureKind::Interrupted, "Agent process was interrupted: its shim was killed")
            }
            Ending::Stopped => evidence(FailureKind::Cancelled, "Agent process was stopped"),
        })),
    };
    Ok(EntryInput::Fact { fact: fact.clone(), evidence })
}

fn evidence(kind: FailureKind, error: &str) -> Evidence {
    Evidence { kind: Some(kind), error: Some(error.to_owned()), duration_ms: Some(1), ..Evidence::default() }
}

/// Returns the timers that an engine sets: one for each attempt that will be retried.
fn timers<P: Explored>(decision: &Decision<P>, at: Stamp) -> Vec<Timer> {
    let repeated = decision.changes.iter().filter_map(|change| match change {
        Change::Ended { attempt, exit: Exit::WillRetry { .. } } => Some(attempt),
        _ => None,
    });
    let timer = |attempt| Timer { attempt: Run::<P>::id(attempt), fires_at: at, length_ms: 1 };
    repeated.map(timer).collect()
}
