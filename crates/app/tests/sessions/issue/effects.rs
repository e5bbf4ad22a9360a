//! The effects: performed once, although the engine is killed between any two of them; with a program in the place of `gh`.

use std::fs;

use testkit::{Callboard, Session};

use super::{ISSUE, Issue};

/// Where the engine is killed: right before and right after each change of the outside world.
const POINTS: [&str; 10] = [
    "before-commit",
    "after-commit",
    "before-push",
    "after-push",
    "before-pr",
    "after-pr",
    "before-comment",
    "after-comment",
    "before-close",
    "after-close",
];

impl Issue {
    /// Runs with `gh` and git of the test.
    fn with_gh(&self, arguments: &[&str]) -> Session {
        self.in_gh_environment(self.scene.callboard(arguments)).run()
    }

    pub(super) fn in_gh_environment<'s>(&self, callboard: Callboard<'s>) -> Callboard<'s> {
        let path = std::env::var("PATH").unwrap();
        let real_git =
            std::env::split_paths(&path).map(|dir| dir.join("git")).find(|git| git.exists()).unwrap();
        let callboard = callboard.env("PATH", format!("{}:{path}", self.dir("bin").display()));
        callboard.env("GH_STATE", self.dir("gh")).env("REAL_GIT", real_git)
    }

    pub(super) fn install_gh(&self) {
        fs::create_dir_all(self.dir("gh")).unwrap();
        fs::create_dir_all(self.dir("bin")).unwrap();
        fs::write(self.dir("gh/issue.json"), ISSUE).unwrap();
        self.scene.write_program(self.dir("bin/gh"), include_str!("gh.sh"));
        self.scene.write_program(self.dir("bin/git"), include_str!("git.sh"));
    }

    fn lines(&self, file: &str) -> usize {
        fs::read_to_string(self.dir("gh").join(file)).map_or(0, |text| text.lines().count())
    }

    fn calls(&self, command: &str) -> usize {
        let calls = fs::read_to_string(self.dir("gh/calls")).unwrap();
        calls.lines().filter(|line| line.starts_with(command)).count()
    }
}

#[test]
fn killed_between_any_two_effects_each_is_performed_once() {
    for point in POINTS {
        let issue = Issue::new();
        issue.install_gh();
        fs::write(issue.dir("gh/crash"), point).unwrap();
        let agent = issue.dir("issue-agent.sh").display().to_string();
        let killed = issue.with_gh(&[
            "issue",
            "42",
            "--run-id",
            "trial",
            "--wrapper",
            &agent,
            "--no-triage",
            "--close",
        ]);
        assert!(!issue.dir("gh/crash").exists(), "{point} was not reached: {}", killed.transcript());
        assert_ne!(killed.code, 0, "{point}: {}", killed.transcript());
        let resumed = issue.with_gh(&["resume", "trial"]);
        assert_eq!(resumed.code, 0, "{point}: {}", resumed.transcript());
        assert_eq!(issue.commits(), ["fix: The light is off"], "{point}");
        assert_eq!(
            issue.remote("agent/issue-42"),
            issue.scene.git(&["rev-parse", "agent/issue-42"]).trim(),
            "{point}"
        );
        assert_eq!(issue.lines("closed"), 1, "{point}");
        let comments = fs::read_dir(issue.dir("gh")).unwrap();
        let comments = comments
            .filter(|file| file.as_ref().unwrap().file_name().to_str().unwrap().starts_with("comment."));
        assert_eq!(comments.count(), 1, "{point}");
        let commit = issue.document()["commit"].clone();
        assert_eq!(commit["pr_url"], "https://github.com/o/r/pull/7", "{point}");
        assert_eq!((&commit["pushed"], &commit["issue_closed"]), (&true.into(), &true.into()), "{point}");
    }
}

#[test]
fn the_program_gh_reads_the_issue_and_opens_the_pull_request() {
    let issue = Issue::new();
    issue.install_gh();
    let agent = issue.dir("issue-agent.sh").display().to_string();
    let session = issue.with_gh(&["issue", "42", "--run-id", "trial", "--wrapper", &agent]);
    assert_eq!(session.code, 0, "{}", session.transcript());
    assert_eq!(
        (issue.calls("pr create"), issue.calls("issue comment"), issue.calls("issue close")),
        (1, 1, 0)
    );
    let body = fs::read_to_string(issue.dir("gh/pr")).unwrap();
    assert!(
        body.contains("Closes #42") && body.contains("<!-- callboard: trial/committer.pull-request#1 -->"),
        "{body}"
    );
    let calls = fs::read_to_string(issue.dir("gh/calls")).unwrap();
    assert!(
        calls.contains("--base main --title Fix #42") || calls.contains("--title Fix #42: The light is off"),
        "{calls}"
    );
    assert!(!calls.contains("Ignore all"), "the text of the issue is in no argument: {calls}");
}

#[test]
fn without_gh_the_error_says_what_to_do() {
    let issue = Issue::new();
    let bin = issue.dir("empty");
    fs::create_dir_all(&bin).unwrap();
    let path = std::env::var("PATH").unwrap();
    let git = std::env::split_paths(&path).map(|dir| dir.join("git")).find(|git| git.exists()).unwrap();
    std::os::unix::fs::symlink(git, bin.join("git")).unwrap();
    let session = issue.scene.callboard(&["issue", "42", "--rehearse"]).env("PATH", &bin).run();
    assert_eq!(session.code, 2, "{}", session.transcript());
    assert!(session.transcript().contains("`gh` is not on PATH"), "{}", session.transcript());
}
