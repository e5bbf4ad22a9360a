//! The keys of a workflow file and the flags of `run` do what the original of `steps` promises.

mod data_loops;
mod examples;
mod git;
mod imported_runs;
mod memory;
mod people;
mod report_schema;
mod start_at_step;
mod step_checks;
mod when;
mod workflows;
