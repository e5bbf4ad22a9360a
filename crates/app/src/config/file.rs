//! Reads one TOML file with settings (`callboard.toml`, or the user's own file) into a [`Layer`].

use std::io;
use std::num::NonZeroU32;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::time::Duration;

use protocol::closest;
use protocol::steps::load::parse_duration;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::adapter;
use super::error::{ConfigError, ErrorLocation};
use super::role;
use super::store::{self, StoreAddress};
use super::{Layer, Origin, Sourced, checks, worktree};

const KEYS: [&str; 9] =
    ["jobs", "max_attempts", "backoff", "store", "notify", "adapters", "roles", "worktree", "checks"];

/// A parsed value with its position.
pub(super) type Value<'a> = Spanned<DeValue<'a>>;

/// Reads the settings of a file. A missing file has none. Errors are added to `errors`.
pub(super) fn read(path: &Path, origin: Origin, errors: &mut Vec<ConfigError>) -> Layer {
    let text = match std::fs::read_to_string(path) {
        Ok(text) => text,
        Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => {
            return Layer::default();
        }
        Err(error) => {
            let location = ErrorLocation::WholeFile(path.to_owned());
            errors.push(ConfigError {
                location,
                message: format!("cannot read the file: {error}"),
                hint: None,
            });
            return Layer::default();
        }
    };
    let (table, syntax_errors) = DeTable::parse_recoverable(&text);
    let mut reader = Reader { path, text: &text, errors: vec![] };
    for error in &syntax_errors {
        let message = format!("invalid TOML: {}", error.message().trim_end());
        reader.error(error.span().unwrap_or(0..0), message);
    }
    // Do not check the keys of a file with syntax errors: what the parser recovered is a guess.
    let is_valid = syntax_errors.is_empty();
    let layer = if is_valid { reader.layer(table.get_ref(), &origin) } else { Layer::default() };
    reader.errors.sort_by_key(|(start, _)| *start);
    errors.extend(reader.errors.into_iter().map(|(_, error)| error));
    layer
}

/// Reads the values of one file and collects their errors.
pub(super) struct Reader<'a> {
    path: &'a Path,
    text: &'a str,
    /// Each error with its offset, for sorting: the parser orders its tables by name.
    errors: Vec<(usize, ConfigError)>,
}

