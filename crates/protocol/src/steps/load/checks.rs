//! Reads the key `checks` of a step: a list of names of checks in `[checks]`, and of commands.

use std::time::Duration;

use super::field;
use crate::checks::CheckSpec;
use crate::located::{Located, MappingEntry, Node, Problems, Rule, Value};
use crate::steps::workflow::StepCheck;

/// The timeout of a check that sets none.
const DEFAULT_TIMEOUT: Duration = Duration::from_mins(30);

const KEYS: [&str; 3] = ["run", "name", "timeout"];
const HINT: &str = "name a check of `[checks]` in callboard.toml, or write `{run: [PROGRAM, ARGUMENT]}`";

pub(super) fn read(entry: &MappingEntry, problems: &mut Problems) -> Vec<Located<StepCheck>> {
    let Value::List(items) = &entry.value.value else {
        field::wrong_type(entry, "a list", HINT, problems);
        return Vec::new();
    };
    let mut checks = Vec::new();
    let mut names: Vec<String> = Vec::new();
    for (index, item) in items.iter().enumerate() {
        let Some(check) = read_check(item, index, problems) else { continue };
        let name = match &check {
            StepCheck::Named(name) => name.clone(),
            StepCheck::Command(spec) => spec.name.clone(),
        };
        if names.contains(&name) {
            let message = format!("two checks of this step have the name `{name}`");
            problems.add(item.pos, Rule::DuplicateId, message, "give one of them another `name`");
            continue;
        }
        names.push(name);
        checks.push(Located { value: check, pos: item.pos });
    }
    checks
}

fn read_check(item: &Node, index: usize, problems: &mut Problems) -> Option<StepCheck> {
    match &item.value {
        Value::Text(name) if !name.trim().is_empty() => Some(StepCheck::Named(name.clone())),
        Value::Mapping(entries) => read_command(item, entries, index, problems).map(StepCheck::Command),
        Value::Text(_)
        | Value::Null
        | Value::Bool { .. }
        | Value::AmbiguousBool(_)
        | Value::Number { .. }
        | Value::List(_) => {
            let message = format!("an entry of `checks` is {} where a check is expected", item.kind());
            problems.add(item.pos, Rule::WrongType, message, HINT);
            None
        }
    }
}

fn read_command(
    item: &Node,
    entries: &[MappingEntry],
    index: usize,
    problems: &mut Problems,
) -> Option<CheckSpec> {
    for entry in entries.iter().filter(|entry| !KEYS.contains(&entry.key.value.as_str())) {
        let message = format!("`{}` is not a key of a check", entry.key.value);
        problems.add(entry.key.pos, Rule::UnknownKey, message, "a check has `run`, `name` and `timeout`");
    }
    let get = |key| MappingEntry::find(entries, key);
    let name = get("name").and_then(|entry| field::text(entry, problems)).map(|name| name.value);
    let timeout = get("timeout").and_then(|entry| field::duration(entry, problems));
    let Some(run) = get("run") else {
        problems.add(
            item.pos,
            Rule::MissingKey,
            "this check has no `run`",
            "add it, such as `run: [cargo, test]`",
        );
        return None;
    };
    Some(CheckSpec {
        name: name.unwrap_or_else(|| format!("check {}", index + 1)),
        command: command(run, problems)?,
        timeout: timeout.unwrap_or(DEFAULT_TIMEOUT),
    })
}

/// Reads a command: a list of arguments that no shell reads, or a line for `sh`.
fn command(entry: &MappingEntry, problems: &mut Problems) -> Option<Vec<String>> {
    match &entry.value.value {
        Value::List(words) => {
            let words: Option<Vec<String>> = words
                .iter()
                .map(|word| {
                    let text = word.scalar_text().map(str::to_owned);
                    if text.is_none() {
                        let message =
                            format!("an argument in `run` is {} where a string is expected", word.kind());
                        problems.add(word.pos, Rule::WrongType, message, "quote it");
                    }
                    text
                })
                .collect();
            let words = words?;
            if words.first().is_none_or(|program| program.trim().is_empty()) {
                let hint = "write `run: [PROGRAM, ARGUMENT]`";
                problems.add(entry.value.pos, Rule::EmptyValue, "`run` names no program", hint);
                return None;
            }
            Some(words)
        }
        Value::Text(_)
        | Value::Null
        | Value::Bool { .. }
        | Value::AmbiguousBool(_)
        | Value::Number { .. }
        | Value::Mapping(_) => {
            let line = field::text(entry, problems)?.value;
            Some(vec!["sh".to_owned(), "-c".to_owned(), line])
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::load;
    use super::*;

    fn checks(yaml: &str) -> Result<Vec<StepCheck>, String> {
        let text = format!("steps:\n- {{id: a, agent: x, prompt: p, checks: {yaml}}}\n");
        match load(&text) {
            Ok(mut loaded) => Ok(loaded.workflow.steps.remove(0).checks),
            Err(problems) => Err(problems[0].message.clone()),
        }
    }

    #[test]
    fn a_check_is_a_name_a_list_of_arguments_or_a_line_for_the_shell() {
        let read = checks("[test, {run: [cargo, clippy], name: lint, timeout: 5m}, {run: 'make | tee out'}]")
            .unwrap();
        let command_check = |name: &str, command: &[&str], minutes| {
            let command = command.iter().map(|word| (*word).to_owned()).collect();
            let timeout = Duration::from_mins(minutes);
            StepCheck::Command(CheckSpec { name: name.to_owned(), command, timeout })
        };
        assert_eq!(
            read,
            [
                StepCheck::Named("test".to_owned()),
                command_check("lint", &["cargo", "clippy"], 5),
                command_check("check 3", &["sh", "-c", "make | tee out"], 30),
            ]
        );
    }

    #[test]
    fn malformed_checks_are_refused() {
        for (yaml, message) in [
            ("test", "`checks` is a string where a list is expected"),
            ("[{name: x}]", "this check has no `run`"),
            ("[{run: []}]", "`run` names no program"),
            ("[{run: [x], shell: true}]", "`shell` is not a key of a check"),
            ("[test, test]", "two checks of this step have the name `test`"),
            ("[[x]]", "an entry of `checks` is a list where a check is expected"),
        ] {
            assert_eq!(checks(yaml).unwrap_err(), message, "{yaml}");
        }
    }
}
