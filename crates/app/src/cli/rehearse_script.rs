//! `callboard rehearse-script WORKFLOW`.

use std::fs::File;
use std::io::{self, Write as _};
use std::path::PathBuf;

use crate::failure::{Exit, Failure};
use crate::rehearsal;
use crate::render;

/// Print a script for `run --rehearse=SCRIPT` to edit
///
/// Every step and every kind of part is explained in it. As printed, nothing goes wrong in it. Edit it to make steps fail, gates send back, agents hang or crash.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  callboard rehearse-script wf.yaml --output rehearsal.yaml
  callboard run wf.yaml --rehearse=rehearsal.yaml")]
pub(super) struct Arguments {
    /// The workflow file
    workflow: PathBuf,

    /// Write it to a new file
    #[arg(long, short, value_name = "FILE")]
    output: Option<PathBuf>,
}

pub(super) fn run(arguments: Arguments) -> Result<Exit, Failure> {
    let script = rehearsal::blank_script(&arguments.workflow)?;
    let Some(file) = arguments.output else {
        render::raw(&script);
        return Ok(Exit::Delivered);
    };
    // Created, never opened: somebody may have edited the last one for hours.
    let written = File::create_new(&file).and_then(|mut new| new.write_all(script.as_bytes()));
    let shown = file.display();
    match written {
        Ok(()) => {
            render::note(format_args!("edit it, then `callboard run WORKFLOW --rehearse={shown}`"));
            Ok(Exit::Delivered)
        }
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
            Err(Failure::new(Exit::Refused, format!("`{shown}` exists and is not overwritten"))
                .hint("choose another name, or move it aside"))
        }
        Err(error) => Err(Failure::usage(format!("cannot write `{shown}`")).because(Some(&error))),
    }
}
