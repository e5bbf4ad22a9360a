//! Steps with worktrees of their own, and the merge queue.

use std::path::PathBuf;

use insta::assert_snapshot;
use testkit::{CallOutput, TestEnv};

use crate::sessions::{status, test_env};

/// Two steps, the features, that change the same line in their own worktrees, and a step that reads the merged result.
const FEATURES: [&str; 3] = ["id: a, worktree: true", "id: b, worktree: true", "id: read, needs: [a, b]"];

/// What the agents do. Neither feature ends before the other has started. The one that is merged second conflicts with
/// the integration branch; its agent then keeps both changes and leaves the commit to the engine.
const AGENT_SCRIPT: [&str; 2] = [
    r#"read * do cp page.txt "$shared/read"; pwd >"$shared/directory"; write_report COMPLETED "read it""#,
    r#"* * do meet() { case $STEP_ID in a) echo >"$shared/a-to-b"; read -r _ <"$shared/b-to-a" ;; b) read -r _ <"$shared/a-to-b"; echo >"$shared/b-to-a" ;; esac; }; if git merge --quiet callboard/trial >/dev/null 2>&1; then meet; echo "by $STEP_ID" >page.txt; else echo "by a and b" >page.txt; fi; write_report COMPLETED "wrote it""#,
];

fn features() -> TestEnv {
    let test_env = test_env();
    test_env.write("page.txt", "empty\n");
    test_env.git(&["add", "page.txt"]);
    test_env.git(&["commit", "--quiet", "--message=page"]);
    test_env.workflow_yaml(&FEATURES);
    test_env.script_agent(&AGENT_SCRIPT);
    for name in ["a-to-b", "b-to-a"] {
        test_env.barrier(name);
    }
    test_env
}

/// Returns the directory of the run's worktrees.
fn worktrees_dir(test_env: &TestEnv) -> PathBuf {
    let parent = test_env.home().join(".local/share/callboard/worktrees");
    let mut found = std::fs::read_dir(parent).unwrap();
    found.next().unwrap().unwrap().path().join("trial")
}

/// Returns the effects that the commits of a branch name.
fn effects(test_env: &TestEnv, branch: &str) -> Vec<String> {
    let format = "--format=%(trailers:key=Callboard-Effect,valueonly,separator=%x2C)";
    let log = test_env.git(&["log", "--reverse", format, branch]);
    log.lines().filter(|line| !line.is_empty()).map(str::to_owned).collect()
}

#[track_caller]
fn expect_both_merged(test_env: &TestEnv, session: &CallOutput) {
    assert_eq!(session.code, 0, "{}", session.transcript());
    assert_eq!(test_env.git(&["show", "main:page.txt"]), "by a and b\n");
    assert_eq!(std::fs::read_to_string(test_env.agent_dir().join("read")).unwrap(), "by a and b\n");
    assert_eq!(std::fs::read_to_string(test_env.repo().join("page.txt")).unwrap(), "by a and b\n");
    // The feature that was merged second was merged in its second turn.
    let effects = effects(test_env, "main");
    assert!(
        effects == ["trial/a.merge#1", "trial/b.merge#2"]
            || effects == ["trial/b.merge#1", "trial/a.merge#2"],
        "{effects:?}"
    );
    test_env.expect_no_orphans();
}

