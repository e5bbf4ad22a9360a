//! The memory updates of a report: bullets in the `AGENTS.md` of a directory.
//!
//! They are written before the report is committed. An engine that was killed in between reads the report again, and finds
//! that the file has them.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use protocol::brief::Memory;
use protocol::report::{MemoryUpdate, Report};

/// The file of a directory.
const FILE: &str = "AGENTS.md";

/// Shorter entries say nothing, longer ones are not read.
const LENGTHS: std::ops::RangeInclusive<usize> = 15..=150;

/// Entries that only describe the code, which the next agent reads anyway.
const DESCRIPTIONS: [&str; 5] = ["handles ", "used for ", "used to ", "responsible for ", "is called by "];

/// Adds the updates of a report to the files below `root`, if that is wanted. Returns a sentence for each that was not added.
pub(super) fn apply(memory: Memory, root: &Path, report: &Report) -> Vec<String> {
    let updates = &report.memory_updates;
    match memory {
        Memory::Unused => Vec::new(),
        Memory::NotApplied if updates.is_empty() => Vec::new(),
        Memory::NotApplied => {
            let count = updates.len();
            let what = if count == 1 { "memory update was" } else { "memory updates were" };
            vec![format!("{count} {what} not applied: `--memory` was not given")]
        }
        Memory::Applied => {
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
    let directory = directory(root, &update.scope)?;
    let file = directory.join(FILE);
    let before = match fs::read_to_string(&file) {
        Ok(text) => text,
        Err(error) if error.kind() == io::ErrorKind::NotFound => String::new(),
        Err(error) => return Err(format!("cannot read `{}`: {error}", file.display())),
    };
    match with_entry(&before, section, entry) {
        None => Ok(()),
        Some(text) => supervisor::replace_file(&file, text.as_bytes())
            .map_err(|error| format!("cannot write `{}`: {error}", file.display())),
    }
}

/// Refuses what does not help the next agent.
fn refuse_worthless(entry: &str) -> Result<(), String> {
    let length = entry.chars().count();
    if !LENGTHS.contains(&length) {
        let (least, most) = (LENGTHS.start(), LENGTHS.end());
        return Err(format!("it has {length} characters, not {least} to {most}"));
    }
    if entry.contains('\n') {
        return Err("it has more than one line".to_owned());
    }
    let lower = entry.to_lowercase();
    let mut words = lower.split(|c: char| !c.is_alphanumeric()).filter(|word| !word.is_empty()).peekable();
    while let Some(word) = words.next() {
        let is_number = |next: &&str| next.chars().all(|c| c.is_ascii_digit());
        if matches!(word, "line" | "lines") && words.peek().is_some_and(is_number) {
            return Err("it names a line, which the next change moves".to_owned());
        }
    }
    match DESCRIPTIONS.iter().find(|description| lower.contains(**description)) {
        Some(description) => Err(format!("it describes the code (`{}`)", description.trim())),
        None => Ok(()),
    }
}

/// Returns the directory of a scope. It must exist below `root`, also if links lead elsewhere.
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

/// Returns the text with the entry at the end of its section; `None` if the section has it.
fn with_entry(text: &str, section: &str, entry: &str) -> Option<String> {
    let (heading, bullet) = (format!("## {section}"), format!("- {entry}"));
    let mut lines: Vec<&str> = text.lines().collect();
    let Some(start) = lines.iter().position(|line| line.trim_end() == heading) else {
        let gap = if text.is_empty() { "" } else { "\n" };
        let end = if text.is_empty() || text.ends_with('\n') { "" } else { "\n" };
        return Some(format!("{text}{end}{gap}{heading}\n\n{bullet}\n"));
    };
    let is_heading = |line: &&str| line.starts_with("# ") || line.starts_with("## ");
    let end = lines[start + 1..].iter().position(is_heading);
    let end = end.map_or(lines.len(), |end| start + 1 + end);
    if lines[start..end].iter().any(|line| line.trim() == bullet) {
        return None;
    }
    let last = (start..end).rev().find(|at| !lines[*at].trim().is_empty()).unwrap_or(start);
    let new = if last == start { vec!["", bullet.as_str()] } else { vec![bullet.as_str()] };
    lines.splice(last + 1..last + 1, new);
    Some(lines.join("\n") + "\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_entry_goes_to_the_end_of_its_section_once() {
        let first = with_entry("", "Notes", "run just test").unwrap();
        assert_eq!(first, "## Notes\n\n- run just test\n");
        assert_eq!(with_entry(&first, "Notes", "run just test"), None);
        let two = "# Project\n\n## Notes\n\n- a\n\n## Build\n\n- b\n";
        let added = with_entry(two, "Notes", "c").unwrap();
        assert_eq!(added, "# Project\n\n## Notes\n\n- a\n- c\n\n## Build\n\n- b\n");
        assert_eq!(with_entry("# Project", "Notes", "c").unwrap(), "# Project\n\n## Notes\n\n- c\n");
    }

    #[test]
    fn worthless_entries_are_refused() {
        assert_eq!(refuse_worthless("Run `just test` before each commit"), Ok(()));
        for (entry, reason) in [
            ("too short", "it has 9 characters"),
            (&"x".repeat(151), "it has 151 characters"),
            ("The bug is in lib.rs, line 42 of it", "it names a line"),
            ("This module handles the login of users", "it describes the code (`handles`)"),
            ("two lines of text\nare one too many", "it has more than one line"),
        ] {
            assert!(refuse_worthless(entry).unwrap_err().starts_with(reason), "{entry}");
        }
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
