//! Engines on several hosts that share their runs on a NATS server.

mod abandoned_host;
mod engine_lock;
mod harness;
mod remote_attempts;
