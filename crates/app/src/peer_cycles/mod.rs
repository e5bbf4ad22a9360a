//! Cycles of `peer` in this repository: the scope and number of a new one, and which cycle `--continue` continues.
//!
//! The scope is what a cycle is about: one spec, or the whole repository. A spec is a folder in `.agent-os/specs/` that
//! describes a feature.

mod continuing;
mod opening;
mod scope;
mod spec_folders;

pub(crate) use continuing::{IncompletePeerCycle, earlier_review, newest_incomplete};
pub(crate) use opening::{Draft, open, open_with_number, run_of};
pub(crate) use scope::{instruction, scope, spec_name};
