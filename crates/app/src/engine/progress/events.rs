//! What happened, one JSON object each, for programs.

use std::time::Duration;

use protocol::entry::Entry;
use protocol::run::{Change, Exit, Run};
use protocol::{AttemptId, Revision, RunId};
use runner::{EngineExit, Summary};
use serde_json::{Map, Value, json};

use super::EngineNews;
use crate::present::Presentation;
use crate::present::run_status;

/// The events an entry is worth.
pub(super) fn of<P: Presentation>(run: &RunId, revision: Revision, entry: &Entry<P>) -> Vec<Value> {
    let evidence = entry.input.evidence();
    let event = |name: &str, mut rest: Value| {
        let mut event = json!({ "event": name, "run": run, "revision": revision, "at": entry.at });
        if let (Some(event), Some(rest)) = (event.as_object_mut(), rest.as_object_mut()) {
            event.append(rest);
        }
        event
    };
    let events = entry.changes.iter().filter_map(|change| match change {
        Change::Started { attempt, counted_attempt } => {
            let attempt = Run::<P>::id(attempt);
            Some(event("began", json!({ "step": attempt.step, "attempt": attempt, "counted_attempt": counted_attempt })))
        }
        Change::Ended { attempt, exit } => {
            let attempt = Run::<P>::id(attempt);
            let how = match exit {
                Exit::Reported => "done",
                Exit::WillRetry { .. } | Exit::Drained => "failed",
                Exit::Exhausted => "gave_up",
                Exit::Interrupted { .. } => "interrupted",
                Exit::Stopped | Exit::Released => "stopped",
            };
            let error = evidence.and_then(|evidence| evidence.error.as_deref());
            let duration_ms = evidence.and_then(|evidence| evidence.duration_ms);
            Some(event(
                "over",
                json!({
                    "step": attempt.step, "attempt": attempt, "how": how, "error": error, "duration_ms": duration_ms,
                }),
            ))
        }
        Change::Status { status } => Some(event("status", json!({ "status": run_status::name(*status) }))),
        Change::Protocol { transition } => P::event(transition).map(|(name, fields)| event(name, fields)),
        Change::Queued { .. }
        | Change::BackoffElapsed { .. }
        | Change::StopRequested { .. }
        | Change::Dequeued { .. } => None,
    });
    events.collect()
}

/// The last event of a command, with what the run came to.
pub(super) fn rest(
    run: &RunId,
    summary: &Summary,
    rest: EngineExit,
    mut result: Map<String, Value>,
) -> Value {
    let (_, word) = super::lines::rest(rest);
    let mut event = json!({
        "event": "rest", "run": run, "outcome": word, "progress": summary.progress, "at": summary.updated_at,
    });
    if let Some(event) = event.as_object_mut() {
        event.append(&mut result);
    }
    event
}

/// A run as somebody found it who watches it.
pub(super) fn found(run: &RunId, summary: &Summary, revision: Revision) -> Value {
    json!({
        "event": "found", "run": run, "revision": revision, "at": summary.updated_at, "status": run_status::name(summary.status),
        "progress": summary.progress,
    })
}

/// An attempt that was found at work.
pub(super) fn at_work(run: &RunId, attempt: &AttemptId, length: Duration, host: Option<&str>) -> Value {
    let length = u64::try_from(length.as_millis()).unwrap_or(u64::MAX);
    let event =
        json!({ "event": "at_work", "run": run, "step": attempt.step, "attempt": attempt, "for_ms": length });
    on(event, host)
}

/// Adds the host, where it is another one.
fn on(mut event: Value, host: Option<&str>) -> Value {
    if let Some(host) = host {
        event["host"] = json!(host);
    }
    event
}

/// An attempt on another host.
pub(super) fn remote(run: &RunId, attempt: &AttemptId, host: &str) -> Value {
    json!({ "event": "elsewhere", "run": run, "step": attempt.step, "attempt": attempt, "host": host })
}

/// What became of the run's engine, which is another process.
pub(super) fn engine(run: &RunId, engine: &EngineNews) -> Value {
    let (is, pid, host) = match engine {
        EngineNews::AtWork { pid, host } => ("at_work", Some(pid), host.as_deref()),
        EngineNews::Missing => ("missing", None, None),
        EngineNews::Gone { pid, host } => ("gone", Some(pid), host.as_deref()),
    };
    on(json!({ "event": "engine", "run": run, "is": is, "pid": pid }), host)
}
