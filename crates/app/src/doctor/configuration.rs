//! The configuration, and whether the programs it names are there.

use std::ffi::OsString;

use super::{Finding, Ground};
use crate::config::{Adapter, Config};
use crate::engine::profiles;
use crate::failure::{Code, Failure};

const CHECK: &str = "config";

pub(super) fn check(ground: &Ground) -> Vec<Finding> {
    let config = match &ground.config {
        Ok(config) => config,
        Err(errors) => return errors.0.iter().map(of_fault).collect(),
    };
    let missing: Vec<_> = config
        .adapters
        .iter()
        .filter_map(|(name, adapter)| of_adapter(ground, name, &adapter.value))
        .collect();
    if missing.is_empty() { vec![Finding::fine(CHECK, summary(config))] } else { missing }
}

fn of_fault(fault: &crate::config::Fault) -> Finding {
    let finding = Finding::act(CHECK, fault.to_string()).code(Code::BadConfiguration);
    fault.hint.iter().fold(finding, |finding, hint| finding.detail(format!("hint: {hint}")))
}

fn summary(config: &Config) -> String {
    let names: Vec<_> = config.adapters.keys().map(|name| format!("`{name}`")).collect();
    match names.as_slice() {
        [] => "no adapters are configured; `--wrapper` or `--command-template` names the profile".to_owned(),
        names => format!("adapters for {}", names.join(", ")),
    }
}

fn of_adapter(ground: &Ground, name: &str, adapter: &Adapter) -> Option<Finding> {
    let profile = match profiles::configured(name, adapter) {
        Ok(profile) => profile,
        Err(failure) => return Some(Finding::failure(CHECK, &failure)),
    };
    let program = profile.adapter.program()?;
    let path = adapter.env.get("PATH").map(OsString::from).or_else(|| std::env::var_os("PATH"));
    if supervisor::find_program(program, &path.unwrap_or_default(), &ground.repo).is_some() {
        return None;
    }
    let failure = Failure::usage(format!("nobody can play `{name}`: program `{program}` is not there"));
    let file = ground.repo.join(program);
    let hint = if !program.contains('/') {
        "searched PATH; install it, or give its path in callboard.toml".to_owned()
    } else if file.is_file() {
        format!("it lacks its run bit: `chmod +x {}`", crate::output::shell_word(&file))
    } else {
        format!("looked for {}", file.display())
    };
    Some(Finding::failure(CHECK, &failure.code(Code::NoProgram).hint(hint)))
}
