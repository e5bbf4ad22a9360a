//! All printing: data to stdout, messages to stderr. A closed pipe is not an error.

pub(crate) mod location_flags;

mod excerpt;
mod format;
mod sanitize;

use std::io::{self, IsTerminal as _, Write};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};

use anstream::AutoStream;
use anstyle::AnsiColor;
pub(crate) use anstyle::Style;
use indicatif::MultiProgress;
use protocol::steps::load::Problem;
use serde::Serialize;

use crate::failure::Failure;
#[cfg(test)]
pub(crate) use excerpt::excerpt_at_width;
pub(crate) use excerpt::{Diagnostic, Severity, excerpt};
pub(crate) use format::{count, setting_duration, shell_word};
pub(crate) use protocol::present::{duration, size};
use sanitize::is_control;
pub(crate) use sanitize::sanitize;

pub(crate) const BOLD: Style = Style::new().bold();
pub(crate) const DIM: Style = Style::new().dimmed();
pub(crate) const GREEN: Style = AnsiColor::Green.on_default();
pub(crate) const RED: Style = AnsiColor::Red.on_default();
pub(crate) const YELLOW: Style = AnsiColor::Yellow.on_default();
pub(crate) const CYAN: Style = AnsiColor::Cyan.on_default();

/// Applies a style; the output stream drops it where there is no colour.
pub(crate) fn styled(style: Style, text: impl std::fmt::Display) -> String {
    format!("{style}{text}{style:#}")
}

/// Puts a text of an agent on one line, without control characters.
pub(crate) fn single_line(text: &str) -> String {
    text.chars().map(|c| if is_control(c) && c != '\t' { ' ' } else { c }).collect()
}

/// Prints a line of data.
pub(crate) fn data(line: impl std::fmt::Display) {
    check_write(writeln!(anstream::stdout(), "{}", sanitize(&line.to_string())));
}

/// Prints a line of data that suggests a command.
pub(crate) fn advice(line: impl std::fmt::Display) {
    data(location_flags::add_to(&line.to_string()));
}

/// Prints a text that ends its own lines. On a terminal it is sanitized; elsewhere `anstream` removes escape sequences.
pub(crate) fn raw(text: &str) {
    let text = if io::stdout().is_terminal() { sanitize(text) } else { text.into() };
    check_write(anstream::stdout().write_all(text.as_bytes()));
}

/// Prints a JSON value on one line and flushes it.
pub(crate) fn json(value: &impl Serialize) {
    let line = serde_json::to_string(value).expect("BUG: our output is not valid JSON");
    let mut out = io::stdout().lock();
    check_write(writeln!(out, "{line}").and_then(|()| out.flush()));
}

/// Prints an indented JSON value.
pub(crate) fn json_pretty(value: &impl Serialize) {
    let text = serde_json::to_string_pretty(value).expect("BUG: our output is not valid JSON");
    check_write(writeln!(io::stdout().lock(), "{text}"));
}

/// The live display of a running command, if it has one.
static LIVE_DISPLAY: Mutex<Option<MultiProgress>> = Mutex::new(None);

/// Makes all later messages appear above the live display.
pub(crate) fn set_live_display(lines: &MultiProgress) {
    *LIVE_DISPLAY.lock().unwrap_or_else(PoisonError::into_inner) = Some(lines.clone());
}

/// Prints a message to stderr.
pub(crate) fn message(line: impl std::fmt::Display) {
    let line = line.to_string();
    let line = sanitize(&location_flags::add_to(&line)).into_owned();
    let print = || check_write(write_line(&line));
    let display = LIVE_DISPLAY.lock().unwrap_or_else(PoisonError::into_inner).clone();
    match display {
        Some(lines) => lines.suspend(print),
        None => print(),
    }
}

/// Writes a line to stderr with one call, so that lines of other processes do not appear within it.
fn write_line(line: &str) -> io::Result<()> {
    let mut stderr = io::stderr();
    let mut text = AutoStream::new(Vec::new(), AutoStream::choice(&stderr));
    writeln!(text, "{line}")?;
    stderr.write_all(&text.into_inner())
}

/// Prints that the store is waiting for a server, or that a setting of a server differs.
pub(crate) fn print_nats_notice(notice: &store::NatsNotice) {
    note(notice);
}

/// Prints a note to stderr.
pub(crate) fn note(text: impl std::fmt::Display) {
    message(format_args!("{} {text}", styled(CYAN, "note:")));
}

/// Prints a failure: the error, its causes, a blank line, the hints.
pub(crate) fn failure(failure: &Failure) {
    let code = failure.code.map(|code| format!("[{code}]")).unwrap_or_default();
    message(format_args!("{} {}", styled(RED, format_args!("error{code}:")), failure.message));
    for cause in &failure.causes {
        message(format_args!("  {} {cause}", styled(DIM, "caused by:")));
    }
    if !failure.hints.is_empty() {
        message("");
    }
    for hint in &failure.hints {
        message(format_args!("{} {hint}", styled(GREEN, "hint:")));
    }
}

/// Whether stderr can show a live display.
pub(crate) fn can_draw() -> bool {
    io::stderr().is_terminal() && std::env::var_os("TERM").is_none_or(|term| term != "dumb")
}

/// Returns the number of columns of stdout, if it is a terminal.
pub(crate) fn width() -> Option<usize> {
    let size = rustix::termios::tcgetwinsize(io::stdout()).ok()?;
    Some(usize::from(size.ws_col)).filter(|columns| *columns > 0)
}

/// Set while this process is an engine: the run continues although its output cannot be written.
static IGNORE_WRITE_ERRORS: AtomicBool = AtomicBool::new(false);

/// Makes all later write errors harmless.
pub(crate) fn ignore_write_errors() {
    IGNORE_WRITE_ERRORS.store(true, Ordering::Relaxed);
}

/// Exits if the output cannot be written. A closed pipe is a success.
fn check_write(result: io::Result<()>) {
    match result {
        Ok(()) => {}
        Err(_) if IGNORE_WRITE_ERRORS.load(Ordering::Relaxed) => {}
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => std::process::exit(0),
        // The error cannot be printed: printing is what failed.
        Err(_) => std::process::exit(i32::from(crate::failure::Exit::Bug.code())),
    }
}

/// Renders a problem of a file as an error, with its source line and hint.
pub(crate) fn problem(file: &Path, source: &str, problem: &Problem) -> String {
    excerpt(file, source, &diagnostic(Severity::Error, problem))
}

/// Renders a problem of a file as a warning.
pub(crate) fn warning(file: &Path, source: &str, problem: &Problem) -> String {
    excerpt(file, source, &diagnostic(Severity::Warning, problem))
}

fn diagnostic(severity: Severity, problem: &Problem) -> Diagnostic<'_> {
    let Problem { line, column, message, hint, rule } = problem;
    Diagnostic { severity, rule: rule.name(), line: *line, column: *column, message, hint }
}

#[cfg(test)]
mod tests {
    use super::single_line;

    #[test]
    fn control_characters_of_an_agent_do_not_reach_the_terminal() {
        assert_eq!(single_line("a\tb \u{1b}[2J\r\nc \u{9b}31m ä"), "a\tb  [2J  c  31m ä");
    }
}
