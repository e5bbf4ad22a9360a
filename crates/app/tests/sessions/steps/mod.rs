//! The keys of a workflow file and the flags of `run` do what the original of `steps` promises.

mod approvals;
mod conditions;
mod data_loops;
mod examples;
mod git_worktree;
mod imported_runs;
mod inbox;
mod memory;
mod report_schema;
mod start_at_step;
mod step_checks;
mod when;
mod workflows;
mod worktrees;
