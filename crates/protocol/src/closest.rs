//! "Did you mean …?"

/// Returns the candidate that `word` most likely misspells, if one is close enough.
pub fn closest<'a>(word: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    // One typing error for every three characters, and at least one: `neds` means `needs`.
    let allowed = (word.chars().count() / 3).max(1);
    let folded = word.to_lowercase();
    candidates
        .into_iter()
        .map(|candidate| (strsim::damerau_levenshtein(&folded, &candidate.to_lowercase()), candidate))
        // A candidate that shares no character with the word is not meant: `x` does not mean `a`.
        .filter(|(distance, candidate)| *distance <= allowed && *distance < candidate.chars().count())
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, candidate)| candidate)
}

#[cfg(test)]
mod tests {
    use super::closest;

    #[test]
    fn a_close_word_is_found_and_a_distant_one_is_not() {
        let words = ["id", "agent", "needs", "next_on_success"];
        for (word, meant) in [
            ("neds", Some("needs")),
            ("Needs", Some("needs")),
            ("agnet", Some("agent")),
            ("next_on_sucess", Some("next_on_success")),
            ("zzz", None),
            ("x", None),
        ] {
            assert_eq!(closest(word, words), meant, "{word}");
        }
    }
}
