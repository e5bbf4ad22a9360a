//! A remark about a place in a file, with the line itself, as compilers show it.
//!
//! `annotate-snippets` draws it: it knows how wide characters and tabs are, and cuts long lines around the place.

#[cfg(test)]
mod tests;

use std::io;
use std::ops::Range;
use std::path::Path;

use annotate_snippets::{AnnotationKind, Level, Renderer, Snippet};

use super::tame::steers;

/// How wide excerpts are where nobody can tell.
const WIDTH: usize = 120;
/// What is behind the place in a very long line is cut before it costs time; it would not be shown anyway.
const LONGEST_TAIL: usize = 1_000;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Severity {
    Error,
    Warning,
}

/// Something to say about a place in a file.
#[derive(Debug)]
pub(crate) struct Remark<'a> {
    pub(crate) severity: Severity,
    pub(crate) rule: &'a str,
    /// From 1.
    pub(crate) line: usize,
    /// From 1, in characters.
    pub(crate) column: usize,
    pub(crate) message: &'a str,
    pub(crate) hint: &'a str,
}

/// Draws a remark, with styles; the stream drops them where there is no colour.
pub(crate) fn excerpt(file: &Path, source: &str, remark: &Remark<'_>) -> String {
    draw(file, source, remark, terminal_width())
}

/// As [`excerpt`], for a terminal of that width.
pub(crate) fn draw(file: &Path, source: &str, remark: &Remark<'_>, width: usize) -> String {
    let line = line(source, remark.line);
    let span = span(line, remark.column);
    let tail =
        line[span.end..].char_indices().nth(LONGEST_TAIL).map_or(line.len(), |(cut, _)| span.end + cut);
    let path = plainly(&file.display().to_string());
    let snippet = Snippet::source(harmless(&line[..tail]))
        .line_start(remark.line)
        .path(path)
        .annotation(AnnotationKind::Primary.span(span));
    let level = match remark.severity {
        Severity::Error => Level::ERROR,
        Severity::Warning => Level::WARNING,
    };
    let title = level.primary_title(plainly(remark.message)).id(remark.rule);
    let hint = Level::HELP.with_name("hint").message(plainly(remark.hint));
    Renderer::styled().term_width(width).render(&[title.element(snippet).element(hint)])
}

/// Takes from an excerpt what could steer a terminal. Byte for byte as long as before, so that spans hold.
fn harmless(text: &str) -> String {
    let harmless = text.chars().map(|character| match character.len_utf8() {
        _ if character == '\t' || !steers(character) => character,
        1 => '?',
        2 => '¿',
        _ => '\u{fffd}',
    });
    harmless.collect()
}

/// As [`harmless`], where it may grow: what is hidden is written out.
fn plainly(text: &str) -> String {
    let mut plainly = String::with_capacity(text.len());
    for character in text.chars() {
        if steers(character) {
            plainly.extend(character.escape_default());
        } else {
            plainly.push(character);
        }
    }
    plainly
}

/// The line of that number. A file that has only carriage returns has lines all the same.
fn line(source: &str, number: usize) -> &str {
    let end = if source.contains('\n') { '\n' } else { '\r' };
    let line = source.split(end).nth(number.saturating_sub(1)).unwrap_or_default();
    line.trim_end_matches('\r').trim_start_matches('\u{feff}')
}

/// The word, or the text in quotes, that begins at the column.
fn span(line: &str, column: usize) -> Range<usize> {
    let start = line.char_indices().nth(column.saturating_sub(1)).map_or(line.len(), |(start, _)| start);
    let rest = &line[start..];
    let Some(first) = rest.chars().next() else { return start..start };
    let length = match first {
        '"' | '\'' => rest[1..].find(first).map_or(rest.len(), |end| end + 2),
        '[' | ']' | '{' | '}' | ',' | ':' | '|' | '>' => 1,
        _ => rest.find([' ', '\t', ',', ']', '}', ':']).unwrap_or(rest.len()),
    };
    start..start + length.max(first.len_utf8())
}

fn terminal_width() -> usize {
    let size =
        rustix::termios::tcgetwinsize(io::stderr()).or_else(|_| rustix::termios::tcgetwinsize(io::stdout()));
    size.map_or(WIDTH, |size| if size.ws_col == 0 { WIDTH } else { usize::from(size.ws_col) })
}
