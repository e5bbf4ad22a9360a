//! The writes that agents and people could make to a cycle's document in every state, and whether they may.

use protocol::Protocol as _;
use protocol::edit::{EditAuthor, Patch};
use protocol::peer::{Document, Peer, Phase, PhaseStatus};
use protocol::run::Run;
use serde_json::{Value, json};

use super::super::{WriteInput, WritePermission};
use super::{ORDER, first_incomplete_phase};

/// The name of the write that changes only an unknown field, not the output of a phase.
pub(super) const UNKNOWN_FIELD_WRITE: &str = "a note from outside";

/// Returns every write to try. The format permits an agent ("inside" in the names) to write the output and errors of
/// its phase in progress, and others ("outside") the same and unknown fields. Everything else is written by the
/// engine.
pub(super) fn writes(run: &Run, document: &Document) -> Vec<WriteInput> {
    let in_progress = |phase: Phase| document.phases[phase].status == PhaseStatus::InProgress;
    let permission_in =
        |phase| if in_progress(phase) { WritePermission::Granted } else { WritePermission::Refused };
    // A new value each time, because a write of the present value has no effect.
    let output = json!({"progress": format!("write {}", document.sequence)});
    let mut writes = Vec::new();
    for (attempt, _) in run.live_attempts() {
        let Some(own_phase) = ORDER.into_iter().find(|phase| Peer::step_id(phase) == attempt.step) else {
            continue;
        };
        let error = json!({
            "kind": "flaky", "message": "worked the second time", "timestamp": document.metadata.updated_at,
        });
        let mut by_agent = |name, pointer: String, value: &Value, permission| {
            let patch = Patch::Set(vec![(pointer, value.clone())]);
            writes.push(WriteInput {
                name,
                author: EditAuthor::Step(attempt.step.clone()),
                patch,
                permission,
            });
        };
        by_agent("its output from inside", output_of(own_phase), &output, permission_in(own_phase));
        by_agent(
            "its errors from inside",
            format!("/phases/{own_phase}/errors/-"),
            &error,
            permission_in(own_phase),
        );
        by_agent("a note from inside", "/note".to_owned(), &output, WritePermission::Refused);
        for other_phase in ORDER.into_iter().filter(|phase| *phase != own_phase) {
            by_agent(
                "another's output from inside",
                output_of(other_phase),
                &output,
                WritePermission::Refused,
            );
        }
    }
    let mut by_others = |name, pointer: String, value: &Value, permission| {
        let patch = Patch::Set(vec![(pointer, value.clone())]);
        writes.push(WriteInput { name, author: EditAuthor::Outside, patch, permission });
    };
    let open = first_incomplete_phase(document);
    for phase in ORDER {
        let name =
            if open == Some(phase) { "the output from outside" } else { "another output from outside" };
        by_others(name, output_of(phase), &output, permission_in(phase));
    }
    by_others(UNKNOWN_FIELD_WRITE, "/note".to_owned(), &output, WritePermission::Granted);
    by_others(
        "the status from outside",
        "/metadata/status".to_owned(),
        &json!("paused"),
        WritePermission::Refused,
    );
    by_others("the number from outside", "/sequence".to_owned(), &json!(1_000), WritePermission::Refused);
    writes
}

/// Returns the JSON pointer of the output of a phase.
fn output_of(phase: Phase) -> String {
    format!("/phases/{phase}/output")
}
