//! What is measured, one file each.

pub(crate) mod commands;
pub(crate) mod commits;
pub(crate) mod engine;
pub(crate) mod instructions;
pub(crate) mod resume;
pub(crate) mod state;
pub(crate) mod steps;
pub(crate) mod storage;
