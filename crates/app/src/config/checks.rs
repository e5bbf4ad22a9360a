//! `[checks]`: the commands by which the engine checks the files in a worktree.

use std::collections::BTreeSet;
use std::path::Path;
use std::time::Duration;

use protocol::checks::CheckSpec;

use super::detect;
use super::file::{Reader, Value};
use super::rows::{Row, list, row, seconds, toml_key};
use super::{Origin, Sourced};

const KEYS: [&str; 2] = ["command", "timeout"];

/// The timeout of a check that sets none.
const DEFAULT_TIMEOUT: Duration = Duration::from_mins(30);

/// The checks that configuration files set, in the order in which the files name them.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Checks {
    /// `None` if no file has `[checks]`: then the checks are detected. An empty table turns the detection off.
    set: Option<Vec<Sourced<CheckSpec>>>,
}

impl Checks {
    pub(super) fn merge_weaker(&mut self, weaker: Self) {
        let Some(weaker) = weaker.set else { return };
        let own = self.set.get_or_insert_default();
        let names: BTreeSet<_> = own.iter().map(|check| check.value.name.clone()).collect();
        own.extend(weaker.into_iter().filter(|check| !names.contains(&check.value.name)));
    }

    /// Returns the checks of the project at `root`: those that are set, or else those that the project's files
    /// suggest. Reads these files only now, because most commands do not need them.
    pub(crate) fn resolve(&self, root: &Path) -> Vec<Sourced<CheckSpec>> {
        match &self.set {
            Some(set) => set.clone(),
            None => detected(root),
        }
    }

    /// Whether a configuration file has `[checks]`.
    pub(crate) fn is_set(&self) -> bool {
        self.set.is_some()
    }

    pub(super) fn rows(&self, root: &Path) -> Vec<Row> {
        let rows = |Sourced { value, origin }: Sourced<CheckSpec>| {
            let key = format!("checks.{}", toml_key(&value.name));
            [
                row(&format!("{key}.command"), list(&value.command), &origin),
                row(&format!("{key}.timeout"), seconds(value.timeout), &origin),
            ]
        };
        self.resolve(root).into_iter().flat_map(rows).collect()
    }
}

fn detected(root: &Path) -> Vec<Sourced<CheckSpec>> {
    let sourced = |found: detect::DetectedCheck| {
        let spec = CheckSpec { name: found.name, command: found.command, timeout: DEFAULT_TIMEOUT };
        Sourced::new(spec, Origin::Detected(root.join(found.file)))
    };
    detect::detect(root).into_iter().map(sourced).collect()
}

pub(super) fn read(reader: &mut Reader<'_>, value: &Value<'_>, origin: &Origin) -> Checks {
    let Some(table) = reader.table("checks", value) else { return Checks::default() };
    // The parser orders tables by name; checks run in the order of the file.
    let mut entries: Vec<_> = table.iter().collect();
    entries.sort_by_key(|(name, _)| name.span().start);
    let mut set = Vec::new();
    for (name, value) in entries {
        let name = name.get_ref().to_string();
        if let Some((command, timeout)) = check(reader, &format!("checks.{name}"), value) {
            let timeout = timeout.unwrap_or(DEFAULT_TIMEOUT);
            set.push(Sourced::new(CheckSpec { name, command, timeout }, origin.clone()));
        }
    }
    Checks { set: Some(set) }
}

/// Reads a check: a command as a list, or a table with the command and a timeout.
fn check(reader: &mut Reader<'_>, key: &str, value: &Value<'_>) -> Option<(Vec<String>, Option<Duration>)> {
    let Some(table) = value.get_ref().as_table() else {
        if value.get_ref().as_array().is_none() {
            reader.wrong_type(key, value, "a list of strings or a table");
            return None;
        }
        return Some((command(reader, key, value)?, None));
    };
    reader.check_keys(&format!("{key}."), table, &KEYS);
    let timeout = match table.get("timeout") {
        Some(value) => Some(reader.duration(&format!("{key}.timeout"), value)?),
        None => None,
    };
    let Some(value) = table.get("command") else {
        let example = r#"write `command = ["PROGRAM", "ARGUMENT"]`"#;
        reader.error_with_hint(value.span(), format!("`{key}` has no `command`"), example);
        return None;
    };
    Some((command(reader, &format!("{key}.command"), value)?, timeout))
}

fn command(reader: &mut Reader<'_>, key: &str, value: &Value<'_>) -> Option<Vec<String>> {
    let words = reader.strings(key, value)?;
    if words.first().is_none_or(String::is_empty) {
        reader.error(value.span(), format!("`{key}` names no program"));
        return None;
    }
    Some(words)
}
