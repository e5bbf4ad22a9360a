//! GitHub, through the program `gh` and the user's own login.

use std::io::{self, Read, Write as _};
use std::os::fd::AsFd as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::mpsc::{self, Receiver};
use std::thread;
use std::time::{Duration, Instant};

use protocol::issue::IssueData;
use rustix::process::Pid;
use serde_json::Value;

use super::{NewPullRequest, PullRequest, Tracker};

/// How long one call of `gh` may take. A run must not wait for a server that does not answer.
const TIMEOUT: Duration = Duration::from_secs(120);

/// How long the output of `gh` is read after `gh` has ended: a process that it left behind may keep the pipes open.
const LINGER_TIMEOUT: Duration = Duration::from_secs(1);

/// `gh` in a repository. Bodies are passed on standard input, titles as arguments; no shell sees them.
#[derive(Debug)]
pub(crate) struct Gh {
    repo: PathBuf,
    program: PathBuf,
    timeout: Duration,
}

impl Gh {
    pub(crate) fn new(repo: &Path) -> Self {
        Self { repo: repo.to_owned(), program: PathBuf::from("gh"), timeout: TIMEOUT }
    }

    /// Reads an issue. Blocks. The error is a sentence for the user.
    pub(crate) fn issue(&self, number: u64) -> Result<IssueData, String> {
        let number = number.to_string();
        let issue = self.json(&["issue", "view", &number, "--json", "number,title,body,labels,url"])?;
        serde_json::from_value(issue)
            .map_err(|error| format!("`gh issue view` printed something else: {error}"))
    }

    fn run(&self, arguments: &[&str], input: &str) -> Result<String, String> {
        let shown = shown(arguments);
        let run = || -> io::Result<Output> {
            let child = Command::new(&self.program)
                .args(arguments)
                .current_dir(&self.repo)
                .env("GH_PROMPT_DISABLED", "1")
                // With one of these, JSON has colours in a pipe, too.
                .env_remove("CLICOLOR_FORCE")
                .env_remove("GH_FORCE_TTY")
                .stdin(Stdio::piped())
                .stdout(Stdio::piped())
                .stderr(Stdio::piped())
                .spawn()?;
            communicate(child, input, self.timeout)
        };
        let output = run().map_err(|error| match error.kind() {
            io::ErrorKind::NotFound if self.repo.is_dir() => {
                "the program `gh` is not on PATH; install it from https://cli.github.com and run `gh auth login`, or use \
                 `--tracker files`"
                    .to_owned()
            }
            io::ErrorKind::TimedOut => {
                format!("`{shown}` did not end within {} s; check the network and `gh auth status`", self.timeout.as_secs())
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
        serde_json::from_str(&text)
            .map_err(|error| format!("`{}` printed no JSON: {error}", shown(arguments)))
    }
}

/// Returns how errors name a call.
fn shown(arguments: &[&str]) -> String {
    format!("gh {}", arguments.iter().take(2).copied().collect::<Vec<_>>().join(" "))
}

/// Writes the input of a process and reads its output until it ends. Kills it after the timeout.
fn communicate(mut child: Child, input: &str, timeout: Duration) -> io::Result<Output> {
    let (stdin, input) = (child.stdin.take(), input.to_owned());
    let (stdout, stderr) = (child.stdout.take(), child.stderr.take());
    // Errors are ignored: a process that does not read its input says why with its exit code.
    thread::spawn(move || stdin.map(|mut stdin| stdin.write_all(input.as_bytes())));
    let (stdout, stderr) = (read(stdout), read(stderr));
    let process = linux::Process::running(Pid::from_child(&child))?;
    if !linux::poll_until(&[process.as_fd()], Some(Instant::now() + timeout))?[0] {
        child.kill()?;
        child.wait()?;
        return Err(io::ErrorKind::TimedOut.into());
    }
    let status = child.wait()?;
    let deadline = Instant::now() + LINGER_TIMEOUT;
    let [stdout, stderr] = [stdout, stderr].map(|output| collect(&output, deadline));
    Ok(Output { status, stdout, stderr })
}

/// Reads a pipe in a thread.
fn read(pipe: Option<impl Read + Send + 'static>) -> Receiver<Vec<u8>> {
    let (sender, receiver) = mpsc::channel();
    thread::spawn(move || {
        let Some(mut pipe) = pipe else { return };
        let mut buffer = [0; 8192];
        while let Ok(length @ 1..) = pipe.read(&mut buffer) {
            if sender.send(buffer[..length].to_vec()).is_err() {
                break;
            }
        }
    });
    receiver
}

/// Returns what was read until the pipe was closed, or until the deadline.
fn collect(output: &Receiver<Vec<u8>>, deadline: Instant) -> Vec<u8> {
    let mut bytes = Vec::new();
    while let Ok(more) = output.recv_timeout(deadline.saturating_duration_since(Instant::now())) {
        bytes.extend(more);
    }
    bytes
}

impl Tracker for Gh {
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
            "url,body,isCrossRepository",
        ])?;
        // The branch of a fork may have the same name.
        let mut not_from_forks =
            list.as_array().into_iter().flatten().filter(|found| found["isCrossRepository"] != true);
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        Ok(not_from_forks
            .next()
            .map(|request| PullRequest { url: text(&request["url"]), body: text(&request["body"]) }))
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
        let mut arguments = vec!["pr", "edit", url, "--title", new.title, "--body-file", "-"];
        if let Some(base) = new.base {
            arguments.extend(["--base", base]);
        }
        self.run(&arguments, new.body).map(drop)
    }

    fn is_closed(&self, number: u64) -> Result<bool, String> {
        let issue = self.json(&["issue", "view", &number.to_string(), "--json", "state"])?;
        Ok(issue["state"] == "CLOSED")
    }

    fn close(&self, number: u64) -> Result<(), String> {
        self.run(&["issue", "close", &number.to_string()], "").map(drop)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_that_hangs_is_killed_and_the_error_names_the_timeout() {
        let (repo, program) = (PathBuf::from("/"), PathBuf::from("sleep"));
        let gh = Gh { repo, program, timeout: Duration::from_millis(1) };
        let error = gh.run(&["1000"], "").unwrap_err();
        assert_eq!(error, "`gh 1000` did not end within 0 s; check the network and `gh auth status`");
        let gh = Gh { program: PathBuf::from("cat"), ..gh };
        let (gh, text) = (Gh { timeout: TIMEOUT, ..gh }, "x".repeat(200_000));
        assert_eq!(gh.run(&[], &text), Ok(text), "more than a pipe holds");
    }

    #[test]
    fn an_error_names_the_command_that_printed_no_json() {
        let gh = Gh { repo: PathBuf::from("/"), program: PathBuf::from("echo"), timeout: TIMEOUT };
        let error = gh.is_closed(42).unwrap_err();
        assert!(error.starts_with("`gh issue view` printed no JSON: "), "{error}");
    }

    #[test]
    fn a_process_that_keeps_the_pipes_open_is_not_waited_for() {
        let (repo, program) = (PathBuf::from("/"), PathBuf::from("sh"));
        let gh = Gh { repo, program, timeout: TIMEOUT };
        let printed = gh.run(&["-c", "sleep 1000 & echo $!"], "").unwrap();
        let sleeper = Pid::from_raw(printed.parse().unwrap()).unwrap();
        rustix::process::kill_process(sleeper, rustix::process::Signal::KILL).unwrap();
    }
}
