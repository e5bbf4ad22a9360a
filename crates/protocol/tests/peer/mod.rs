//! The protocol `peer`: its document, its outputs and prompts, its runs, and the formats before it.

mod check;
mod document;
mod migrate;
mod output;
mod prompts;
mod runs;
mod writes;
