//! Processes that are stopped, outlive the engine, reuse a pid, or are a second engine.

mod lingering;
mod pid_reuse;
mod stopped;
mod two_engines;
