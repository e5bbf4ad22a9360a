//! Trackers: where comments and pull requests go.

mod files;
mod gh;

use std::fmt::Debug;
use std::path::Path;

use protocol::issue::TrackerSpec;

pub(crate) use files::FileTracker;
pub(crate) use gh::Gh;

/// A pull request that exists.
#[derive(Debug, Clone)]
pub(crate) struct PullRequest {
    pub(crate) url: String,
    pub(crate) body: String,
}

/// A pull request that is to be opened, or the new text of one.
#[derive(Debug, Clone)]
pub(crate) struct NewPullRequest<'a> {
    pub(crate) branch: &'a str,
    /// `None` for the tracker's default, or for the base that an existing one has.
    pub(crate) base: Option<&'a str>,
    pub(crate) title: &'a str,
    pub(crate) body: &'a str,
}

/// A tracker. All functions may block, and fail with a sentence.
pub(crate) trait Tracker: Debug {
    /// Returns the address of the comment that contains the text.
    fn find_comment(&self, number: u64, text: &str) -> Result<Option<String>, String>;
    fn comment(&self, number: u64, body: &str) -> Result<String, String>;
    /// Returns the open pull request from the branch.
    fn find_pull_request(&self, branch: &str) -> Result<Option<PullRequest>, String>;
    /// Opens a pull request. Returns its address.
    fn open_pull_request(&self, new: &NewPullRequest<'_>) -> Result<String, String>;
    /// Replaces title and body of a pull request, and its base if one is given.
    fn rewrite_pull_request(&self, url: &str, new: &NewPullRequest<'_>) -> Result<(), String>;
    fn is_closed(&self, number: u64) -> Result<bool, String>;
    fn close(&self, number: u64) -> Result<(), String>;
}

/// Returns the tracker of a run.
pub(crate) fn open(spec: &TrackerSpec, repo: &Path) -> Box<dyn Tracker> {
    match spec {
        TrackerSpec::Gh => Box::new(Gh::new(repo)),
        TrackerSpec::Files { dir } => Box::new(FileTracker::new(dir)),
    }
}
