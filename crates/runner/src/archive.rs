//! A run as one file: what it was opened with, its journal, and what its attempts left behind.
//!
//! A plain tar, so that anybody can look inside: `manifest.json` first, then `definition.json`, `journal.jsonl` (one
//! entry a line, as it is stored) and `attempts/STEP/TURN.ATTEMPT/…`. The same run gives the same bytes. Parts, snapshots and
//! outbox are not in it: they are state again. Nor are launch files, whose variables may hold secrets, and claims,
//! which are about processes of one machine.

mod read;
mod write;

use std::collections::BTreeMap;

use protocol::{AttemptId, AttemptNo, RunId, Stamp, StepId, Turn};
use serde::{Deserialize, Serialize};
use store::Digest;

pub use read::{ImportError, ImportTarget, Imported, Unpacked, import, unpack};
pub use write::{ExportError, Logs, export};

/// The format this program writes, and the newest it reads.
const FORMAT: u32 = 1;

const MANIFEST: &str = "manifest.json";
const DEFINITION: &str = "definition.json";
const JOURNAL: &str = "journal.jsonl";
const ATTEMPTS: &str = "attempts";

/// The files of an attempt that go along.
const PAPERS: [&str; 5] = ["prompt.md", "context.json", "report.json", "submitted.json", "exit.json"];
const LOGS: [&str; 3] = ["stdout.log", "stderr.log", "shim.log"];

/// What is in an archive.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Manifest {
    pub callboard_archive: u32,
    pub run: RunId,
    pub protocol: String,
    /// Where it was written.
    pub host: String,
    pub created_at: Stamp,
    pub entries: u64,
    /// Attempts whose files are not in it, by the host that has them.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub remote: BTreeMap<String, Vec<AttemptId>>,
    /// Everything that follows, in this order.
    pub files: Vec<Listed>,
}

/// One file of an archive.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Listed {
    pub path: String,
    pub bytes: u64,
    pub sha256: Digest,
}

/// The attempt and the file a path names, if it is one that an archive may have. Anything else leads out of it.
fn paper(path: &str) -> Option<(AttemptId, &'static str)> {
    let mut names = path.split('/');
    let [attempts, step, number, file] = [names.next()?, names.next()?, names.next()?, names.next()?];
    if attempts != ATTEMPTS || names.next().is_some() {
        return None;
    }
    let (turn, attempt_no) = number.split_once('.')?;
    let count = |text: &str| text.parse::<u32>().ok().filter(|number| number.to_string() == text);
    let attempt = AttemptId {
        step: StepId::new(step).ok()?,
        turn: Turn(count(turn)?),
        attempt_no: AttemptNo(count(attempt_no)?),
    };
    let file = PAPERS.iter().chain(&LOGS).find(|known| **known == file)?;
    Some((attempt, file))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_files_that_an_attempt_has_are_let_in() {
        assert!(paper("attempts/plan/1.2/report.json").is_some());
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
            assert!(paper(path).is_none(), "{path}");
        }
    }
}
