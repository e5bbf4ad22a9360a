//! Sessions of the real binary, one file per theme. Each runs in a repository of its own with a real agent process.

mod agent_clis;
mod agents;
mod approving;
mod archives;
mod checking;
mod checks;
mod conditions;
mod controlling;
mod copies;
mod crash;
mod cycle;
mod data_loops;
mod demo;
mod doctor;
mod examples;
mod failing;
mod foreign_runs;
mod formats;
mod git_worktree;
mod graphs;
mod hardening;
mod importing;
mod inspecting;
mod issue;
mod items;
mod memory;
mod operating;
mod peer;
mod people;
mod protocols;
mod recovering;
mod rehearsing;
mod removed_store;
mod removing;
mod reporting;
mod resuming;
mod roles;
mod starting_again;
mod state;
mod step_checks;
mod stopping;
mod succeeding;
mod team;
mod terminal;
mod views;
mod when;
mod workflows;
mod worktrees;

use testkit::{Scene, last_error, status};

/// Makes a repository for the built program.
fn scene() -> Scene {
    Scene::new(env!("CARGO_BIN_EXE_callboard"))
}
