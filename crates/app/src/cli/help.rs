//! The main help: commands in groups by what people want of them.

use clap::{Command, CommandFactory as _};

use super::Cli;
use crate::render::{BOLD, styled};

/// Every command is in one group. Names of commands that this build does not have are passed over.
const GROUPS: [(&str, &[&str]); 6] = [
    ("Start", &["run", "demo"]),
    ("Steer", &["resume", "pause", "stop", "retry", "skip"]),
    ("Look", &["ls", "show", "watch", "log", "diff", "graph", "prompt"]),
    ("For agents", &["report"]),
    ("Files", &["check", "export", "import", "recover"]),
    ("House", &["doctor", "explain", "config", "schema", "rehearse-script", "completions", "man"]),
];

/// The command line with its help.
pub(super) fn command() -> Command {
    let command = Cli::command();
    let template = format!(
        "{{about-with-newline}}\n{{usage-heading}} {{usage}}\n\n{}{}\n{{options}}{{after-help}}",
        groups(&command),
        styled(HEADING, "Options:"),
    );
    command.help_template(template)
}

const HEADING: crate::render::Style = BOLD.underline();

fn groups(command: &Command) -> String {
    let known = |name: &&&str| command.find_subcommand(name).is_some();
    let width = GROUPS.iter().flat_map(|(_, names)| names.iter().filter(known)).map(|name| name.len()).max();
    let width = width.unwrap_or(0);
    let mut text = String::new();
    for (title, names) in GROUPS {
        text.push_str(&format!("{}\n", styled(HEADING, format_args!("{title}:"))));
        for name in names.iter().filter(known) {
            let about = command.find_subcommand(name).and_then(Command::get_about);
            let about = about.map(ToString::to_string).unwrap_or_default();
            text.push_str(&format!("  {}  {about}\n", styled(BOLD, format_args!("{name:<width$}"))));
        }
        text.push('\n');
    }
    text
}

#[cfg(test)]
mod tests;
