//! `callboard config`.

use serde_json::json;

use crate::config::{Flags, Row};
use crate::failure::{Exit, Failure};
use crate::output::{self, BOLD, DIM, styled};
use crate::workspace::{LocationArgs, Workspace, worktrees};

/// Show every setting, its value and where it is set
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Precedence: flags, then CALLBOARD_* and NATS_* variables, then callboard.toml at the project root,
then callboard/config.toml in the user's configuration directory

Examples:
  callboard config
  callboard config --json | jq '.[] | select(.key == \"store\")'"
)]
pub(super) struct Arguments {
    /// Print a JSON array of `key`, `value` and `origin`, and `problem` where there is one
    #[arg(long)]
    json: bool,

    #[command(flatten)]
    location: LocationArgs,
}

pub(super) fn run(arguments: Arguments) -> Result<Exit, Failure> {
    let workspace = Workspace::find(&arguments.location, Flags::default())?;
    let worktrees = worktrees::default_dir(&workspace).ok();
    let rows = workspace.config.rows(&workspace.repo, workspace.location.root(), worktrees.as_deref());
    let unknown = workspace.config.unknown_adapters();
    let problem = |key: &str| {
        let (_, adapter, _) = unknown.iter().find(|(unknown, ..)| unknown == key)?;
        Some(format!("no adapter `{adapter}` is configured"))
    };
    if arguments.json {
        let object = |row: &Row| {
            let mut object = json!({ "key": row.key, "value": row.json(), "origin": row.origin.to_string() });
            if let Some(problem) = problem(&row.key) {
                object["problem"] = json!(problem);
            }
            object
        };
        output::json_pretty(&rows.iter().map(object).collect::<Vec<_>>());
        return Ok(Exit::Success);
    }
    let width = rows.iter().map(|row| row.key.len()).max().unwrap_or(0);
    for row in &rows {
        let key = styled(BOLD, format_args!("{:<width$}", row.key));
        output::data(format_args!(
            "{key} = {}  {}",
            row.value,
            styled(DIM, format_args!("# {}", row.origin))
        ));
    }
    for row in &rows {
        if let Some(problem) = problem(&row.key) {
            output::note(format_args!("`{}`: {problem}", row.key));
        }
    }
    Ok(Exit::Success)
}
