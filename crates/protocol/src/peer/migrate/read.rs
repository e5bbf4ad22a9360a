//! One key of a cycle → what it says.

use serde_json::Value;

use super::claim::{Claim, Claims, Fragment, Of, Slot};
use super::fit::is_empty;
use super::key::Piece;
use super::words::{Standing, phase_word, said, time};
use crate::peer::document::Phase;

/// All that a fragment says.
pub(super) fn read(fragment: &Fragment) -> Vec<Claim> {
    let mut claims = Claims::of(fragment);
    match fragment.piece {
        Piece::Whole => whole(&mut claims),
        Piece::Metadata => metadata(&mut claims, ""),
        Piece::Context => context(&mut claims, ""),
        Piece::State if claims.value().is_object() => whole(&mut claims),
        Piece::State | Piece::Status => {
            claims.claim(Slot::Status, "");
            status_implies(&mut claims, "");
        }
        Piece::Spec => claims.claim(Slot::Spec, ""),
        Piece::Instruction => claims.claim(Slot::Instruction, ""),
        Piece::Mode => claims.claim(Slot::Mode, ""),
        Piece::PhasesCompleted => phases_completed(&mut claims, ""),
        Piece::Output(phase) => output(&mut claims, phase, ""),
        Piece::PhaseStatus(phase) => claims.claim(Slot::Phase(phase, Of::Status), ""),
        Piece::CompletedAt => ended(&mut claims, "completed"),
        Piece::FailedAt => ended(&mut claims, "failed"),
        Piece::Error => error(&mut claims, ""),
        Piece::Other => {}
    }
    claims.into_vec()
}

/// When a cycle ended: that it did goes without saying.
fn ended(claims: &mut Claims<'_>, status: &str) {
    claims.claim(Slot::Ended, "");
    if time(claims.value()).is_some() {
        claims.infer(Slot::Status, status);
    }
}

/// A document of the whole cycle, of any generation: what one has at the root another has in `metadata`.
fn whole(claims: &mut Claims<'_>) {
    metadata(claims, "/metadata");
    context(claims, "/context");
    claims.claim(Slot::Instruction, "/instruction");
    claims.claim(Slot::Number, "/cycle_number");
    claims.claim_any(Slot::Created, &["/created_at", "/started_at"]);
    claims.claim_any(Slot::Updated, &["/updated_at", "/status/last_update"]);
    claims.claim_any(Slot::Ended, &["/completed_at", "/failed_at"]);
    claims.claim(Slot::Summary, "/cycle_summary");
    claims.claim(Slot::Insights, "/insights");
    match claims.value().get("status") {
        // G0: the status is an object, and its `current_phase` is also the status of the cycle.
        Some(Value::Object(_)) => {
            claims.claim(Slot::Status, "/status/current_phase");
            claims.claim(Slot::Error, "/status/error_message");
            claims.claim(Slot::ErrorPhase, "/status/error_phase");
            status_implies(claims, "/status/current_phase");
        }
        Some(_) => {
            claims.claim(Slot::Status, "/status");
            status_implies(claims, "/status");
        }
        None => {}
    }
    claims.claim(Slot::Current, "/current_phase");
    error(claims, "/error_info");
    error(claims, "/error");
    phases_completed(claims, "/phases_completed");
    let names: Vec<_> =
        claims.value()["phases"].as_object().into_iter().flat_map(|it| it.keys().cloned()).collect();
    for name in names {
        if let Some(phase) = phase_word(&name) {
            phase_of(claims, phase, &format!("/phases/{name}"));
        }
    }
}

fn metadata(claims: &mut Claims<'_>, at: &str) {
    let place = |name: &str| format!("{at}/{name}");
    claims.claim_any(Slot::Instruction, &[&place("instruction"), &place("instruction_name")]);
    claims.claim_any(Slot::Spec, &[&place("spec_name"), &place("spec")]);
    claims.claim(Slot::Number, &place("cycle_number"));
    claims.claim_any(Slot::Created, &[&place("created_at"), &place("started_at")]);
    claims.claim_any(Slot::Updated, &[&place("updated_at"), &place("last_updated_at")]);
    claims.claim_any(Slot::Ended, &[&place("completed_at"), &place("failed_at")]);
    claims.claim(Slot::Status, &place("status"));
    status_implies(claims, &place("status"));
    claims.claim(Slot::Current, &place("current_phase"));
    error(claims, &place("error"));
    phases_completed(claims, &place("phases_completed"));
}

fn context(claims: &mut Claims<'_>, at: &str) {
    let place = |name: &str| format!("{at}/{name}");
    claims.claim(Slot::Mode, &place("peer_mode"));
    claims.claim(Slot::Aware, &place("spec_aware"));
    claims.claim(Slot::Arguments, &place("instruction_args"));
    claims.claim(Slot::Requirements, &place("user_requirements"));
    claims.claim(Slot::Instruction, &place("instruction_name"));
    claims.claim_any(Slot::Spec, &[&place("spec_name"), &place("determined_spec_name")]);
}

fn phase_of(claims: &mut Claims<'_>, phase: Phase, at: &str) {
    let of = |of| Slot::Phase(phase, of);
    if claims.value().pointer(at).is_some_and(Value::is_string) {
        return claims.claim(of(Of::Status), at);
    }
    let place = |name: &str| format!("{at}/{name}");
    claims.claim(of(Of::Status), &place("status"));
    claims.claim(of(Of::Started), &place("started_at"));
    claims.claim_any(of(Of::Completed), &[&place("completed_at"), &place("failed_at")]);
    output(claims, phase, &place("output"));
    claims.claim(of(Of::Reference), &place("output_ref"));
    claims.claim(of(Of::Error), &place("error"));
    claims.claim(of(Of::Errors), &place("errors"));
}

/// What a phase has produced; an empty one says nothing.
fn output(claims: &mut Claims<'_>, phase: Phase, at: &str) {
    if claims.value().pointer(at).is_some_and(|found| !is_empty(found)) {
        claims.claim(Slot::Phase(phase, Of::Output), at);
    }
}

/// A cycle's word may tell of a phase: `planning_complete`.
fn status_implies(claims: &mut Claims<'_>, at: &str) {
    let Some(said) = claims.value().pointer(at).and_then(said) else { return };
    if let Some(phase) = said.phase {
        match said.standing {
            Standing::Done => claims.infer(Slot::Phase(phase, Of::Status), "completed"),
            Standing::Failed | Standing::Cancelled => claims.infer(Slot::ErrorPhase, phase.as_str()),
            Standing::Pending | Standing::Working => claims.infer(Slot::Current, phase.as_str()),
        }
    }
}

/// A list of phases, or their names with something between them.
fn phases_completed(claims: &mut Claims<'_>, at: &str) {
    let phases: Vec<_> = match claims.value().pointer(at) {
        Some(Value::Array(names)) => names.iter().filter_map(super::words::phase).collect(),
        Some(Value::String(names)) => {
            let words = names.split(|c: char| !c.is_alphanumeric() && c != '_');
            words.filter_map(|word| phase_word(&word.to_lowercase())).collect()
        }
        Some(Value::Null | Value::Bool(_) | Value::Number(_) | Value::Object(_)) | None => return,
    };
    for phase in phases {
        claims.infer(Slot::Phase(phase, Of::Status), "completed");
    }
}

/// Why the cycle failed: a text, or an object that may name the phase.
fn error(claims: &mut Claims<'_>, at: &str) {
    claims.claim(Slot::Error, at);
    claims.claim(Slot::ErrorPhase, &format!("{at}/phase"));
}
