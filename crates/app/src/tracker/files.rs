//! A tracker of files: the issue is a JSON file, comments and pull requests are JSON files in the same directory.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use protocol::issue::IssueData;
use serde_json::{Value, json};

use super::{NewPullRequest, PullRequest, Tracker};

/// A tracker whose comments and pull requests are files in the directory of the issue.
#[derive(Debug)]
pub(crate) struct FileTracker {
    dir: PathBuf,
}

impl FileTracker {
    pub(crate) fn new(dir: &Path) -> Self {
        Self { dir: dir.to_owned() }
    }

    /// Reads an issue as `gh issue view --json` prints it.
    pub(crate) fn read(file: &Path) -> Result<IssueData, String> {
        let text = fs::read(file).map_err(|error| format!("cannot read `{}`: {error}", file.display()))?;
        serde_json::from_slice(&text).map_err(|error| {
            format!("`{}` is not an issue as `gh issue view --json` prints it: {error}", file.display())
        })
    }

    /// Reads the files `<kind><number>.json`. Returns their numbers, paths and content, in the order of their numbers.
    fn read_all(&self, kind: &str) -> Result<Vec<(u32, PathBuf, Value)>, String> {
        let cannot_read =
            |path: &Path, error: io::Error| format!("cannot read `{}`: {error}", path.display());
        let in_dir = |error| cannot_read(&self.dir, error);
        let mut found = Vec::new();
        for entry in fs::read_dir(&self.dir).map_err(in_dir)? {
            let path = entry.map_err(in_dir)?.path();
            let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
            let number = name.strip_prefix(kind).and_then(|rest| rest.strip_suffix(".json"));
            let Some(number) = number.and_then(|number| number.parse::<u32>().ok()) else { continue };
            let text = fs::read(&path).map_err(|error| cannot_read(&path, error))?;
            let content = serde_json::from_slice(&text)
                .map_err(|error| format!("`{}` is no JSON: {error}", path.display()))?;
            found.push((number, path, content));
        }
        found.sort_by_key(|(number, ..)| *number);
        Ok(found)
    }

    /// Writes the next file of a kind, whole or not at all.
    fn add(&self, kind: &str, content: &Value) -> Result<String, String> {
        // Numbers follow the order of time, although a user may have deleted a file.
        let newest = self.read_all(kind)?.last().map_or(0, |(number, ..)| *number);
        let mut number = newest + 1;
        loop {
            let path = self.dir.join(format!("{kind}{number}.json"));
            let created = supervisor::create_synced_file(&path, &encode(content));
            if created.map_err(|error| cannot_write(&path, &error))? {
                return Ok(path.display().to_string());
            }
            // Another run has taken the number since.
            number += 1;
        }
    }
}

fn encode(content: &Value) -> Vec<u8> {
    format!("{content:#}\n").into_bytes()
}

fn cannot_write(path: &Path, error: &io::Error) -> String {
    format!("cannot write `{}`: {error}", path.display())
}

fn pull_request(new: &NewPullRequest<'_>) -> Value {
    let NewPullRequest { branch, base, title, body } = new;
    json!({ "headRefName": branch, "baseRefName": base, "title": title, "body": body })
}

/// The kinds of files: each is the beginning of the names of its files.
const COMMENT: &str = "comment-";
const PULL_REQUEST: &str = "pull-request-";
const CLOSED: &str = "closed-";

impl Tracker for FileTracker {
    fn find_comment(&self, number: u64, text: &str) -> Result<Option<String>, String> {
        let is_match = |comment: &Value| {
            comment["issue"] == number && comment["body"].as_str().is_some_and(|body| body.contains(text))
        };
        let found = self.read_all(COMMENT)?.into_iter().find(|(.., comment)| is_match(comment));
        Ok(found.map(|(_, path, _)| path.display().to_string()))
    }

    fn comment(&self, number: u64, body: &str) -> Result<String, String> {
        self.add(COMMENT, &json!({ "issue": number, "body": body }))
    }

    fn find_pull_request(&self, branch: &str) -> Result<Option<PullRequest>, String> {
        let found =
            self.read_all(PULL_REQUEST)?.into_iter().find(|(.., request)| request["headRefName"] == branch);
        Ok(found.map(|(_, path, request)| PullRequest {
            url: path.display().to_string(),
            body: request["body"].as_str().unwrap_or_default().to_owned(),
        }))
    }

    fn open_pull_request(&self, new: &NewPullRequest<'_>) -> Result<String, String> {
        self.add(PULL_REQUEST, &pull_request(new))
    }

    fn rewrite_pull_request(&self, url: &str, new: &NewPullRequest<'_>) -> Result<(), String> {
        let path: &Path = url.as_ref();
        let mut request = pull_request(new);
        if new.base.is_none() {
            let old = self.read_all(PULL_REQUEST)?.into_iter().find(|(_, file, _)| file == path);
            request["baseRefName"] = old.map(|(.., mut old)| old["baseRefName"].take()).unwrap_or_default();
        }
        supervisor::replace_synced_file(path, &encode(&request)).map_err(|error| cannot_write(path, &error))
    }

    fn is_closed(&self, number: u64) -> Result<bool, String> {
        Ok(self.read_all(CLOSED)?.iter().any(|(.., closed)| closed["issue"] == number))
    }

    fn close(&self, number: u64) -> Result<(), String> {
        self.add(CLOSED, &json!({ "issue": number })).map(drop)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_comment_does_not_replace_another_one_after_one_was_deleted() {
        let dir = tempfile::tempdir().unwrap();
        let tracker = FileTracker { dir: dir.path().to_owned() };
        let paths: Vec<_> = ["one", "two", "three"].map(|body| tracker.comment(1, body).unwrap()).into();
        fs::remove_file(&paths[0]).unwrap();
        let fourth = tracker.comment(1, "four").unwrap();
        assert!(!paths.contains(&fourth), "{fourth}");
        assert!(tracker.find_comment(1, "three").unwrap().is_some());
    }

    #[test]
    fn a_pull_request_keeps_its_base_unless_another_is_given() {
        let dir = tempfile::tempdir().unwrap();
        let tracker = FileTracker { dir: dir.path().to_owned() };
        let new = NewPullRequest { branch: "work", base: Some("main"), title: "t", body: "b" };
        let url = tracker.open_pull_request(&new).unwrap();
        let base_after = |base| {
            tracker.rewrite_pull_request(&url, &NewPullRequest { base, ..new.clone() }).unwrap();
            tracker.read_all(PULL_REQUEST).unwrap()[0].2["baseRefName"].clone()
        };
        assert_eq!(
            [base_after(None), base_after(Some("other")), base_after(None)],
            ["main", "other", "other"]
        );
    }

    #[test]
    fn comments_of_two_runs_do_not_replace_each_other() {
        let dir = tempfile::tempdir().unwrap();
        let comment = |run: usize| {
            let tracker = FileTracker::new(dir.path());
            (0..20).for_each(|number| drop(tracker.comment(1, &format!("{run}.{number}")).unwrap()));
        };
        std::thread::scope(|scope| {
            for run in 0..4 {
                scope.spawn(move || comment(run));
            }
        });
        assert_eq!(FileTracker::new(dir.path()).read_all(COMMENT).unwrap().len(), 80);
    }
}
