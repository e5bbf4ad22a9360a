//! Items of `must_not_do` that are paths or globs, which the engine checks itself.

/// Returns the glob in an item of `must_not_do`; `None` if the item is a sentence.
pub(super) fn glob(item: &str) -> Option<&str> {
    let item = item.trim().trim_matches('`');
    let is_path = !item.is_empty() && !item.contains(char::is_whitespace) && item.contains(['/', '*', '.']);
    is_path.then_some(item)
}

/// Returns whether the path matches: `*` and `?` stay inside a name, `**` does not, and a directory matches all it contains.
pub(super) fn matches(glob: &str, path: &str) -> bool {
    let glob = glob.trim_start_matches("./").trim_start_matches('/');
    let directory = glob.trim_end_matches('/');
    let parts: Vec<_> = directory.split('/').collect();
    let names: Vec<_> = path.split('/').collect();
    if parts.len() == 1 && !glob.ends_with('/') {
        // A name alone matches at any depth, as in `.gitignore`.
        return names.iter().any(|name| name_matches(directory, name));
    }
    parts_match(&parts, &names)
}

fn parts_match(glob: &[&str], names: &[&str]) -> bool {
    match (glob, names) {
        ([], _) => true,
        (["**", rest @ ..], _) => (0..=names.len()).any(|skipped| parts_match(rest, &names[skipped..])),
        (_, []) => false,
        ([first, glob @ ..], [name, names @ ..]) => name_matches(first, name) && parts_match(glob, names),
    }
}

fn name_matches(glob: &str, name: &str) -> bool {
    let Some(first) = glob.chars().next() else { return name.is_empty() };
    let rest = &glob[first.len_utf8()..];
    let tails = |name: &str| -> Vec<String> {
        name.char_indices().map(|(at, _)| name[at..].to_owned()).chain([String::new()]).collect()
    };
    match (first, name.chars().next()) {
        ('*', _) => tails(name).iter().any(|tail| name_matches(rest, tail)),
        ('?', Some(found)) => name_matches(rest, &name[found.len_utf8()..]),
        (wanted, Some(found)) if wanted == found => name_matches(rest, &name[found.len_utf8()..]),
        (_, _) => false,
    }
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

    #[test]
    fn globs_match_as_in_gitignore() {
        for (pattern, path) in [
            ("src/auth/**", "src/auth/login.rs"),
            ("src/auth", "src/auth/deep/login.rs"),
            ("src/auth/", "src/auth/login.rs"),
            ("*.sql", "db/001.sql"),
            ("**/secret.*", "a/b/secret.txt"),
            ("**/secret.*", "secret.txt"),
            ("src/*/mod.rs", "src/a/mod.rs"),
            ("Cargo.lock", "Cargo.lock"),
        ] {
            assert!(matches(pattern, path), "{pattern} should match {path}");
        }
        for (pattern, path) in [
            ("src/auth", "src/author.rs"),
            ("src/*/mod.rs", "src/a/b/mod.rs"),
            ("*.sql", "db/sql.rs"),
            ("docs/", "src/docs.rs"),
        ] {
            assert!(!matches(pattern, path), "{pattern} should not match {path}");
        }
    }
}
