//! What the keys of a workflow file and the flags of `run` do, as the original tool of the format promises it.

mod approvals;
mod conditions;
mod data_loops;
mod examples;
mod foreign_runs;
mod git_worktree;
mod inbox;
mod memory;
mod report_schema;
mod start_at_step;
mod step_checks;
mod when;
mod workflows;
mod worktrees;
