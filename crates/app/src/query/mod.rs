//! Looking at a run: what `show`, `log`, `diff`, `watch` and `prompt` share. Nothing here changes one.

pub(crate) mod hosts;

pub(crate) mod difference;
pub(crate) mod exchange;
pub(crate) mod gates;
mod handle;
pub(crate) mod heard;
pub(crate) mod mentions;
pub(crate) mod questions;
pub(crate) mod steps;
pub(crate) mod trouble;
pub(crate) mod usual;
pub(crate) mod words;

pub(crate) use handle::RunHandle;
