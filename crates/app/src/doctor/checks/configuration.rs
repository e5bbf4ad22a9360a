//! The configuration, and whether the programs of its adapters exist.

use super::{DoctorContext, Finding};
use crate::config::{Adapter, Config, ConfigError, Launch};
use crate::engine::profiles;
use crate::failure::{Code, Failure};

const CHECK: &str = "config";

pub(super) fn check(context: &DoctorContext) -> Vec<Finding> {
    let config = match &context.config {
        Ok(config) => config,
        Err(errors) => return errors.0.iter().map(config_error).collect(),
    };
    let adapters = config.adapters.iter();
    let problems = adapters.filter_map(|(name, adapter)| adapter_problem(context, name, &adapter.value));
    let problems: Vec<_> = problems.chain(role_problems(config)).collect();
    if problems.is_empty() {
        vec![Finding::ok(CHECK, summary(config)).details(unchecked_programs(config))]
    } else {
        problems
    }
}

fn config_error(error: &ConfigError) -> Finding {
    let finding = Finding::problem(CHECK, error.to_string()).code(Code::BadConfiguration);
    error.hint.iter().fold(finding, |finding, hint| finding.detail(format!("hint: {hint}")))
}

fn summary(config: &Config) -> String {
    let names: Vec<_> = config.adapters.keys().map(|name| format!("`{name}`")).collect();
    match names.as_slice() {
        [] => "no adapters; `--wrapper` or `--command-template` sets the agent of a run".to_owned(),
        names => format!("adapters for {}", names.join(", ")),
    }
}

/// Names the adapters whose programs only a shell could find.
fn unchecked_programs(config: &Config) -> Option<String> {
    let is_shell = |adapter: &Adapter| match adapter.launch {
        Launch::Shell(_) => true,
        Launch::Command(_) | Launch::Wrapper { .. } => false,
    };
    let shells = config.adapters.iter().filter(|(_, adapter)| is_shell(&adapter.value));
    let names: Vec<_> = shells.map(|(name, _)| format!("`{name}`")).collect();
    (!names.is_empty())
        .then(|| format!("not checked: the programs in the `shell` lines of {}", names.join(", ")))
}

/// Returns a finding for each role whose adapter is not configured.
fn role_problems(config: &Config) -> impl Iterator<Item = Finding> {
    let unknown = config.unknown_adapters().into_iter();
    unknown.map(|(key, adapter, origin)| {
        let what = format!("`{key}` names the adapter `{adapter}`, which is not configured ({origin})");
        let hint = match protocol::closest(adapter, config.adapters.keys().map(String::as_str)) {
            Some(meant) => format!("did you mean `{meant}`?"),
            None => format!("add `[adapters.{adapter}]` to callboard.toml, or name a configured adapter"),
        };
        Finding::failure(CHECK, &Failure::usage(what).code(Code::BadConfiguration).hint(hint))
    })
}

fn adapter_problem(context: &DoctorContext, name: &str, adapter: &Adapter) -> Option<Finding> {
    let profile = match profiles::profile_of_adapter(name, adapter) {
        Ok(profile) => profile,
        Err(failure) => return Some(Finding::failure(CHECK, &failure)),
    };
    let missing = profiles::missing_program(name, &profile, &[], &context.repo)?;
    Some(Finding::failure(CHECK, &missing))
}
