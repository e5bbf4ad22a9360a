//! The lock files of the embedded store.
//!
//! * `writer`: one per store; writers queue on it, and closing it wakes watchers
//! * `engine`: one per run; its holder is the run's engine

pub(crate) mod engine;
pub(crate) mod writer;

pub(crate) use engine::EngineLockFile;
