//! The temp files through which the scripts of old told each other which cycle they were at. They were sourced by a shell;
//! here they are read, and nothing in them is ever carried out.

use serde_json::Value;

use super::claim::{Claim, Rank, Slot};
use super::key::{Prefix, TempFile, prefix};

/// What a temp file says, by lower-case name. A line that is no plain assignment is left out, with its number.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Assignments {
    pub(super) found: Vec<(String, String)>,
    pub(super) unread: Vec<usize>,
}

/// What all temp files say together.
#[derive(Debug, Default)]
pub(super) struct Temp {
    said: Vec<(TempFile, String, String, String)>,
    /// What could not be read: file and line.
    pub(super) unread: Vec<(String, usize)>,
}

impl Temp {
    /// Adds a file.
    pub(super) fn add(&mut self, file: TempFile, key: &str, text: &str) {
        let Assignments { mut found, unread } = assignments(text);
        // This one may hold the bare name.
        if file == TempFile::SpecName && found.is_empty() && text.trim().lines().count() == 1 {
            found.push(("spec_name".to_owned(), text.trim().to_owned()));
        } else {
            self.unread.extend(unread.into_iter().map(|line| (key.to_owned(), line)));
        }
        self.said.extend(found.into_iter().map(|(name, value)| (file, key.to_owned(), name, value)));
    }

    /// Which cycle they are about.
    pub(super) fn cycle(&self) -> Option<(Prefix, u64)> {
        let number = self.value(&["current_cycle", "cycle_number"])?.parse().ok()?;
        Some((prefix(self.value(&["key_prefix"])?)?, number))
    }

    /// What they say of it.
    pub(super) fn claims(&self, rank: Rank) -> Vec<Claim> {
        let claims = self.said.iter().filter_map(|(_, key, name, value)| {
            let (slot, value) = match name.as_str() {
                "instruction" | "instruction_name" => (Slot::Instruction, value.clone()),
                "spec_name" | "final_spec_name" | "determined_spec_name" => (Slot::Spec, value.clone()),
                "peer_mode" => (Slot::Mode, value.clone()),
                "continue_mode" if value == "true" => (Slot::Mode, "continue".to_owned()),
                "continue_mode" => (Slot::Mode, "new".to_owned()),
                "user_requirements" => (Slot::Requirements, value.clone()),
                _ => return None,
            };
            Some(Claim { slot, value: Value::String(value), key: key.clone(), place: None, rank })
        });
        claims.filter(|claim| !claim.value.as_str().is_some_and(super::words::is_blank)).collect()
    }

    fn value(&self, names: &[&str]) -> Option<&str> {
        let mut said = self.said.iter().rev();
        said.find(|(_, _, name, _)| names.contains(&name.as_str())).map(|(_, _, _, value)| value.as_str())
    }
}

/// Reads plain assignments: `NAME=value`, with or without `export` and quotes.
pub(super) fn assignments(text: &str) -> Assignments {
    let mut assignments = Assignments::default();
    for (line, number) in text.lines().zip(1..) {
        let line = line.trim();
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        match assignment(line) {
            Some(found) => assignments.found.push(found),
            None => assignments.unread.push(number),
        }
    }
    assignments
}

fn assignment(line: &str) -> Option<(String, String)> {
    let line = line.strip_prefix("export ").unwrap_or(line).trim_start();
    let (name, value) = line.split_once('=')?;
    let is_name = |c: char| c.is_ascii_alphanumeric() || c == '_';
    if name.is_empty() || !name.chars().all(is_name) {
        return None;
    }
    let value = match value.chars().next() {
        Some('\'') => {
            value.strip_prefix('\'')?.strip_suffix('\'').filter(|inner| !inner.contains('\''))?.to_owned()
        }
        Some('"') => double_quoted(value.strip_prefix('"')?.strip_suffix('"')?)?,
        // What a shell would work out is not known here, and it is not worked out.
        _ if value.contains(['$', '`', ';', '&', '|', '<', '>', '(', ')', '"', '\'', '\\', ' ']) => {
            return None;
        }
        _ => value.to_owned(),
    };
    Some((name.to_lowercase(), value))
}

fn double_quoted(inner: &str) -> Option<String> {
    let mut value = String::new();
    let mut characters = inner.chars();
    while let Some(character) = characters.next() {
        match character {
            '"' | '$' | '`' => return None,
            '\\' => match characters.next()? {
                escaped @ ('"' | '$' | '`' | '\\') => value.push(escaped),
                other => value.extend(['\\', other]),
            },
            other => value.push(other),
        }
    }
    Some(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plain_assignments_are_read_and_nothing_is_carried_out() {
        let text = "# made by parse-arguments\nINSTRUCTION=create-spec\nexport SPEC_NAME=\"a \\\"b\\\"\"\n\
                    KEY_PREFIX='peer.spec.a'\nNOW=$(rm -rf ~)\nX=`id`\ntouch /tmp/x\nEMPTY=\n Y=\"$HOME\"\nZ=a;b\n";
        let read = assignments(text);
        let found: Vec<_> = read.found.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
        assert_eq!(
            found,
            [
                ("instruction", "create-spec"),
                ("spec_name", "a \"b\""),
                ("key_prefix", "peer.spec.a"),
                ("empty", "")
            ]
        );
        assert_eq!(read.unread, [5, 6, 7, 9, 10]);
    }

    #[test]
    fn the_files_name_their_cycle_together() {
        let mut temp = Temp::default();
        assert_eq!(temp.cycle(), None);
        temp.add(TempFile::Arguments, "peer_args.txt", "INSTRUCTION=create-spec\nCONTINUE_MODE=false\n");
        temp.add(TempFile::Cycle, "peer_cycle.txt", "CURRENT_CYCLE=3\nKEY_PREFIX=peer:spec:a.b\n");
        temp.add(TempFile::SpecName, "determined_spec_name.txt", "a.b\n");
        assert_eq!(
            temp.cycle().map(|(prefix, number)| (prefix.to_string(), number)),
            Some(("peer:spec:a.b".to_owned(), 3))
        );
        assert!(temp.unread.is_empty());
    }
}
