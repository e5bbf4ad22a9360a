//! Partial reports: what an attempt has so far, handed in while it works.
//!
//! Only the newest counts. The agent replaces one file; the engine takes it away by a rename before it reads, so that a
//! newer one that comes meanwhile is a file of its own, and an engine that is killed in between leaves what it had taken.

use std::fs;
use std::io::{self, Read as _};

use serde_json::{Map, Value};

use crate::dir::AttemptDir;
use crate::report::{self, LARGEST};
use crate::whole;

/// Why a partial report was refused.
#[derive(Debug, thiserror::Error)]
pub enum PartialError {
    #[error("the part has {size} bytes, the limit is {LARGEST}")]
    TooLarge { size: usize },
    #[error("the part is not a JSON object")]
    NotAnObject(#[source] serde_json::Error),
    #[error("could not write `{path}`")]
    Write { path: String, source: io::Error },
}

/// Checks a partial report and keeps it for the engine, in the place of the one before.
pub fn submit_partial(dir: &AttemptDir, bytes: &[u8]) -> Result<(), PartialError> {
    if bytes.len() as u64 > LARGEST {
        return Err(PartialError::TooLarge { size: bytes.len() });
    }
    serde_json::from_slice::<Map<String, Value>>(bytes).map_err(PartialError::NotAnObject)?;
    let path = dir.partial();
    whole::replace(&path, bytes)
        .map_err(|source| PartialError::Write { path: path.display().to_string(), source })
}

/// Whether there is one that nobody has taken.
pub fn has_partial(dir: &AttemptDir) -> bool {
    dir.partial().exists()
}

/// Takes the newest partial report, or the one that was taken and never [`entered`]. `None` if there is none that
/// can be read: what an agent says on the way is not worth an attempt.
pub fn take_partial(dir: &AttemptDir) -> Option<Value> {
    match fs::rename(dir.partial(), dir.partial_taken()) {
        Ok(()) => {}
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        Err(_) => return None,
    }
    let (file, _) = report::open(&dir.partial_taken()).ok()??;
    let mut bytes = Vec::new();
    file.take(LARGEST).read_to_end(&mut bytes).ok()?;
    serde_json::from_slice(&bytes).ok()
}

/// The one that was taken is safe in the store: it need not be offered again.
pub fn entered(dir: &AttemptDir) {
    // Should it be offered again all the same, it changes nothing.
    let _ = fs::remove_file(dir.partial_taken());
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn of_several_the_newest_is_taken_and_one_that_was_not_entered_is_offered_again() {
        let root = tempfile::tempdir().unwrap();
        let dir = AttemptDir::at(root.path());
        assert_eq!(take_partial(&dir), None);
        submit_partial(&dir, br#"{"step": 1}"#).unwrap();
        submit_partial(&dir, br#"{"step": 2}"#).unwrap();
        assert!(has_partial(&dir));
        assert_eq!(take_partial(&dir), Some(json!({"step": 2})));
        assert!(!has_partial(&dir));
        assert_eq!(take_partial(&dir), Some(json!({"step": 2})), "its engine may have been killed");
        submit_partial(&dir, br#"{"step": 3}"#).unwrap();
        assert_eq!(take_partial(&dir), Some(json!({"step": 3})));
        entered(&dir);
        assert_eq!(take_partial(&dir), None);
    }

    #[test]
    fn what_is_no_object_is_refused_and_the_one_before_stays() {
        let root = tempfile::tempdir().unwrap();
        let dir = AttemptDir::at(root.path());
        submit_partial(&dir, b"{}").unwrap();
        for bad in [&b"[1]"[..], b"{", b"", b"7"] {
            assert!(matches!(submit_partial(&dir, bad), Err(PartialError::NotAnObject(_))));
        }
        assert_eq!(take_partial(&dir), Some(json!({})));
    }
}
