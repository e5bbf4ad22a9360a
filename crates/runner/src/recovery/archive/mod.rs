//! A run as one file: its spec, its journal, and the files of its attempts.
//!
//! The archive is a plain tar: `manifest.json` first, then `definition.json` (the run spec), `journal.jsonl` (one
//! stored entry per line) and `attempts/STEP/TURN.ATTEMPT/…`. The same run gives the same bytes. Parts, snapshots and
//! outbox are left out, because the journal gives them. So are launch files, whose variables may hold secrets, and
//! claims, which name processes of one machine.

mod read;
mod write;

use std::collections::BTreeMap;

use protocol::{AttemptId, AttemptNo, RunId, StepId, Timestamp, Turn};
use serde::{Deserialize, Serialize};
use store::Digest;

pub use read::{ImportError, ImportTarget, Imported, Unpacked, import, unpack};
pub use write::{ExportError, Logs, export};

/// The format this version writes, and the newest it reads.
const FORMAT: u32 = 1;

const MANIFEST: &str = "manifest.json";
const DEFINITION: &str = "definition.json";
const JOURNAL: &str = "journal.jsonl";
const ATTEMPTS: &str = "attempts";

/// The files of an attempt that are archived.
const ATTEMPT_FILES: [&str; 6] =
    ["prompt.md", "context.json", "report.json", "submitted.json", "reports.jsonl", "exit.json"];
const LOGS: [&str; 3] = ["stdout.log", "stderr.log", "shim.log"];

/// The contents of an archive.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Manifest {
    pub callboard_archive: u32,
    pub run: RunId,
    pub protocol: String,
    /// The host that wrote the archive.
    pub host: String,
    /// When the run was created.
    pub created_at: Timestamp,
    pub entries: u64,
    /// Attempts whose files are missing, by the host that has them.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub remote: BTreeMap<String, Vec<AttemptId>>,
    /// All other files, in their order.
    pub files: Vec<ArchivedFile>,
}

/// One file of an archive.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ArchivedFile {
    pub path: String,
    pub bytes: u64,
    pub sha256: Digest,
}

/// Parses the path of an attempt's file. Returns `None` for any other path, so that none leads out of the archive.
fn parse_attempt_path(path: &str) -> Option<(AttemptId, &'static str)> {
    let mut names = path.split('/');
    let [attempts, step, number, file] = [names.next()?, names.next()?, names.next()?, names.next()?];
    if attempts != ATTEMPTS || names.next().is_some() {
        return None;
    }
    let (turn, attempt_no) = number.split_once('.')?;
    let parse_number = |text: &str| text.parse::<u32>().ok().filter(|number| number.to_string() == text);
    let attempt = AttemptId {
        step: StepId::new(step).ok()?,
        turn: Turn(parse_number(turn)?),
        attempt_no: AttemptNo(parse_number(attempt_no)?),
    };
    let file = ATTEMPT_FILES.iter().chain(&LOGS).find(|known| **known == file)?;
    Some((attempt, file))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_paths_of_attempt_files_are_accepted() {
        assert!(parse_attempt_path("attempts/plan/1.2/report.json").is_some());
        for path in [
            "attempts/../1.1/report.json",
            "attempts/plan/1.1/../../x",
            "/attempts/plan/1.1/report.json",
            "attempts/plan/1.1/claim",
            "attempts/plan/01.1/report.json",
            "attempts/plan/1.1/report.json/x",
            "attempts/.hidden/1.1/report.json",
            "else/plan/1.1/report.json",
        ] {
            assert!(parse_attempt_path(path).is_none(), "{path}");
        }
    }
}
