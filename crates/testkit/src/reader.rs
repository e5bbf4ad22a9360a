//! A reader beside the run: whatever it sees of `run_state.json` must be whole and keep the seed's rules.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use serde_json::Value;

use crate::wait::Watch;

/// It reads after every event, and at least this often: events alone would never show the file between two of them.
const PACE: Duration = Duration::from_millis(1);

/// What a reader saw.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Seen {
    pub reads: u64,
    /// How many different contents there were.
    pub versions: u64,
    pub bad: Vec<String>,
}

/// Reads a view in a thread of its own until it is asked what it saw.
#[derive(Debug)]
pub struct ViewReader {
    stop: Arc<AtomicBool>,
    thread: JoinHandle<Seen>,
}

impl ViewReader {
    /// Begins to read. The view need not be there yet, but once it was it must stay.
    pub fn start(view: &Path) -> Self {
        let directory = view.parent().expect("a view lies in a directory");
        fs::create_dir_all(directory).expect("the view's directory can be made");
        let watch = Watch::new(directory).expect("the view's directory can be watched");
        let stop = Arc::new(AtomicBool::new(false));
        let (view, stopped) = (view.to_owned(), stop.clone());
        Self { stop, thread: std::thread::spawn(move || read(&view, &watch, &stopped)) }
    }

    pub fn finish(self) -> Seen {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.join().expect("the reader does not panic")
    }

    /// Ends the reading; fails if it ever saw something bad, or nothing at all.
    #[track_caller]
    pub fn expect_whole_views(self) -> Seen {
        let seen = self.finish();
        assert!(seen.bad.is_empty(), "a reader saw bad views: {:#?}", seen.bad);
        assert!(seen.versions > 0, "the reader saw nothing: {seen:?}");
        seen
    }
}

fn read(view: &PathBuf, watch: &Watch, stop: &AtomicBool) -> Seen {
    let mut seen = Seen::default();
    let mut last = None;
    loop {
        // EngineRequest before the look: the last look comes after whatever was done before we were stopped.
        let stopped = stop.load(Ordering::Relaxed);
        match fs::read(view) {
            Ok(bytes) => {
                seen.reads += 1;
                if last.as_ref() != Some(&bytes) {
                    seen.versions += 1;
                    seen.bad.extend(fault(&bytes));
                    last = Some(bytes);
                }
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound && last.is_none() => {}
            Err(error) => seen.bad.push(error.to_string()),
        }
        if stopped || seen.bad.len() > 10 {
            return seen;
        }
        watch.wait(PACE);
    }
}

/// What is wrong with a view.
fn fault(bytes: &[u8]) -> Option<String> {
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

#[cfg(test)]
mod tests {
    use super::*;

    fn saw(before: &[u8], after: impl FnOnce(&Path)) -> Vec<String> {
        let directory = tempfile::tempdir().unwrap();
        let view = directory.path().join("run_state.json");
        fs::write(&view, before).unwrap();
        let reader = ViewReader::start(&view);
        after(&view);
        reader.finish().bad
    }

    #[test]
    fn a_torn_view_and_one_without_its_fields_are_noticed() {
        assert_eq!(
            saw(b"{\"run_id\": ", |_| {}),
            ["11 bytes: EOF while parsing a value at line 1 column 11"]
        );
        assert_eq!(saw(b"", |_| {}), ["0 bytes: EOF while parsing a value at line 1 column 0"]);
        assert_eq!(saw(b"{}\n", |_| {}), ["`steps` is no object, or empty"]);
        let foreign = saw(b"{\"steps\": {\"a\": {\"status\": \"DONE\"}}}\n", |_| {});
        assert!(foreign.len() == 1 && foreign[0].contains("run_id"), "{foreign:?}");
    }
}
