//! "Did you mean …?"

/// The candidate a person most likely meant by `word`, if one is near enough to be worth naming.
pub fn closest<'a>(word: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    // One slip for every three characters: `neds` is `needs`, but `id` is not `if`'s neighbour.
    let allowed = (word.chars().count() / 3).max(1);
    let folded = word.to_lowercase();
    candidates
        .into_iter()
        .map(|candidate| (strsim::damerau_levenshtein(&folded, &candidate.to_lowercase()), candidate))
        .filter(|(distance, candidate)| *distance <= allowed && *distance < candidate.chars().count())
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, candidate)| candidate)
}

#[cfg(test)]
mod tests {
    use super::closest;

    #[test]
    fn the_nearest_word_is_named_and_a_far_one_is_not() {
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
