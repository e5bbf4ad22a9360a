//! Engines on several hosts that share their runs by a real NATS server.

#![expect(clippy::unwrap_used, reason = "a test may fail")]

mod abandoning;
mod harness;
mod leaving;
mod placing;
