//! Items of `must_not_do` that are paths or globs, which the engine checks itself.

/// Returns the glob in an item of `must_not_do`; `None` if the item is a sentence.
pub(super) fn glob(item: &str) -> Option<&str> {
    let item = item.trim().trim_matches('`');
    let is_path = !item.is_empty() && !item.contains(char::is_whitespace) && item.contains(['/', '*', '.']);
    is_path.then_some(item)
}

/// Returns whether the path matches: `*` and `?` stay inside a name, `**` does not, and a directory matches all it contains.
///
/// A glob with a slash, or `./` at its beginning, begins at the root of the repository.
pub(super) fn matches(glob: &str, path: &str) -> bool {
    let anchored = glob.trim_start_matches("./").trim_start_matches('/');
    let is_anchored = anchored != glob;
    let glob = anchored;
    let directory = glob.trim_end_matches('/');
    let components: Vec<_> = directory.split('/').collect();
    let names: Vec<_> = path.split('/').collect();
    if components.len() == 1 && !glob.ends_with('/') && !is_anchored {
        // A name without any slash matches at any depth, as in `.gitignore`.
        return names.iter().any(|name| name_matches(directory, name));
    }
    components_match(&components, &names)
}

/// The pattern may end before the path: a directory matches all it contains.
fn components_match(glob: &[&str], names: &[&str]) -> bool {
    matched_lengths(glob, names, |part| *part == "**", |part, name| name_matches(part, name)).contains(&true)
}

fn name_matches(glob: &str, name: &str) -> bool {
    let (glob, name): (Vec<_>, Vec<_>) = (glob.chars().collect(), name.chars().collect());
    let fits = |wanted: &char, found: &char| *wanted == '?' || wanted == found;
    matched_lengths(&glob, &name, |part| *part == '*', fits)[name.len()]
}

/// Returns for each number of items, from 0, whether the pattern matches that many from the beginning. The time is bounded by the
/// product of both lengths.
fn matched_lengths<P, T>(
    pattern: &[P],
    items: &[T],
    is_wildcard: impl Fn(&P) -> bool,
    fits: impl Fn(&P, &T) -> bool,
) -> Vec<bool> {
    let mut matched = vec![false; items.len() + 1];
    matched[0] = true;
    for part in pattern {
        if is_wildcard(part) {
            let first = matched.iter().position(|is_match| *is_match).unwrap_or(matched.len());
            matched[first..].fill(true);
        } else {
            let pairs = matched.iter().zip(items);
            let next = pairs.map(|(is_match, item)| *is_match && fits(part, item));
            matched = std::iter::once(false).chain(next).collect();
        }
    }
    matched
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_and_globs_are_found_and_sentences_are_not() {
        assert_eq!(glob("`src/auth/**`"), Some("src/auth/**"));
        assert_eq!(glob("Cargo.lock"), Some("Cargo.lock"));
        for sentence in ["Don't modify the API.", "refactoring", ""] {
            assert_eq!(glob(sentence), None, "{sentence}");
        }
    }

    /// With backtracking, each star would double the time.
    #[test]
    fn a_glob_with_many_stars_is_matched_in_time() {
        assert!(!matches(&format!("{}b", "*a".repeat(30)), &"a".repeat(200)));
        assert!(matches(&format!("{}b", "*a".repeat(30)), &format!("{}b", "a".repeat(200))));
        assert!(!matches(&format!("{}b", "**/a/".repeat(30)), &"a/".repeat(200)));
    }

    #[test]
    fn globs_match_paths_and_whole_directories() {
        for (pattern, path) in [
            ("src/auth/**", "src/auth/login.rs"),
            ("src/auth", "src/auth/deep/login.rs"),
            ("src/auth/", "src/auth/login.rs"),
            ("*.sql", "db/001.sql"),
            ("**/secret.*", "a/b/secret.txt"),
            ("**/secret.*", "secret.txt"),
            ("src/*/mod.rs", "src/a/mod.rs"),
            ("Cargo.lock", "sub/Cargo.lock"),
            ("/Cargo.lock", "Cargo.lock"),
            ("?rgo.*", "argo.lock"),
        ] {
            assert!(matches(pattern, path), "{pattern} should match {path}");
        }
        for (pattern, path) in [
            ("src/auth", "src/author.rs"),
            ("src/*/mod.rs", "src/a/b/mod.rs"),
            ("*.sql", "db/sql.rs"),
            ("docs/", "src/docs.rs"),
            ("?argo.toml", "argo.toml"),
            ("*.rs", "main.rst"),
            ("/Cargo.lock", "sub/Cargo.lock"),
            ("./Cargo.lock", "sub/Cargo.lock"),
        ] {
            assert!(!matches(pattern, path), "{pattern} should not match {path}");
        }
    }
}
