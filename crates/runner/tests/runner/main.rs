//! Runs on real stores, driven in the test's own process.
//!
//! `runs` uses the store that `CALLBOARD_TEST_STORE` names; tests of its `embedded…` modules and functions are about the
//! embedded store only. `nats` and `nats_bucket` always use a NATS server.

#![expect(clippy::unwrap_used, reason = "a test may panic")]

mod nats;
mod nats_bucket;
mod runs;

use std::sync::Arc;

use protocol::peer::{self, Peer};
use runner::Journal;

/// Returns the document of a peer cycle.
fn peer_document(cycle: &Journal) -> Arc<peer::Document> {
    cycle.document().typed::<Peer>()
}
