//! Partial reports: results that an agent submits while it works.
//!
//! Only the newest counts, so the agent replaces one file. The engine renames this file before reading: a newer one does
//! not overwrite it, and if the engine is killed before its commit, the next engine finds it.

use std::fs;
use std::io::{self, Read as _};

use serde_json::{Map, Value};

use super::dir::AttemptDir;
use super::report::{self, MAX_REPORT_SIZE};
use crate::atomic_file;

/// Why a partial report was refused.
#[derive(Debug, thiserror::Error)]
pub enum PartialError {
    #[error("the partial report has {size} bytes, the limit is {MAX_REPORT_SIZE}")]
    TooLarge { size: usize },
    #[error("the partial report is not a JSON object")]
    NotAnObject(#[source] serde_json::Error),
    #[error("could not write `{path}`")]
    Write { path: String, source: io::Error },
}

/// Checks a partial report and stores it for the engine. It replaces the one before.
pub fn submit_partial(dir: &AttemptDir, bytes: &[u8]) -> Result<(), PartialError> {
    if bytes.len() as u64 > MAX_REPORT_SIZE {
        return Err(PartialError::TooLarge { size: bytes.len() });
    }
    serde_json::from_slice::<Map<String, Value>>(bytes).map_err(PartialError::NotAnObject)?;
    let path = dir.partial();
    atomic_file::replace_file(&path, bytes)
        .map_err(|source| PartialError::Write { path: path.display().to_string(), source })
}

/// Whether there is a partial report that the engine has not taken.
pub fn has_partial(dir: &AttemptDir) -> bool {
    dir.partial().exists()
}

/// Takes the newest partial report, or the one that was taken and never [discarded](discard_taken). Returns `None` if
/// there is none or it is unreadable: a bad partial report does not cost an attempt.
pub fn take_partial(dir: &AttemptDir) -> Option<Value> {
    match fs::rename(dir.partial(), dir.partial_taken()) {
        Ok(()) => {}
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        Err(_) => return None,
    }
    let (file, _) = report::open_agent_file(&dir.partial_taken()).ok()??;
    let mut bytes = Vec::new();
    file.take(MAX_REPORT_SIZE).read_to_end(&mut bytes).ok()?;
    serde_json::from_slice(&bytes).ok()
}

/// Discards the taken partial report, after it was committed.
pub fn discard_taken(dir: &AttemptDir) {
    // If this fails, the report is committed again, which changes nothing.
    let _ = fs::remove_file(dir.partial_taken());
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_newest_is_taken_and_one_that_was_not_discarded_is_taken_again() {
        let root = tempfile::tempdir().unwrap();
        let dir = AttemptDir::at(root.path());
        assert_eq!(take_partial(&dir), None);
        submit_partial(&dir, br#"{"step": 1}"#).unwrap();
        submit_partial(&dir, br#"{"step": 2}"#).unwrap();
        assert!(has_partial(&dir));
        assert_eq!(take_partial(&dir), Some(json!({"step": 2})));
        assert!(!has_partial(&dir));
        assert_eq!(take_partial(&dir), Some(json!({"step": 2})), "the engine may have been killed");
        submit_partial(&dir, br#"{"step": 3}"#).unwrap();
        assert_eq!(take_partial(&dir), Some(json!({"step": 3})));
        discard_taken(&dir);
        assert_eq!(take_partial(&dir), None);
    }

    #[test]
    fn what_is_not_an_object_is_refused_and_the_one_before_stays() {
        let root = tempfile::tempdir().unwrap();
        let dir = AttemptDir::at(root.path());
        submit_partial(&dir, b"{}").unwrap();
        for bad in [&b"[1]"[..], b"{", b"", b"7"] {
            assert!(matches!(submit_partial(&dir, bad), Err(PartialError::NotAnObject(_))));
        }
        assert_eq!(take_partial(&dir), Some(json!({})));
    }
}