#[test]
fn two_features_that_change_the_same_file_are_merged_one_after_the_other() {
    let test_env = features();
    let session = test_env.run(&["--jobs", "2"]).run();
    expect_both_merged(&test_env, &session);
    let document = test_env.document("trial");
    let integration = worktrees_dir(&test_env).join("integration");
    assert_eq!(document["repo_dir"], integration.to_str().unwrap());
    assert_eq!(
        std::fs::read_to_string(test_env.agent_dir().join("directory")).unwrap().trim_end(),
        integration.to_str().unwrap()
    );
    for step in ["a", "a.merge", "b", "b.merge", "read", "fast-forward"] {
        assert_eq!(status(&document, step), "COMPLETED", "{step}");
    }
    let second = if effects(&test_env, "main")[0].starts_with("trial/a.") { "b" } else { "a" };
    let prompt =
        std::fs::read_to_string(test_env.attempt_dir("trial", second, "2.1").join("prompt.md")).unwrap();
    assert!(prompt.contains("conflict with `callboard/trial` in page.txt"), "{prompt}");
    assert!(prompt.contains("++<<<<<<< HEAD"), "{prompt}");
    let left: Vec<_> = std::fs::read_dir(worktrees_dir(&test_env))
        .unwrap()
        .map(|entry| entry.unwrap().file_name())
        .collect();
    assert_eq!(left, ["state"], "the worktrees are removed");
    assert_eq!(test_env.git(&["branch", "--list", "callboard/*"]).trim(), "callboard/trial");
}

/// The attempt leaves a file with conflict markers, which cannot be committed. The next attempt finds it.
#[test]
fn an_attempt_that_is_interrupted_while_it_resolves_a_conflict_does_not_count() {
    let test_env = features();
    test_env.workflow_yaml(
        &FEATURES.map(|step| format!("{step}, max_attempts: 1")).each_ref().map(String::as_str),
    );
    let hang_once = r#"else [ -f "$shared/hung" ] || { : >"$shared/hung"; hang; };"#;
    test_env.script_agent(
        &AGENT_SCRIPT.map(|line| line.replace("else", hang_once)).each_ref().map(String::as_str),
    );
    let engine = test_env.run(&["--jobs", "2"]).start();
    test_env.wait_for_file("hung");
    engine.interrupt();
    let stopped = engine.wait();
    assert_eq!(stopped.code, 130, "{}", stopped.transcript());
    assert!(stopped.stderr.contains("still has conflict markers: page.txt"), "{}", stopped.transcript());
    expect_both_merged(&test_env, &test_env.callboard(&["resume", "trial"]).run());
}

