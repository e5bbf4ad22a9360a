//! The columns of a step in `callboard show`.

use insta::assert_snapshot;
use protocol::{AttemptId, Turn};

use super::*;

fn stamp(time: &str) -> Timestamp {
    format!("2026-11-15T{time}Z").parse().unwrap()
}

fn attempt() -> AttemptId {
    "code#1.2".parse().unwrap()
}

fn step(kind: StatusKind, document_word: &'static str) -> StepSummary {
    StepSummary {
        status: document_word,
        kind,
        attempts: 2,
        loop_backs: 0,
        started_at: Some(stamp("11:58:00")),
        ended_at: Some(stamp("11:59:00")),
        error: None,
        note: None,
    }
}

/// The status and the details of a step at noon.
fn columns(summary: &StepSummary, activity: Option<&StepActivity>) -> String {
    let now = stamp("12:00:00");
    let details = details(summary, activity, now);
    format!("{}  {}", status(summary, activity, now), anstream::adapter::strip_str(&details))
}

#[test]
fn a_step_shows_its_status_the_documents_word_and_what_it_waits_for() {
    let pending = step(StatusKind::Pending, "PENDING");
    let running = step(StatusKind::Running, "RUNNING");
    let (attempt, since) = (attempt(), stamp("11:58:00"));
    let host = Some("build-2".to_owned());
    let steps = [
        (&step(StatusKind::Succeeded, "COMPLETED"), None),
        (&step(StatusKind::Failed, "failed"), None),
        (&step(StatusKind::Waiting, "WAITING_ON_HUMAN"), None),
        (&running, Some(StepActivity::Stopping { attempt: attempt.clone(), since, host })),
        (&running, Some(StepActivity::Ended { attempt: attempt.clone(), since })),
        (&pending, Some(StepActivity::BackingOff { since, until: stamp("12:00:05") })),
        (&pending, Some(StepActivity::BackingOff { since, until: stamp("11:59:00") })),
        (&pending, Some(StepActivity::WaitingForSlot { since })),
        (&pending, Some(StepActivity::WaitingForEngine { since })),
        // The run is paused, stopping or stopped.
        (&pending, Some(StepActivity::WaitingForResume { since })),
        (&pending, Some(StepActivity::WaitingForLoopBack { since })),
        (
            &step(StatusKind::Waiting, "waiting"),
            Some(StepActivity::WaitingForPerson {
                turn: Turn(1),
                since,
                question: Some("Ship it?".to_owned()),
            }),
        ),
        (
            &pending,
            Some(StepActivity::WaitingForConditions {
                turn: Turn(1),
                since,
                conditions: vec!["ci".to_owned()],
                question: "Waits until `ci` is true in `gates.json`".to_owned(),
            }),
        ),
        (&pending, Some(StepActivity::WaitingForSteps { steps: vec![attempt.step.clone()] })),
    ];
    let lines: Vec<_> = steps.iter().map(|(summary, activity)| columns(summary, activity.as_ref())).collect();
    assert_snapshot!(lines.join("\n"), @"
    succeeded (COMPLETED)  attempt 2  1 min 00 s
    failed  attempt 2  1 min 00 s
    waiting (WAITING_ON_HUMAN)  attempt 2
    running  attempt 2  stopping for 2 min 00 s on build-2
    running  attempt 2  its agent has ended; an engine has to record the result
    backing off (PENDING)  attempt 2  for another 5.0 s, until 2026-11-15T12:00:05Z
    queued (PENDING)  attempt 2  back-off elapsed
    queued (PENDING)  attempt 2  waits for a slot (--jobs) for 2 min 00 s
    queued (PENDING)  attempt 2  waits for an engine for 2 min 00 s
    queued (PENDING)  attempt 2  held for 2 min 00 s
    queued (PENDING)  attempt 2  waits for a loop-back for 2 min 00 s
    waiting  attempt 2  waits for a person for 2 min 00 s: Ship it?
    waiting (PENDING)  attempt 2  waits for condition `ci` for 2 min 00 s: Waits until `ci` is true in `gates.json`
    pending  attempt 2  waits for code
    ");
}
