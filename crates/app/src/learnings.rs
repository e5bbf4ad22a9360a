//! `learnings.json` in the local directory of the store: what the runs of `issue` in a repository have learnt.
//!
//! The file is derived from the runs of the store. A session is the file's record of one ended run; its `key` is the run's
//! id with the time of the end, so a run that is retried and ends again has another session. The engine or the command that
//! ends a run adds the session. If that was killed first, the start of the next run of `issue` adds it.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use protocol::issue::Issue;
use protocol::run::RunStatus;
use protocol::{Protocol as _, TypedMachine};
use runner::{Journal, RunAtRevision, Summary};
use serde_json::{Value, json};
use store::{AnyStore, RunListing};

use crate::failure::Failure;
use crate::output;
use crate::workspace::Workspace;

const MAX_SESSIONS: usize = 100;

/// How many entries of a list are kept; the oldest are dropped. Other lists have no limit.
const LIST_LIMITS: [(&str, usize); 3] = [("sessions", MAX_SESSIONS), ("mistakes", 50), ("successes", 50)];

/// Brings the file up to date and returns its content; null if there is none.
pub(crate) async fn up_to_date(workspace: &Workspace, store: &AnyStore) -> Result<Value, Failure> {
    let path = file(store);
    let mut content = read(&path).map_err(Failure::usage)?;
    let repo_dir = workspace.repo_dir()?;
    let mut is_changed = false;
    for row in store.runs().await? {
        if is_missing(&content, &row, &repo_dir)
            && let Some(run_at) =
                RunAtRevision::load(store.as_ref(), workspace.protocols, &row.run, None).await?
        {
            is_changed |= add_run(&mut content, &run_at);
        }
    }
    if is_changed {
        write(&path, &content).map_err(Failure::usage)?;
    }
    Ok(content)
}

/// Adds a run that this command may have ended without an engine.
pub(crate) async fn add_if_ended(
    workspace: &Workspace,
    store: &AnyStore,
    journal: &Journal,
) -> Result<(), Failure> {
    if journal.kind().info().name == Issue::NAME
        && let Some(run_at) =
            RunAtRevision::load(store.as_ref(), workspace.protocols, &journal.run, None).await?
    {
        add_ended(store, &run_at);
    }
    Ok(())
}

/// Adds a run that has just ended. An error is only printed: the start of the next run adds it.
pub(crate) fn add_ended(store: &AnyStore, run_at: &RunAtRevision) {
    if TypedMachine::<Issue>::of(run_at.machine()).is_none() {
        return;
    }
    let path = file(store);
    let added = read(&path).and_then(|mut content| match add_run(&mut content, run_at) {
        true => write(&path, &content),
        false => Ok(()),
    });
    if let Err(error) = added {
        output::note(error);
    }
}

fn file(store: &AnyStore) -> PathBuf {
    store.local_dir().root().join("learnings.json")
}

fn read(path: &Path) -> Result<Value, String> {
    match fs::read(path) {
        Ok(text) => {
            serde_json::from_slice(&text).map_err(|error| format!("`{}` is no JSON: {error}", path.display()))
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Value::Null),
        Err(error) => Err(format!("cannot read `{}`: {error}", path.display())),
    }
}

fn write(path: &Path, content: &Value) -> Result<(), String> {
    supervisor::replace_synced_file(path, format!("{content:#}\n").as_bytes())
        .map_err(|error| format!("cannot write `{}`: {error}", path.display()))
}

fn list<'a>(content: &'a Value, name: &str) -> &'a [Value] {
    content[name].as_array().map_or(&[], Vec::as_slice)
}

/// Returns whether a run of `issue` of this repository has ended and is not yet in the file at its present revision. A
/// rehearsal is never missing.
fn is_missing(content: &Value, row: &RunListing, repo_dir: &str) -> bool {
    let is_known =
        |session: &Value| session["run"] == row.run.as_str() && session["revision"] == row.revision.0;
    let has_ended = |summary: &Summary| {
        matches!(summary.status, RunStatus::Finished(_))
            && summary.repo_dir == repo_dir
            && !summary.is_rehearsal
    };
    row.protocol == "issue"
        && serde_json::from_str(&row.summary).is_ok_and(|summary| has_ended(&summary))
        && !list(content, "sessions").iter().any(is_known)
}

/// Adds a run that has ended. Returns whether it was missing. A rehearsal is not added.
fn add_run(content: &mut Value, run_at: &RunAtRevision) -> bool {
    let options = &run_at.spec.options;
    let has_ended = matches!(run_at.state.run.status, RunStatus::Finished(_));
    let machine =
        TypedMachine::<Issue>::of(run_at.machine()).filter(|_| has_ended && !options.is_rehearsal());
    let Some(mut session) = machine.and_then(|machine| machine.document.session()) else { return false };
    session["revision"] = run_at.revision.0.into();
    let repository = repository(session["url"].as_str().unwrap_or_default(), &options.location.repo_dir);
    add(content, session, &repository)
}

/// Returns `owner/name` from the address of an issue, or else the name of the directory.
fn repository(url: &str, repo_dir: &str) -> String {
    let owner_and_name = || {
        let (before, _) = url.rsplit_once("/issues/")?;
        let (rest, name) = before.rsplit_once('/')?;
        let (_, owner) = rest.rsplit_once('/')?;
        Some(format!("{owner}/{name}"))
    };
    owner_and_name().unwrap_or_else(|| repo_dir.rsplit('/').next().unwrap_or_default().to_owned())
}