/// A scenario in which the original tool failed; `runs/controlling/original_failures.rs` refers to this name.
#[test]
fn success_keeps_unpushed_commits() {
    let test_env = test_env();
    test_env.workflow_yaml(&["id: a, worktree: true"]);
    test_env.script_agent(&["a * do echo done >made.txt; write_report COMPLETED made"]);
    let session = test_env.run(&["--no-merge"]).run();
    assert_snapshot!(session.transcript(), @"
    $ callboard run wf.yaml --run-id trial --wrapper [SHARED]/agent.sh --no-merge
    run trial in [REPO]
    ▸ a#1.1 started
    ✓ a#1.1 finished [TIME]
    ▸ a.merge#1.1 started
    ✓ a.merge#1.1 finished [TIME]
    ▸ fast-forward#1.1 started
    ✓ fast-forward#1.1 finished [TIME]

    note: run `git switch main && git merge callboard/trial` to merge the result
    run `trial` succeeded: 3 of 3 steps done, [TIME]
    [exit 0]
    ");
    assert!(!test_env.repo().join("made.txt").exists());
    assert!(!worktrees_dir(&test_env).join("step-a").exists(), "the worktree is removed, the branch is not");
    test_env.git(&["merge", "--quiet", "callboard/trial"]);
    assert!(test_env.repo().join("made.txt").exists());
}

#[test]
fn a_new_run_does_not_adopt_the_worktree_of_a_removed_run_of_the_same_name() {
    let test_env = test_env();
    test_env.workflow_yaml(&["id: a, worktree: true, max_attempts: 1"]);
    test_env.script_agent(&["a * do echo half >made.txt; exit 1"]);
    assert_eq!(test_env.run(&[]).run().code, 1);
    let removed = test_env.callboard(&["rm", "trial"]).run();
    let tree = worktrees_dir(&test_env).join("step-a");
    assert!(tree.join("made.txt").exists(), "{}", removed.transcript());
    for branch in ["callboard/trial", "callboard/trial@a"] {
        let refused = test_env.run(&[]).run();
        assert_eq!(refused.code, 3, "{}", refused.transcript());
        let message = format!("branch `{branch}` exists already");
        assert!(refused.stderr.contains(&message), "{}", refused.transcript());
        test_env.git(&["branch", "-m", branch, &branch.replace("trial", "old")]);
    }
    let refused = test_env.run(&[]).run();
    assert_eq!(refused.code, 3, "{}", refused.transcript());
    let remove = format!("run `git worktree remove -f -f {}` to delete it", tree.display());
    assert!(refused.stderr.contains(&remove), "{}", refused.transcript());
    test_env.git(&["worktree", "remove", "-f", "-f", tree.to_str().unwrap()]);
    test_env.script_agent(&["a * do ls >\"$shared/files\"; write_report COMPLETED listed"]);
    let session = test_env.run(&[]).run();
    assert_eq!(session.code, 0, "{}", session.transcript());
    assert!(!std::fs::read_to_string(test_env.agent_dir().join("files")).unwrap().contains("made.txt"));
}

#[test]
fn local_changes_that_forbid_the_fast_forward_are_named() {
    let test_env = test_env();
    test_env.workflow_yaml(&["id: a, worktree: true"]);
    test_env.script_agent(&["a * do echo done >made.txt; write_report COMPLETED made"]);
    test_env.write("made.txt", "mine\n");
    let session = test_env.run(&[]).run();
    assert_eq!(session.code, 0, "{}", session.transcript());
    let why =
        "not merged: The following untracked working tree files would be overwritten by merge: made.txt";
    let shown = test_env.callboard(&["show", "trial"]).run();
    for output in [session, shown] {
        assert!(output.stdout.contains(why), "{}", output.transcript());
    }
}

#[test]
fn a_stop_ends_the_setup_command_and_the_next_start_runs_it_again() {
    let test_env = test_env();
    test_env.workflow_yaml(&["id: a, worktree: true"]);
    let shared = test_env.agent_dir();
    let setup = format!(
        "[ -e {shared}/again ] || {{ echo $$ >{shared}/new; mv {shared}/new {shared}/begun; exec cat {shared}/never; }}",
        shared = shared.display()
    );
    test_env.write("callboard.toml", &format!("[worktree]\nsetup = ['sh', '-c', '{setup}']\n"));
    let engine = test_env.run(&[]).start();
    let pid = test_env.wait_for_lines("begun").trim().parse().unwrap();
    let setup = testkit::ProcessHandle::of(pid).expect("it hangs");
    let stopped = test_env.callboard(&["stop", "trial"]).run();
    assert_eq!(stopped.code, 0, "{}", stopped.transcript());
    engine.wait();
    setup.wait();
    assert!(test_env.agent_log().started().is_empty());
    std::fs::write(shared.join("again"), "").unwrap();
    let resumed = test_env.callboard(&["resume", "trial"]).run();
    assert_eq!(resumed.code, 0, "{}", resumed.transcript());
    assert_eq!(test_env.agent_log().started(), ["a#1.2"]);
}

#[test]
fn a_rehearsal_merges_on_its_own_branches_only() {
    let test_env = features();
    // The rehearsed agents change nothing, so the setup command does.
    test_env.write(
        "callboard.toml",
        "[worktree]\nsetup = ['sh', '-c', 'case $PWD in */step-a) echo made >made.txt; esac']\n",
    );
    let before = test_env.git(&["rev-parse", "main"]);
    let session = test_env.callboard(&["run", "wf.yaml", "--run-id", "trial", "--rehearse"]).run();
    assert_eq!(session.code, 0, "{}", session.transcript());
    assert_eq!(test_env.git(&["rev-parse", "main"]), before);
    assert_eq!(test_env.git(&["show", "callboard/trial:made.txt"]), "made\n");
    let logs = &test_env.document("trial")["steps"]["fast-forward"]["logs"];
    assert!(logs[0].as_str().unwrap().contains("rehearsal"), "{logs}");
}

#[test]
fn the_doctor_names_the_worktrees_of_a_failed_run() {
    let test_env = test_env();
    test_env.workflow_yaml(&["id: a, worktree: true, max_attempts: 1"]);
    test_env.script_agent(&["a * do echo half >made.txt; write_report FAILED gave-up"]);
    assert_eq!(test_env.run(&[]).run().code, 1);
    let worktree = worktrees_dir(&test_env).join("step-a");
    assert!(worktree.join("made.txt").exists(), "its work is kept");
    let doctor = test_env.callboard(&["doctor"]).run();
    let text = format!("{}{}", doctor.stdout, doctor.stderr);
    assert!(text.contains("2 worktrees remain of runs that have ended"), "{text}");
    assert!(text.contains(&format!("{} of run `trial`", worktree.display())), "{text}");
    // Another store of the repository does not know whether the run has ended.
    let other = test_env.home().join("other").display().to_string();
    let run = ["run", "wf.yaml", "--run-id", "other", "--rehearse", "--store", &other];
    assert_eq!(test_env.callboard(&run).run().code, 0);
    let doctor = test_env.callboard(&["doctor", "--store", &other]).run();
    assert!(!format!("{}{}", doctor.stdout, doctor.stderr).contains("`trial`"), "{}", doctor.transcript());
    test_env.script_agent(&["a * do echo whole >made.txt; write_report COMPLETED made"]);
    assert_eq!(test_env.callboard(&["retry", "trial"]).run().code, 0);
    assert_eq!(test_env.git(&["show", "main:made.txt"]), "whole\n");
    let doctor = test_env.callboard(&["doctor"]).run();
    assert!(!format!("{}{}", doctor.stdout, doctor.stderr).contains("remain"), "{}", doctor.transcript());
}

/// Regression: the doctor suggested only `git worktree prune`, which keeps locked worktrees, so the note never went away.
#[test]
fn the_commands_of_the_doctor_forget_worktrees_that_were_deleted() {
    let test_env = test_env();
    test_env.workflow_yaml(&["id: a, worktree: true, max_attempts: 1"]);
    test_env.script_agent(&["a * failed"]);
    assert_eq!(test_env.run(&[]).run().code, 1);
    std::fs::remove_dir_all(worktrees_dir(&test_env)).unwrap();
    let missing = || {
        let doctor = test_env.callboard(&["doctor", "--json"]).run();
        let findings = doctor.json()["findings"].as_array().unwrap().clone();
        findings.into_iter().find(|finding| finding["message"].as_str().unwrap().ends_with("missing on disk"))
    };
    let finding = missing().unwrap();
    assert_eq!(finding["message"], "2 registered worktrees missing on disk");
    for command in finding["commands"].as_array().unwrap() {
        let status =
            std::process::Command::new("sh").args(["-c", command.as_str().unwrap()]).status().unwrap();
        assert!(status.success(), "{command}");
    }
    assert_eq!(missing(), None);
}

/// Returns the name of the first check in the report of `a.merge`, if the entry has that report.
fn check_of_merge(entry: &serde_json::Value) -> Option<String> {
    let report = &entry["entry"]["input"]["fact"]["evidence"]["report"];
    (report["step_id"] == "a.merge").then(|| report["checks"][0]["name"].as_str().unwrap().to_owned())
}

/// Writes a `git` that kills the engine which calls it, and returns a `PATH` with it in front. The shell code `kills`
/// says when: it sets `how` to `before`, `during` or `after`, and may use the number `$n` and the arguments `$*` of the
/// call, and the number `$killed` of engines that were killed so far.
fn git_that_kills_its_engine(test_env: &TestEnv, kills: &str) -> String {
    let path = std::env::var("PATH").unwrap();
    let shared = test_env.agent_dir();
    let script = format!(
        r#"#!/bin/sh
shared='{shared}' how=
PATH='{path}'
read -r parent </proc/$PPID/comm
if [ "$parent" = callboard ]; then
    echo "$*" >>"$shared/calls"
    n=$(wc -l <"$shared/calls")
    killed=$(cat "$shared/killed")
    {kills}
fi
kill_engine() {{ kill -9 $PPID; }}
case $how in
before) kill_engine; exit 1 ;;
during) kill_engine; exec git "$@" ;;
after) git "$@"; kill_engine; exit 1 ;;
*) exec git "$@" ;;
esac
"#,
        shared = shared.display()
    );
    std::fs::write(shared.join("killed"), "0").unwrap();
    test_env.write_program("../shared/deadly/git", &script);
    format!("{}:{path}", shared.join("deadly").display())
}

