//! Engines on several hosts that share their runs by a real NATS server.

#![expect(clippy::unwrap_used, reason = "a test may fail")]

mod abandoning;
mod leaving;
mod placing;
#[path = "../../../store/tests/nats/servers.rs"]
#[expect(dead_code, reason = "the store's own tests need more of them")]
mod servers;
mod stage;
