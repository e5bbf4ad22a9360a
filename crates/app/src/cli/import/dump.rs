//! Reading a dump: keys and values from a directory, from JSON lines, or from the temp files of old. What cannot be read is
//! named with its place, and the rest is read all the same.

use std::fs;
use std::io::Read as _;
use std::path::{Path, PathBuf};

use protocol::depth::{DEEPEST_GIVEN, is_deeper};
use protocol::peer::migrate::{TEMP_FILES, value_of};
use serde::Serialize;
use serde_json::Value;

use store::LiveEntry;

use crate::failure::Failure;

/// Under which key a bucket has our part of an entry.
const OURS: &str = "callboard";

/// The keys of a dump, and what is no key.
#[derive(Debug, Default)]
pub(super) struct Dump {
    pub(super) items: Vec<(String, Value)>,
    pub(super) unread: Vec<Unread>,
}

/// Something that could not be read.
#[derive(Debug, Serialize, PartialEq, Eq)]
pub(super) struct Unread {
    pub(super) file: PathBuf,
    /// From 1; columns count characters. None if it is about the file as a whole.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) line: Option<usize>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) column: Option<usize>,
    pub(super) why: String,
}

impl Dump {
    /// Reads a directory, a file of JSON lines, or those from standard input (`-`).
    pub(super) fn read(path: &Path) -> Result<Self, Failure> {
        let failed = |error: &std::io::Error| {
            Failure::usage(format!("cannot read the dump `{}`", path.display())).because(Some(error)).hint(
                "a dump is a directory with a file per key, or a file of lines `{\"key\": …, \"value\": …}`; \
                 `nats://HOST:PORT` reads the bucket itself",
            )
        };
        let mut dump = Self::default();
        if path == Path::new("-") {
            let mut bytes = Vec::new();
            std::io::stdin().lock().read_to_end(&mut bytes).map_err(|error| failed(&error))?;
            dump.lines(Path::new("<stdin>"), &bytes);
        } else if fs::metadata(path).map_err(|error| failed(&error))?.is_dir() {
            dump.directory(path).map_err(|error| failed(&error))?;
        } else {
            let bytes = fs::read(path).map_err(|error| failed(&error))?;
            dump.lines(path, &bytes);
        }
        Ok(dump)
    }

    /// Takes the entries of a bucket that is in use.
    pub(super) fn of_bucket(server: &str, bucket: &str, entries: &[LiveEntry]) -> Self {
        let mut dump = Self::default();
        for LiveEntry { key, value, .. } in entries {
            let place = PathBuf::from(format!("{server}/{bucket}/{key}"));
            match std::str::from_utf8(value) {
                Err(error) => {
                    let place_of = self::place(&value[..error.valid_up_to()]);
                    dump.unread(&place, Some(place_of), "it is not UTF-8 from here on");
                }
                Ok(text) => match shallow(value_of(text)) {
                    Ok(mut value) => {
                        // Our own entries carry what the engine needs besides the document.
                        if let Some(document) = value.as_object_mut() {
                            document.remove(OURS);
                        }
                        dump.items.push((key.clone(), value));
                    }
                    Err(why) => dump.unread(&place, None, &why),
                },
            }
        }
        dump
    }

    /// Adds the temp files of the scripts of old, as far as they are there.
    pub(super) fn add_temp_files(&mut self, directory: &Path) -> Result<(), Failure> {
        let files = TEMP_FILES.map(|name| directory.join(name));
        let before = self.items.len() + self.unread.len();
        for file in files.iter().filter(|file| file.exists()) {
            self.file(directory, file);
        }
        if self.items.len() + self.unread.len() > before {
            return Ok(());
        }
        Err(Failure::usage(format!("there are none of the temp files in `{}`", directory.display()))
            .hint(format!("they are called {}", TEMP_FILES.map(|name| format!("`{name}`")).join(", "))))
    }

