//! The memory updates of a report: bullets in the `AGENTS.md` of a directory.
//!
//! They are written before the report is committed. An engine that was killed in between reads the report again, and finds
//! that the file has them.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use protocol::brief::MemoryPolicy;
use protocol::report::{MemoryUpdate, Report};

/// The memory file of a directory.
const MEMORY_FILE: &str = "AGENTS.md";

/// The allowed number of characters: shorter entries say nothing, longer ones are not read.
const ENTRY_LENGTHS: std::ops::RangeInclusive<usize> = 15..=150;

/// Phrases of entries that only describe the code, which the next agent reads anyway.
const DESCRIPTIVE_PHRASES: [&str; 19] = [
    "handles ",
    "used for ",
    "used to ",
    "responsible for ",
    "takes care of ",
    "is called by ",
    "is called from ",
    "is located in ",
    "is located at ",
    "is defined in ",
    "is implemented in ",
    "is a function ",
    "is a class ",
    "is a module ",
    "this file ",
    "this function ",
    "this method ",
    "this class ",
    "this module ",
];

/// Entries that begin like this say what an agent did, which the history of the repository has.
const CHANGE_VERBS: [&str; 8] =
    ["added ", "changed ", "created ", "fixed ", "implemented ", "refactored ", "removed ", "updated "];

/// `NAME.EXTENSION:NUMBER` names a line if the extension is one of these; otherwise it may be a host and a port.
const SOURCE_EXTENSIONS: [&str; 16] =
    ["c", "cpp", "go", "h", "java", "js", "json", "jsx", "md", "py", "rb", "rs", "sh", "toml", "ts", "tsx"];

/// Adds the updates of a report to the files below `root`, if `policy` says so. Returns a sentence for each update
/// that was not added, with the reason.
pub(super) fn apply(policy: MemoryPolicy, root: &Path, report: &Report) -> Vec<String> {
    let updates = &report.memory_updates;
    match policy {
        MemoryPolicy::Unused => Vec::new(),
        MemoryPolicy::NotApplied if updates.is_empty() => Vec::new(),
        MemoryPolicy::NotApplied => {
            let count = updates.len();
            let what = if count == 1 { "memory update was" } else { "memory updates were" };
            vec![format!("{count} {what} not applied: `--memory` was not given")]
        }
        MemoryPolicy::Applied => {
            let refused = updates.iter().filter_map(|update| {
                let reason = add(root, update).err()?;
                Some(format!("memory update `{}`: {reason}", update.entry))
            });
            refused.collect()
        }
    }
}

fn add(root: &Path, update: &MemoryUpdate) -> Result<(), String> {
    let entry = update.entry.trim();
    refuse_worthless(entry)?;
    let section = update.section.trim();
    if section.is_empty() || section.contains('\n') {
        return Err("its section is not the title of one".to_owned());
    }
    let file = memory_file(root, &update.scope)?;
    let before = match fs::read_to_string(&file) {
        Ok(text) => text,
        Err(error) if error.kind() == io::ErrorKind::NotFound => String::new(),
        Err(error) => return Err(format!("cannot read `{}`: {error}", file.display())),
    };
    match with_entry(&before, section, entry) {
        None => Ok(()),
        Some(text) => supervisor::replace_file_keeping_mode(&file, text.as_bytes())
            .map_err(|error| format!("cannot write `{}`: {error}", file.display())),
    }
}

/// Fails if an entry does not help the next agent.
fn refuse_worthless(entry: &str) -> Result<(), String> {
    let length = entry.chars().count();
    if !ENTRY_LENGTHS.contains(&length) {
        let (least, most) = (ENTRY_LENGTHS.start(), ENTRY_LENGTHS.end());
        return Err(format!("it has {length} characters, not {least} to {most}"));
    }
    if entry.contains('\n') {
        return Err("it has more than one line".to_owned());
    }
    let lower = entry.to_lowercase();
    if names_a_line(&lower) {
        return Err("it names a line, which the next change moves".to_owned());
    }
    if let Some(verb) = CHANGE_VERBS.iter().find(|verb| lower.starts_with(**verb)) {
        return Err(format!("it says what was done (`{}`)", verb.trim()));
    }
    let words = format!(" {lower}");
    match DESCRIPTIVE_PHRASES.iter().find(|phrase| words.contains(&format!(" {phrase}"))) {
        Some(phrase) => Err(format!("it describes the code (`{}`)", phrase.trim())),
        None => Ok(()),
    }
}

