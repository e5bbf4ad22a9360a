//! The configuration as a table: key, value, origin.

use std::path::Path;
use std::time::Duration;

use runner::{Role, RoleName};

use super::store::StoreAddress;
use super::{Adapter, Config, Launch, Origin, Sourced};
use crate::output::setting_duration;

/// One line of `callboard config`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Row {
    pub(crate) key: String,
    /// The value in TOML; secrets are masked.
    pub(crate) value: String,
    pub(crate) origin: Origin,
}

impl Row {
    /// Converts the TOML value to JSON.
    pub(crate) fn json(&self) -> serde_json::Value {
        let parsed = toml::from_str::<toml::Table>(&format!("value = {}", self.value));
        let value = parsed.ok().and_then(|mut table| serde_json::to_value(table.remove("value")?).ok());
        // The mask of a secret is not TOML.
        value.unwrap_or_else(|| self.value.clone().into())
    }
}

impl Config {
    /// Returns every effective value. If no source sets checks, those that the files in the project directory `root` suggest are
    /// shown. `default_store` and `default_worktrees` are shown if no source sets these directories.
    pub(crate) fn rows(
        &self,
        root: &Path,
        default_store: &Path,
        default_worktrees: Option<&Path>,
    ) -> Vec<Row> {
        let mut rows = vec![
            row("jobs", self.jobs().value.to_string(), &self.jobs().origin),
            row("max_attempts", self.max_attempts.value.to_string(), &self.max_attempts.origin),
            row("backoff", seconds(self.backoff.value), &self.backoff.origin),
            match &self.store {
                Some(Sourced { value: StoreAddress::Directory(directory), origin }) => {
                    row("store", path(directory), origin)
                }
                Some(Sourced { value: StoreAddress::Nats(settings), origin }) => {
                    row("store", quoted(&settings.server()), origin)
                }
                None => row("store", path(default_store), &Origin::Default),
            },
        ];
        if let Some(Sourced { value: StoreAddress::Nats(settings), .. }) = &self.store {
            rows.extend(self.nats.rows(settings));
        }
        if let Some(Sourced { value, origin }) = &self.notify {
            rows.push(row("notify.command", list(value), origin));
        }
        rows.extend(self.worktree.rows(default_worktrees));
        rows.extend(self.checks.rows(root));
        for (name, adapter) in &self.adapters {
            for (key, value) in adapter_values(&adapter.value) {
                rows.push(row(&format!("adapters.{}.{key}", toml_key(name)), value, &adapter.origin));
            }
        }
        for (name, role) in &self.roles {
            let prefix = role_key(name);
            for (key, value) in role_values(&role.value) {
                rows.push(row(&format!("{prefix}.{key}"), value, &role.origin));
            }
        }
        rows
    }

    /// Returns the roles that name an adapter that is not configured: the key, the adapter and where it is set.
    pub(crate) fn unknown_adapters(&self) -> Vec<(String, &str, &Origin)> {
        let named = self.roles.iter().filter_map(|(name, role)| {
            let adapter = role.value.adapter.as_deref()?;
            Some((format!("{}.adapter", role_key(name)), adapter, &role.origin))
        });
        named.filter(|(_, adapter, _)| !self.adapters.contains_key(*adapter)).collect()
    }
}

fn role_key(name: &RoleName) -> String {
    let protocol = name.protocol.as_ref().map(|protocol| format!("{}.", toml_key(protocol)));
    format!("roles.{}{}", protocol.unwrap_or_default(), toml_key(&name.name))
}

pub(super) fn row(key: &str, value: String, origin: &Origin) -> Row {
    Row { key: key.to_owned(), value, origin: origin.clone() }
}

fn adapter_values(adapter: &Adapter) -> Vec<(String, String)> {
    let mut values = match &adapter.launch {
        Launch::Command(argv) => vec![("command".to_owned(), list(argv))],
        Launch::Shell(line) => vec![("shell".to_owned(), quoted(line))],
        Launch::Wrapper { program, args } if args.is_empty() => vec![("wrapper".to_owned(), path(program))],
        Launch::Wrapper { program, args } => {
            vec![("wrapper".to_owned(), path(program)), ("args".to_owned(), list(args))]
        }
    };
    values.push(("report".to_owned(), quoted(super::adapter::report_rule_name(adapter.report))));
    for (key, limit) in [("timeout", adapter.timeout), ("silence", adapter.silence), ("grace", adapter.grace)]
    {
        values.extend(limit.map(|limit| (key.to_owned(), seconds(limit))));
    }
    values.extend(adapter.env.keys().map(|name| (format!("env.{name}"), "***".to_owned())));
    if !adapter.pass_env.is_empty() {
        values.push(("pass_env".to_owned(), list(&adapter.pass_env)));
    }
    values
}

fn role_values(role: &Role) -> Vec<(&'static str, String)> {
    let values = [
        ("adapter", role.adapter.as_deref().map(quoted)),
        ("model", role.model.as_deref().map(quoted)),
        ("timeout", role.timeout.map(seconds)),
        ("pass_env", role.pass_env.as_deref().map(list)),
        ("args", role.args.as_deref().map(list)),
    ];
    values.into_iter().filter_map(|(key, value)| Some((key, value?))).collect()
}

pub(super) fn quoted(text: &str) -> String {
    toml::Value::from(text).to_string()
}

pub(super) fn list(items: &[String]) -> String {
    toml::Value::from(items.to_vec()).to_string()
}

pub(super) fn path(path: &Path) -> String {
    quoted(&path.to_string_lossy())
}

pub(super) fn seconds(duration: Duration) -> String {
    quoted(&setting_duration(duration))
}

/// Quotes a name as a TOML key if necessary.
pub(super) fn toml_key(name: &str) -> String {
    let is_bare =
        !name.is_empty() && name.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '_' | '-'));
    if is_bare { name.to_owned() } else { quoted(name) }
}
