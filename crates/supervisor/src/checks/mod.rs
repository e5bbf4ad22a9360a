//! Checks: commands that judge a tree, run one after the other, and the evidence that each leaves.
//!
//! [`CheckRunner`] is the only code that runs them: for `callboard checks`, for a step of the kind
//! [`Command`](protocol::StepKind::Command), whose attempt is `callboard __checks FILE` ([`ARGUMENT`]) under the shim,
//! and for the merge queue, which merges one branch after the other into the integration branch.

mod output;
mod run;
mod step;
#[cfg(test)]
mod tests;

pub use run::{CheckError, CheckRunner, StopFlag};
pub(crate) use run::{WaitOutcome, wait_for_group_leader};
pub use step::{ARGUMENT, main, write_specs};

use protocol::checks::{CheckResult, CheckSpec};

/// Returns the results of checks that a rehearsal does not run: all have passed.
pub fn rehearsed(specs: &[CheckSpec]) -> Vec<CheckResult> {
    const OUTPUT: &str = "rehearsed";
    let passed = |spec: &CheckSpec| CheckResult {
        name: spec.name.clone(),
        command: spec.command.clone(),
        exit_code: Some(0),
        error: None,
        duration_ms: 0,
        tree: None,
        output_digest: output::digest(OUTPUT.as_bytes()),
        output: OUTPUT.to_owned(),
        log: None,
    };
    specs.iter().map(passed).collect()
}
