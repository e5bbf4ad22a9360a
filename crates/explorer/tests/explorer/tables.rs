//! Transition tables and diagrams of small workflows: files that are committed and reviewed by people.

use explorer::steps::{LEGEND, Shape};
use explorer::{Exploration, Limits, Slots};
use protocol::steps::OnFailure;

use super::generated_files::expect_file;
use super::{model, shapes};

/// With more requests to one step, no new states are reached.
const ALL_REQUESTS: usize = 5;

fn explored(shape: &Shape, policy: OnFailure, requests: usize) -> Exploration {
    let explored = model(shape, policy, Slots::All).explore(Limits::to_print(requests));
    explored.unwrap_or_else(|found| panic!("{found}"))
}

/// Describes the workflow, for the head of its table.
fn describe(shape: &Shape) -> String {
    let steps = shape.steps.iter().map(|(id, needs)| {
        let gate = shape.gates.iter().find(|(gate, _)| gate == id);
        let back = gate.map(|(_, target)| format!(" (back to {target})")).unwrap_or_default();
        let person = if shape.people.contains(id) { " (a person)" } else { "" };
        let needs = if needs.is_empty() { String::new() } else { format!(" needs {}", needs.join(", ")) };
        format!("{id}{needs}{person}{back}")
    });
    let steps = steps.collect::<Vec<_>>().join("; ");
    format!("{steps}. Two attempts, two executions of a gate.")
}

#[test]
fn one_step_with_all_requests_as_a_table() {
    let explored = explored(&shapes::ONE, OnFailure::Stop, ALL_REQUESTS);
    expect_file("protocols/steps/one-step.txt", &explored.table(&describe(&shapes::ONE), LEGEND));
}

#[test]
fn a_gate_as_a_table_and_a_diagram() {
    let explored = explored(&shapes::GATE, OnFailure::Stop, 0);
    expect_file("protocols/steps/gate.txt", &explored.table(&describe(&shapes::GATE), LEGEND));
    expect_file("protocols/steps/gate.mmd", &explored.diagram());
}

#[test]
fn an_approval_as_a_table() {
    let explored = explored(&shapes::APPROVED_GATE, OnFailure::Stop, 0);
    expect_file("protocols/steps/approval.txt", &explored.table(&describe(&shapes::APPROVED_GATE), LEGEND));
}

#[test]
fn a_gate_with_one_request_as_a_table() {
    let explored = explored(&shapes::GATE, OnFailure::Stop, 1);
    expect_file("protocols/steps/gate-request.txt", &explored.table(&describe(&shapes::GATE), LEGEND));
}

#[test]
fn a_fork_and_its_join_under_each_policy_as_tables() {
    for (policy, name) in [
        (OnFailure::Stop, "protocols/steps/fork-stop.txt"),
        (OnFailure::Drain, "protocols/steps/fork-drain.txt"),
        (OnFailure::Continue, "protocols/steps/fork-continue.txt"),
    ] {
        let explored = explored(&shapes::FORK, policy, 0);
        expect_file(name, &explored.table(&describe(&shapes::FORK), LEGEND));
    }
}

#[test]
fn a_gate_with_a_running_sibling_as_a_table() {
    let explored = explored(&shapes::SIBLING, OnFailure::Stop, 0);
    expect_file(
        "protocols/steps/gate-with-sibling.txt",
        &explored.table(&describe(&shapes::SIBLING), LEGEND),
    );
}

#[test]
fn one_step_as_a_diagram() {
    expect_file("protocols/steps/one-step.mmd", &explored(&shapes::ONE, OnFailure::Stop, 0).diagram());
    expect_file(
        "protocols/steps/one-step-requests.mmd",
        &explored(&shapes::ONE, OnFailure::Stop, ALL_REQUESTS).diagram(),
    );
}
