//! `callboard ask`, for agents.

use serde_json::json;

use super::report::Attempt;
use crate::failure::{Exit, Failure};
use crate::output;

/// Ask another agent or a person, and end
///
/// The question becomes part of the report of this attempt. End after it: the step is asked again with the answer.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  callboard ask analyst 'Which debounce helper do you mean?'
  callboard ask human 'May the API change?'")]
pub(super) struct Arguments {
    /// The agent, or `human`
    to: String,

    /// The question
    question: String,
}

pub(super) fn run(arguments: Arguments) -> Result<Exit, Failure> {
    let attempt = Attempt::of_this_process()?;
    protocol::issue::Addressee::parse(&arguments.to).map_err(Failure::usage)?;
    attempt
        .add_to_communication("questions", json!({ "to": arguments.to, "question": arguments.question }))?;
    output::message("asked; exit now, and you are asked again with the answer");
    Ok(Exit::Success)
}
