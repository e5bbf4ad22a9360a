//! The configuration, and whether the programs of its adapters exist.

use std::ffi::OsString;

use super::{DoctorContext, Finding};
use crate::config::{Adapter, Config, ConfigError};
use crate::engine::profiles;
use crate::failure::{Code, Failure};
use crate::output::shell_word;

const CHECK: &str = "config";

pub(super) fn check(context: &DoctorContext) -> Vec<Finding> {
    let config = match &context.config {
        Ok(config) => config,
        Err(errors) => return errors.0.iter().map(config_error).collect(),
    };
    let missing: Vec<_> = config
        .adapters
        .iter()
        .filter_map(|(name, adapter)| adapter_problem(context, name, &adapter.value))
        .collect();
    if missing.is_empty() { vec![Finding::ok(CHECK, summary(config))] } else { missing }
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

fn adapter_problem(context: &DoctorContext, name: &str, adapter: &Adapter) -> Option<Finding> {
    let profile = match profiles::configured(name, adapter) {
        Ok(profile) => profile,
        Err(failure) => return Some(Finding::failure(CHECK, &failure)),
    };
    let program = profile.adapter.program()?;
    let path = adapter.env.get("PATH").map(OsString::from).or_else(|| std::env::var_os("PATH"));
    if supervisor::find_program(program, &path.unwrap_or_default(), &context.repo).is_some() {
        return None;
    }
    let failure = Failure::usage(format!("cannot start agent `{name}`: program `{program}` was not found"));
    let file = context.repo.join(program);
    let hint = if !program.contains('/') {
        "install it in PATH, or write its path in callboard.toml".to_owned()
    } else if file.is_file() {
        format!("the file is not executable; run `chmod +x {}`", shell_word(&file))
    } else {
        format!("create `{}`, or correct the path in callboard.toml", file.display())
    };
    Some(Finding::failure(CHECK, &failure.code(Code::NoProgram).hint(hint)))
}
