//! `callboard rehearse-script WORKFLOW | --peer`.

use std::fs::File;
use std::io::{self, Write as _};
use std::path::PathBuf;

use crate::failure::{Exit, Failure};
use crate::output;
use crate::rehearsal::{self, Roles};

/// Print a rehearsal script to edit, for `--rehearse=SCRIPT`
///
/// The script lists every step, or every phase of a cycle, and explains what can be scripted. As printed, every step
/// succeeds. Edit it to make steps fail, gates loop back, or agents hang or crash.
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

    /// Print the script of a peer cycle
    #[arg(long)]
    peer: bool,

    /// Write the script to a new file
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
    // Never overwrites: the existing script may have been edited.
    let written = File::create_new(&file).and_then(|mut new| new.write_all(script.as_bytes()));
    let shown = file.display();
    match written {
        Ok(()) => {
            output::note(format_args!("edit `{shown}`, then run `{used_by} --rehearse={shown}`"));
            Ok(Exit::Success)
        }
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
            Err(Failure::new(Exit::Refused, format!("cannot write `{shown}`: it exists"))
                .hint("choose another name with `--output`, or move the existing file"))
        }
        Err(error) => Err(Failure::usage(format!("cannot write `{shown}`")).because(Some(&error))),
    }
}
