//! `callboard rehearse-script WORKFLOW | --peer`.

use std::fs::File;
use std::io::{self, Write as _};
use std::path::PathBuf;

use crate::failure::{Exit, Failure};
use crate::output;
use crate::rehearsal::{self, Roles};

/// Print a script for `--rehearse=SCRIPT` to edit
///
/// Every step, or every status of a cycle, and every kind of part is explained in it. As printed, nothing goes wrong in it. Edit it to make steps fail, gates send back, agents hang or crash.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  callboard rehearse-script wf.yaml --output rehearsal.yaml
  callboard run wf.yaml --rehearse=rehearsal.yaml
  callboard rehearse-script --peer > cycle.yaml
  callboard peer create-spec 'dark mode' --rehearse=cycle.yaml")]
pub(super) struct Arguments {
    /// The workflow file
    #[arg(required_unless_present = "peer", conflicts_with = "peer")]
    workflow: Option<PathBuf>,

    /// For the phases of a peer cycle
    #[arg(long)]
    peer: bool,

    /// Write it to a new file
    #[arg(long, short, value_name = "FILE")]
    output: Option<PathBuf>,
}

pub(super) fn run(arguments: Arguments) -> Result<Exit, Failure> {
    let (roles, used_by) = match &arguments.workflow {
        Some(workflow) => (rehearsal::roles_in(workflow)?, "callboard run WORKFLOW"),
        None => (Roles::of_peer(), "callboard peer INSTRUCTION"),
    };
    let script = rehearsal::blank_script(&roles);
    let Some(file) = arguments.output else {
        output::raw(&script);
        return Ok(Exit::Success);
    };
    // Created, never opened: somebody may have edited the last one for hours.
    let written = File::create_new(&file).and_then(|mut new| new.write_all(script.as_bytes()));
    let shown = file.display();
    match written {
        Ok(()) => {
            output::note(format_args!("edit it, then `{used_by} --rehearse={shown}`"));
            Ok(Exit::Success)
        }
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
            Err(Failure::new(Exit::Refused, format!("`{shown}` exists and is not overwritten"))
                .hint("choose another name, or move it aside"))
        }
        Err(error) => Err(Failure::usage(format!("cannot write `{shown}`")).because(Some(&error))),
    }
}