/// Runs the workflow and resumes it after each kill. Returns the last session and the number of kills.
fn run_with_kills(test_env: &TestEnv, path: &str) -> (CallOutput, usize) {
    let mut session = test_env.run(&["--jobs", "2"]).env("PATH", path).run();
    let mut kills = 0;
    while session.code == -1 {
        kills += 1;
        std::fs::write(test_env.agent_dir().join("killed"), kills.to_string()).unwrap();
        session = test_env.callboard(&["resume", "trial", "--jobs", "2"]).env("PATH", path).run();
    }
    (session, kills)
}

#[test]
fn an_engine_that_is_killed_before_during_and_after_a_merge_merges_once() {
    for how in ["before", "during", "after"] {
        let test_env = test_env();
        test_env.workflow_yaml(&["id: a, worktree: true"]);
        test_env.write("callboard.toml", "[checks]\nmade = ['grep', 'done', 'made.txt']\n");
        test_env.script_agent(&["a * do echo done >made.txt; write_report COMPLETED made"]);
        let path = git_that_kills_its_engine(
            &test_env,
            &format!(
                r#"case "$*" in *'/integration '*' merge --ff-only '*) [ "$killed" = 1 ] || how={how} ;; esac"#
            ),
        );
        let (session, kills) = run_with_kills(&test_env, &path);
        assert_eq!((session.code, kills), (0, 1), "{how}: {}", session.transcript());
        assert_eq!(effects(&test_env, "main"), ["trial/a.merge#1"], "{how}");
        assert_eq!(test_env.document("trial")["steps"]["a.merge"]["attempts"], 1, "{how}");
        // An engine that finds the merge already made must report its checks: the killed one did not record them.
        let reported = test_env.callboard(&["log", "trial", "--json"]).run();
        let reported: Vec<_> = reported.json_lines().iter().map(check_of_merge).collect();
        assert_eq!(reported.into_iter().flatten().collect::<Vec<_>>(), ["made"], "{how}");
    }
}

