//! The parts that the document is stored in. Lists that grow are cut into pieces of a fixed length, logs by iteration.

use std::collections::BTreeMap;

use serde::Serialize;
use serde::de::DeserializeOwned;

use super::{Document, EngineRecord, Feedback, FileChange, MasterFile};

/// Everything small: statuses, agents, iterations.
pub(in crate::cycle) const HEAD: &str = "head";
pub(in crate::cycle) const ENGINE: &str = "engine";
pub(in crate::cycle) const REQUIREMENTS: &str = "requirements";
pub(in crate::cycle) const EXPLORATION: &str = "exploration";
pub(in crate::cycle) const PLAN: &str = "plan";
pub(in crate::cycle) const TEST_RESULTS: &str = "test_results";
const CHANGES: &str = "changes/";
const FEEDBACK: &str = "feedback/";
const FILE: &str = "file/";
const LOG: &str = "log/";

/// How many entries of a list one part has.
const PIECE_LENGTH: usize = 64;

/// Returns the path of the part with an entry of `changes.changes`.
pub(in crate::cycle) fn changes_part(index: usize) -> String {
    format!("{CHANGES}{}", index / PIECE_LENGTH)
}

/// Returns the path of the part with an entry of `feedback_log`.
pub(in crate::cycle) fn feedback_part(index: usize) -> String {
    format!("{FEEDBACK}{}", index / PIECE_LENGTH)
}

pub(in crate::cycle) fn file_part(path: &str) -> String {
    format!("{FILE}{path}")
}

pub(in crate::cycle) fn log_part(path: &str, iteration: u32) -> String {
    format!("{LOG}{path}/{iteration}")
}

impl Document {
    /// Returns the paths of all parts.
    pub(in crate::cycle) fn part_paths(&self) -> Vec<String> {
        let sections = [HEAD, ENGINE, REQUIREMENTS, EXPLORATION, PLAN, TEST_RESULTS].map(str::to_owned);
        let mut paths = Vec::from(sections);
        let changes = self.master_file.changes.as_ref().map_or(0, |changes| changes.changes.len());
        paths.extend((0..changes).step_by(PIECE_LENGTH).map(changes_part));
        paths.extend(
            (0..self.master_file.coordination.feedback_log.len()).step_by(PIECE_LENGTH).map(feedback_part),
        );
        paths.extend(self.files.keys().map(|path| file_part(path)));
        paths.extend(
            self.logs.iter().flat_map(|(path, log)| log.keys().map(|iteration| log_part(path, *iteration))),
        );
        paths
    }

    pub(in crate::cycle) fn part(&self, path: &str) -> String {
        match path {
            HEAD => json(&self.head()),
            ENGINE => json(&self.engine),
            REQUIREMENTS => json(&self.master_file.requirements),
            EXPLORATION => json(&self.master_file.exploration),
            PLAN => json(&self.master_file.plan),
            TEST_RESULTS => json(&self.master_file.test_results),
            _ => self.list_or_file_part(path),
        }
    }

    /// Returns a part that is a piece of a list, a file or a piece of a log.
    fn list_or_file_part(&self, path: &str) -> String {
        if let Some(number) = path.strip_prefix(CHANGES) {
            let changes = self.master_file.changes.as_ref().map_or(&[][..], |changes| &changes.changes);
            json(&piece(changes, number))
        } else if let Some(number) = path.strip_prefix(FEEDBACK) {
            json(&piece(&self.master_file.coordination.feedback_log, number))
        } else if let Some(file) = path.strip_prefix(FILE) {
            json(&self.files.get(file))
        } else {
            let log = path.strip_prefix(LOG).and_then(|path| path.rsplit_once('/'));
            let text = log.and_then(|(path, iteration)| self.logs.get(path)?.get(&iteration.parse().ok()?));
            json(&text)
        }
    }

    /// Returns the master file without what other parts have.
    fn head(&self) -> MasterFile {
        let mut head = MasterFile {
            requirements: None,
            exploration: None,
            plan: None,
            test_results: None,
            ..self.master_file.clone()
        };
        head.coordination.feedback_log.clear();
        if let Some(changes) = &mut head.changes {
            changes.changes.clear();
        }
        head
    }

    pub(in crate::cycle) fn assemble(parts: &[(String, String)]) -> Option<Self> {
        let parts: BTreeMap<_, _> = parts.iter().map(|(path, body)| (path.as_str(), body.as_str())).collect();
        let mut master_file: MasterFile = read(parts.get(HEAD)?)?;
        let engine: EngineRecord = read(parts.get(ENGINE)?)?;
        master_file.requirements = section(&parts, REQUIREMENTS)?;
        master_file.exploration = section(&parts, EXPLORATION)?;
        master_file.plan = section(&parts, PLAN)?;
        master_file.test_results = section(&parts, TEST_RESULTS)?;
        master_file.coordination.feedback_log = pieces::<Feedback>(&parts, FEEDBACK)?;
        let entries = pieces::<FileChange>(&parts, CHANGES)?;
        if let Some(changes) = &mut master_file.changes {
            changes.changes = entries;
        }
        let mut document = Self { master_file, engine, files: BTreeMap::new(), logs: BTreeMap::new() };
        for (path, body) in parts {
            // A file or log that an import has removed is `null`.
            if let Some(file) = path.strip_prefix(FILE) {
                document.files.extend(read::<Option<String>>(body)?.map(|text| (file.to_owned(), text)));
            } else if let Some((log, iteration)) =
                path.strip_prefix(LOG).and_then(|path| path.rsplit_once('/'))
            {
                let Some(text) = read::<Option<String>>(body)? else { continue };
                document.logs.entry(log.to_owned()).or_default().insert(iteration.parse().ok()?, text);
            }
        }
        Some(document)
    }
}

fn piece<'a, T>(list: &'a [T], number: &str) -> &'a [T] {
    let number: usize = number.parse().unwrap_or(usize::MAX / PIECE_LENGTH);
    let from = (number * PIECE_LENGTH).min(list.len());
    &list[from..(from + PIECE_LENGTH).min(list.len())]
}

/// Reads a section, which is absent if it was never written. Returns the outer `None` if it is malformed.
fn section<T: DeserializeOwned>(parts: &BTreeMap<&str, &str>, path: &str) -> Option<Option<T>> {
    match parts.get(path) {
        None => Some(None),
        Some(body) => read(body),
    }
}

/// Reads the pieces of a list in their order.
fn pieces<T: DeserializeOwned>(parts: &BTreeMap<&str, &str>, prefix: &str) -> Option<Vec<T>> {
    let mut list = Vec::new();
    for number in 0.. {
        let Some(body) = parts.get(format!("{prefix}{number}").as_str()) else { break };
        list.extend(read::<Vec<T>>(body)?);
    }
    Some(list)
}

fn read<T: DeserializeOwned>(body: &str) -> Option<T> {
    serde_json::from_str(body).ok()
}

fn json(value: &impl Serialize) -> String {
    serde_json::to_string(value).expect("BUG: a document is plain data")
}
