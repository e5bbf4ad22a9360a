//! The files that show a `steps` run: the layout of the original, under `<repo>/.agents/runs/<run_id>/`.

use super::document::Document;
use crate::protocol_trait::{RunLocation, View};

pub(super) fn reports_dir(location: &RunLocation) -> String {
    format!("{}/reports", location.run_dir())
}

pub(super) fn manual_inputs_dir(location: &RunLocation) -> String {
    format!("{}/manual_inputs", location.run_dir())
}

/// Returns the path of the file with the report of a step's latest attempt.
pub(super) fn report_path(reports_dir: &str, run_id: &str, step: &str) -> String {
    format!("{reports_dir}/{run_id}__{step}.json")
}

/// Returns the path of the original's answer file for a step that waits for a person.
pub(super) fn manual_input_path(manual_inputs_dir: &str, run_id: &str, step: &str) -> String {
    format!("{manual_inputs_dir}/{run_id}__{step}.json")
}

/// Returns `run_state.json`, the view of the whole document.
pub(super) fn state_file(document: &Document) -> View {
    // Derived from the reports directory beside it, because the `repo_dir` of the document may be a worktree.
    let reports_dir = &document.run_fields.reports_dir;
    let run_dir = reports_dir.rsplit_once('/').map_or(reports_dir.as_str(), |(run_dir, _)| run_dir);
    View { path: format!("{run_dir}/run_state.json"), body: document.render() }
}
