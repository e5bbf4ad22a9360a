//! The effects on a tracker. The key of an effect is a hidden marker in the text that it writes.

use protocol::issue::TrackerSpec;
use runner::{PendingEffect, PerformEffect};
use serde::Deserialize as _;
use serde_json::{Map, Value, json};

use super::{fields, skipped_in_rehearsal};
use crate::tracker::{self, NewPullRequest, Tracker};

fn tracker_of(pending_effect: &PendingEffect) -> Result<Box<dyn Tracker>, String> {
    let spec =
        TrackerSpec::deserialize(&pending_effect.arguments["tracker"]).map_err(|error| error.to_string())?;
    Ok(tracker::open(&spec, &pending_effect.repo_dir))
}

/// Returns the text that names the effect and is not shown to readers.
fn marker(pending_effect: &PendingEffect) -> String {
    format!("<!-- callboard: {} -->", pending_effect.key())
}

fn text<'a>(pending_effect: &'a PendingEffect, argument: &str) -> &'a str {
    pending_effect.arguments[argument].as_str().unwrap_or_default()
}

fn number(pending_effect: &PendingEffect) -> u64 {
    pending_effect.arguments["number"].as_u64().unwrap_or_default()
}

/// Comments on the issue.
#[derive(Debug)]
pub(super) struct Comment;

impl PerformEffect for Comment {
    fn find(&self, pending_effect: &PendingEffect) -> Result<Option<Map<String, Value>>, String> {
        if pending_effect.rehearsal {
            return Ok(None);
        }
        let found =
            tracker_of(pending_effect)?.find_comment(number(pending_effect), &marker(pending_effect))?;
        Ok(found.map(|url| fields(json!({ "comment": url }))))
    }

    fn perform(&self, pending_effect: &PendingEffect) -> Result<Map<String, Value>, String> {
        if pending_effect.rehearsal {
            return Ok(skipped_in_rehearsal("comment"));
        }
        let body = format!("{}\n{}\n", text(pending_effect, "body"), marker(pending_effect));
        let url = tracker_of(pending_effect)?.comment(number(pending_effect), &body)?;
        Ok(fields(json!({ "comment": url, "logs": [format!("commented: {url}")] })))
    }
}

/// Opens the pull request. If the branch already has one, which shows the new commit anyway, replaces its title and body, and
/// its base if the user named one.
#[derive(Debug)]
pub(super) struct PullRequest;

impl PerformEffect for PullRequest {
    fn find(&self, pending_effect: &PendingEffect) -> Result<Option<Map<String, Value>>, String> {
        if pending_effect.rehearsal {
            return Ok(None);
        }
        let found = tracker_of(pending_effect)?.find_pull_request(text(pending_effect, "branch"))?;
        let found = found.filter(|request| request.body.contains(&marker(pending_effect)));
        Ok(found.map(|request| fields(json!({ "url": request.url }))))
    }

    fn perform(&self, pending_effect: &PendingEffect) -> Result<Map<String, Value>, String> {
        if pending_effect.rehearsal {
            return Ok(skipped_in_rehearsal("pull request"));
        }
        let body = format!("{}\n{}\n", text(pending_effect, "body"), marker(pending_effect));
        let new = NewPullRequest {
            branch: text(pending_effect, "branch"),
            base: pending_effect.arguments["base"].as_str(),
            title: text(pending_effect, "title"),
            body: &body,
        };
        let tracker = tracker_of(pending_effect)?;
        let (url, done) = match tracker.find_pull_request(new.branch)? {
            Some(request) => {
                let base = new.base.filter(|_| pending_effect.arguments["retarget"] == true);
                tracker.rewrite_pull_request(&request.url, &NewPullRequest { base, ..new })?;
                (request.url, "continued")
            }
            None => (tracker.open_pull_request(&new)?, "opened"),
        };
        Ok(fields(json!({ "url": url, "logs": [format!("{done} {url}")] })))
    }
}

/// Closes the issue, unless the change is on a local branch only.
#[derive(Debug)]
pub(super) struct Close;

impl PerformEffect for Close {
    fn find(&self, pending_effect: &PendingEffect) -> Result<Option<Map<String, Value>>, String> {
        let is_closed =
            !pending_effect.rehearsal && tracker_of(pending_effect)?.is_closed(number(pending_effect))?;
        Ok(is_closed.then(|| fields(json!({ "closed": true }))))
    }

    fn perform(&self, pending_effect: &PendingEffect) -> Result<Map<String, Value>, String> {
        if pending_effect.rehearsal {
            return Ok(skipped_in_rehearsal("closing the issue"));
        }
        if pending_effect.arguments["pushed"] != true {
            let log = "the issue stays open: the change was not pushed";
            return Ok(fields(json!({ "closed": false, "logs": [log] })));
        }
        let tracker = tracker_of(pending_effect)?;
        tracker.close(number(pending_effect))?;
        Ok(fields(json!({ "closed": tracker.is_closed(number(pending_effect))? })))
    }
}
