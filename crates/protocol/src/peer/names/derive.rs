//! Requirements → the name of a new spec, when nobody gave one.

use super::{Scope, SpecName};

/// How many keywords make a name at most.
const MOST_WORDS: usize = 5;

/// The name of a spec whose requirements have no word that could name it.
const FALLBACK: &str = "new-feature";

/// Words that say nothing about what is wanted: of the language, and of asking for something.
const STOP_WORDS: &str = "
    a able about add all also an and any are as at be build but by can could create do does each every
    feature for from get has have how i if implement in into is it its just let like make may me might more
    must my need needs new no not of on one or our please s should so some spec such support t that the
    their them then there these they this those to us use user users using want wants was way we were what
    when where which who will with would you your
";

/// The name that requirements suggest: their first keywords, at most five, in lower case with hyphens between. Fewer if
/// that is all they have, or all that a name has room for.
pub fn derive(requirements: &str) -> SpecName {
    let mut words: Vec<String> = Vec::new();
    for word in requirements.split(|character: char| !character.is_alphanumeric()) {
        let word = word.to_lowercase();
        if !word.is_empty() && !is_stop_word(&word) && !words.contains(&word) {
            words.push(word);
        }
        if words.len() == MOST_WORDS {
            break;
        }
    }
    while !words.is_empty() {
        if let Ok(name) = SpecName::typed(&words.join("-")) {
            return name;
        }
        words.pop();
    }
    SpecName::new(FALLBACK).expect("BUG: the fallback is a name")
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
    fn a_name_is_made_of_the_first_keywords() {
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
    fn a_name_is_cut_to_what_a_key_holds() {
        assert_eq!(derive(&format!("search {}", "語".repeat(100))).as_str(), "search");
        assert_eq!(derive(&"語".repeat(100)).as_str(), FALLBACK);
    }

    #[test]
    fn stop_words_are_in_order_and_each_there_once() {
        assert!(STOP_WORDS.split_whitespace().is_sorted_by(|one, next| one < next));
    }
}