/// A run that has succeeded gets no other engine.
#[test]
fn worktrees_that_a_killed_engine_has_left_are_removed_by_a_refused_resume() {
    for how in ["before", "after"] {
        let test_env = features();
        let path = git_that_kills_its_engine(
            &test_env,
            &format!(r#"case "$*" in *'worktree remove'*) [ "$killed" = 1 ] || how={how} ;; esac"#),
        );
        let (session, kills) = run_with_kills(&test_env, &path);
        assert_eq!((session.code, kills), (3, 1), "{how}: {}", session.transcript());
        assert_eq!(test_env.git(&["branch", "--list", "callboard/*"]).trim(), "callboard/trial", "{how}");
        assert_eq!(test_env.git(&["worktree", "list"]).lines().count(), 1, "{how}");
    }
}

#[test]
fn features_are_merged_although_the_engine_is_killed_ten_times() {
    let test_env = features();
    // No kill during the first four calls of git: the run does not exist yet. Then half of the kills are early, while
    // worktrees are made, the others while branches are merged.
    let path = git_that_kills_its_engine(
        &test_env,
        r#"if [ "$killed" -lt 5 ]; then each=4; else each=11; fi
    if [ "$n" -gt 4 ] && [ "$killed" -lt 10 ] && [ $((n % each)) = 0 ]; then
        case $((killed % 3)) in 0) how=before ;; 1) how=during ;; *) how=after ;; esac
    fi"#,
    );
    let (session, kills) = run_with_kills(&test_env, &path);
    assert_eq!(kills, 10, "{}", session.transcript());
    expect_both_merged(&test_env, &session);
}