/// Returns whether a text names a line: `line 42`, `lib.rs:42`, `lib.rs:42-50`, `#L42`.
fn names_a_line(lower: &str) -> bool {
    let is_number = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let words: Vec<_> = lower.split(|c: char| !c.is_alphanumeric()).filter(|word| !word.is_empty()).collect();
    let by_word = words.windows(2).any(|pair| matches!(pair[0], "line" | "lines") && is_number(pair[1]));
    let by_path = lower.split_whitespace().any(|word| {
        let word = word.trim_matches(|c: char| !c.is_alphanumeric());
        let is_source_file = |file: &str| {
            file.rsplit_once('.').is_some_and(|(_, extension)| SOURCE_EXTENSIONS.contains(&extension))
        };
        let mut parts = word.split(':');
        let names_source_file = parts.next().is_some_and(is_source_file);
        let is_range = |text: &str| is_number(text.split('-').next().unwrap_or_default());
        names_source_file && parts.next().is_some_and(is_range)
            || word.split_once("#l").is_some_and(|(_, rest)| is_range(rest))
    });
    by_word || by_path
}

/// Returns the memory file of a scope, or the target of the symlink in its place. Fails if the file or its directory is
/// outside of `root`.
fn memory_file(root: &Path, scope: &str) -> Result<PathBuf, String> {
    let file = directory(root, scope)?.join(MEMORY_FILE);
    if !file.is_symlink() {
        return Ok(file);
    }
    let target = file.canonicalize().map_err(|error| format!("cannot read `{}`: {error}", file.display()))?;
    if root.canonicalize().is_ok_and(|root| target.starts_with(root)) {
        Ok(target)
    } else {
        Err(format!("`{}` is outside of the repository", file.display()))
    }
}

/// Returns the directory of a scope. Fails if, with symlinks resolved, it is not below `root`.
fn directory(root: &Path, scope: &str) -> Result<PathBuf, String> {
    let missing = |error: io::Error| format!("its scope `{scope}` is not a directory: {error}");
    let root = root.canonicalize().map_err(missing)?;
    let directory = root.join(scope).canonicalize().map_err(missing)?;
    if !directory.starts_with(&root) {
        return Err(format!("its scope `{scope}` is outside of the repository"));
    }
    if !directory.is_dir() {
        return Err(format!("its scope `{scope}` is not a directory"));
    }
    Ok(directory)
}

/// Returns the text with the entry at the end of its section, or `None` if the text has the entry already.
fn with_entry(text: &str, section: &str, entry: &str) -> Option<String> {
    let newline = if text.contains("\r\n") { "\r\n" } else { "\n" };
    let (heading, bullet) = (format!("## {section}"), format!("- {entry}"));
    let lines: Vec<&str> = text.split_inclusive('\n').collect();
    if lines.iter().any(|line| line.trim() == bullet) {
        return None;
    }
    let headings = headings(&lines);
    let Some(start) = headings.iter().copied().find(|at| lines[*at].trim_end() == heading) else {
        let gap = if text.is_empty() { "" } else { newline };
        let end = if text.is_empty() || text.ends_with('\n') { "" } else { newline };
        return Some(format!("{text}{end}{gap}{heading}{newline}{newline}{bullet}{newline}"));
    };
    let end = headings.into_iter().find(|at| *at > start).unwrap_or(lines.len());
    let last = (start..end).rev().find(|at| !lines[*at].trim().is_empty()).unwrap_or(start);
    let (before, after) = (lines[..=last].concat(), lines[last + 1..].concat());
    let line_end = if before.ends_with('\n') { "" } else { newline };
    let gap = if last == start { newline } else { "" };
    Some(format!("{before}{line_end}{gap}{bullet}{newline}{after}"))
}

