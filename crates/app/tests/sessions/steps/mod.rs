//! What the keys of a workflow file and the flags of `run` do, as the original tool of the format promises it.

mod approving;
mod conditions;
mod data_loops;
mod examples;
mod foreign_runs;
mod git_worktree;
mod memory;
mod people;
mod report_schema;
mod starting_again;
mod step_checks;
mod when;
mod workflows;
mod worktrees;
