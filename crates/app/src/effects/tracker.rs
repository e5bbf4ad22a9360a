//! The effects on a tracker. The key of an effect is a hidden marker in the text that it writes.

use protocol::issue::TrackerSpec;
use runner::{EffectOrder, PerformEffect};
use serde::Deserialize as _;
use serde_json::{Map, Value, json};

use super::{fields, skipped_in_rehearsal};
use crate::tracker::{self, NewPullRequest, Tracker};

fn tracker_of(order: &EffectOrder) -> Result<Box<dyn Tracker>, String> {
    let spec = TrackerSpec::deserialize(&order.arguments["tracker"]).map_err(|error| error.to_string())?;
    Ok(tracker::open(&spec, &order.repo_dir))
}

/// Returns the text that names the effect and is not shown to readers.
fn marker(order: &EffectOrder) -> String {
    format!("<!-- callboard: {} -->", order.key())
}

fn text<'a>(order: &'a EffectOrder, argument: &str) -> &'a str {
    order.arguments[argument].as_str().unwrap_or_default()
}

fn number(order: &EffectOrder) -> u64 {
    order.arguments["number"].as_u64().unwrap_or_default()
}

/// Comments on the issue.
#[derive(Debug)]
pub(super) struct Comment;

impl PerformEffect for Comment {
    fn find(&self, order: &EffectOrder) -> Result<Option<Map<String, Value>>, String> {
        if order.rehearsal {
            return Ok(None);
        }
        let found = tracker_of(order)?.find_comment(number(order), &marker(order))?;
        Ok(found.map(|url| fields(json!({ "comment": url }))))
    }

    fn perform(&self, order: &EffectOrder) -> Result<Map<String, Value>, String> {
        if order.rehearsal {
            return Ok(skipped_in_rehearsal("comment"));
        }
        let body = format!("{}\n{}\n", text(order, "body"), marker(order));
        let url = tracker_of(order)?.comment(number(order), &body)?;
        Ok(fields(json!({ "comment": url, "logs": [format!("commented: {url}")] })))
    }
}

/// Opens the pull request. If the branch already has one, replaces its title and body: it shows the new commit anyway.
#[derive(Debug)]
pub(super) struct PullRequest;

impl PerformEffect for PullRequest {
    fn find(&self, order: &EffectOrder) -> Result<Option<Map<String, Value>>, String> {
        if order.rehearsal {
            return Ok(None);
        }
        let found = tracker_of(order)?.find_pull_request(text(order, "branch"))?;
        let found = found.filter(|request| request.body.contains(&marker(order)));
        Ok(found.map(|request| fields(json!({ "url": request.url }))))
    }

    fn perform(&self, order: &EffectOrder) -> Result<Map<String, Value>, String> {
        if order.rehearsal {
            return Ok(skipped_in_rehearsal("pull request"));
        }
        let body = format!("{}\n{}\n", text(order, "body"), marker(order));
        let new = NewPullRequest {
            branch: text(order, "branch"),
            base: order.arguments["base"].as_str(),
            title: text(order, "title"),
            body: &body,
        };
        let tracker = tracker_of(order)?;
        let (url, done) = match tracker.find_pull_request(new.branch)? {
            Some(request) => {
                tracker.rewrite_pull_request(&request.url, &new)?;
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
    fn find(&self, order: &EffectOrder) -> Result<Option<Map<String, Value>>, String> {
        let is_closed = !order.rehearsal && tracker_of(order)?.is_closed(number(order))?;
        Ok(is_closed.then(|| fields(json!({ "closed": true }))))
    }

    fn perform(&self, order: &EffectOrder) -> Result<Map<String, Value>, String> {
        if order.rehearsal {
            return Ok(skipped_in_rehearsal("closing the issue"));
        }
        if order.arguments["pushed"] != true {
            let log = "the issue stays open: the change was not pushed";
            return Ok(fields(json!({ "closed": false, "logs": [log] })));
        }
        let tracker = tracker_of(order)?;
        tracker.close(number(order))?;
        Ok(fields(json!({ "closed": tracker.is_closed(number(order))? })))
    }
}
