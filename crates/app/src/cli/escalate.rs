//! `callboard escalate`, for agents.

use serde_json::json;

use super::report::Attempt;
use crate::failure::{Exit, Failure};
use crate::output;

/// Hand a decision to a person, or to another agent
///
/// The escalation becomes part of the report of this attempt. Exit after it: the step is asked again, with the decision in its prompt.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  callboard escalate 'The change touches authentication'
  callboard escalate --no-human 'The lint rules contradict each other'   # another agent decides")]
pub(super) struct Arguments {
    /// The reason for the escalation
    reason: String,

    /// No person is needed: the engine asks another agent to decide, and a person only if that fails
    #[arg(long)]
    no_human: bool,
}

pub(super) fn run(arguments: Arguments) -> Result<Exit, Failure> {
    let attempt = Attempt::of_this_process()?;
    let escalation = json!({ "reason": arguments.reason, "requires_human": !arguments.no_human });
    attempt.add_to_communication("escalations", escalation)?;
    output::message("escalated; exit now");
    Ok(Exit::Success)
}
