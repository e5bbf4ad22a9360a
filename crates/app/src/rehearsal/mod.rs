//! Rehearsal: any workflow played through by the built-in player, without an agent and without a token spent.
//!
//! `run --rehearse` freezes the built-in player with the run ([`cast`]), with the parts of a [`script`] if one was given.
//! Every attempt is then a real process under the real shim: our own program as `__player` ([`player`]). Which part
//! is played when is decided beside the other adapters, in `supervisor::adapter::rehearsal`.

mod blank;
mod node;
pub(crate) mod player;
mod script;

use std::fs;
use std::path::Path;

use protocol::steps::Workflow;
use protocol::steps::load;
use runner::{GRACE, Player};
use supervisor::adapter::{Adapter, Pass, Rehearsal, ReportRule};

use crate::failure::Failure;

/// The built-in player for every seat of this workflow. Whatever is wrong with the script is told now.
pub(crate) fn cast(script: Option<&Path>, workflow: &Workflow) -> Result<Player, Failure> {
    let rehearsal = match script {
        None => Rehearsal::default(),
        Some(file) => {
            let source = read("script", file)?;
            script::load(&source, workflow).map_err(|problems| {
                Failure::of_problems("script", file, &source, &problems)
                    .hint("`callboard rehearse-script WORKFLOW` prints one with every kind of part explained")
            })?
        }
    };
    Ok(Player {
        adapter: Adapter::Rehearsal(rehearsal),
        report: ReportRule::Required,
        pass: Pass::AllowList(Vec::new()),
        env: Vec::new(),
        timeout: None,
        silence: None,
        grace: GRACE,
    })
}

/// A script for this workflow file in which nothing goes wrong yet, with all that could.
pub(crate) fn blank_script(file: &Path) -> Result<String, Failure> {
    let source = read("workflow", file)?;
    let loaded =
        load::load(&source).map_err(|problems| Failure::of_problems("workflow", file, &source, &problems))?;
    Ok(blank::script(&loaded.workflow))
}

fn read(what: &str, file: &Path) -> Result<String, Failure> {
    fs::read_to_string(file).map_err(|error| {
        Failure::usage(format!("cannot read the {what} `{}`", file.display())).because(Some(&error))
    })
}
