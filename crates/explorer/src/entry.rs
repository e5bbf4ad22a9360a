//! Journal entries, as an engine or a command would write them.

use std::sync::Arc;
use std::time::Duration;

use protocol::entry::{Author, ENTRY_VERSION, Entry, Evidence, FailureKind, Input as EntryInput, Timer};
use protocol::run::{AttemptConsequence, Change, Decision, Ending, Fact};
use protocol::{AttemptId, ParsedReport, StepId, Timestamp};
use serde_json::Value;

use super::transition::Node;
use super::{Explored, Violation, from_json, typed};

/// Returns the entry of a decision, one second after the last entry.
pub(super) fn new_entry(before: &Node, input: EntryInput, decision: Decision) -> Entry {
    let at = before.state.at.plus(Duration::from_secs(1));
    let by = match &input {
        EntryInput::Request { .. }
        | EntryInput::Edited { .. }
        | EntryInput::Fact { fact: Fact::Answered { .. }, .. } => {
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
    let timers = timers(&decision, at);
    Entry { v: ENTRY_VERSION, at, by, input, timers, changes: decision.changes, actions: decision.actions }
}

/// Returns the entry input of a fact, with its evidence. If the fact has a verdict, makes the report or answer for it, and
/// checks that the protocol reads this as the same verdict.
pub(super) fn fact_input<P: Explored>(before: &Node, fact: &Fact) -> Result<EntryInput, Violation> {
    let evidence = match fact {
        Fact::BackoffElapsed { .. } => None,
        Fact::Answered { step, verdict, .. } => Some(answer_evidence::<P>(before, step, verdict)?),
        Fact::Ended { attempt, ending } => Some(match ending {
            Ending::Reported(verdict) => report_evidence::<P>(before, &attempt.step, verdict)?,
            Ending::Failed => {
                failure_evidence(FailureKind::NoReport, "Agent process exited with code 1 without a report")
            }
            Ending::Interrupted => failure_evidence(
                FailureKind::Interrupted,
                "Agent process was interrupted: its shim was killed",
            ),
            Ending::Stopped => failure_evidence(FailureKind::Cancelled, "Agent process was stopped"),
        }),
    };
    Ok(EntryInput::Fact { fact: fact.clone(), evidence: evidence.map(Arc::new) })
}

fn report_evidence<P: Explored>(
    before: &Node,
    step: &StepId,
    verdict: &Value,
) -> Result<Evidence, Violation> {
    let machine = typed::<P>(&before.state.run);
    let report = P::report_in_state(
        &machine.definition,
        &machine.state,
        &step_of::<P>(before, step),
        &from_json(verdict),
    );
    let parsed = before.state.run.machine.parse_report(step, &report);
    if parsed != ParsedReport::Verdict(verdict.clone()) {
        let what = format!("{verdict} of `{step}` is read as {parsed:?}");
        return Err(Violation::new("a report is read as its verdict", what));
    }
    Ok(Evidence { report: Some(report), duration_ms: Some(1), ..Evidence::default() })
}

fn answer_evidence<P: Explored>(
    before: &Node,
    step: &StepId,
    verdict: &Value,
) -> Result<Evidence, Violation> {
    let machine = typed::<P>(&before.state.run);
    let answer = P::answer_in_state(
        &machine.definition,
        &machine.state,
        &step_of::<P>(before, step),
        &from_json(verdict),
    );
    let parsed = before.state.run.machine.parse_answer(step, &answer);
    if parsed.as_ref() != Ok(verdict) {
        let what = format!("{verdict} of `{step}` is read as {parsed:?}");
        return Err(Violation::new("an answer is read as its verdict", what));
    }
    if before.state.run.machine.question(step).is_none() {
        let what = format!("`{step}` waits for an answer, and asks nothing");
        return Err(Violation::new("an answer is read as its verdict", what));
    }
    Ok(Evidence { answer: Some(answer), ..Evidence::default() })
}

fn step_of<P: Explored>(node: &Node, step: &StepId) -> P::Step {
    let machine = typed::<P>(&node.state.run);
    P::step(&machine.definition, &machine.state, step).expect("BUG: a fact is about a step")
}

fn failure_evidence(kind: FailureKind, error: &str) -> Evidence {
    Evidence { kind: Some(kind), error: Some(error.to_owned()), duration_ms: Some(1), ..Evidence::default() }
}

/// Returns the timers that an engine sets: one for each attempt that will be retried.
fn timers(decision: &Decision, at: Timestamp) -> Vec<Timer> {
    let retried = decision.changes.iter().filter_map(|change| match change {
        Change::Ended { attempt, consequence: AttemptConsequence::WillRetry { .. }, .. } => Some(attempt),
        _ => None,
    });
    let timer = |attempt: &AttemptId| Timer { attempt: attempt.clone(), fires_at: at, length_ms: 1 };
    retried.map(timer).collect()
}
