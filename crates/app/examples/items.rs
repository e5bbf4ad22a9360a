//! A `callboard` with a protocol of its own, `items`, and its effect. `docs/adding-a-protocol.md` explains it.

use std::process::ExitCode;
use std::sync::Arc;

use callboard::Program;
use protocol::peer::Peer;
use protocol::steps::Steps;
use protocol::{Protocols, protocol_kind};
use runner::{Effects, PerformEffect};
use testkit::items::{Items, Ledger};

const PROTOCOLS: Protocols =
    Protocols(&[protocol_kind::<Steps>(), protocol_kind::<Peer>(), protocol_kind::<Items>()]);

fn main() -> ExitCode {
    let ledger: Arc<dyn PerformEffect> = Arc::new(Ledger);
    callboard::main(Program { protocols: PROTOCOLS, effects: Effects::from([("record", ledger)]) })
}
