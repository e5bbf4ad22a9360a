//! `callboard schema FORMAT`.

use crate::failure::{Exit, Failure};
use crate::output;

/// Print the JSON Schema of a file format, for editors
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:
  callboard schema workflow > workflow.schema.json

Editors with the YAML language server complete and check a workflow that begins with this line:
  # yaml-language-server: $schema=workflow.schema.json")]
pub(super) struct Arguments {
    /// The file format
    format: Format,
}

#[derive(Debug, Clone, Copy, clap::ValueEnum)]
enum Format {
    /// Workflow files
    Workflow,
}

pub(super) fn run(arguments: Arguments) -> Result<Exit, Failure> {
    let schema = match arguments.format {
        Format::Workflow => protocol::steps::load::schema(),
    };
    output::json_pretty(&schema);
    Ok(Exit::Success)
}
