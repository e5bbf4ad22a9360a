//! Reads runs for the commands that show them, such as `show`, `log`, `inbox` and `watch`. Nothing here changes a run.

pub(crate) mod attempts;
pub(crate) mod difference;
pub(crate) mod entry_text;
pub(crate) mod gates;
mod handle;
pub(crate) mod hosts;
pub(crate) mod inbox;
pub(crate) mod overview;
pub(crate) mod step_filter;
pub(crate) mod steps;

pub(crate) use handle::RunHandle;
