//! The one printer. stdout is data, stderr is talk; a reader who has left is no error.

pub(crate) mod paste;

mod excerpt;
mod tame;
mod words;

use std::io::{self, IsTerminal as _, Write};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};

use anstyle::AnsiColor;
pub(crate) use anstyle::Style;
use indicatif::MultiProgress;
use protocol::steps::load::Problem;
use serde::Serialize;

use crate::failure::Failure;
#[cfg(test)]
pub(crate) use excerpt::draw;
pub(crate) use excerpt::{Remark, Severity, excerpt};
use tame::steers;
pub(crate) use tame::tame;
pub(crate) use words::{count, duration, shell_word, size};

pub(crate) const BOLD: Style = Style::new().bold();
pub(crate) const DIM: Style = Style::new().dimmed();
pub(crate) const GREEN: Style = AnsiColor::Green.on_default();
pub(crate) const RED: Style = AnsiColor::Red.on_default();
pub(crate) const YELLOW: Style = AnsiColor::Yellow.on_default();
pub(crate) const CYAN: Style = AnsiColor::Cyan.on_default();

/// A text in a style; the stream drops the style where there is no colour.
pub(crate) fn styled(style: Style, text: impl std::fmt::Display) -> String {
    format!("{style}{text}{style:#}")
}

/// What an agent wrote, on one line and without what would steer a terminal.
pub(crate) fn harmless(text: &str) -> String {
    text.chars().map(|c| if steers(c) && c != '\t' { ' ' } else { c }).collect()
}

/// Prints a line of data.
pub(crate) fn data(line: impl std::fmt::Display) {
    ignore_closed(writeln!(anstream::stdout(), "{}", tame(&line.to_string())));
}

/// Prints a line of data with something to type in it.
pub(crate) fn advice(line: impl std::fmt::Display) {
    data(paste::completed(&line.to_string()));
}

/// Prints text that has its own line ends. Programs get it as it is.
pub(crate) fn raw(text: &str) {
    let text = if io::stdout().is_terminal() { tame(text) } else { text.into() };
    ignore_closed(anstream::stdout().write_all(text.as_bytes()));
}

/// Prints one JSON value per line.
pub(crate) fn json(value: &impl Serialize) {
    let line = serde_json::to_string(value).expect("BUG: what we print is plain data");
    let mut out = io::stdout().lock();
    ignore_closed(writeln!(out, "{line}").and_then(|()| out.flush()));
}

/// Prints one JSON value for people and programs alike.
pub(crate) fn json_pretty(value: &impl Serialize) {
    let text = serde_json::to_string_pretty(value).expect("BUG: what we print is plain data");
    ignore_closed(writeln!(io::stdout().lock(), "{text}"));
}

/// What is drawn on the terminal while a run is played, if anything is.
static DRAWN: Mutex<Option<MultiProgress>> = Mutex::new(None);

/// From now on these lines are drawn: what we say is said above them.
pub(crate) fn draws(lines: &MultiProgress) {
    *DRAWN.lock().unwrap_or_else(PoisonError::into_inner) = Some(lines.clone());
}

/// Tells people something.
pub(crate) fn talk(line: impl std::fmt::Display) {
    let line = line.to_string();
    let line = tame(&paste::completed(&line)).into_owned();
    let talk = || ignore_closed(writeln!(anstream::stderr(), "{line}"));
    let drawn = DRAWN.lock().unwrap_or_else(PoisonError::into_inner).clone();
    match drawn {
        Some(lines) => lines.suspend(talk),
        None => talk(),
    }
}

/// Tells people that we wait for a server, or what is not as it should be there.
pub(crate) fn waiting(news: &store::NatsNotice) {
    note(news);
}

pub(crate) fn note(text: impl std::fmt::Display) {
    talk(format_args!("{} {text}", styled(CYAN, "note:")));
}

/// What failed, what caused it, what to do.
pub(crate) fn failure(failure: &Failure) {
    let code = failure.code.map(|code| format!("[{code}]")).unwrap_or_default();
    talk(format_args!("{} {}", styled(RED, format_args!("error{code}:")), failure.what));
    for cause in &failure.causes {
        talk(format_args!("  {} {cause}", styled(DIM, "caused by:")));
    }
    if !failure.hints.is_empty() {
        talk("");
    }
    for hint in &failure.hints {
        talk(format_args!("{} {hint}", styled(GREEN, "hint:")));
    }
}

/// Whether progress can be drawn.
pub(crate) fn can_draw() -> bool {
    io::stderr().is_terminal() && std::env::var_os("TERM").is_none_or(|term| term != "dumb")
}

/// How many columns standard output has, if it is a terminal.
pub(crate) fn width() -> Option<usize> {
    let size = rustix::termios::tcgetwinsize(io::stdout()).ok()?;
    Some(usize::from(size.ws_col)).filter(|columns| *columns > 0)
}

/// Set while a run is played: then a stream that cannot be written to falls silent, and the run goes on.
static STEADFAST: AtomicBool = AtomicBool::new(false);

/// From now on a failed write ends nothing.
pub(crate) fn go_on_when_nobody_reads() {
    STEADFAST.store(true, Ordering::Relaxed);
}

/// A closed pipe is a reader who has seen enough.
fn ignore_closed(result: io::Result<()>) {
    match result {
        Ok(()) => {}
        Err(_) if STEADFAST.load(Ordering::Relaxed) => {}
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => std::process::exit(0),
        // Nobody can be told: this was the way to tell.
        Err(_) => std::process::exit(i32::from(crate::failure::Exit::Bug.code())),
    }
}

/// A problem of a file with its place, the line itself and what to do.
pub(crate) fn problem(file: &Path, source: &str, problem: &Problem) -> String {
    excerpt(file, source, &remark(Severity::Error, problem))
}

/// As [`problem`], of something that may be meant.
pub(crate) fn doubt(file: &Path, source: &str, problem: &Problem) -> String {
    excerpt(file, source, &remark(Severity::Warning, problem))
}

fn remark(severity: Severity, problem: &Problem) -> Remark<'_> {
    let Problem { line, column, message, hint, rule } = problem;
    Remark { severity, rule: rule.name(), line: *line, column: *column, message, hint }
}

#[cfg(test)]
mod tests {
    use super::harmless;

    #[test]
    fn what_an_agent_wrote_does_not_steer_the_terminal() {
        assert_eq!(harmless("a\tb \u{1b}[2J\r\nc \u{9b}31m ä"), "a\tb  [2J  c  31m ä");
    }
}
