//! JSON from outside: how deep it may be nested, and what is left of a truncated text.

mod depth;
mod truncated;

pub use depth::{MAX_DOCUMENT_DEPTH, MAX_INPUT_DEPTH, exceeds_depth};
pub(crate) use truncated::parse_prefix;
