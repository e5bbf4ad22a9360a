//! `learnings.json`: what all runs in a repository have learnt.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use runner::{EffectOrder, PerformEffect};
use serde_json::{Map, Value, json};

use super::{fields, left_out};

/// How many entries of each list are kept.
const KEPT: [(&str, usize); 3] = [("sessions", 100), ("mistakes", 50), ("successes", 50)];

/// Adds the run to the file.
#[derive(Debug)]
pub(super) struct Learn;

impl PerformEffect for Learn {
    fn find(&self, order: &EffectOrder) -> Result<Option<Map<String, Value>>, String> {
        let content = read(&file(&order.mark.store))?;
        let sessions = content["sessions"].as_array().into_iter().flatten();
        let is_there = sessions.into_iter().any(|session| session["key"] == order.key());
        Ok(is_there.then(Map::new))
    }

    fn perform(&self, order: &EffectOrder) -> Result<Map<String, Value>, String> {
        if order.rehearsal {
            return Ok(left_out("learnings"));
        }
        let path = file(&order.mark.store);
        let mut content = read(&path)?;
        let mut session = order.arguments["session"].clone();
        session["key"] = order.key().into();
        add(&mut content, session);
        let shown = path.display();
        supervisor::replace_file(&path, format!("{content:#}\n").as_bytes())
            .map_err(|error| format!("cannot write `{shown}`: {error}"))?;
        Ok(fields(json!({ "logs": [format!("added to {shown}")] })))
    }
}

/// Returns the file in the local directory of a store.
pub(crate) fn file(local_dir: &Path) -> PathBuf {
    local_dir.join("learnings.json")
}

/// Reads the file; null if there is none.
pub(crate) fn read(path: &Path) -> Result<Value, String> {
    match fs::read(path) {
        Ok(text) => {
            serde_json::from_slice(&text).map_err(|error| format!("`{}` is no JSON: {error}", path.display()))
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Value::Null),
        Err(error) => Err(format!("cannot read `{}`: {error}", path.display())),
    }
}

/// Adds a session, and what it teaches, to the lists that are kept.
fn add(content: &mut Value, session: Value) {
    if !content.is_object() {
        *content = json!({ "version": "1.0" });
    }
    let is_success = session["outcome"] == "success";
    let mut push = |list: &str, entry: Value| {
        let entries = content[list].as_array().cloned().unwrap_or_default();
        let mut entries: Vec<_> = entries.into_iter().chain([entry]).collect();
        let limit = KEPT.iter().find(|(name, _)| *name == list).map_or(usize::MAX, |(_, limit)| *limit);
        entries.drain(..entries.len().saturating_sub(limit));
        content[list] = entries.into();
    };
    for observation in session["observations"].as_array().into_iter().flatten() {
        let list = if observation["type"] == "mistake" { "mistakes" } else { "patterns" };
        push(
            list,
            json!({ "issue": session["issue"], "content": observation["content"], "confidence": "low" }),
        );
    }
    let (list, field) = if is_success { ("successes", "approach") } else { ("failures", "lesson") };
    push(list, json!({ "issue": session["issue"], field: session[field] }));
    push("sessions", session);
    let count = |field: &str| content["statistics"][field].as_u64().unwrap_or(0);
    let (runs, successes) = (count("runs") + 1, count("successes") + u64::from(is_success));
    content["statistics"] = json!({ "runs": runs, "successes": successes });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_hundred_sessions_and_fifty_successes_are_kept() {
        let mut content = Value::Null;
        for number in 0..120 {
            let observations =
                json!([{ "type": "mistake", "content": number }, { "type": "pattern", "content": number }]);
            add(
                &mut content,
                json!({ "issue": number, "outcome": "success", "approach": "a", "observations": observations }),
            );
        }
        add(&mut content, json!({ "issue": 120, "outcome": "failed_max_retries", "lesson": "l" }));
        let count = |list: &str| content[list].as_array().unwrap().len();
        assert_eq!((count("sessions"), count("successes"), count("mistakes")), (100, 50, 50));
        assert_eq!((count("patterns"), count("failures")), (120, 1));
        assert_eq!(content["sessions"][99]["issue"], 120, "the newest is last");
        assert_eq!(content["statistics"], json!({ "runs": 121, "successes": 120 }));
    }
}
