//! Reads a dump of the key-value store in which peer cycles of older formats were kept: keys and values from a
//! directory, from JSON lines, or from the NATS bucket itself. An unreadable item is reported with its position, and the
//! rest is read.

use std::fs;
use std::io::Read as _;
use std::path::{Path, PathBuf};

use protocol::json::{MAX_INPUT_DEPTH, exceeds_depth};
use protocol::peer::migrate::parse_json_or_text;
use serde::Serialize;
use serde_json::Value;

use store::KvEntry;

use crate::failure::Failure;

/// The field that the engine adds to the document in a bucket's entry, for itself. It is not part of the cycle.
const ENGINE_FIELD: &str = "callboard";

/// The keys of a dump, and the items that cannot be read.
#[derive(Debug, Default)]
pub(super) struct Dump {
    pub(super) items: Vec<(String, Value)>,
    pub(super) unreadable: Vec<Unreadable>,
}

/// An item that cannot be read.
#[derive(Debug, Serialize, PartialEq, Eq)]
pub(super) struct Unreadable {
    pub(super) file: PathBuf,
    /// From 1; columns count characters. `None` for the file as a whole.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) line: Option<usize>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) column: Option<usize>,
    pub(super) why: String,
}

impl Dump {
    /// Reads a directory, a file of JSON lines, or JSON lines from standard input (`-`).
    pub(super) fn read(path: &Path) -> Result<Self, Failure> {
        let failed = |error: &std::io::Error| {
            Failure::usage(format!("cannot read the dump `{}`", path.display())).because(Some(error)).hint(
                "give a directory with a file per key, a file of lines `{\"key\": …, \"value\": …}`, or \
                 `nats://HOST:PORT` for the bucket itself",
            )
        };
        let mut dump = Self::default();
        if path == Path::new("-") {
            let mut bytes = Vec::new();
            std::io::stdin().lock().read_to_end(&mut bytes).map_err(|error| failed(&error))?;
            dump.add_lines(Path::new("<stdin>"), &bytes);
        } else if fs::metadata(path).map_err(|error| failed(&error))?.is_dir() {
            dump.add_directory(path).map_err(|error| failed(&error))?;
        } else {
            let bytes = fs::read(path).map_err(|error| failed(&error))?;
            dump.add_lines(path, &bytes);
        }
        Ok(dump)
    }

    /// Takes the entries of a bucket.
    pub(super) fn of_bucket(address: &str, entries: &[KvEntry]) -> Self {
        let mut dump = Self::default();
        for KvEntry { key, value, .. } in entries {
            dump.add_value(&PathBuf::from(format!("{address}/{key}")), key.clone(), value);
        }
        for (_, value) in &mut dump.items {
            if let Some(document) = value.as_object_mut() {
                document.remove(ENGINE_FIELD);
            }
        }
        dump
    }

    /// Adds a directory with a file per key. The file's name is the key, or its path is.
    fn add_directory(&mut self, root: &Path) -> std::io::Result<()> {
        let mut pending = vec![root.to_owned()];
        while let Some(directory) = pending.pop() {
            for entry in fs::read_dir(directory)? {
                let entry = entry?;
                let kind = entry.file_type()?;
                if kind.is_dir() {
                    pending.push(entry.path());
                } else if kind.is_file() {
                    self.add_file(root, &entry.path());
                } else {
                    let why = "neither a file nor a directory; links are not followed";
                    self.add_unreadable(&entry.path(), None, why);
                }
            }
        }
        Ok(())
    }

    fn add_file(&mut self, root: &Path, file: &Path) {
        let Some(key) = key_of(root, file) else {
            return self.add_unreadable(file, None, "its name is not UTF-8");
        };
        match fs::read(file) {
            Err(error) => self.add_unreadable(file, None, &error.to_string()),
            Ok(bytes) => self.add_value(file, key, &bytes),
        }
    }

    fn add_value(&mut self, file: &Path, key: String, bytes: &[u8]) {
        match std::str::from_utf8(bytes) {
            Err(error) => {
                let position = position_after(&bytes[..error.valid_up_to()]);
                self.add_unreadable(file, Some(position), NOT_UTF8);
            }
            Ok(text) => match check_depth(parse_json_or_text(text)) {
                Ok(value) => self.items.push((key, value)),
                Err(why) => self.add_unreadable(file, None, &why),
            },
        }
    }

    /// Adds lines of `{"key": …, "value": …}`. A value is JSON, or a string that may itself be JSON.
    fn add_lines(&mut self, file: &Path, bytes: &[u8]) {
        for (line, number) in bytes.split(|byte| *byte == b'\n').zip(1..) {
            if line.trim_ascii().is_empty() {
                continue;
            }
            match parse_line(line) {
                Ok(item) => self.items.push(item),
                Err((column, why)) => self.add_unreadable(file, Some((number, column)), &why),
            }
        }
    }

    fn add_unreadable(&mut self, file: &Path, position: Option<(usize, usize)>, why: &str) {
        let (line, column) = position.unzip();
        self.unreadable.push(Unreadable { file: file.to_owned(), line, column, why: why.to_owned() });
    }
}

const NOT_UTF8: &str = "not UTF-8 from here on";

/// The key that a file's path stands for.
fn key_of(root: &Path, file: &Path) -> Option<String> {
    let components = file.strip_prefix(root).ok()?.iter().map(|component| component.to_str());
    let key = components.collect::<Option<Vec<_>>>()?.join(".");
    let without_extension = key.strip_suffix(".json").or_else(|| key.strip_suffix(".txt"));
    Some(without_extension.map(str::to_owned).unwrap_or(key))
}

