//! The main help, with the commands in groups.

use clap::{Command, CommandFactory as _};

use super::Cli;
use crate::output::{self, BOLD, styled};

/// The group of each command. Commands that this build does not have are skipped.
const GROUPS: [(&str, &[&str]); 6] = [
    ("Start", &["run", "peer", "team", "cycle", "issue", "demo"]),
    ("Control", &["resume", "pause", "stop", "retry", "skip", "extend", "inbox", "answer", "rm"]),
    ("Inspect", &["ls", "show", "watch", "log", "diff", "graph", "prompt"]),
    ("For agents", &["state", "report", "ask", "escalate", "check-signals"]),
    ("Files", &["check", "checks", "export", "import", "recover"]),
    ("Setup", &["doctor", "explain", "config", "schema", "rehearse-script", "completions", "man"]),
];

/// Returns the clap command of the program, with the grouped main help.
pub(super) fn command() -> Command {
    let command = Cli::command();
    let template = format!(
        "{{about-with-newline}}\n{{usage-heading}} {{usage}}\n\n{}{}\n{{options}}{{after-help}}",
        groups(&command),
        styled(HEADING, "Options:"),
    );
    command.help_template(template)
}

const HEADING: output::Style = BOLD.underline();

/// The width at which clap wraps the other help texts.
const MAX_WIDTH: usize = 100;

fn groups(command: &Command) -> String {
    let columns = output::width().unwrap_or(MAX_WIDTH).min(MAX_WIDTH);
    let known = |name: &&&str| command.find_subcommand(name).is_some();
    let width = GROUPS.iter().flat_map(|(_, names)| names.iter().filter(known)).map(|name| name.len()).max();
    let width = width.unwrap_or(0);
    let mut text = String::new();
    for (title, names) in GROUPS {
        text.push_str(&format!("{}\n", styled(HEADING, format_args!("{title}:"))));
        for name in names.iter().filter(known) {
            let about = command.find_subcommand(name).and_then(Command::get_about);
            let about = about.map(ToString::to_string).unwrap_or_default();
            let about = wrap_indented(&about, columns, width + 4);
            text.push_str(&format!("  {}  {about}\n", styled(BOLD, format_args!("{name:<width$}"))));
        }
        text.push('\n');
    }
    text
}

/// Wraps a text whose first line begins at column `indent`, and indents the other lines to the same column.
fn wrap_indented(text: &str, columns: usize, indent: usize) -> String {
    let mut lines = vec![String::new()];
    for word in text.split_whitespace() {
        let line = lines.last_mut().expect("BUG: there is always a line");
        if line.is_empty() {
            line.push_str(word);
        } else if indent + line.len() + 1 + word.len() <= columns {
            line.push(' ');
            line.push_str(word);
        } else {
            lines.push(word.to_owned());
        }
    }
    lines.join(&format!("\n{}", " ".repeat(indent)))
}

#[cfg(test)]
mod tests;
