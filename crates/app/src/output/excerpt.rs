//! A diagnostic with the source line it refers to, as compilers print it.
//!
//! `annotate-snippets` draws it: it knows the width of characters and tabs, and shortens long lines.

#[cfg(test)]
mod tests;

use std::io;
use std::ops::Range;
use std::path::Path;

use annotate_snippets::{AnnotationKind, Level, Renderer, Snippet};

use super::sanitize::is_control;

/// The width of an excerpt if the output is not a terminal.
const DEFAULT_WIDTH: usize = 120;
/// How many characters after the marked text the renderer gets. It would cut the rest off anyway, but is slow with long lines.
const MAX_TAIL: usize = 1_000;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Severity {
    Error,
    Warning,
}

#[derive(Debug)]
pub(crate) struct Diagnostic<'a> {
    pub(crate) severity: Severity,
    pub(crate) rule: &'a str,
    /// From 1.
    pub(crate) line: usize,
    /// From 1, in characters.
    pub(crate) column: usize,
    pub(crate) message: &'a str,
    pub(crate) hint: &'a str,
}

/// Renders a diagnostic with styles; the output stream drops them where there is no colour.
pub(crate) fn excerpt(file: &Path, source: &str, diagnostic: &Diagnostic<'_>) -> String {
    excerpt_at_width(file, source, diagnostic, terminal_width())
}

/// Renders a diagnostic for a terminal of that width.
pub(crate) fn excerpt_at_width(
    file: &Path,
    source: &str,
    diagnostic: &Diagnostic<'_>,
    width: usize,
) -> String {
    let line = line(source, diagnostic.line);
    let span = span(line, diagnostic.column);
    let end = line[span.end..].char_indices().nth(MAX_TAIL).map_or(line.len(), |(cut, _)| span.end + cut);
    let path = escape_control(&file.display().to_string());
    let snippet = Snippet::source(mask_control(&line[..end]))
        .line_start(diagnostic.line)
        .path(path)
        .annotation(AnnotationKind::Primary.span(span));
    let level = match diagnostic.severity {
        Severity::Error => Level::ERROR,
        Severity::Warning => Level::WARNING,
    };
    let title = level.primary_title(escape_control(diagnostic.message)).id(diagnostic.rule);
    let hint = Level::HELP.with_name("hint").message(escape_control(diagnostic.hint));
    Renderer::styled().term_width(width).render(&[title.element(snippet).element(hint)])
}

/// Replaces each control character by a visible one with as many bytes, so that spans stay valid.
fn mask_control(text: &str) -> String {
    let masked = text.chars().map(|character| match character.len_utf8() {
        _ if character == '\t' || !is_control(character) => character,
        1 => '?',
        2 => '¿',
        _ => '\u{fffd}',
    });
    masked.collect()
}

/// Writes control characters as escapes.
fn escape_control(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for character in text.chars() {
        if is_control(character) {
            escaped.extend(character.escape_default());
        } else {
            escaped.push(character);
        }
    }
    escaped
}

/// Returns the line of that number. A file without newlines is split at carriage returns.
fn line(source: &str, number: usize) -> &str {
    let separator = if source.contains('\n') { '\n' } else { '\r' };
    let line = source.split(separator).nth(number.saturating_sub(1)).unwrap_or_default();
    line.trim_end_matches('\r').trim_start_matches('\u{feff}')
}

/// Returns the range of the word or quoted text that begins at the column.
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
    size.map_or(DEFAULT_WIDTH, |size| if size.ws_col == 0 { DEFAULT_WIDTH } else { usize::from(size.ws_col) })
}
