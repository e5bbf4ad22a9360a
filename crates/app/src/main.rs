//! The binary `callboard`.

mod cli;
mod config;
mod failure;
mod here;
mod phase;
mod play;
mod players;
mod progress;
mod render;
mod stage;
mod wish;

use std::process::ExitCode;

fn main() -> ExitCode {
    // The shim comes before everything else: it starts with each attempt and must stay small.
    let mut arguments = std::env::args_os().skip(1);
    if arguments.next().is_some_and(|first| first == "__shim") {
        return match arguments.next() {
            Some(directory) => supervisor::shim::main(directory.as_ref()),
            None => failure::Exit::Usage.into(),
        };
    }
    cli::main()
}
