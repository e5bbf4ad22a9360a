//! The other protocols, and commands that take all of them.

mod cycle;
mod every_protocol;
mod issue;
mod items;
mod peer;
mod state;
mod team;
