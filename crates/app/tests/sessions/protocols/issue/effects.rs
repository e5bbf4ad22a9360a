//! The effects: performed once, although the engine is killed between any two of them; with a program in the place of `gh`.

use std::fs;

use testkit::{Callboard, TestEnv};

use super::{ISSUE, Issue};

/// The changes of the outside world, in their order.
const EFFECTS: [&str; 5] =
    ["issue-commit", "issue-push", "issue-pull-request", "issue-comment", "issue-close"];

impl Issue {
    /// A command with `gh` of the test.
    pub(super) fn in_gh_environment<'s>(&self, callboard: Callboard<'s>) -> Callboard<'s> {
        let path = std::env::var("PATH").unwrap();
        let callboard = callboard.env("PATH", format!("{}:{path}", self.dir("bin").display()));
        callboard.env("GH_STATE", self.dir("gh"))
    }

    pub(super) fn install_gh(&self) {
        fs::create_dir_all(self.dir("gh")).unwrap();
        fs::create_dir_all(self.dir("bin")).unwrap();
        fs::write(self.dir("gh/issue.json"), ISSUE).unwrap();
        self.test_env.write_program(self.dir("bin/gh"), include_str!("gh.sh"));
    }

    fn calls(&self, command: &str) -> usize {
        let calls = fs::read_to_string(self.dir("gh/calls")).unwrap();
        calls.lines().filter(|line| line.starts_with(command)).count()
    }

    /// Kills the engine before and after each effect of one run, and then lets the run end.
    fn crash_everywhere(&self, issue: &[&str]) {
        let agent = self.dir("issue-agent.sh").display().to_string();
        let start = ["--run-id", "trial", "--wrapper", &agent, "--no-triage", "--close"];
        let mut command = [issue, &start].concat();
        for point in
            EFFECTS.iter().flat_map(|effect| ["before", "after"].map(|when| format!("{when}-{effect}")))
        {
            let killed = self.in_gh_environment(self.test_env.callboard(&command)).env("CRASH", &point).run();
            assert!(![0, 1, 2, 3].contains(&killed.code), "{point} was not reached: {}", killed.transcript());
            command = vec!["resume", "trial"];
        }
        let resumed = self.in_gh_environment(self.test_env.callboard(&command)).run();
        assert_eq!(resumed.code, 0, "{}", resumed.transcript());
        assert_eq!(self.commits(), ["fix: The light is off"]);
        assert_eq!(self.remote("agent/issue-42"), self.test_env.git(&["rev-parse", "agent/issue-42"]).trim());
        let branches = self.test_env.git(&["ls-remote", "--heads", "origin"]);
        assert_eq!(branches.lines().count(), 1, "{branches}");
        let commit = self.document()["commit"].clone();
        assert_eq!((&commit["pushed"], &commit["issue_closed"]), (&true.into(), &true.into()));
        assert_eq!(self.learnings()["sessions"].as_array().unwrap().len(), 1);
    }
}

#[test]
fn killed_between_any_two_effects_gh_is_called_once_for_each() {
    let issue = Issue::in_test_env(TestEnv::new(crate::example("crashing")));
    issue.install_gh();
    issue.crash_everywhere(&["issue", "42"]);
    let commands = ["pr create", "pr edit", "issue comment", "issue close"];
    assert_eq!(commands.map(|command| issue.calls(command)), [1, 0, 1, 1]);
    assert_eq!(issue.document()["commit"]["pr_url"], "https://github.com/o/r/pull/7");
}

#[test]
fn killed_between_any_two_effects_one_file_is_written_for_each() {
    let issue = Issue::in_test_env(TestEnv::new(crate::example("crashing")));
    issue.crash_everywhere(&[
        "issue",
        issue.dir("tracker/issue.json").to_str().unwrap(),
        "--tracker",
        "files",
    ]);
    let files = ["pull-request-", "comment-", "closed-"].map(|kind| issue.tracked(kind).len());
    assert_eq!(files, [1, 1, 1]);
}

/// The engine is killed after the effect, so the run does not know that it was performed, and a retry is another turn.
#[test]
fn an_effect_is_not_repeated_after_a_stop_and_a_retry() {
    for effect in ["issue-commit", "issue-comment"] {
        let issue = Issue::in_test_env(TestEnv::new(crate::example("crashing")));
        let file = issue.dir("tracker/issue.json").display().to_string();
        let agent = issue.dir("issue-agent.sh").display().to_string();
        let start = ["issue", &file, "--run-id", "trial", "--wrapper", &agent, "--no-triage"];
        let killed = issue.test_env.callboard(&start).env("CRASH", format!("after-{effect}")).run();
        assert!(![0, 1, 2, 3].contains(&killed.code), "{effect}: {}", killed.transcript());
        let stopped = issue.test_env.callboard(&["stop", "trial"]).run();
        assert_eq!(stopped.code, 0, "{effect}: {}", stopped.transcript());
        let retried = issue.test_env.callboard(&["retry", "trial"]).run();
        assert_eq!(retried.code, 0, "{effect}: {}", retried.transcript());
        assert_eq!((issue.commits().len(), issue.tracked("comment-").len()), (1, 1), "{effect}");
    }
}

#[test]
fn the_program_gh_reads_the_issue_and_opens_the_pull_request() {
    let issue = Issue::new();
    issue.install_gh();
    let agent = issue.dir("issue-agent.sh").display().to_string();
    let command = issue.test_env.callboard(&["issue", "42", "--run-id", "trial", "--wrapper", &agent]);
    let session = issue.in_gh_environment(command).run();
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
    // A second run continues the pull request, which gets the new text.
    issue.agent(
        "writer",
        "echo more >more; say '\"writer\":{\"summary\":\"Second.\",\"test_file\":\"light.test\"}'",
    );
    let command = ["issue", "42", "--run-id", "second", "--wrapper", &agent, "--no-triage", "--continue"];
    let session = issue.in_gh_environment(issue.test_env.callboard(&command)).run();
    assert_eq!(session.code, 0, "{}", session.transcript());
    assert_eq!((issue.calls("pr create"), issue.calls("pr edit https://github.com/o/r/pull/7")), (1, 1));
    let body = fs::read_to_string(issue.dir("gh/pr")).unwrap();
    assert!(body.starts_with("Second.") && body.contains("<!-- callboard: second/"), "{body}");
}

#[test]
fn without_gh_the_error_says_what_to_do() {
    let issue = Issue::new();
    let bin = issue.dir("empty");
    fs::create_dir_all(&bin).unwrap();
    let path = std::env::var("PATH").unwrap();
    let git = std::env::split_paths(&path).map(|dir| dir.join("git")).find(|git| git.exists()).unwrap();
    std::os::unix::fs::symlink(git, bin.join("git")).unwrap();
    let session = issue.test_env.callboard(&["issue", "42", "--rehearse"]).env("PATH", &bin).run();
    assert_eq!(session.code, 2, "{}", session.transcript());
    assert!(session.transcript().contains("`gh` is not on PATH"), "{}", session.transcript());
}
