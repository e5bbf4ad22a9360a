//! The protocols besides `steps`, and commands that take runs of any protocol.

mod cycle;
mod every_protocol;
mod issue;
mod items;
mod peer;
mod state;
mod team;
