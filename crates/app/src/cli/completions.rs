//! `callboard completions SHELL`.

use super::help;
use crate::failure::{Exit, Failure};
use crate::output;

/// Print a completion script for a shell
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples, each with the file in which the shell looks:
  callboard completions bash > ~/.local/share/bash-completion/completions/callboard
  callboard completions fish > ~/.config/fish/completions/callboard.fish
  callboard completions zsh > ~/.zfunc/_callboard

For zsh, ~/.zshrc needs this line before compinit: fpath+=~/.zfunc")]
pub(super) struct Arguments {
    /// The shell
    shell: clap_complete::Shell,
}

pub(super) fn run(arguments: Arguments) -> Result<Exit, Failure> {
    output::raw(&script(arguments.shell));
    Ok(Exit::Success)
}

fn script(shell: clap_complete::Shell) -> String {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut help::command(), "callboard", &mut script);
    String::from_utf8_lossy(&script).into_owned()
}

#[cfg(test)]
mod tests {
    use clap_complete::Shell;

    use super::*;

    #[test]
    fn scripts_have_the_commands_and_their_flags() {
        for shell in [Shell::Bash, Shell::Zsh, Shell::Fish] {
            let script = script(shell);
            assert!(script.contains("resume") && script.contains("command-template"), "{shell}");
        }
    }
}
