//! The life of a run: it succeeds, fails, is stopped, killed, continued and removed.

mod controlling;
mod crash;
mod failing;
mod removing;
mod resuming;
mod stopping;
mod succeeding;
mod terminal;
mod views;
