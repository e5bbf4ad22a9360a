//! Each effect is performed once, although the engine is killed between any two of them. A script replaces `gh`.
//!
//! The example `crashing` is a `callboard` that is killed before or after the effect that the variable CRASH names.

use std::fs;

use testkit::{Callboard, TestEnv};

use super::{ISSUE, IssueEnv};

/// The effects of a run, in their order.
const EFFECTS: [&str; 5] =
    ["issue-commit", "issue-push", "issue-pull-request", "issue-comment", "issue-close"];

impl IssueEnv {
    /// Returns the command with the script `gh` on PATH.
    pub(super) fn in_gh_environment<'s>(&self, callboard: Callboard<'s>) -> Callboard<'s> {
        let path = std::env::var("PATH").unwrap();
        let callboard = callboard.env("PATH", format!("{}:{path}", self.shared_path("bin").display()));
        callboard.env("GH_STATE", self.shared_path("gh"))
    }

    /// Installs the script `gh` and its issue.
    pub(super) fn install_gh(&self) {
        fs::create_dir_all(self.shared_path("gh")).unwrap();
        fs::create_dir_all(self.shared_path("bin")).unwrap();
        fs::write(self.shared_path("gh/issue.json"), ISSUE).unwrap();
        self.test_env.write_program(self.shared_path("bin/gh"), include_str!("gh.sh"));
    }

    /// Returns how often the script `gh` was called with this command.
    fn gh_calls(&self, command: &str) -> usize {
        let calls = fs::read_to_string(self.shared_path("gh/calls")).unwrap();
        calls.lines().filter(|line| line.starts_with(command)).count()
    }

    /// Kills the engine before and after each effect of one run, lets the run end, and checks its result.
    fn crash_at_each_effect(&self, issue_args: &[&str]) {
        let agent = self.shared_path("issue-agent.sh").display().to_string();
        let start_args = ["--run-id", "trial", "--wrapper", &agent, "--no-triage", "--close"];
        let mut command = [issue_args, &start_args].concat();
        for point in
            EFFECTS.iter().flat_map(|effect| ["before", "after"].map(|when| format!("{when}-{effect}")))
        {
            let killed = self.in_gh_environment(self.test_env.callboard(&command)).env("CRASH", &point).run();
            assert!(![0, 1, 2, 3].contains(&killed.code), "{point} was not reached: {}", killed.transcript());
            command = vec!["resume", "trial"];
        }
        let resumed = self.in_gh_environment(self.test_env.callboard(&command)).run();
        assert_eq!(resumed.code, 0, "{}", resumed.transcript());
        assert_eq!(self.commit_subjects(), ["fix: The light is off"]);
        assert_eq!(
            self.remote_commit("agent/issue-42"),
            self.test_env.git(&["rev-parse", "agent/issue-42"]).trim()
        );
        let branches = self.test_env.git(&["ls-remote", "--heads", "origin"]);
        assert_eq!(branches.lines().count(), 1, "{branches}");
        let commit = self.document()["commit"].clone();
        assert_eq!((&commit["pushed"], &commit["issue_closed"]), (&true.into(), &true.into()));
        assert_eq!(self.learnings()["sessions"].as_array().unwrap().len(), 1);
    }
}

#[test]
fn killed_between_any_two_effects_gh_is_called_once_for_each() {
    let issue = IssueEnv::in_test_env(TestEnv::new(crate::example("crashing")));
    issue.install_gh();
    issue.crash_at_each_effect(&["issue", "42"]);
    let commands = ["pr create", "pr edit", "issue comment", "issue close"];
    assert_eq!(commands.map(|command| issue.gh_calls(command)), [1, 0, 1, 1]);
    assert_eq!(issue.document()["commit"]["pr_url"], "https://github.com/o/r/pull/7");
}

#[test]
fn killed_between_any_two_effects_one_file_is_written_for_each() {
    let issue = IssueEnv::in_test_env(TestEnv::new(crate::example("crashing")));
    issue.crash_at_each_effect(&[
        "issue",
        issue.shared_path("tracker/issue.json").to_str().unwrap(),
        "--tracker",
        "files",
    ]);
    let files = ["pull-request-", "comment-", "closed-"].map(|kind| issue.tracker_files(kind).len());
    assert_eq!(files, [1, 1, 1]);
}

