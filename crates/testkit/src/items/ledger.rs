//! The effect of `items`: a line in the file `ledger` of the repository. The line begins with the key of the effect, so that a
//! repetition finds it.

use std::fs::{self, OpenOptions};
use std::io::{self, Write as _};
use std::path::PathBuf;

use runner::{PendingEffect, PerformEffect};
use serde_json::{Map, Value};

/// Appends a line per effect.
#[derive(Debug, Clone, Copy)]
pub struct Ledger;

impl Ledger {
    fn path(pending_effect: &PendingEffect) -> PathBuf {
        pending_effect.repo_dir.join("ledger")
    }

    /// Returns the index of the line with the key of this effect.
    fn line(pending_effect: &PendingEffect) -> io::Result<Option<usize>> {
        let text = match fs::read_to_string(Self::path(pending_effect)) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            text => text?,
        };
        let key = pending_effect.key();
        Ok(text.lines().position(|line| line.split_once(' ').is_some_and(|(found, _)| found == key)))
    }

    fn append(pending_effect: &PendingEffect) -> io::Result<()> {
        let mut file = OpenOptions::new().create(true).append(true).open(Self::path(pending_effect))?;
        let name = pending_effect.arguments["name"].as_str().unwrap_or_default();
        // One write: a line is there as a whole, or not at all.
        file.write_all(format!("{} {name}\n", pending_effect.key()).as_bytes())?;
        file.sync_all()
    }
}

impl PerformEffect for Ledger {
    fn find(&self, pending_effect: &PendingEffect) -> Result<Option<Map<String, Value>>, String> {
        let line = Self::line(pending_effect).map_err(|error| error.to_string())?;
        Ok(line.map(|line| Map::from_iter([("line".to_owned(), line.into())])))
    }

    fn perform(&self, pending_effect: &PendingEffect) -> Result<Map<String, Value>, String> {
        Self::append(pending_effect).map_err(|error| error.to_string())?;
        Ok(self.find(pending_effect)?.unwrap_or_default())
    }
}
