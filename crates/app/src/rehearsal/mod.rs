//! Rehearsal: any workflow or cycle played through by the built-in scripted agent, without an agent and without a token spent.
//!
//! `--rehearse` freezes the built-in scripted agent with the run ([`cast`]), with the parts of a [`script`] if one was given.
//! Every attempt is then a real process under the real shim: our own program as `__rehearse` ([`agent`]). Which part
//! is played when is decided beside the other adapters, in `supervisor::adapter::rehearsal`.

pub(crate) mod agent;
mod blank;
mod flag;
mod outputs;
mod roles;
mod script;

use std::fs;
use std::path::Path;

use protocol::steps::load;
use runner::{AgentProfile, GRACE};
use supervisor::adapter::{Adapter, Pass, Rehearsal, ReportRule};

use crate::failure::Failure;
pub(crate) use flag::RehearseFlag;
pub(crate) use roles::Roles;

/// The built-in scripted agent for all of these steps. Whatever is wrong with the script is told now.
fn cast(script: Option<&Path>, roles: &Roles) -> Result<AgentProfile, Failure> {
    let rehearsal = match script {
        None => Rehearsal { by_default: roles.by_default(), ..Rehearsal::default() },
        Some(file) => {
            let source = read("script", file)?;
            script::load(&source, roles).map_err(|problems| {
                Failure::of_problems("script", file, &source, &problems)
                    .hint(format_args!("{} prints one with every kind of part explained", roles.printed_by()))
            })?
        }
    };
    Ok(AgentProfile {
        adapter: Adapter::Rehearsal(rehearsal),
        report: ReportRule::Required,
        pass: Pass::AllowList(Vec::new()),
        env: Vec::new(),
        timeout: None,
        silence: None,
        grace: GRACE,
    })
}

/// The steps of a workflow file, for a script.
pub(crate) fn roles_in(file: &Path) -> Result<Roles, Failure> {
    let source = read("workflow", file)?;
    let loaded =
        load::load(&source).map_err(|problems| Failure::of_problems("workflow", file, &source, &problems))?;
    Ok(Roles::of_workflow(&loaded.workflow))
}

/// A script in which nothing goes wrong yet, with all that could.
pub(crate) fn blank_script(roles: &Roles) -> String {
    blank::script(roles)
}

fn read(what: &str, file: &Path) -> Result<String, Failure> {
    fs::read_to_string(file).map_err(|error| {
        Failure::usage(format!("cannot read the {what} `{}`", file.display())).because(Some(&error))
    })
}