/// The engine is killed right after the effect, so the journal has no record of it, and a retry starts another turn.
#[test]
fn an_effect_is_not_repeated_after_a_stop_and_a_retry() {
    for effect in ["issue-commit", "issue-comment"] {
        let issue = IssueEnv::in_test_env(TestEnv::new(crate::example("crashing")));
        let file = issue.shared_path("tracker/issue.json").display().to_string();
        let agent = issue.shared_path("issue-agent.sh").display().to_string();
        let start = ["issue", &file, "--run-id", "trial", "--wrapper", &agent, "--no-triage"];
        let killed = issue.test_env.callboard(&start).env("CRASH", format!("after-{effect}")).run();
        assert!(![0, 1, 2, 3].contains(&killed.code), "{effect}: {}", killed.transcript());
        let stopped = issue.test_env.callboard(&["stop", "trial"]).run();
        assert_eq!(stopped.code, 0, "{effect}: {}", stopped.transcript());
        let retried = issue.test_env.callboard(&["retry", "trial"]).run();
        assert_eq!(retried.code, 0, "{effect}: {}", retried.transcript());
        assert_eq!(
            (issue.commit_subjects().len(), issue.tracker_files("comment-").len()),
            (1, 1),
            "{effect}"
        );
    }
}

#[test]
fn the_program_gh_reads_the_issue_and_opens_the_pull_request() {
    let issue = IssueEnv::new();
    issue.install_gh();
    let agent = issue.shared_path("issue-agent.sh").display().to_string();
    let command = issue.test_env.callboard(&["issue", "42", "--run-id", "trial", "--wrapper", &agent]);
    // As in many CI jobs. The JSON of `gh` is then coloured.
    let session = issue.in_gh_environment(command).env("CLICOLOR_FORCE", "1").run();
    assert_eq!(session.code, 0, "{}", session.transcript());
    assert_eq!(
        (issue.gh_calls("pr create"), issue.gh_calls("issue comment"), issue.gh_calls("issue close")),
        (1, 1, 0)
    );
    let body = fs::read_to_string(issue.shared_path("gh/pr")).unwrap();
    assert!(
        body.contains("Closes #42") && body.contains("<!-- callboard: trial/committer.pull-request#1 -->"),
        "{body}"
    );
    let calls = fs::read_to_string(issue.shared_path("gh/calls")).unwrap();
    assert!(calls.contains("--title Fix #42: The light is off --body-file - --base main"), "{calls}");
    assert!(!calls.contains("Ignore all"), "the text of the issue is in no argument: {calls}");
    // A second run continues the pull request, which gets the new text.
    issue.set_agent_script(
        "writer",
        "echo more >more; say '\"writer\":{\"summary\":\"Second.\",\"test_file\":\"light.test\"}'",
    );
    let command = ["issue", "42", "--run-id", "second", "--wrapper", &agent, "--no-triage", "--continue"];
    let session = issue.in_gh_environment(issue.test_env.callboard(&command)).run();
    assert_eq!(session.code, 0, "{}", session.transcript());
    assert_eq!(
        (issue.gh_calls("pr create"), issue.gh_calls("pr edit https://github.com/o/r/pull/7")),
        (1, 1)
    );
    let body = fs::read_to_string(issue.shared_path("gh/pr")).unwrap();
    assert!(body.starts_with("Second.") && body.contains("<!-- callboard: second/"), "{body}");
    let edits = || {
        let calls = fs::read_to_string(issue.shared_path("gh/calls")).unwrap();
        calls.lines().filter(|line| line.starts_with("pr edit")).map(str::to_owned).collect::<Vec<_>>()
    };
    assert!(!edits()[0].contains("--base"), "only the user moves it to another base: {:?}", edits());
    // A third run sends it to another base.
    issue.test_env.git(&["branch", "other"]);
    issue.set_agent_script(
        "writer",
        "echo most >most; say '\"writer\":{\"summary\":\"Third.\",\"test_file\":\"light.test\"}'",
    );
    let base = ["--continue", "--base", "other"];
    let command = [&["issue", "42", "--run-id", "third", "--wrapper", &agent, "--no-triage"][..], &base];
    let session = issue.in_gh_environment(issue.test_env.callboard(&command.concat())).run();
    assert_eq!(session.code, 0, "{}", session.transcript());
    assert!(edits()[1].ends_with("--base other"), "{:?}", edits());
}

#[test]
fn without_gh_the_error_says_what_to_do() {
    let issue = IssueEnv::new();
    let dir_without_gh = issue.shared_path("empty");
    fs::create_dir_all(&dir_without_gh).unwrap();
    let path = std::env::var("PATH").unwrap();
    let git = std::env::split_paths(&path).map(|dir| dir.join("git")).find(|git| git.exists()).unwrap();
    std::os::unix::fs::symlink(git, dir_without_gh.join("git")).unwrap();
    let session = issue.test_env.callboard(&["issue", "42", "--rehearse"]).env("PATH", &dir_without_gh).run();
    assert_eq!(session.code, 2, "{}", session.transcript());
    assert!(session.transcript().contains("`gh` is not on PATH"), "{}", session.transcript());
}