    /// A file per key, named by it as a whole or by its path.
    fn directory(&mut self, root: &Path) -> std::io::Result<()> {
        let mut open = vec![root.to_owned()];
        while let Some(directory) = open.pop() {
            for entry in fs::read_dir(directory)? {
                let entry = entry?;
                let kind = entry.file_type()?;
                if kind.is_dir() {
                    open.push(entry.path());
                } else if kind.is_file() {
                    self.file(root, &entry.path());
                } else {
                    self.unread(
                        &entry.path(),
                        None,
                        "it is neither a file nor a directory; links are not followed",
                    );
                }
            }
        }
        Ok(())
    }

    fn file(&mut self, root: &Path, file: &Path) {
        let Some(key) = key_of(root, file) else {
            return self.unread(file, None, "its name is not UTF-8, so it is no key");
        };
        match fs::read(file) {
            Err(error) => self.unread(file, None, &error.to_string()),
            Ok(bytes) => match String::from_utf8(bytes) {
                Ok(text) => match shallow(value_of(&text)) {
                    Ok(value) => self.items.push((key, value)),
                    Err(why) => self.unread(file, None, &why),
                },
                Err(error) => {
                    let good = error.utf8_error().valid_up_to();
                    let place = place(&error.as_bytes()[..good]);
                    self.unread(file, Some(place), "it is not UTF-8 from here on");
                }
            },
        }
    }

    /// `{"key": …, "value": …}` per line; a value is JSON, or a text that may itself be JSON.
    fn lines(&mut self, file: &Path, bytes: &[u8]) {
        for (line, number) in bytes.split(|byte| *byte == b'\n').zip(1..) {
            if line.trim_ascii().is_empty() {
                continue;
            }
            match item(line) {
                Ok(item) => self.items.push(item),
                Err((column, why)) => self.unread(file, Some((number, column)), &why),
            }
        }
    }

    fn unread(&mut self, file: &Path, place: Option<(usize, usize)>, why: &str) {
        let (line, column) = place.unzip();
        self.unread.push(Unread { file: file.to_owned(), line, column, why: why.to_owned() });
    }
}

/// The key that a file's name stands for.
fn key_of(root: &Path, file: &Path) -> Option<String> {
    let name = file.file_name()?.to_str()?;
    if TEMP_FILES.contains(&name) {
        return Some(name.to_owned());
    }
    let tokens = file.strip_prefix(root).ok()?.iter().map(|token| token.to_str());
    let key = tokens.collect::<Option<Vec<_>>>()?.join(".");
    let bare = key.strip_suffix(".json").or_else(|| key.strip_suffix(".txt"));
    Some(bare.map(str::to_owned).unwrap_or(key))
}

fn item(line: &[u8]) -> Result<(String, Value), (usize, String)> {
    let text = std::str::from_utf8(line).map_err(|error| {
        (place(&line[..error.valid_up_to()]).1, "it is not UTF-8 from here on".to_owned())
    })?;
    let at_start = |why: &str| (1, why.to_owned());
    let mut item: Value = serde_json::from_str(text).map_err(|error| {
        let why = error.to_string();
        // We know the line better: to serde_json it is always the first.
        let why = why.rsplit_once(" at line ").map_or(why.as_str(), |(why, _)| why).to_owned();
        (characters(text, error.column()), why)
    })?;
    let key = item.get("key").and_then(Value::as_str).map(str::to_owned);
    let key = key.ok_or_else(|| at_start("it has no text `key`: a line is `{\"key\": …, \"value\": …}`"))?;
    let value = item.get_mut("value").map(Value::take);
    let value = match value
        .ok_or_else(|| at_start("it has no `value`: a line is `{\"key\": …, \"value\": …}`"))?
    {
        Value::String(text) => value_of(&text),
        value => value,
    };
    Ok((key, shallow(value).map_err(|why| at_start(&why))?))
}

/// The value, unless it is nested so deeply that nobody could read what becomes of it.
fn shallow(value: Value) -> Result<Value, String> {
    if is_deeper(&value, DEEPEST_GIVEN) {
        return Err(format!("it is nested in more than {DEEPEST_GIVEN} layers"));
    }
    Ok(value)
}

