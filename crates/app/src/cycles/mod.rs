//! Cycles of `peer` in this repository: what a new one is about, which number it gets, and which one is gone on with.

mod continuing;
mod folders;
mod opening;
mod scope;

pub(crate) use continuing::{Continuable, advice, newest_incomplete};
pub(crate) use opening::{Draft, open, open_as, run_of};
pub(crate) use scope::{instruction, scope, spec_name};