impl Reader<'_> {
    fn layer(&mut self, table: &DeTable<'_>, origin: &Origin) -> Layer {
        self.check_keys("", table, &KEYS);
        let mut layer = Layer::default();
        let sourced = |value| Sourced::new(value, origin.clone());
        if let Some(value) = table.get("jobs") {
            layer.jobs = self.positive("jobs", value).map(sourced);
        }
        if let Some(value) = table.get("max_attempts") {
            layer.max_attempts = self.positive("max_attempts", value).map(sourced);
        }
        if let Some(value) = table.get("backoff") {
            layer.backoff =
                self.duration("backoff", value).map(|duration| Sourced::new(duration, origin.clone()));
        }
        if let Some(value) = table.get("store") {
            (layer.store, layer.nats) = store::read(self, value, origin);
        }
        if let Some(value) = table.get("notify") {
            layer.notify = self.notify(value).map(|command| Sourced::new(command, origin.clone()));
        }
        if let Some(value) = table.get("worktree") {
            layer.worktree = worktree::read(self, value, origin);
        }
        if let Some(value) = table.get("checks") {
            layer.checks = checks::read(self, value, origin);
        }
        if let Some(value) = table.get("adapters")
            && let Some(adapters) = self.table("adapters", value)
        {
            for (name, value) in adapters {
                if let Some(adapter) = adapter::read(self, name, value) {
                    layer.adapters.insert(name.get_ref().to_string(), Sourced::new(adapter, origin.clone()));
                }
            }
        }
        if let Some(value) = table.get("roles") {
            let roles = role::read(self, value).into_iter();
            layer.roles = roles.map(|(name, role)| (name, Sourced::new(role, origin.clone()))).collect();
        }
        layer
    }

    /// Reads the command that is run for each new item of the inbox.
    fn notify(&mut self, value: &Value<'_>) -> Option<Vec<String>> {
        let table = self.table("notify", value)?;
        self.check_keys("notify.", table, &["command"]);
        let command = table.get("command")?;
        let words = self.strings("notify.command", command)?;
        if words.first().is_none_or(String::is_empty) {
            self.error(command.span(), "`notify.command` names no program");
            return None;
        }
        Some(words)
    }

    pub(super) fn error(&mut self, at: Range<usize>, message: impl Into<String>) {
        self.push(at, message.into(), None);
    }

    pub(super) fn error_with_hint(
        &mut self,
        at: Range<usize>,
        message: impl Into<String>,
        hint: impl Into<String>,
    ) {
        self.push(at, message.into(), Some(hint.into()));
    }

    fn push(&mut self, at: Range<usize>, message: String, hint: Option<String>) {
        let before = &self.text.as_bytes()[..at.start.min(self.text.len())];
        let line_start = before.iter().rposition(|byte| *byte == b'\n').map_or(0, |newline| newline + 1);
        let location = ErrorLocation::File {
            path: self.path.to_owned(),
            line: 1 + before.iter().filter(|byte| **byte == b'\n').count(),
            column: 1 + String::from_utf8_lossy(&before[line_start..]).chars().count(),
        };
        self.errors.push((at.start, ConfigError { location, message, hint }));
    }

    /// Reports every key of `table` that is not in `known`. `prefix` is the name of the table with a dot.
    pub(super) fn check_keys(&mut self, prefix: &str, table: &DeTable<'_>, known: &[&str]) {
        for (key, _) in table.iter().filter(|(key, _)| !known.contains(&key.get_ref().as_ref())) {
            let word = key.get_ref();
            let hint = match closest(word, known.iter().copied()) {
                Some(meant) => format!("did you mean `{meant}`?"),
                None => format!("known keys: {}", known.join(", ")),
            };
            self.error_with_hint(key.span(), format!("unknown key `{prefix}{word}`"), hint);
        }
    }

    pub(super) fn wrong_type(&mut self, key: &str, value: &Value<'_>, expected: &str) {
        let found = type_name(value);
        self.error(value.span(), format!("`{key}` is {found} where {expected} is expected"));
    }

    pub(super) fn table<'v, 'i>(&mut self, key: &str, value: &'v Value<'i>) -> Option<&'v DeTable<'i>> {
        let table = value.get_ref().as_table();
        if table.is_none() {
            self.wrong_type(key, value, "a table");
        }
        table
    }

    pub(super) fn string(&mut self, key: &str, value: &Value<'_>) -> Option<String> {
        let text = value.get_ref().as_str();
        if text.is_none() {
            self.wrong_type(key, value, "a string");
        }
        if text.is_some_and(str::is_empty) {
            self.error(value.span(), format!("`{key}` is empty"));
            return None;
        }
        text.map(str::to_owned)
    }

    /// Reads a list of strings. A string may be empty, as an argument may be.
    pub(super) fn strings(&mut self, key: &str, value: &Value<'_>) -> Option<Vec<String>> {
        let Some(items) = value.get_ref().as_array() else {
            self.wrong_type(key, value, "a list of strings");
            return None;
        };
        let mut strings = vec![];
        for item in items {
            match item.get_ref().as_str() {
                Some(text) => strings.push(text.to_owned()),
                None => self.wrong_type(key, item, "a string"),
            }
        }
        (strings.len() == items.len()).then_some(strings)
    }

    pub(super) fn duration(&mut self, key: &str, value: &Value<'_>) -> Option<Duration> {
        let text = match value.get_ref() {
            DeValue::String(text) => text.to_string(),
            DeValue::Integer(number) => number.to_string(),
            DeValue::Float(number) => number.to_string(),
            DeValue::Boolean(_) | DeValue::Datetime(_) | DeValue::Array(_) | DeValue::Table(_) => {
                self.wrong_type(key, value, "a duration");
                return None;
            }
        };
        let duration = parse_duration(&text).map_err(|error| format!("invalid `{key}`: {error}"));
        duration.map_err(|message| self.error(value.span(), message)).ok()
    }

    /// Reads a path. A relative path starts at the folder of the file, not at the current directory.
    pub(super) fn path(&mut self, key: &str, value: &Value<'_>) -> Option<PathBuf> {
        let text = self.string(key, value)?;
        if text.starts_with('~') {
            let message = format!("`{key}` begins with `~`, which only a shell expands");
            self.error_with_hint(
                value.span(),
                message,
                "write an absolute path, or one relative to this file",
            );
            return None;
        }
        Some(self.path.parent().unwrap_or(Path::new("")).join(text))
    }

    /// Reads the directory or the address of the store.
    pub(super) fn store(&mut self, key: &str, value: &Value<'_>) -> Option<StoreAddress> {
        match StoreAddress::read(value.get_ref().as_str().unwrap_or_default().as_ref()) {
            Ok(StoreAddress::Directory(_)) => self.path(key, value).map(StoreAddress::Directory),
            Ok(address) => Some(address),
            Err(error) => {
                // Do not quote the address: it may contain a password.
                let hint = store::address_hint(&error);
                self.error_with_hint(value.span(), format!("`{key}`: {error}"), hint);
                None
            }
        }
    }

    pub(super) fn positive(&mut self, key: &str, value: &Value<'_>) -> Option<NonZeroU32> {
        let Some(number) = value.get_ref().as_integer() else {
            self.wrong_type(key, value, "a whole number");
            return None;
        };
        let positive = u32::from_str_radix(number.as_str(), number.radix()).ok().and_then(NonZeroU32::new);
        if positive.is_none() {
            self.error(value.span(), format!("`{key}` is {number}; it must be a whole number from 1"));
        }
        positive
    }
}

fn type_name(value: &Value<'_>) -> &'static str {
    match value.get_ref() {
        DeValue::String(_) => "a string",
        DeValue::Integer(_) | DeValue::Float(_) => "a number",
        DeValue::Boolean(_) => "a boolean",
        DeValue::Datetime(_) => "a date",
        DeValue::Array(_) => "a list",
        DeValue::Table(_) => "a table",
    }
}
