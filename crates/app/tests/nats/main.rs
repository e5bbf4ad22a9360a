//! Sessions of the real binary that are about NATS: each on a server of its own, whatever the other tests run on.

#![expect(clippy::unwrap_used, reason = "a test may panic")]

mod doctoring;
mod losing;
mod migrating;
mod saying;
mod strangers;
mod units;

use testkit::Scene;
use testkit::nats::Server;

/// A fresh repository whose runs are on a server of its own.
fn scene() -> Scene {
    Scene::on(Server::start(), env!("CARGO_BIN_EXE_callboard"))
}

/// A client of that server that knows nothing of us.
async fn client(scene: &Scene) -> async_nats::jetstream::Context {
    let address = scene.backing().address().unwrap();
    async_nats::jetstream::new(async_nats::connect(address).await.unwrap())
}

/// Does what waits, within a test that does not.
fn block_on<T>(work: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(work)
}
