//! Real agents under real shims. Agents are `sh` scripts; no code of ours is replaced by a fake.
#![expect(clippy::unwrap_used, reason = "helpers of tests fail by panicking, like the tests")]

mod fixture;
mod processes;
mod reports;
mod running;
mod starting;
mod stopping;
mod wrappers;