/// serde_json counts bytes, people count characters.
fn characters(text: &str, bytes: usize) -> usize {
    let end = (0..=bytes.min(text.len())).rev().find(|end| text.is_char_boundary(*end)).unwrap_or(0);
    text[..end].chars().count().max(1)
}

/// Line and column behind these bytes.
fn place(before: &[u8]) -> (usize, usize) {
    let text = String::from_utf8_lossy(before);
    let last = text.rsplit('\n').next().unwrap_or_default();
    (text.matches('\n').count() + 1, last.chars().count() + 1)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn bad_lines_are_named_with_their_place_and_the_rest_is_read() {
        let mut dump = Dump::default();
        let text = "{\"key\": \"a\", \"value\": \"{\\\"b\\\": 1}\"}\n\n{\"key\": \"ä\", value}\n{\"value\": 1}\n\
                    {\"key\": \"b\", \"value_base64\": \"eA==\"}\n{\"key\": \"c\", \"value\": \"3\", \"revision\": 4}";
        dump.lines(Path::new("dump.jsonl"), text.as_bytes());
        assert_eq!(dump.items, [("a".to_owned(), json!({"b": 1})), ("c".to_owned(), json!("3"))]);
        let unread: Vec<_> =
            dump.unread.iter().map(|it| (it.line.unwrap(), it.column.unwrap(), it.why.as_str())).collect();
        let shape = "a line is `{\"key\": …, \"value\": …}`";
        assert_eq!(
            unread,
            [
                (3, 14, "key must be a string"),
                (4, 1, format!("it has no text `key`: {shape}").as_str()),
                (5, 1, format!("it has no `value`: {shape}").as_str()),
            ]
        );
    }

    #[test]
    fn what_is_nested_without_end_is_named_and_the_rest_is_read() {
        let root = tempfile::tempdir().unwrap();
        let nested = |depth| format!("{}1{}", "[".repeat(depth), "]".repeat(depth));
        let mut dump = Dump::default();
        let line = |key: &str, depth| format!("{{\"key\": \"{key}\", \"value\": {}}}\n", nested(depth));
        dump.lines(Path::new("dump.jsonl"), (line("a", 101) + &line("b", 100)).as_bytes());
        fs::write(root.path().join("c"), nested(101)).unwrap();
        dump.directory(root.path()).unwrap();
        let keys: Vec<_> = dump.items.iter().map(|(key, _)| key.as_str()).collect();
        assert_eq!((keys, dump.unread.len()), (vec!["b"], 2));
        assert_eq!(
            (dump.unread[0].line, dump.unread[0].why.as_str()),
            (Some(1), "it is nested in more than 100 layers")
        );
    }

    #[test]
    fn a_directory_names_its_keys_by_files_or_by_paths() {
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
        write("tmp/peer_args.txt", b"INSTRUCTION=x");
        write("odd", b"a\nb\xff");
        std::os::unix::fs::symlink("/", root.path().join("link")).unwrap();
        let mut dump = Dump::read(root.path()).unwrap();
        dump.items.sort_by(|(one, _), (other, _)| one.cmp(other));
        let expected = [
            ("peer.spec.a.cycle.1", json!({})),
            ("peer.spec.a.cycle.2", json!([1])),
            ("peer.spec.b.cycle.1.plan", json!("do it\n")),
            ("peer:spec:c:cycle:1", json!("x")),
            ("peer_args.txt", json!("INSTRUCTION=x")),
        ];
        assert_eq!(dump.items, expected.map(|(key, value)| (key.to_owned(), value)));
        dump.unread.sort_by(|one, other| one.file.cmp(&other.file));
        assert_eq!(dump.unread.len(), 2);
        assert_eq!((dump.unread[1].line, dump.unread[1].column), (Some(2), Some(2)));
        assert!(Dump::read(&root.path().join("nowhere")).is_err());
    }
}
