//! `callboard check PATH…`.

mod file;
mod format;

use std::path::PathBuf;

use serde_json::json;

use crate::failure::{Exit, Failure};
use crate::output::{self, GREEN, styled};
pub(super) use file::repository;
use file::{Checked, check};
use format::Format;

/// Check workflow files and state files
///
/// Reads a workflow and its prompts as `run` does. Checks the state files of all protocols against the rules of their formats:
/// `run_state.json`, peer cycles, `coordination/*.json`, `.workflow/.cycle/*.json` and `issue-state.json`. Each problem is
/// shown with its position, its rule and a hint. Nothing is run and nothing is written.
#[derive(Debug, clap::Args)]
#[command(after_help = "Exit codes: 0 no errors (warnings are allowed), 2 errors

Examples:
  callboard check wf.yaml
  callboard check .agents/runs/*/run_state.json
  callboard check cycle.json --as peer
  callboard check wf.yaml --json | jq '.[].findings'")]
pub(super) struct Arguments {
    /// Files to check
    #[arg(value_name = "PATH", required = true)]
    paths: Vec<PathBuf>,

    /// The format of the files [default: detected from their content]
    #[arg(long = "as", value_name = "FORMAT")]
    format: Option<Format>,

    /// The repository that the prompts are in [default: the one around each file]
    #[arg(long, value_name = "DIR")]
    repo: Option<PathBuf>,

    /// Print a JSON array with an object for each file
    #[arg(long)]
    json: bool,
}

pub(super) fn run(arguments: Arguments) -> Result<Exit, Failure> {
    let Arguments { paths, format, repo, json } = arguments;
    let checked: Vec<_> = paths.iter().map(|path| (path, check(path, format, repo.as_deref()))).collect();
    if json {
        let files = checked.iter().map(|(path, checked)| match checked {
            Ok(checked) => serde_json::to_value(checked).expect("BUG: what we print is plain data"),
            Err(failure) => json!({
                "file": path.to_string_lossy(), "error": failure.message, "causes": failure.causes, "hints": failure.hints,
            }),
        });
        output::json_pretty(&files.collect::<Vec<_>>());
    } else {
        for (_, checked) in &checked {
            match checked {
                Ok(checked) => show(checked, paths.len() > 1),
                Err(failure) => output::failure(failure),
            }
        }
    }
    let exits = checked.iter().map(|(_, checked)| match checked {
        Ok(checked) if checked.errors() == 0 => Exit::Success,
        Ok(_) => Exit::Usage,
        Err(failure) => failure.exit,
    });
    Ok(exits.max_by_key(|exit| exit.code()).expect("BUG: clap requires a path"))
}

/// Prints the findings to stdout, then `ok:` if none is an error; else the number of errors to stderr.
fn show(checked: &Checked, with_file_name: bool) {
    let file = checked.file.display();
    for finding in &checked.findings {
        output::data(format_args!(
            "{}\n",
            output::excerpt(&checked.file, &checked.source, &finding.diagnostic())
        ));
    }
    let ok_text = match (&checked.steps, &checked.peer_cycle, &checked.summary) {
        (Some(steps), ..) => Some(output::count(*steps, "step", "steps")),
        (None, Some(cycle), _) => Some(format!("peer cycle `{}` is {}", cycle.id, cycle.status)),
        (None, None, Some(summary)) => Some(summary.clone()),
        (None, None, None) => None,
    };
    if let Some(ok_text) = ok_text {
        let name = if with_file_name { format!("{file}: ") } else { String::new() };
        output::data(format_args!("{name}{} {ok_text}", styled(GREEN, "ok:")));
    } else {
        output::failure(&Failure::usage(format!(
            "`{file}` has {}",
            output::count(checked.errors(), "problem", "problems")
        )));
    }
}
