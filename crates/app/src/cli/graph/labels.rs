//! The text below a step's name.

use super::model::{Iteration, Progress, Step};
use crate::cli::step_status;
use crate::output;

/// Returns the lines below a step's name: its agent in a workflow, its status in a run; then the iteration of a gate,
/// conditions, checks and the like.
pub(super) fn lines_below_name(step: &Step) -> Vec<String> {
    let first = match &step.progress {
        Some(progress) => format!("{} {}", step_status::symbol(progress.kind), status(progress)),
        None => step.agent.clone(),
    };
    let iteration = step.progress.as_ref().and_then(|progress| progress.iteration).map(iteration);
    std::iter::once(first).chain(iteration).chain(step.details.lines()).collect()
}

/// Returns the status, the duration, and the number of the attempt if there was more than one.
pub(super) fn status(progress: &Progress) -> String {
    let Progress { kind, duration, attempts, .. } = progress;
    let duration = duration.map(|duration| format!(" {}", output::duration(duration))).unwrap_or_default();
    let attempts = if *attempts > 1 { format!(", attempt {attempts}") } else { String::new() };
    format!("{}{duration}{attempts}", kind.as_str())
}

/// Returns the current iteration of a gate or of a `cycle` run, counted from 1, and the limit.
pub(super) fn iteration(Iteration { current, max }: Iteration) -> String {
    format!("iteration {current} of {max}")
}
