//! `callboard completions SHELL`.

use clap::CommandFactory as _;

use super::Cli;
use crate::failure::{Exit, Failure};
use crate::render;

/// Print a completion script for a shell
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Example:\n  callboard completions bash > ~/.local/share/bash-completion/completions/callboard"
)]
pub(super) struct Arguments {
    shell: clap_complete::Shell,
}

pub(super) fn run(arguments: Arguments) -> Result<Exit, Failure> {
    let mut script = Vec::new();
    clap_complete::generate(arguments.shell, &mut Cli::command(), "callboard", &mut script);
    render::raw(&String::from_utf8_lossy(&script));
    Ok(Exit::Delivered)
}
