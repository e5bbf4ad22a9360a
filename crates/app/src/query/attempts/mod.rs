//! The attempts of a run: their prompts, reports and output, their last error, and which run longer than usual.

pub(crate) mod files;
pub(crate) mod last_error;
pub(crate) mod last_output;
pub(crate) mod slow_attempts;
