//! Derives the name of a new spec from its requirements.

use super::{Scope, SpecName};

/// The maximum number of keywords in a name.
const MAX_WORDS: usize = 5;

/// The name for requirements without keywords.
const FALLBACK: &str = "new-feature";

/// Words that are no keywords.
const STOP_WORDS: &str = "
    a able about add all also an and any are as at be build but by can could create do does each every
    feature for from get has have how i if implement in into is it its just let like make may me might more
    must my need needs new no not of on one or our please s should so some spec such support t that the
    their them then there these they this those to us use user users using want wants was way we were what
    when where which who will with would you your
";

/// Derives a name: the first keywords, at most five, in lower case, joined by hyphens. Fewer if the name would be too long.
pub fn derive(requirements: &str) -> SpecName {
    let mut words: Vec<String> = Vec::new();
    for word in requirements.split(|character: char| !character.is_alphanumeric()) {
        let word = word.to_lowercase();
        if !word.is_empty() && !is_stop_word(&word) && !words.contains(&word) {
            words.push(word);
        }
        if words.len() == MAX_WORDS {
            break;
        }
    }
    while !words.is_empty() {
        if let Ok(name) = SpecName::normalized(&words.join("-")) {
            return name;
        }
        words.pop();
    }
    SpecName::new(FALLBACK).expect("BUG: the fallback is not a valid name")
}

fn is_stop_word(word: &str) -> bool {
    STOP_WORDS.split_whitespace().any(|stop| stop == word)
}

impl Scope {
    /// The scope of a spec named after its requirements.
    pub fn derived(requirements: &str) -> Self {
        Self::Spec(derive(requirements))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_has_the_first_keywords() {
        for (requirements, name) in [
            ("Users should be able to reset their password by email", "reset-password-email"),
            ("Add dark mode", "dark-mode"),
            ("Password reset: password reset by e-mail, SMS or carrier pigeon", "password-reset-e-mail-sms"),
            ("the OAuth2 login (GitHub, Google) and more", "oauth2-login-github-google"),
            ("Größere Übersicht für Kunden", "größere-übersicht-für-kunden"),
            ("日本語の検索", "日本語の検索"),
            ("", FALLBACK),
            ("Please make it so!", FALLBACK),
            ("… — ???", FALLBACK),
        ] {
            assert_eq!(derive(requirements).as_str(), name, "{requirements}");
        }
    }

    #[test]
    fn a_name_that_is_too_long_has_fewer_keywords() {
        assert_eq!(derive(&format!("search {}", "語".repeat(100))).as_str(), "search");
        assert_eq!(derive(&"語".repeat(100)).as_str(), FALLBACK);
    }

    #[test]
    fn stop_words_are_sorted_and_unique() {
        assert!(STOP_WORDS.split_whitespace().is_sorted_by(|one, next| one < next));
    }
}
