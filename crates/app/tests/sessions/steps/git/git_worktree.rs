//! `--git-worktree`: the whole run in a worktree of its own.

use std::path::PathBuf;
use std::process::Command;

use testkit::TestEnv;

use crate::sessions::{status, test_env};

fn repository() -> TestEnv {
    let test_env = test_env();
    test_env.write("page.txt", "empty\n");
    test_env.git(&["add", "page.txt"]);
    test_env.git(&["commit", "--quiet", "--message=page"]);
    test_env.workflow_yaml(&["id: plan", "id: code, needs: [plan]"]);
    test_env.script_agent(&[
        "code * do echo \"by $CALLBOARD_ATTEMPT\" >page.txt; write_report COMPLETED \"wrote it\"",
    ]);
    test_env
}

fn worktree(test_env: &TestEnv) -> PathBuf {
    test_env.repo().join(".agents/worktrees/agents__run-trial")
}

/// A scenario in which the original tool failed: it deleted the branch of a successful run.
#[test]
fn success_keeps_unpushed_commits() {
    let test_env = repository();
    let session = test_env.run(&["--git-worktree"]).run();
    assert_eq!(session.code, 0, "{}", session.transcript());
    assert_eq!(test_env.git(&["show", "agents/run-trial:page.txt"]), "by code#1.1\n");
    assert_eq!(test_env.git(&["show", "main:page.txt"]), "empty\n", "never merged by itself");
    assert!(
        session.stderr.contains("run `git switch main && git merge agents/run-trial` to merge the result"),
        "{}",
        session.transcript()
    );
    assert!(!worktree(&test_env).exists(), "it is clean, and the branch has everything");
    let view = test_env.document("trial");
    assert_eq!(view["repo_dir"].as_str().map(PathBuf::from), Some(worktree(&test_env)));
    assert_eq!(test_env.git(&["status", "--porcelain", "--", ".agents"]), "", "it is excluded from git");
}

#[test]
fn steps_with_worktrees_of_their_own_do_not_reach_the_base_branch() {
    let test_env = repository();
    test_env.workflow_yaml(&["id: code, worktree: true"]);
    let session = test_env.run(&["--git-worktree"]).run();
    assert_eq!(session.code, 0, "{}", session.transcript());
    assert_eq!(test_env.git(&["show", "agents/run-trial:page.txt"]), "by code#1.1\n");
    assert_eq!(test_env.git(&["show", "main:page.txt"]), "empty\n");
}

#[test]
fn a_run_that_starts_again_has_the_same_worktree() {
    let test_env = repository();
    assert_eq!(test_env.run(&["--git-worktree", "--git-worktree-keep"]).run().code, 0);
    let page = || std::fs::read_to_string(worktree(&test_env).join("page.txt")).unwrap();
    assert_eq!(page(), "by code#1.1\n");
    let agent = test_env.agent_dir().join("agent.sh");
    let again = ["run", "wf.yaml", "--git-worktree", "--start-at-step", "code", "--wrapper"];
    let again = test_env.callboard(&[&again[..], &[agent.to_str().unwrap()]].concat()).run();
    assert_eq!(again.code, 0, "{}", again.transcript());
    assert_eq!(page(), "by code#2.1\n");
    assert_eq!(status(&test_env.document("trial"), "plan"), "COMPLETED");
}

#[test]
fn branch_root_and_ref_can_be_chosen() {
    let test_env = repository();
    test_env.git(&["commit", "--quiet", "--allow-empty", "--message=later"]);
    let flags = [
        "--git-worktree-branch",
        "feature/x",
        "--git-worktree-root",
        "trees",
        "--git-worktree-ref",
        "HEAD~1",
    ];
    let session = test_env.run(&[&["--git-worktree", "--git-worktree-keep"][..], &flags].concat()).run();
    assert_eq!(session.code, 0, "{}", session.transcript());
    assert!(test_env.repo().join("trees/feature__x/page.txt").exists());
    let log = test_env.git(&["log", "--format=%s", "feature/x"]);
    assert!(!log.contains("later") && log.contains("page"), "{log}");
    for (flag, value) in [("--git-worktree-ref", "nowhere"), ("--git-worktree-branch", "a..b")] {
        let refused =
            test_env.callboard(&["run", "wf.yaml", "--rehearse", "--git-worktree", flag, value]).run();
        assert_eq!(refused.code, 2, "{}", refused.transcript());
    }
}

#[test]
fn printed_commands_work_for_odd_branch_names_and_kept_worktrees() {
    const BRANCH: &str = "it's&$(x)";
    let test_env = repository();
    test_env.write("rehearsal.yaml", "steps: {code: [ok: {write: {new.txt: x}}]}\n");
    let flags = ["--git-worktree", "--git-worktree-keep", "--git-worktree-branch", BRANCH];
    let rehearse = ["run", "wf.yaml", "--run-id", "rehearsal", "--rehearse=rehearsal.yaml"];
    let session = test_env.callboard(&[&rehearse[..], &flags].concat()).run();
    assert_eq!(session.code, 0, "{}", session.transcript());
    let (_, note) = session.stderr.split_once(&format!("branch `{BRANCH}`: `")).unwrap();
    let (command, _) = note.split_once("` removes them").unwrap();
    let output = Command::new("sh").args(["-c", command]).current_dir(test_env.repo()).output().unwrap();
    assert!(output.status.success(), "{command}: {output:?}");
    assert_eq!(test_env.git(&["branch", "--list", BRANCH]), "");

    let session = test_env.run(&flags).run();
    assert_eq!(session.code, 0, "{}", session.transcript());
    let merge = r"run `git switch main && git merge 'it'\''s&$(x)'` to merge the result";
    assert!(session.stderr.contains(merge), "{}", session.transcript());
}

#[test]
fn a_run_without_a_worktree_does_not_get_one_when_it_starts_again() {
    let test_env = repository();
    assert_eq!(test_env.run(&[]).run().code, 0);
    let again = test_env.callboard(&["run", "wf.yaml", "--git-worktree", "--start-at-step", "code"]).run();
    assert_eq!(again.code, 3, "{}", again.transcript());
    assert!(again.stderr.contains("was started without `--git-worktree`"), "{}", again.transcript());
}

#[test]
fn a_run_does_not_start_again_on_a_branch_that_a_later_run_has_used() {
    let test_env = repository();
    let flags = ["--git-worktree", "--git-worktree-branch", "feature"];
    assert_eq!(test_env.run(&flags).run().code, 0);
    test_env.git(&["branch", "--move", "feature", "earlier"]);
    let later = test_env.with_agent(&[&["run", "wf.yaml", "--run-id", "later"][..], &flags].concat()).run();
    assert_eq!(later.code, 0, "{}", later.transcript());
    let commit = test_env.git(&["rev-parse", "feature"]);
    for again in [
        &["run", "wf.yaml", "--run-id", "trial", "--start-at-step", "code"][..],
        &["retry", "trial", "--from", "code"],
    ] {
        let again = test_env.callboard(again).run();
        assert_eq!(again.code, 3, "{}", again.transcript());
        assert!(
            again.stderr.contains("run `later` has worked on branch `feature` since"),
            "{}",
            again.stderr
        );
    }
    assert_eq!(test_env.git(&["rev-parse", "feature"]), commit);
}
