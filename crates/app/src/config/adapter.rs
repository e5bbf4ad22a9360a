//! `[adapters.NAME]`: how one kind of agent is started and reports.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use protocol::closest;
use supervisor::adapter::ReportRule;
use toml::Spanned;
use toml::de::{DeString, DeTable};

use super::file::{Reader, Value};

const KEYS: [&str; 10] =
    ["command", "shell", "wrapper", "args", "report", "env", "pass_env", "timeout", "silence", "grace"];

const REPORT_RULES: [(&str, ReportRule); 2] =
    [("required", ReportRule::Required), ("exit-code", ReportRule::ExitCode)];

/// How one kind of agent is started, and what counts as its report.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Adapter {
    pub(crate) launch: Launch,
    pub(crate) report: ReportRule,
    /// Variables that are set for the agent. Never printed: they may be secrets.
    pub(crate) env: BTreeMap<String, String>,
    /// Variables of the engine's environment that the agent gets, besides those of the default allow-list.
    pub(crate) pass_env: Vec<String>,
    /// The timeout of an attempt, unless the step sets one.
    pub(crate) timeout: Option<Duration>,
    /// How long an attempt may run without output.
    pub(crate) silence: Option<Duration>,
    /// The time between TERM and KILL.
    pub(crate) grace: Option<Duration>,
}

/// What is executed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Launch {
    /// A program with its arguments, never empty.
    Command(Vec<String>),
    /// A line for `sh -c`.
    Shell(String),
    /// A program that is called with the six flags of the wrapper contract (docs/agents.md), then with these arguments.
    Wrapper { program: PathBuf, args: Vec<String> },
}

/// Returns the value of the key `report` for a rule.
pub(super) fn report_rule_name(rule: ReportRule) -> &'static str {
    match rule {
        ReportRule::Required => "required",
        ReportRule::ExitCode => "exit-code",
    }
}

/// Reads one adapter. Returns `None` after reporting its errors.
pub(super) fn read(
    reader: &mut Reader<'_>,
    name: &Spanned<DeString<'_>>,
    value: &Value<'_>,
) -> Option<Adapter> {
    let table_name = format!("adapters.{}", name.get_ref());
    let table = reader.table(&table_name, value)?;
    reader.check_keys(&format!("{table_name}."), table, &KEYS);
    let launch = launch(reader, &table_name, name, table);
    let report = report(reader, table, launch.as_ref());
    let mut duration = |key| table.get(key).and_then(|value| reader.duration(key, value));
    let (timeout, silence, grace) = (duration("timeout"), duration("silence"), duration("grace"));
    let env = table.get("env").map(|value| env(reader, value)).unwrap_or_default();
    let pass_env = table.get("pass_env").map(|value| pass_env(reader, value)).unwrap_or_default();
    Some(Adapter { launch: launch?, report: report?, env, pass_env, timeout, silence, grace })
}

/// Reads the one of `command`, `shell` and `wrapper` that the table has.
fn launch(
    reader: &mut Reader<'_>,
    table_name: &str,
    name: &Spanned<DeString<'_>>,
    table: &DeTable<'_>,
) -> Option<Launch> {
    let launch_keys = ["command", "shell", "wrapper"].map(|key| table.get(key).map(|value| (key, value)));
    let mut launch_keys = launch_keys.into_iter().flatten();
    let (Some((key, value)), other) = (launch_keys.next(), launch_keys.next()) else {
        let message = format!("`{table_name}` has no `command`, `shell` or `wrapper`");
        let hint = "set `command = [\"program\", \"argument\"]`, `shell = \"line\"` or `wrapper = \"path\"`";
        reader.error_with_hint(name.span(), message, hint);
        return None;
    };
    if let Some((other, second)) = other {
        let message = format!("`{table_name}` has both `{key}` and `{other}`");
        reader.error_with_hint(second.span(), message, "keep one of them");
        return None;
    }
    if let Some(args) = table.get("args").filter(|_| key != "wrapper") {
        let hint = format!("move the arguments into `{key}`");
        reader.error_with_hint(args.span(), "`args` is allowed with `wrapper` only", hint);
    }
    match key {
        "command" => command(reader, value).map(Launch::Command),
        "shell" => reader.string("shell", value).map(Launch::Shell),
        _ => {
            let args = table.get("args").map_or(Some(vec![]), |value| reader.strings("args", value));
            let program = reader.path("wrapper", value);
            Some(Launch::Wrapper { program: program?, args: args? })
        }
    }
}

