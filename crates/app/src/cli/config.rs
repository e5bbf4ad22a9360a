//! `callboard config`.

use crate::config::Flags;
use crate::failure::{Exit, Failure};
use crate::output::{self, BOLD, DIM, styled};
use crate::workspace::{LocationArgs, Workspace};

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
    /// Print a JSON array of `key`, `value` and `origin`
    #[arg(long)]
    json: bool,

    #[command(flatten)]
    location: LocationArgs,
}

pub(super) fn run(arguments: Arguments) -> Result<Exit, Failure> {
    let workspace = Workspace::find(&arguments.location, Flags::default())?;
    let rows = workspace.config.rows(&workspace.repo, workspace.location.root());
    if arguments.json {
        let rows: Vec<_> = rows
            .iter()
            .map(|row| serde_json::json!({ "key": row.key, "value": row.json(), "origin": row.origin.to_string() }))
            .collect();
        output::json_pretty(&rows);
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
    Ok(Exit::Success)
}
