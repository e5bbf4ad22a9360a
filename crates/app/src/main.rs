//! The binary `callboard`.

mod cli;
mod config;
mod control;
mod cycles;
mod doctor;
mod engine;
mod failure;
mod output;
mod present;
mod query;
mod rehearsal;
mod workspace;

use std::process::ExitCode;

fn main() -> ExitCode {
    // Shim and profile come before everything else: they start with each attempt and must stay small.
    let mut arguments = std::env::args_os().skip(1);
    let first = arguments.next();
    if first.as_deref().is_some_and(|first| first == "__shim") {
        return match arguments.next() {
            Some(directory) => supervisor::shim::main(directory.as_ref()),
            None => failure::Exit::Usage.into(),
        };
    }
    if first.is_some_and(|first| first == supervisor::adapter::rehearsal::AGENT_ARGUMENT) {
        return rehearsal::agent::main(arguments);
    }
    cli::main()
}
