//! The effect of `items`: a line in the file `ledger` of the repository, under the key of the effect.

use std::fs::{self, OpenOptions};
use std::io::{self, Write as _};
use std::path::PathBuf;

use runner::{EffectOrder, PerformEffect};
use serde_json::{Map, Value};

/// Appends a line per effect.
#[derive(Debug, Clone, Copy)]
pub struct Ledger;

impl Ledger {
    fn path(order: &EffectOrder) -> PathBuf {
        order.repo_dir.join("ledger")
    }

    /// Returns the number of the line with this key.
    fn line(order: &EffectOrder) -> io::Result<Option<usize>> {
        let text = match fs::read_to_string(Self::path(order)) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            text => text?,
        };
        let key = order.key();
        Ok(text.lines().position(|line| line.split_once(' ').is_some_and(|(found, _)| found == key)))
    }

    fn append(order: &EffectOrder) -> io::Result<()> {
        let mut file = OpenOptions::new().create(true).append(true).open(Self::path(order))?;
        let name = order.arguments["name"].as_str().unwrap_or_default();
        // One write: a line is there as a whole, or not at all.
        file.write_all(format!("{} {name}\n", order.key()).as_bytes())?;
        file.sync_all()
    }
}

impl PerformEffect for Ledger {
    fn find(&self, order: &EffectOrder) -> Result<Option<Map<String, Value>>, String> {
        let line = Self::line(order).map_err(|error| error.to_string())?;
        Ok(line.map(|line| Map::from_iter([("line".to_owned(), line.into())])))
    }

    fn perform(&self, order: &EffectOrder) -> Result<Map<String, Value>, String> {
        Self::append(order).map_err(|error| error.to_string())?;
        Ok(self.find(order)?.unwrap_or_default())
    }
}
