//! `callboard checks`.

use std::time::Duration;

use protocol::checks::{CheckResult, CheckSpec};
use serde_json::json;
use supervisor::checks::{CheckError, CheckRunner, StopFlag};

use crate::config::Flags;
use crate::failure::{Exit, Failure};
use crate::output::{self, DIM, GREEN, RED, styled};
use crate::workspace::{LocationArgs, Workspace};

/// How many lines of a failed check's output are shown.
const SHOWN_LINES: usize = 20;

/// Run the checks of the project (tests, linter, types) in the current tree
///
/// The checks are those of `[checks]` in callboard.toml, or else those that the files of the project suggest (Cargo, npm, Python,
/// Go, Make); `callboard config` shows them. Runs use the same checks for merged trees.
#[derive(Debug, clap::Args)]
#[command(after_help = "Exit codes: 0 if all checks pass, 1 if one fails

Examples:
  callboard checks
  callboard checks test lint
  callboard checks --json | jq '.checks[] | select(.exit_code != 0) | .log'")]
pub(super) struct Arguments {
    /// Run only these checks, in this order [default: all]
    #[arg(value_name = "NAME")]
    names: Vec<String>,

    /// Print a JSON object with `passed` and the results
    #[arg(long)]
    json: bool,

    #[command(flatten)]
    location: LocationArgs,
}

pub(super) fn run(arguments: Arguments) -> Result<Exit, Failure> {
    let workspace = Workspace::find(&arguments.location, Flags::default())?;
    let specs = chosen(workspace.checks(), &arguments.names)?;
    let cannot =
        |error: std::io::Error| Failure::new(Exit::Failed, "cannot run the checks").because(Some(&error));
    let logs = tempfile::Builder::new().prefix("callboard-checks-").tempdir().map_err(cannot)?;
    let stop = StopFlag::new().map_err(cannot)?;
    stop.on_signals().map_err(cannot)?;
    let runner = CheckRunner { tree: &workspace.repo, logs_dir: logs.path(), env: Vec::new(), stop };
    let mut passed = true;
    let show = |result: &CheckResult| {
        passed &= result.passed();
        if !arguments.json {
            print(result);
        }
    };
    let ended = runner.run(&specs, show);
    if !passed {
        // The output has their paths.
        let _ = logs.keep();
    }
    let mut results = match ended {
        Ok(results) => results,
        Err(CheckError::Stopped) => return Ok(Exit::Interrupted),
        Err(error) => return Err(Failure::from_error(Exit::Failed, &error)),
    };
    if passed {
        // The logs are removed with their directory.
        results.iter_mut().for_each(|result| result.log = None);
    }
    if arguments.json {
        output::json_pretty(&json!({ "passed": passed, "checks": results }));
    }
    Ok(if passed { Exit::Success } else { Exit::Failed })
}

/// Returns the checks with these names, or all if none is named.
fn chosen(specs: Vec<CheckSpec>, names: &[String]) -> Result<Vec<CheckSpec>, Failure> {
    if specs.is_empty() {
        return Err(Failure::usage("this project has no checks")
            .hint("write in callboard.toml:\n\n    [checks]\n    test = [\"PROGRAM\", \"ARGUMENT\"]"));
    }
    if names.is_empty() {
        return Ok(specs);
    }
    let find = |name: &String| {
        specs.iter().find(|spec| spec.name == *name).cloned().ok_or_else(|| {
            let known: Vec<_> = specs.iter().map(|spec| spec.name.as_str()).collect();
            Failure::usage(format_args!("there is no check `{name}`"))
                .hint(format_args!("the checks are {}", known.join(", ")))
        })
    };
    names.iter().map(find).collect()
}

fn print(result: &CheckResult) {
    let took = output::duration(Duration::from_millis(result.duration_ms));
    let command = styled(DIM, format_args!("{} ({took})", result.command_line()));
    if result.passed() {
        output::data(format_args!("{} {}  {command}", styled(GREEN, "✓"), result.summary()));
        return;
    }
    output::data(format_args!("{} {}  {command}", styled(RED, "✗"), result.summary()));
    let lines: Vec<_> = result.output.lines().collect();
    for line in &lines[lines.len().saturating_sub(SHOWN_LINES)..] {
        output::data(format_args!("    {line}"));
    }
    if let Some(log) = &result.log {
        output::data(styled(DIM, format_args!("    whole output: {log}")));
    }
}
