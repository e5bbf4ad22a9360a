//! What may go to a terminal. Errors quote agents, files and archives from elsewhere, so everything we print passes here:
//! a text may have colours, which we use ourselves, and nothing else that steers.

use std::borrow::Cow;

/// The text with a space for each character that would steer a terminal. Colours, line ends and tabs stay.
pub(crate) fn tame(text: &str) -> Cow<'_, str> {
    if !text.contains(|c: char| steers(c) && c != '\n') {
        return text.into();
    }
    let mut tame = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(character) = rest.chars().next() {
        let length = colour(rest).unwrap_or(character.len_utf8());
        match steers(character) && length == character.len_utf8() && !matches!(character, '\n' | '\t') {
            true => tame.push(' '),
            false => tame.push_str(&rest[..length]),
        }
        rest = &rest[length..];
    }
    tame.into()
}

/// Control characters, and those that turn the direction of writing.
pub(super) fn steers(character: char) -> bool {
    character.is_control() || matches!(character, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

/// The length of the change of colour that the text begins with.
fn colour(text: &str) -> Option<usize> {
    let inside = text.strip_prefix("\u{1b}[")?;
    let end = inside.find(|c: char| !(c.is_ascii_digit() || c == ';' || c == ':'))?;
    inside[end..].starts_with('m').then_some("\u{1b}[".len() + end + "m".len())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn colours_and_lines_stay_and_whatever_else_steers_goes() {
        for plain in ["", "a\tb\nä", "\u{1b}[1;31mred\u{1b}[0m\n"] {
            assert_eq!(tame(plain), plain);
        }
        assert_eq!(
            tame("\u{1b}[31mx\u{1b}[0m \u{1b}]0;title\u{7} \u{1b}[2J \u{9b}2J\r\u{202e}y\n"),
            "\u{1b}[31mx\u{1b}[0m  ]0;title   [2J  2J  y\n"
        );
        assert_eq!(tame("cut \u{1b}[31"), "cut  [31");
    }
}
