//! The protocol `steps`: its document and its workflow files.

mod check;
mod document;
mod schema;
