//! The command line `callboard`, as a library that takes the protocols and the effects.
//!
//! The binary passes [`Program::default`]. A program with a protocol of its own passes a longer table of protocols, and
//! every command works for it.

mod cli;
mod config;
mod control;
mod doctor;
mod effects;
mod engine;
mod failure;
mod learnings;
mod output;
mod peer_cycles;
mod present;
mod query;
mod rehearsal;
mod tracker;
mod workspace;

use std::path::Path;
use std::process::ExitCode;
use std::sync::OnceLock;

use protocol::{PROTOCOLS, Protocols};
use runner::Effects;

pub use effects::effects;

/// What a program adds to the command line.
#[derive(Debug, Clone)]
pub struct Program {
    pub protocols: Protocols,
    /// The effects that its protocols need besides [`effects()`]. One of the same name replaces it.
    pub effects: Effects,
}

impl Default for Program {
    fn default() -> Self {
        Self { protocols: PROTOCOLS, effects: Effects::new() }
    }
}

/// The program of this process. Every command reads it, so it is set once, before the command line is parsed.
static PROGRAM: OnceLock<Program> = OnceLock::new();

/// Runs the command line of this process.
pub fn main(program: Program) -> ExitCode {
    // Shim, checks and rehearsal agent come before everything else: they start with each attempt and must stay small.
    let mut arguments = std::env::args_os().skip(1);
    let first = arguments.next();
    if first.as_deref().is_some_and(|first| first == "__shim") {
        return match arguments.next() {
            Some(directory) => supervisor::shim::main(directory.as_ref()),
            None => failure::Exit::Usage.into(),
        };
    }
    if first.as_deref().is_some_and(|first| first == supervisor::checks::ARGUMENT) {
        return supervisor::checks::main(arguments.next().as_deref().map(Path::new));
    }
    if first.is_some_and(|first| first == supervisor::adapter::rehearsal::AGENT_ARGUMENT) {
        return rehearsal::agent::main(arguments);
    }
    PROGRAM.get_or_init(|| program);
    cli::main()
}

/// Returns the program of this process.
fn program() -> &'static Program {
    PROGRAM.get_or_init(Program::default)
}
