//! GitHub, through the program `gh` and the user's own login.

use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use protocol::issue::IssueData;
use serde_json::Value;

use super::{NewPullRequest, PullRequest, Tracker};

/// `gh` in a repository. Texts are passed on standard input, never in a shell line.
#[derive(Debug)]
pub(crate) struct Gh {
    repo: PathBuf,
}

impl Gh {
    pub(crate) fn new(repo: &Path) -> Self {
        Self { repo: repo.to_owned() }
    }

    fn run(&self, arguments: &[&str], input: &str) -> Result<String, String> {
        let shown = format!("gh {}", arguments.iter().take(2).copied().collect::<Vec<_>>().join(" "));
        let run = || -> io::Result<std::process::Output> {
            let mut child = Command::new("gh")
                .args(arguments)
                .current_dir(&self.repo)
                .env("GH_PROMPT_DISABLED", "1")
                .stdin(Stdio::piped())
                .stdout(Stdio::piped())
                .stderr(Stdio::piped())
                .spawn()?;
            if let Some(mut stdin) = child.stdin.take() {
                match stdin.write_all(input.as_bytes()) {
                    // It does not read its input; its exit code says the rest.
                    Err(error) if error.kind() != io::ErrorKind::BrokenPipe => return Err(error),
                    Ok(()) | Err(_) => {}
                }
            }
            child.wait_with_output()
        };
        let output = run().map_err(|error| match error.kind() {
            io::ErrorKind::NotFound => {
                "the program `gh` is not on PATH; install it from https://cli.github.com and run `gh auth login`, or use \
                 `--tracker files`"
                    .to_owned()
            }
            _ => format!("cannot run `{shown}`: {error}"),
        })?;
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).trim().to_owned();
        match output.status.success() {
            true => Ok(text(&output.stdout)),
            false => Err(format!("`{shown}` failed ({}): {}", output.status, text(&output.stderr))),
        }
    }

    fn json(&self, arguments: &[&str]) -> Result<Value, String> {
        let text = self.run(arguments, "")?;
        serde_json::from_str(&text).map_err(|error| format!("`gh {}` printed no JSON: {error}", arguments[0]))
    }
}

impl Tracker for Gh {
    fn issue(&self, number: u64) -> Result<IssueData, String> {
        let number = number.to_string();
        let issue = self.json(&["issue", "view", &number, "--json", "number,title,body,labels,url"])?;
        serde_json::from_value(issue)
            .map_err(|error| format!("`gh issue view` printed another form: {error}"))
    }

    fn find_comment(&self, number: u64, text: &str) -> Result<Option<String>, String> {
        let issue = self.json(&["issue", "view", &number.to_string(), "--json", "comments"])?;
        let comments = issue["comments"].as_array().into_iter().flatten();
        let mut found =
            comments.filter(|comment| comment["body"].as_str().is_some_and(|body| body.contains(text)));
        Ok(found.next().map(|comment| comment["url"].as_str().unwrap_or_default().to_owned()))
    }

    fn comment(&self, number: u64, body: &str) -> Result<String, String> {
        self.run(&["issue", "comment", &number.to_string(), "--body-file", "-"], body)
    }

    fn find_pull_request(&self, branch: &str) -> Result<Option<PullRequest>, String> {
        let list = self.json(&[
            "pr",
            "list",
            "--head",
            branch,
            "--state",
            "open",
            "--json",
            "url,body,headRefName",
        ])?;
        let first = list.as_array().and_then(|list| list.first());
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        Ok(first.map(|request| PullRequest { url: text(&request["url"]), body: text(&request["body"]) }))
    }

    fn open_pull_request(&self, new: &NewPullRequest<'_>) -> Result<String, String> {
        let mut arguments =
            vec!["pr", "create", "--head", new.branch, "--title", new.title, "--body-file", "-"];
        if let Some(base) = new.base {
            arguments.extend(["--base", base]);
        }
        let printed = self.run(&arguments, new.body)?;
        Ok(printed.lines().last().unwrap_or_default().to_owned())
    }

    fn rewrite_pull_request(&self, url: &str, new: &NewPullRequest<'_>) -> Result<(), String> {
        self.run(&["pr", "edit", url, "--title", new.title, "--body-file", "-"], new.body).map(drop)
    }

    fn is_closed(&self, number: u64) -> Result<bool, String> {
        let issue = self.json(&["issue", "view", &number.to_string(), "--json", "state"])?;
        Ok(issue["state"] == "CLOSED")
    }

    fn close(&self, number: u64) -> Result<(), String> {
        self.run(&["issue", "close", &number.to_string()], "").map(drop)
    }
}