fn command(reader: &mut Reader<'_>, value: &Value<'_>) -> Option<Vec<String>> {
    if let Some(line) = value.get_ref().as_str() {
        let message = "`command` is a string where a list of strings is expected";
        let hint = format!("write a list of program and arguments, or `shell = {line:?}`");
        reader.error_with_hint(value.span(), message, hint);
        return None;
    }
    let argv = reader.strings("command", value)?;
    if argv.first().is_none_or(String::is_empty) {
        reader.error(value.span(), "`command` names no program");
        return None;
    }
    Some(argv)
}

fn report(reader: &mut Reader<'_>, table: &DeTable<'_>, launch: Option<&Launch>) -> Option<ReportRule> {
    let is_wrapper = matches!(launch, Some(Launch::Wrapper { .. }));
    let Some(value) = table.get("report") else {
        return Some(if is_wrapper { ReportRule::Required } else { ReportRule::ExitCode });
    };
    let word = reader.string("report", value)?;
    let Some((_, rule)) = REPORT_RULES.iter().find(|(name, _)| *name == word) else {
        let meant = closest(&word, REPORT_RULES.map(|(name, _)| name));
        let hint = meant.map_or_else(
            || "write \"required\" or \"exit-code\"".to_owned(),
            |meant| format!("did you mean \"{meant}\"?"),
        );
        reader.error_with_hint(value.span(), format!("`report` cannot be \"{word}\""), hint);
        return None;
    };
    if is_wrapper && *rule == ReportRule::ExitCode {
        let message =
            "a wrapper cannot use `exit-code`: its exit code is that of the wrapper, not of the agent";
        reader.error_with_hint(
            value.span(),
            message,
            "remove `report`, or use `command` in place of `wrapper`",
        );
        return None;
    }
    Some(*rule)
}

fn env(reader: &mut Reader<'_>, value: &Value<'_>) -> BTreeMap<String, String> {
    let mut variables = BTreeMap::new();
    for (name, value) in reader.table("env", value).into_iter().flatten() {
        check_variable_name(reader, "env", name.get_ref(), name.span());
        match value.get_ref().as_str() {
            Some(text) => {
                variables.insert(name.get_ref().to_string(), text.to_owned());
            }
            // Do not quote the value: it may be a secret.
            None => reader.error(value.span(), format!("`env.{}` must be a string", name.get_ref())),
        }
    }
    variables
}

pub(super) fn pass_env(reader: &mut Reader<'_>, value: &Value<'_>) -> Vec<String> {
    let names = reader.strings("pass_env", value).unwrap_or_default();
    for (name, item) in names.iter().zip(value.get_ref().as_array().into_iter().flatten()) {
        check_variable_name(reader, "pass_env", name, item.span());
    }
    names
}

/// Rejects invalid names, and names with the prefix of the variables by which the engine finds the processes of an attempt.
fn check_variable_name(reader: &mut Reader<'_>, key: &str, name: &str, at: std::ops::Range<usize>) {
    let is_name = name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
        && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
    if !is_name {
        reader.error(at, format!("`{name}` in `{key}` is not a valid variable name"));
    } else if name.starts_with("CALLBOARD_") {
        reader.error(
            at,
            format!("`{name}` in `{key}` cannot be set: `CALLBOARD_` variables mark attempts of the engine"),
        );
    }
}
