//! `callboard rehearse-script WORKFLOW | --peer | --protocol NAME`.

use std::fs::File;
use std::io::{self, Write as _};
use std::path::PathBuf;

use protocol::ProtocolKind;

use crate::failure::{Exit, Failure};
use crate::output;
use crate::rehearsal::{self, ScriptSteps};

/// Print a rehearsal script to edit, for `--rehearse=SCRIPT`
///
/// The script lists every step, or every phase of a peer cycle, and explains what can be scripted. As printed, every step
/// succeeds. Edit it to make steps fail, gates loop back, or agents hang or crash.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  callboard rehearse-script wf.yaml --output rehearsal.yaml
  callboard run wf.yaml --rehearse=rehearsal.yaml
  callboard rehearse-script --peer > cycle.yaml
  callboard peer create-spec 'dark mode' --rehearse=cycle.yaml")]
pub(super) struct Arguments {
    /// The workflow file
    #[arg(required_unless_present_any = ["peer", "protocol"], conflicts_with_all = ["peer", "protocol"])]
    workflow: Option<PathBuf>,

    /// Print the script of a peer cycle
    #[arg(long)]
    peer: bool,

    /// Print the script of a run of this protocol
    #[arg(long, value_name = "NAME", conflicts_with = "peer")]
    protocol: Option<String>,

    /// Write the script to a new file
    #[arg(long, short, value_name = "FILE")]
    output: Option<PathBuf>,
}

pub(super) fn run(arguments: Arguments) -> Result<Exit, Failure> {
    let (steps, used_by) = match (&arguments.workflow, &arguments.protocol) {
        (Some(workflow), _) => (rehearsal::workflow_steps(workflow)?, "callboard run WORKFLOW".to_owned()),
        (None, Some(protocol)) => of_protocol(protocol)?,
        (None, None) => (ScriptSteps::of_peer(), "callboard peer INSTRUCTION".to_owned()),
    };
    let script = rehearsal::script_template(&steps);
    let Some(file) = arguments.output else {
        output::raw(&script);
        return Ok(Exit::Success);
    };
    // Never overwrites: the existing script may have been edited.
    let written = File::create_new(&file).and_then(|mut new| new.write_all(script.as_bytes()));
    let shown = file.display();
    match written {
        Ok(()) => {
            let word = output::shell_word(&file);
            output::note(format_args!("edit `{shown}`, then run `{used_by} --rehearse={word}`"));
            Ok(Exit::Success)
        }
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
            Err(Failure::new(Exit::Refused, format!("cannot write `{shown}`: it exists"))
                .hint("choose another name with `--output`, or move the existing file"))
        }
        Err(error) => Err(Failure::usage(format!("cannot write `{shown}`")).because(Some(&error))),
    }
}

/// Returns the steps of a protocol, and the command that takes its script with `--rehearse`.
fn of_protocol(name: &str) -> Result<(ScriptSteps, String), Failure> {
    let protocols = crate::program().protocols;
    let info = protocols.find(name).map(ProtocolKind::info).ok_or_else(|| {
        let names: Vec<_> = protocols.names().map(|name| format!("`{name}`")).collect();
        Failure::usage(format!("there is no protocol `{name}`"))
            .hint(format!("use one of {}", names.join(", ")))
    })?;
    match info.name {
        "peer" => Ok((ScriptSteps::of_peer(), "callboard peer INSTRUCTION".to_owned())),
        _ if info.script_steps.is_empty() => {
            Err(Failure::usage(format!("a `{name}` run defines its own steps"))
                .hint("name its file: `callboard rehearse-script WORKFLOW`"))
        }
        _ => {
            let used_by = format!("{} {}", info.start_command, info.start_argument.to_uppercase());
            Ok((ScriptSteps::of_protocol(info), used_by))
        }
    }
}
