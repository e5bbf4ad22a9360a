//! `callboard` with one more protocol and its effect. `docs/adding-a-protocol.md` explains it.

use std::process::ExitCode;
use std::sync::Arc;

use callboard::Program;
use protocol::peer::Peer;
use protocol::steps::Steps;
use protocol::{KindOf, Kinds};
use runner::{Effects, PerformEffect};
use testkit::items::{Items, Ledger};

const PROTOCOLS: Kinds = Kinds(&[KindOf::<Steps>::STATIC, KindOf::<Peer>::STATIC, KindOf::<Items>::STATIC]);

fn main() -> ExitCode {
    let ledger: Arc<dyn PerformEffect> = Arc::new(Ledger);
    callboard::main(Program { protocols: PROTOCOLS, effects: Effects::from([("record", ledger)]) })
}