/// Adds a session and its observations to the lists. Returns whether it was missing.
fn add(content: &mut Value, mut session: Value, repository: &str) -> bool {
    let sessions = list(content, "sessions");
    let is_known = sessions.iter().any(|known| known["key"] == session["key"]);
    // A session that ended before all those of a full list was dropped from it; do not add it again.
    let is_dropped = sessions.len() >= MAX_SESSIONS
        && sessions[0]["ended_at"].as_str().unwrap_or_default()
            >= session["ended_at"].as_str().unwrap_or_default();
    if is_known || is_dropped {
        return false;
    }
    if !content.is_object() {
        *content = json!({ "version": "1.0" });
    }
    let (issue, is_success) = (session["issue"].clone(), session["outcome"] == "success");
    let knowledge = &mut content["repo_knowledge"][repository];
    for (check, field) in [("test", "test_command"), ("lint", "lint_command"), ("types", "type_command")] {
        if let Some(command) = session["commands"][check].as_str() {
            knowledge[field] = command.into();
        }
    }
    add_once(&mut knowledge["patterns"], list(&session, "patterns"));
    for observation in list(&session, "observations") {
        let text = &observation["content"];
        match observation["type"].as_str() {
            Some("mistake") => push(content, "mistakes", json!({ "issue": issue, "content": text })),
            Some("gotcha") => {
                add_once(&mut content["repo_knowledge"][repository]["gotchas"], std::slice::from_ref(text));
            }
            Some("stack") => content["repo_knowledge"][repository]["stack"] = text.clone(),
            Some(_) | None => add_pattern(content, &issue, text),
        }
    }
    let (name, field) = if is_success { ("successes", "approach") } else { ("failures", "lesson") };
    push(content, name, json!({ "issue": issue, field: session[field] }));
    for field in ["patterns", "commands"] {
        session.as_object_mut().map(|session| session.shift_remove(field));
    }
    push(content, "sessions", session);
    let count = |field: &str| content["statistics"][field].as_u64().unwrap_or(0);
    let (runs, successes) = (count("runs") + 1, count("successes") + u64::from(is_success));
    content["statistics"] = json!({ "runs": runs, "successes": successes });
    true
}

/// Appends to a list and drops its oldest entries.
fn push(content: &mut Value, name: &str, entry: Value) {
    let limit =
        LIST_LIMITS.iter().find(|(limited, _)| *limited == name).map_or(usize::MAX, |(_, limit)| *limit);
    let kept = list(content, name);
    let kept = &kept[(kept.len() + 1).saturating_sub(limit)..];
    content[name] = kept.iter().cloned().chain([entry]).collect();
}

/// Adds those values to the list `known` that it does not have.
fn add_once(known: &mut Value, new: &[Value]) {
    let mut all = known.as_array().cloned().unwrap_or_default();
    for value in new {
        if !all.contains(value) {
            all.push(value.clone());
        }
    }
    *known = all.into();
}

/// Adds a pattern. Raises the confidence of one that is already in the list.
fn add_pattern(content: &mut Value, issue: &Value, text: &Value) {
    let known = content["patterns"].as_array_mut();
    match known.and_then(|known| known.iter_mut().find(|pattern| pattern["content"] == *text)) {
        Some(pattern) => {
            let confidence = if pattern["confidence"] == "low" { "medium" } else { "high" };
            pattern["confidence"] = confidence.into();
        }
        None => push(content, "patterns", json!({ "issue": issue, "content": text, "confidence": "low" })),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn session(number: usize, outcome: &str) -> Value {
        let observations = json!([
            { "type": "mistake", "content": number },
            { "type": "pattern_discovered", "content": number / 2 },
            { "type": "gotcha", "content": "slow tests" },
        ]);
        let time = format!("2026-01-01T00:{:02}:{:02}Z", number / 60, number % 60);
        json!({
            "key": format!("r{number}"), "ended_at": time, "issue": number, "outcome": outcome, "approach": "a", "lesson": "l",
            "observations": observations, "patterns": ["small files"], "commands": { "test": "make test", "lint": null },
        })
    }

    #[test]
    fn the_newest_hundred_sessions_and_fifty_successes_are_kept() {
        let mut content = Value::Null;
        for number in 0..120 {
            assert!(add(&mut content, session(number, "success"), "o/r"));
            assert!(!add(&mut content, session(number, "success"), "o/r"), "the same session");
        }
        assert!(!add(&mut content, session(3, "success"), "o/r"), "it was dropped before");
        assert!(add(&mut content, session(120, "stopped"), "o/r"));
        let count = |name: &str| list(&content, name).len();
        assert_eq!((count("sessions"), count("successes"), count("mistakes")), (100, 50, 50));
        assert_eq!((count("patterns"), count("failures")), (61, 1));
        assert_eq!(content["sessions"][99]["issue"], 120, "the newest is last");
        assert_eq!(content["statistics"], json!({ "runs": 121, "successes": 120 }));
        assert_eq!(content["patterns"][0]["confidence"], "medium", "it was seen twice");
        let known =
            json!({ "test_command": "make test", "patterns": ["small files"], "gotchas": ["slow tests"] });
        assert_eq!(content["repo_knowledge"]["o/r"], known);
    }

    #[test]
    fn a_repository_is_named_by_the_address_of_the_issue_or_by_its_directory() {
        assert_eq!(repository("https://github.com/o/r/issues/42", "/home/me/r2"), "o/r");
        assert_eq!(repository("", "/home/me/r2"), "r2");
    }
}