/// Returns where the headings of the first two levels are. A comment in a code block (` ``` `) is none.
fn headings(lines: &[&str]) -> Vec<usize> {
    let mut is_code = false;
    let mut found = Vec::new();
    for (at, line) in lines.iter().enumerate() {
        if ["```", "~~~"].iter().any(|fence| line.trim_start().starts_with(fence)) {
            is_code = !is_code;
        } else if !is_code && (line.starts_with("# ") || line.starts_with("## ")) {
            found.push(at);
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    #[test]
    fn an_entry_goes_to_the_end_of_its_section_once() {
        let first = with_entry("", "Notes", "run just test").unwrap();
        assert_eq!(first, "## Notes\n\n- run just test\n");
        assert_eq!(with_entry(&first, "Notes", "run just test"), None);
        assert_eq!(with_entry(&first, "Build", "run just test"), None, "another section has it");
        let two = "# Project\n\n## Notes\n\n- a\n\n## Build\n\n- b\n";
        let added = with_entry(two, "Notes", "c").unwrap();
        assert_eq!(added, "# Project\n\n## Notes\n\n- a\n- c\n\n## Build\n\n- b\n");
        assert_eq!(with_entry("# Project", "Notes", "c").unwrap(), "# Project\n\n## Notes\n\n- c\n");
        assert_eq!(with_entry("## Notes\r\n", "Notes", "c").unwrap(), "## Notes\r\n\r\n- c\r\n");
        let mixed = "# Project\n\n## Notes\r\n\n- a\nb";
        assert_eq!(with_entry(mixed, "Notes", "c").unwrap(), "# Project\n\n## Notes\r\n\n- a\nb\r\n- c\r\n");
    }

    #[test]
    fn a_comment_in_a_code_block_is_no_heading() {
        let code = "## Build\n\n```sh\n# run the tests\n## Notes\ncargo test\n```\n\n## Notes\n\n- a\n";
        let added = with_entry(code, "Build", "c").unwrap();
        assert_eq!(added, code.replace("```\n\n", "```\n- c\n\n"));
        assert_eq!(with_entry(code, "Notes", "c").unwrap(), format!("{code}- c\n"));
    }

    #[test]
    fn worthless_entries_are_refused() {
        for entry in [
            "Run `just test` before each commit",
            "The mail server listens on mail.example.com:2525 in tests",
            "Keep every line below 100 characters",
            "Tests that were added late run last",
            "Keep the port 4000 unused for the tests of the proxy",
        ] {
            assert_eq!(refuse_worthless(entry), Ok(()), "{entry}");
        }
        for phrase in DESCRIPTIVE_PHRASES {
            let entry = format!("The parser {phrase}requests");
            let reason = format!("it describes the code (`{}`)", phrase.trim());
            assert_eq!(refuse_worthless(&entry), Err(reason));
        }
        for (entry, reason) in [
            ("too short", "it has 9 characters"),
            (&"x".repeat(151), "it has 151 characters"),
            ("The bug is in lib.rs, line 42 of it", "it names a line"),
            ("See src/lib.rs:42: the lock is taken twice", "it names a line"),
            ("See src/lib.rs:42-50 before you change it", "it names a line"),
            ("See https://example.org/lib.rs#L4-L7", "it names a line"),
            ("Fixed the login of users without mail", "it says what was done (`fixed`)"),
            ("The session handles the login of users", "it describes the code (`handles`)"),
            ("two lines of text\nare one too many", "it has more than one line"),
        ] {
            assert!(refuse_worthless(entry).unwrap_err().starts_with(reason), "{entry}");
        }
    }

    #[test]
    fn the_mode_and_the_link_of_the_file_are_kept() {
        let root = tempfile::tempdir().unwrap();
        let claude = root.path().join("CLAUDE.md");
        fs::write(&claude, "# Project\n").unwrap();
        fs::set_permissions(&claude, fs::Permissions::from_mode(0o640)).unwrap();
        std::os::unix::fs::symlink("CLAUDE.md", root.path().join(MEMORY_FILE)).unwrap();
        let text = r#"{"scope": ".", "section": "Notes", "entry": "Run `just test` before each commit"}"#;
        let update: MemoryUpdate = serde_json::from_str(text).unwrap();
        add(root.path(), &update).unwrap();
        assert!(fs::read_to_string(&claude).unwrap().ends_with("- Run `just test` before each commit\n"));
        assert_eq!(fs::metadata(&claude).unwrap().permissions().mode() & 0o777, 0o640);
        assert!(root.path().join(MEMORY_FILE).is_symlink());
        let elsewhere = tempfile::NamedTempFile::new().unwrap();
        fs::remove_file(root.path().join(MEMORY_FILE)).unwrap();
        std::os::unix::fs::symlink(elsewhere.path(), root.path().join(MEMORY_FILE)).unwrap();
        assert!(add(root.path(), &update).unwrap_err().ends_with("is outside of the repository"));
    }

    #[test]
    fn a_scope_is_a_directory_of_the_repository() {
        let root = tempfile::tempdir().unwrap();
        fs::create_dir(root.path().join("docs")).unwrap();
        std::os::unix::fs::symlink("/", root.path().join("everything")).unwrap();
        assert!(directory(root.path(), ".").is_ok() && directory(root.path(), "docs").is_ok());
        for scope in ["..", "/", "everything", "nowhere"] {
            assert!(directory(root.path(), scope).is_err(), "{scope}");
        }
    }
}
