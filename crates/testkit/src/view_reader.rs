//! A thread that reads `run_state.json` during a run: every version must be complete and keep the rules of `steps`.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use serde_json::Value;

use crate::wait::Watch;

/// The longest time between two reads. Reading only after file events would miss versions, because the file may change
/// again before the read.
const READ_INTERVAL: Duration = Duration::from_millis(1);

/// What a reader has seen.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ReadStats {
    pub reads: u64,
    /// The number of different contents.
    pub versions: u64,
    /// What was wrong with the content that was read.
    pub bad: Vec<String>,
}

/// Reads a view in a thread until it is stopped.
#[derive(Debug)]
pub struct ViewReader {
    stop: Arc<AtomicBool>,
    thread: JoinHandle<ReadStats>,
}

impl ViewReader {
    /// Starts reading. The view may be missing at first, but not later.
    pub fn start(view: &Path) -> Self {
        let directory = view.parent().expect("a view lies in a directory");
        fs::create_dir_all(directory).expect("the view's directory can be made");
        let watch = Watch::new(directory).expect("the view's directory can be watched");
        let stop = Arc::new(AtomicBool::new(false));
        let (view, stopped) = (view.to_owned(), stop.clone());
        Self { stop, thread: std::thread::spawn(move || read(&view, &watch, &stopped)) }
    }

    /// Stops reading and returns what was seen.
    pub fn finish(self) -> ReadStats {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.join().expect("the reader does not panic")
    }

    /// Stops reading. Fails if it has seen a bad view, or none.
    #[track_caller]
    pub fn expect_whole_views(self) -> ReadStats {
        let seen = self.finish();
        assert!(seen.bad.is_empty(), "a reader saw bad views: {:#?}", seen.bad);
        assert!(seen.versions > 0, "the reader saw nothing: {seen:?}");
        seen
    }
}

fn read(view: &PathBuf, watch: &Watch, stop: &AtomicBool) -> ReadStats {
    let mut stats = ReadStats::default();
    let mut last = None;
    loop {
        // Checked before the read, so that the last read follows everything that happened before the stop.
        let stopped = stop.load(Ordering::Relaxed);
        match fs::read(view) {
            Ok(bytes) => {
                stats.reads += 1;
                if last.as_ref() != Some(&bytes) {
                    stats.versions += 1;
                    stats.bad.extend(problem(&bytes));
                    last = Some(bytes);
                }
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound && last.is_none() => {}
            Err(error) => stats.bad.push(error.to_string()),
        }
        if stopped || stats.bad.len() > 10 {
            return stats;
        }
        watch.wait(READ_INTERVAL);
    }
}

/// Returns the first thing that is wrong with a view; `None` if it is whole and valid.
fn problem(bytes: &[u8]) -> Option<String> {
    let document: Value = match serde_json::from_slice(bytes) {
        Ok(document) => document,
        Err(error) => return Some(format!("{} bytes: {error}", bytes.len())),
    };
    if !bytes.ends_with(b"}\n") {
        return Some("it does not end with a newline".to_owned());
    }
    if document["steps"].as_object().is_none_or(serde_json::Map::is_empty) {
        return Some("`steps` is no object, or empty".to_owned());
    }
    let violation = protocol::steps::check(&document).into_iter().next()?;
    Some(format!("{}: {} [{}]", violation.pointer, violation.message, violation.rule))
}
