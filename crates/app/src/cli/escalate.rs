//! `callboard escalate`, for agents.

use serde_json::json;

use super::report::Attempt;
use crate::failure::{Exit, Failure};
use crate::output;

/// Hand a decision to a person
///
/// The escalation becomes part of the report of this attempt. The run waits until a person has answered it, and then asks
/// the step again.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  callboard escalate 'The change touches authentication'
  callboard escalate --no-human 'The lint rules contradict each other'   # noted, and the run goes on")]
pub(super) struct Arguments {
    /// Why
    reason: String,

    /// No person is needed: the engine notes it and goes on
    #[arg(long)]
    no_human: bool,
}

pub(super) fn run(arguments: Arguments) -> Result<Exit, Failure> {
    let attempt = Attempt::of_this_process()?;
    let escalation = json!({ "reason": arguments.reason, "requires_human": !arguments.no_human });
    attempt.add_to_communication("escalations", escalation)?;
    output::message("escalated; end now");
    Ok(Exit::Success)
}
