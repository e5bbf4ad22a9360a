//! Which files show a run: the seed's layout under `<repo>/.agents/runs/<run_id>/`.

use super::document::Document;
use crate::RunId;
use crate::rules::View;

/// What git is told to ignore, relative to the repository.
pub const EXCLUDED: &str = "/.agents/runs/";

/// `<repo>/.agents/runs/<run_id>`.
pub fn run_dir(repo_dir: &str, run: &RunId) -> String {
    format!("{repo_dir}/.agents/runs/{run}")
}

pub fn reports_dir(repo_dir: &str, run: &RunId) -> String {
    format!("{}/reports", run_dir(repo_dir, run))
}

pub fn manual_inputs_dir(repo_dir: &str, run: &RunId) -> String {
    format!("{}/manual_inputs", run_dir(repo_dir, run))
}

/// Where agents may put what they make.
pub fn artifacts_dir(repo_dir: &str, run: &RunId) -> String {
    format!("{}/artifacts", run_dir(repo_dir, run))
}

/// The file that shows the report of a step's latest attempt.
pub fn report_path(reports_dir: &str, run_id: &str, step: &str) -> String {
    format!("{reports_dir}/{run_id}__{step}.json")
}

pub(super) fn state_file(document: &Document) -> View {
    let head = &document.head;
    View {
        path: format!("{}/.agents/runs/{}/run_state.json", head.repo_dir, head.run_id),
        body: document.render(),
    }
}
