//! Makes control sequences harmless in everything we print: their control characters become spaces, the rest stays.
//!
//! Errors quote agents, files and archives, which may contain escape sequences. Only colours pass, because we use them
//! ourselves.

use std::borrow::Cow;

/// Replaces each control character by a space, except newlines, tabs and those of colour sequences.
pub(crate) fn sanitize(text: &str) -> Cow<'_, str> {
    if !text.contains(|c: char| is_control(c) && c != '\n') {
        return text.into();
    }
    let mut sanitized = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(character) = rest.chars().next() {
        let length = colour_length(rest).unwrap_or(character.len_utf8());
        match is_control(character) && length == character.len_utf8() && !matches!(character, '\n' | '\t') {
            true => sanitized.push(' '),
            false => sanitized.push_str(&rest[..length]),
        }
        rest = &rest[length..];
    }
    sanitized.into()
}

/// Whether the character is a control character or changes the direction of writing.
pub(super) fn is_control(character: char) -> bool {
    character.is_control() || matches!(character, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

/// Returns the length of the colour sequence that the text begins with, if it begins with one.
fn colour_length(text: &str) -> Option<usize> {
    let inside = text.strip_prefix("\u{1b}[")?;
    let end = inside.find(|c: char| !(c.is_ascii_digit() || c == ';' || c == ':'))?;
    let is_colour = inside[end..].starts_with('m') && !hides_text(&inside[..end]);
    is_colour.then_some("\u{1b}[".len() + end + "m".len())
}

/// Whether the parameters of a colour sequence hide the text after it: a reader would not see what an agent printed.
fn hides_text(parameters: &str) -> bool {
    let mut parameters = parameters.split(';').map(|parameter| parameter.trim_start_matches('0'));
    while let Some(parameter) = parameters.next() {
        match parameter {
            "8" => return true,
            // A colour by its number, or by red, green and blue.
            "38" | "48" | "58" => match parameters.next() {
                Some("5") => drop(parameters.next()),
                Some("2") => drop(parameters.nth(2)),
                _ => {}
            },
            _ => {}
        }
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn colours_and_newlines_pass_and_other_control_characters_become_spaces() {
        let grey = "\u{1b}[38;5;8mgrey \u{1b}[48;2;8;8;8m\u{1b}[m";
        for plain in ["", "a\tb\nä", "\u{1b}[1;31mred\u{1b}[0m\n", grey] {
            assert_eq!(sanitize(plain), plain);
        }
        assert_eq!(sanitize("\u{1b}[8mhidden\u{1b}[0;08m"), " [8mhidden [0;08m");
        assert_eq!(
            sanitize("\u{1b}[31mx\u{1b}[0m \u{1b}]0;title\u{7} \u{1b}[2J \u{9b}2J\r\u{202e}y\n"),
            "\u{1b}[31mx\u{1b}[0m  ]0;title   [2J  2J  y\n"
        );
        assert_eq!(sanitize("cut \u{1b}[31"), "cut  [31");
    }
}