/// Parses a line. Returns the column of what is wrong, and what it is.
fn parse_line(line: &[u8]) -> Result<(String, Value), (usize, String)> {
    let text = std::str::from_utf8(line)
        .map_err(|error| (position_after(&line[..error.valid_up_to()]).1, NOT_UTF8.to_owned()))?;
    let at_start = |why: &str| (1, why.to_owned());
    let mut item: Value = serde_json::from_str(text).map_err(|error| {
        let why = error.to_string();
        // serde_json sees one line, so its own position says line 1; it is cut off.
        let why = why.rsplit_once(" at line ").map_or(why.as_str(), |(why, _)| why).to_owned();
        (count_characters(text, error.column()), why)
    })?;
    let key = item.get("key").and_then(Value::as_str).map(str::to_owned);
    let key = key.ok_or_else(|| at_start("no text `key`: a line is `{\"key\": …, \"value\": …}`"))?;
    let value = item.get_mut("value").map(Value::take);
    let value = match value.ok_or_else(|| at_start("no `value`: a line is `{\"key\": …, \"value\": …}`"))?
    {
        Value::String(text) => parse_json_or_text(&text),
        value => value,
    };
    Ok((key, check_depth(value).map_err(|why| at_start(&why))?))
}

/// Refuses a value that is nested too deeply for the readers of the migrated document.
fn check_depth(value: Value) -> Result<Value, String> {
    if exceeds_depth(&value, MAX_INPUT_DEPTH) {
        return Err(format!("nested more than {MAX_INPUT_DEPTH} levels deep"));
    }
    Ok(value)
}

/// Converts a count of bytes, as serde_json gives it, into a count of characters.
fn count_characters(text: &str, bytes: usize) -> usize {
    let end = (0..=bytes.min(text.len())).rev().find(|end| text.is_char_boundary(*end)).unwrap_or(0);
    text[..end].chars().count().max(1)
}

/// Line and column after these bytes.
fn position_after(before: &[u8]) -> (usize, usize) {
    let text = String::from_utf8_lossy(before);
    let last = text.rsplit('\n').next().unwrap_or_default();
    (text.matches('\n').count() + 1, last.chars().count() + 1)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_bad_line_is_reported_with_its_position_and_the_rest_is_read() {
        let mut dump = Dump::default();
        let text = "{\"key\": \"a\", \"value\": \"{\\\"b\\\": 1}\"}\n\n{\"key\": \"ä\", value}\n{\"value\": 1}\n\
                    {\"key\": \"b\", \"value_base64\": \"eA==\"}\n{\"key\": \"c\", \"value\": \"3\", \"revision\": 4}";
        dump.add_lines(Path::new("dump.jsonl"), text.as_bytes());
        assert_eq!(dump.items, [("a".to_owned(), json!({"b": 1})), ("c".to_owned(), json!("3"))]);
        let unreadable: Vec<_> = dump
            .unreadable
            .iter()
            .map(|it| (it.line.unwrap(), it.column.unwrap(), it.why.as_str()))
            .collect();
        let shape = "a line is `{\"key\": …, \"value\": …}`";
        assert_eq!(
            unreadable,
            [
                (3, 14, "key must be a string"),
                (4, 1, format!("no text `key`: {shape}").as_str()),
                (5, 1, format!("no `value`: {shape}").as_str()),
            ]
        );
    }

    #[test]
    fn a_value_that_is_nested_too_deeply_is_reported_and_the_rest_is_read() {
        let root = tempfile::tempdir().unwrap();
        let nested = |depth| format!("{}1{}", "[".repeat(depth), "]".repeat(depth));
        let mut dump = Dump::default();
        let line = |key: &str, depth| format!("{{\"key\": \"{key}\", \"value\": {}}}\n", nested(depth));
        dump.add_lines(Path::new("dump.jsonl"), (line("a", 101) + &line("b", 100)).as_bytes());
        fs::write(root.path().join("c"), nested(101)).unwrap();
        dump.add_directory(root.path()).unwrap();
        let keys: Vec<_> = dump.items.iter().map(|(key, _)| key.as_str()).collect();
        assert_eq!((keys, dump.unreadable.len()), (vec!["b"], 2));
        assert_eq!(
            (dump.unreadable[0].line, dump.unreadable[0].why.as_str()),
            (Some(1), "nested more than 100 levels deep")
        );
    }

    #[test]
    fn a_directory_has_its_keys_as_file_names_or_paths() {
        let root = tempfile::tempdir().unwrap();
        let write = |path: &str, bytes: &[u8]| {
            let path = root.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, bytes).unwrap();
        };
        write("peer.spec.a.cycle.1", b"{}");
        write("peer.spec.a.cycle.2.json", b"[1]");
        write("peer/spec/b/cycle/1/plan", b"do it\n");
        write("peer:spec:c:cycle:1", b"\"x\"");
        write("odd", b"a\nb\xff");
        std::os::unix::fs::symlink("/", root.path().join("link")).unwrap();
        let mut dump = Dump::read(root.path()).unwrap();
        dump.items.sort_by(|(one, _), (other, _)| one.cmp(other));
        let expected = [
            ("peer.spec.a.cycle.1", json!({})),
            ("peer.spec.a.cycle.2", json!([1])),
            ("peer.spec.b.cycle.1.plan", json!("do it\n")),
            ("peer:spec:c:cycle:1", json!("x")),
        ];
        assert_eq!(dump.items, expected.map(|(key, value)| (key.to_owned(), value)));
        dump.unreadable.sort_by(|one, other| one.file.cmp(&other.file));
        assert_eq!(dump.unreadable.len(), 2);
        assert_eq!((dump.unreadable[1].line, dump.unreadable[1].column), (Some(2), Some(2)));
        assert!(Dump::read(&root.path().join("nowhere")).is_err());
    }
}
