//! Files, directories and globs in plans: which of them may mean the same file.

const WILDCARDS: [char; 6] = ['*', '?', '[', ']', '{', '}'];

/// Returns whether one file may match both. Globs are compared only by the part before the first wildcard and the part after the
/// last one, so the answer may be true although no file matches both. A directory contains any file.
pub(crate) fn may_match_same_file(one: &str, other: &str) -> bool {
    let (one, other) = (one.trim_start_matches("./"), other.trim_start_matches("./"));
    let prefix = |file: &str| file.split(WILDCARDS).next().unwrap_or_default().to_owned();
    let suffix = |file: &str| match file.ends_with('/') {
        true => String::new(),
        false => file.rsplit(WILDCARDS).next().unwrap_or_default().to_owned(),
    };
    let is_pattern = |file: &str| file.contains(WILDCARDS) || file.ends_with('/');
    let is_below =
        |directory: &str, file: &str| file.starts_with(&format!("{}/", directory.trim_end_matches('/')));
    let (prefix_one, prefix_other) = (prefix(one), prefix(other));
    let (suffix_one, suffix_other) = (suffix(one), suffix(other));
    let suffixes_match = suffix_one.ends_with(&suffix_other) || suffix_other.ends_with(&suffix_one);
    one == other
        || is_below(one, other)
        || is_below(other, one)
        || (is_pattern(one) && prefix_other.starts_with(&prefix_one) && suffixes_match)
        || (is_pattern(other) && prefix_one.starts_with(&prefix_other) && suffixes_match)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_directories_and_globs_are_compared() {
        for (one, other) in [
            ("src/a.rs", "./src/a.rs"),
            ("src/", "src/a.rs"),
            ("src", "src/a.rs"),
            ("src/**", "src/a.rs"),
            ("src/*.rs", "src/a/*.rs"),
            ("{a,b}/x.rs", "a/x.rs"),
        ] {
            assert!(may_match_same_file(one, other) && may_match_same_file(other, one), "{one} {other}");
        }
        for (one, other) in [
            ("src/a.rs", "src/b.rs"),
            ("src", "srcs/a.rs"),
            ("src/**", "docs/a.md"),
            ("a/*", "b/*"),
            ("src/*.rs", "src/*.md"),
        ] {
            assert!(!may_match_same_file(one, other) && !may_match_same_file(other, one), "{one} {other}");
        }
    }
}
