//! Progress events in JSON.

use std::path::Path;
use std::time::Duration;

use protocol::entry::Entry;
use protocol::run::{AttemptConsequence, Change};
use protocol::{AttemptId, ProtocolKind, Revision, RunId, StepKind};
use runner::{EngineExit, Summary};
use serde_json::{Map, Value, json};

use super::EngineChange;
use crate::present::run_status;
use crate::query::inbox::InboxItem;

/// Returns the events of an entry.
pub(super) fn of(kind: &dyn ProtocolKind, run: &RunId, revision: Revision, entry: &Entry) -> Vec<Value> {
    let evidence = entry.input.evidence();
    let event = |name: &str, mut fields: Value| {
        let mut event = json!({ "event": name, "run": run, "revision": revision, "at": entry.at });
        if let (Some(event), Some(fields)) = (event.as_object_mut(), fields.as_object_mut()) {
            event.append(fields);
        }
        event
    };
    let events = entry.changes.iter().filter_map(|change| match change {
        Change::Started { attempt, counted_attempt, kind } => Some(event(
            "started",
            with_kind(
                json!({ "step": attempt.step, "attempt": attempt, "counted_attempt": counted_attempt }),
                *kind,
            ),
        )),
        Change::Ended { attempt, consequence, kind } => {
            let result = match consequence {
                AttemptConsequence::Reported => "reported",
                AttemptConsequence::WillRetry { .. } | AttemptConsequence::FailedWhileDraining => "failed",
                AttemptConsequence::Exhausted => "exhausted",
                AttemptConsequence::Interrupted { .. } => "interrupted",
                AttemptConsequence::Stopped | AttemptConsequence::Released => "stopped",
            };
            let error = evidence.and_then(|evidence| evidence.error.as_deref());
            let duration_ms = evidence.and_then(|evidence| evidence.duration_ms);
            let fields = json!({
                "step": attempt.step, "attempt": attempt, "result": result, "error": error,
                "duration_ms": duration_ms,
            });
            Some(event("ended", with_kind(fields, *kind)))
        }
        Change::Status { status } => Some(event("status", json!({ "status": run_status::name(*status) }))),
        Change::Protocol { transition } => {
            kind.change_event(transition).map(|(name, fields)| event(name, fields))
        }
        Change::Waiting { step, conditions } => {
            Some(event("waiting", with_conditions(json!({ "step": step }), conditions)))
        }
        Change::Answered { step, conditions } => {
            Some(event("answered", with_conditions(json!({ "step": step }), conditions)))
        }
        Change::Queued { .. }
        | Change::BackoffElapsed { .. }
        | Change::StopRequested { .. }
        | Change::Dequeued { .. } => None,
    });
    events.collect()
}

/// Adds whether a command, a person or the engine does the work, unless an agent does it.
fn with_kind(mut fields: Value, kind: StepKind) -> Value {
    if !kind.is_agent() {
        fields["kind"] = json!(kind);
    }
    fields
}

/// Adds the conditions that a step waits for, unless it waits for a person.
fn with_conditions(mut fields: Value, conditions: &[String]) -> Value {
    if !conditions.is_empty() {
        fields["conditions"] = json!(conditions);
    }
    fields
}

/// Returns the event of a file that could answer a question and does not.
pub(super) fn no_answer(run: &RunId, question: &str, path: &Path, reason: &str) -> Value {
    json!({ "event": "no_answer", "run": run, "question": question, "path": path, "reason": reason })
}

/// Returns the last event of a command, with the result of the run.
pub(super) fn result(
    run: &RunId,
    summary: &Summary,
    exit: EngineExit,
    mut fields: Map<String, Value>,
) -> Value {
    let (_, outcome) = super::lines::outcome(exit);
    let mut event = json!({
        "event": "result", "run": run, "outcome": outcome, "progress": summary.progress, "at": summary.updated_at,
    });
    if let Some(event) = event.as_object_mut() {
        event.append(&mut fields);
    }
    event
}

/// Returns the event with the state of a run when a command began to watch it.
pub(super) fn snapshot(run: &RunId, summary: &Summary, revision: Revision) -> Value {
    json!({
        "event": "snapshot", "run": run, "revision": revision, "at": summary.updated_at,
        "status": run_status::name(summary.status), "progress": summary.progress,
    })
}

/// Returns the event of an attempt that was running before the command began to watch.
pub(super) fn running(run: &RunId, attempt: &AttemptId, elapsed: Duration, host: Option<&str>) -> Value {
    let elapsed = u64::try_from(elapsed.as_millis()).unwrap_or(u64::MAX);
    let event = json!({
        "event": "running", "run": run, "step": attempt.step, "attempt": attempt, "elapsed_ms": elapsed,
    });
    with_host(event, host)
}

fn with_host(mut event: Value, host: Option<&str>) -> Value {
    if let Some(host) = host {
        event["host"] = json!(host);
    }
    event
}

/// Returns the event of a question for a person.
pub(super) fn question(item: &InboxItem) -> Value {
    let mut event = json!({ "event": "question" });
    if let (Some(event), Value::Object(mut fields)) = (event.as_object_mut(), json!(item)) {
        event.append(&mut fields);
    }
    event
}

/// Returns the event of an attempt on another host.
pub(super) fn remote(run: &RunId, attempt: &AttemptId, host: &str) -> Value {
    json!({ "event": "remote", "run": run, "step": attempt.step, "attempt": attempt, "host": host })
}

/// Returns the event of a change of the run's engine, which is another process.
pub(super) fn engine(run: &RunId, engine: &EngineChange) -> Value {
    let (status, pid, host) = match engine {
        EngineChange::Running { pid, host } => ("running", Some(pid), host.as_deref()),
        EngineChange::Missing => ("missing", None, None),
        EngineChange::Gone { pid, host } => ("gone", Some(pid), host.as_deref()),
    };
    with_host(json!({ "event": "engine", "run": run, "status": status, "pid": pid }), host)
}
