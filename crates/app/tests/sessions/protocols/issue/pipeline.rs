//! The pipeline of writer, build and reviewer: its loop-backs, questions, leases, imports and rehearsals. An attempt of
//! the pipeline is one pass through these three steps.

use std::path::Path;

use testkit::CallOutput;

use super::IssueEnv;
use crate::sessions::commands::archives::wait_for_lock_queue;

#[test]
fn a_bug_is_fixed_on_the_second_attempt() {
    let issue = IssueEnv::new();
    // Files that the build and the reviewer leave behind were not reviewed, so they are not committed.
    let types = "['sh', '-c', 'if grep -q on light; then touch left-by-the-build; fi']";
    let checks = format!("[checks]\ntest = ['cmp', 'light', 'light.test']\ntypes = {types}\n");
    issue.test_env.write("callboard.toml", &checks);
    issue.set_agent_script(
        "reviewer",
        "echo off >light; echo late >late; say '\"review\":{\"verdict\":\"APPROVED\"}'",
    );
    let session = issue.run_trial(&[]);
    assert_eq!(session.code, 0, "{}", session.transcript());
    let document = issue.document();
    assert_eq!(
        (&document["pipeline"]["status"], &document["pipeline"]["attempt"]),
        (&"completed".into(), &2.into())
    );
    let first = &document["attempts"][0];
    assert_eq!(first["build"]["commands_run"][0]["exit_code"], 1);
    assert_eq!(first["review"]["feedback_for_writer"], document["writer"]["previous_feedback"]);
    assert!(document["review"]["feedback_for_writer"].is_null());
    assert_eq!(
        (&document["build"]["tests_passed"], &document["build"]["lint_passed"]),
        (&true.into(), &().into())
    );
    assert_eq!(issue.commit_subjects(), ["fix: The light is off"]);
    let hash = issue.test_env.git(&["rev-parse", "agent/issue-42"]);
    assert_eq!(document["commit"]["hash"], hash.trim());
    assert_eq!(issue.remote_commit("agent/issue-42"), hash.trim());
    assert_eq!(issue.test_env.git(&["show", "agent/issue-42:light"]), "on\n");
    let files = issue.test_env.git(&["diff", "--name-only", "main", "agent/issue-42"]);
    assert_eq!(files, "light\nlight.test\n", "the state file is not committed");
    let [pull_request] = issue.tracker_files("pull-request-").try_into().unwrap();
    assert_eq!(
        (&pull_request["baseRefName"], &pull_request["title"]),
        (&"main".into(), &"Fix #42: The light is off".into())
    );
    assert_eq!(issue.tracker_files("comment-").len(), 1);
    assert!(
        !document["commit"]["issue_closed"].as_bool().unwrap() && issue.tracker_files("closed-").is_empty()
    );
    let prompt =
        std::fs::read_to_string(issue.test_env.attempt_dir("trial", "writer", "2.1").join("prompt.md"))
            .unwrap();
    assert!(prompt.contains("light light.test differ"), "the writer sees why it was sent back: {prompt}");
    // A second run finds the branch.
    let again = issue
        .test_env
        .callboard(&["issue", issue.shared_path("tracker/issue.json").to_str().unwrap(), "--rehearse"])
        .run();
    assert_eq!(again.code, 3, "{}", again.transcript());
    assert!(again.transcript().contains("--continue"), "{}", again.transcript());
}

#[test]
fn three_failed_builds_fail_the_run_with_the_last_feedback() {
    let issue = IssueEnv::new();
    issue.set_agent_script("writer", "echo dim >light; echo on >light.test; say '\"writer\":{\"summary\":\"s\",\"test_file\":\"light.test\"}'");
    let session = issue.run_trial(&[]);
    assert_eq!(session.code, 1, "{}", session.transcript());
    let document = issue.document();
    let pipeline = &document["pipeline"];
    assert_eq!((&pipeline["status"], &pipeline["attempt"]), (&"failed".into(), &3.into()));
    assert_eq!(pipeline["failure_reason"], "Writer-Reviewer loop exhausted after 3 attempts");
    assert!(document["review"]["feedback_for_writer"].as_str().unwrap().contains("differ"));
    assert_eq!(document["learnings"]["outcome"], "failed_max_retries");
    assert!(document["review"]["verdict"].is_null(), "the reviewer is not asked about a red build");
    assert!(issue.commit_subjects().is_empty() && issue.tracker_files("pull-request-").is_empty());
    let [comment] = issue.tracker_files("comment-").try_into().unwrap();
    assert!(comment["body"].as_str().unwrap().contains("> light light.test differ"), "{comment}");
    // A retry has all pipeline attempts again; with the default writer it succeeds.
    std::fs::remove_file(issue.shared_path("agents/writer")).unwrap();
    let retried = issue.test_env.callboard(&["retry", "trial"]).run();
    assert_eq!(retried.code, 0, "{}", retried.transcript());
    assert_eq!(issue.document()["attempts"].as_array().unwrap().len(), 3);
}

#[test]
fn a_forbidden_change_is_sent_back_before_the_review() {
    let issue = IssueEnv::new();
    issue.set_agent_script("writer.1", "mkdir secret; echo on >secret/key; say '\"writer\":{\"summary\":\"s\",\"test_file\":\"light.test\"}'");
    issue.set_agent_script("writer.2", "say '\"writer\":{\"summary\":\"nothing\"}'; rm -r secret");
    issue.set_agent_script("writer.3", "echo on >light; echo on >light.test; say '\"writer\":{\"summary\":\"s\",\"test_file\":\"light.test\"}'");
    let session = issue.run_trial(&[]);
    assert_eq!(session.code, 0, "{}", session.transcript());
    let attempts = issue.document()["attempts"].clone();
    let feedback =
        |index: usize| attempts[index]["review"]["feedback_for_writer"].as_str().unwrap().to_owned();
    assert!(
        feedback(0).contains("`secret/key` must not be changed") && feedback(0).contains("light.test"),
        "{}",
        feedback(0)
    );
    assert_eq!(feedback(1), "the work changes no file");
}

#[test]
fn a_blocked_run_waits_and_continues_after_an_answer() {
    let issue = IssueEnv::new();
    issue.set_agent_script(
        "triage",
        "say '\"triage\":{\"should_proceed\":false,\"rejection_reason\":\"too large\"}'",
    );
    let session = issue.run_trial(&["--exit-when-waiting"]);
    assert_eq!(session.code, 4, "{}", session.transcript());
    let pipeline = issue.document()["pipeline"].clone();
    assert_eq!((&pipeline["status"], &pipeline["blocked_reason"]), (&"blocked".into(), &"too large".into()));
    let inbox = issue.test_env.callboard(&["inbox"]).run();
    assert!(inbox.stdout.contains("too large"), "{}", inbox.transcript());
    let shown = issue.test_env.callboard(&["show", "trial"]).run();
    assert!(shown.stdout.contains("succeeded triage"), "{}", shown.transcript());
    let [comment] = issue.tracker_files("comment-").try_into().unwrap();
    assert!(comment["body"].as_str().unwrap().contains("> too large"), "{comment}");
    let answered =
        issue.test_env.callboard(&["answer", "trial/person", "workaround", "--text", "only the light"]).run();
    assert_eq!(answered.code, 0, "{}", answered.transcript());
    let resumed = issue.test_env.callboard(&["resume", "trial"]).run();
    assert_eq!(resumed.code, 0, "{}", resumed.transcript());
    assert!(!resumed.stdout.contains("pending"), "triage is not asked again: {}", resumed.transcript());
    let prompt =
        std::fs::read_to_string(issue.test_env.attempt_dir("trial", "analyst", "1.1").join("prompt.md"))
            .unwrap();
    assert!(prompt.contains("only the light"), "{prompt}");
    assert_eq!(issue.document()["pipeline"]["status"], "completed");
}

#[test]
fn questions_and_escalations_of_an_attempt_are_answered_and_the_step_resumes() {
    let issue = IssueEnv::new();
    let callboard = issue.test_env.program().display().to_string();
    issue.set_agent_script(
        "writer.1",
        &format!("{callboard} ask analyst 'Which file?' && {callboard} escalate 'It touches the light'"),
    );
    let session = issue.run_trial(&["--exit-when-waiting"]);
    assert_eq!(session.code, 4, "{}", session.transcript());
    assert!(session.transcript().contains("pending   writer"), "it is asked again: {}", session.transcript());
    let question = issue.document()["communication"]["questions"][0].clone();
    assert_eq!((&question["from"], &question["to"]), (&"writer".into(), &"analyst".into()));
    assert_eq!(question["answer"], "It is the file light.");
    let answered = issue.test_env.callboard(&["answer", "trial/person", "--text", "go ahead"]).run();
    assert_eq!(answered.code, 0, "{}", answered.transcript());
    let resumed = issue.test_env.callboard(&["resume", "trial"]).run();
    assert_eq!(resumed.code, 0, "{}", resumed.transcript());
    let document = issue.document();
    assert_eq!(document["communication"]["escalations"][0]["resolution"], "go ahead");
    assert_eq!(document["pipeline"]["attempt"], 2, "asking costs no attempt, the red build does");
    let prompt =
        std::fs::read_to_string(issue.test_env.attempt_dir("trial", "writer", "2.1").join("prompt.md"))
            .unwrap();
    assert!(prompt.contains("It is the file light.") && prompt.contains("go ahead"), "{prompt}");
}

#[test]
fn an_escalation_that_needs_no_person_is_decided_by_another_agent() {
    let issue = IssueEnv::new();
    let callboard = issue.test_env.program().display().to_string();
    issue.set_agent_script(
        "writer.1",
        &format!("{callboard} escalate --no-human 'The rules contradict each other'"),
    );
    issue.set_agent_script("analyst.answer", "say '\"answer\":\"The test wins.\"'");
    let session = issue.run_trial(&["--exit-when-waiting"]);
    assert_eq!(session.code, 0, "{}", session.transcript());
    let escalation = issue.document()["communication"]["escalations"][0].clone();
    assert_eq!((&escalation["resolved"], &escalation["resolved_by"]), (&true.into(), &"analyst".into()));
    assert_eq!(escalation["resolution"], "The test wins.");
    let prompt = |step: &str, attempt: &str| {
        std::fs::read_to_string(issue.test_env.attempt_dir("trial", step, attempt).join("prompt.md")).unwrap()
    };
    assert!(prompt("analyst.answer", "1.1").contains("The rules contradict each other"));
    assert!(prompt("writer", "2.1").contains("The test wins."));
    assert_eq!(issue.tracker_files("comment-").len(), 1, "the issue is told of the end only");
}

#[test]
fn a_run_that_is_stopped_or_rejected_without_an_engine_is_added_to_the_learnings() {
    let issue = IssueEnv::new();
    issue.set_agent_script(
        "triage",
        "say '\"triage\":{\"should_proceed\":false,\"rejection_reason\":\"too large\"}'",
    );
    let outcomes = || {
        let sessions = issue.learnings()["sessions"].clone();
        sessions.as_array().unwrap().iter().map(|session| session["outcome"].clone()).collect::<Vec<_>>()
    };
    let session = issue.run_trial(&["--exit-when-waiting"]);
    assert_eq!(session.code, 4, "{}", session.transcript());
    let stopped = issue.test_env.callboard(&["stop", "trial"]).run();
    assert_eq!(stopped.code, 0, "{}", stopped.transcript());
    assert_eq!(outcomes(), ["stopped"]);
    let retried = issue.test_env.callboard(&["retry", "trial", "--exit-when-waiting"]).run();
    assert_eq!(retried.code, 4, "{}", retried.transcript());
    let refused = issue.test_env.callboard(&["answer", "trial/person", "reject", "--reason", "no"]).run();
    assert_eq!(refused.code, 0, "{}", refused.transcript());
    assert_eq!(outcomes(), ["stopped", "escalated"]);
}

#[test]
fn files_left_by_a_failed_build_are_removed() {
    let issue = IssueEnv::new();
    let types = "['sh', '-c', 'echo >>left-by-the-build; echo changed >light']";
    let checks = format!("[checks]\ntest = ['cmp', 'light', 'light.test']\ntypes = {types}\n");
    issue.test_env.write("callboard.toml", &checks);
    // The first attempt of the second turn fails: the next attempt continues with the files that it left.
    let script = "ls >$SEEN; cat light >>$SEEN; if [ -f begun ]; then rm begun; else touch begun; exit 1; fi; \
                  echo on >light; say '\"writer\":{\"summary\":\"s\",\"test_file\":\"light.test\"}'";
    let seen = issue.shared_path("seen");
    issue.set_agent_script("writer.2", &format!("SEEN={}; {script}", seen.display()));
    let session = issue.run_trial(&[]);
    assert_eq!(session.code, 0, "{}", session.transcript());
    let seen = std::fs::read_to_string(seen).unwrap();
    assert_eq!(seen, "begun\ncallboard.toml\nissue-state.json\nlight\nlight.test\ntask.md\ndim\n");
    assert_eq!(issue.document()["pipeline"]["attempt"], 2);
    let files = issue.test_env.git(&["diff", "--name-only", "main", "agent/issue-42"]);
    assert_eq!(files, "light\nlight.test\n");
    assert_eq!(issue.test_env.git(&["show", "agent/issue-42:light"]), "on\n");
}

#[test]
fn a_branch_that_only_the_remote_has_is_continued_with_its_pull_request() {
    let issue = IssueEnv::new();
    let first = issue.run_trial(&["--no-triage"]);
    assert_eq!(first.code, 0, "{}", first.transcript());
    issue.test_env.git(&["branch", "--delete", "--force", "agent/issue-42"]);
    issue.set_agent_script(
        "writer",
        "echo more >more; say '\"writer\":{\"summary\":\"Second.\",\"test_file\":\"light.test\"}'",
    );
    let file = issue.shared_path("tracker/issue.json").display().to_string();
    let agent = issue.shared_path("issue-agent.sh").display().to_string();
    let command = ["issue", &file, "--run-id", "second", "--wrapper", &agent, "--no-triage"];
    let refused = issue.test_env.callboard(&command).run();
    assert_eq!(refused.code, 3, "{}", refused.transcript());
    assert!(refused.transcript().contains("the remote has a branch"), "{}", refused.transcript());
    let second = issue.test_env.callboard(&[&command[..], &["--continue"]].concat()).run();
    assert_eq!(second.code, 0, "{}", second.transcript());
    assert_eq!(issue.commit_subjects().len(), 2);
    assert_eq!(
        issue.remote_commit("agent/issue-42"),
        issue.test_env.git(&["rev-parse", "agent/issue-42"]).trim()
    );
    let [pull_request] = issue.tracker_files("pull-request-").try_into().unwrap();
    let body = pull_request["body"].as_str().unwrap();
    assert!(body.starts_with("Second.") && body.contains("<!-- callboard: second/"), "{body}");
}

#[test]
fn a_branch_belongs_to_one_run_at_a_time() {
    let issue = IssueEnv::new();
    issue.set_agent_script(
        "triage",
        "say '\"triage\":{\"should_proceed\":false,\"rejection_reason\":\"too large\"}'",
    );
    let first = issue.run_trial(&["--exit-when-waiting"]);
    assert_eq!(first.code, 4, "{}", first.transcript());
    // Another checkout of the repository has an `issue-state.json` of its own.
    let other = issue.shared_path("other");
    issue.test_env.git(&["worktree", "add", "--quiet", "--detach", other.to_str().unwrap()]);
    let file = issue.shared_path("tracker/issue.json").display().to_string();
    let agent = issue.shared_path("issue-agent.sh").display().to_string();
    let second =
        ["issue", &file, "--run-id", "second", "--wrapper", &agent, "--no-triage", "--continue", "--repo"];
    let second = [&second[..], &[other.to_str().unwrap()]].concat();
    let refused = issue.test_env.callboard(&second).run();
    assert_eq!(refused.code, 3, "{}", refused.transcript());
    assert!(refused.stderr.contains("belongs to run `trial`"), "{}", refused.transcript());
    assert_eq!(issue.test_env.callboard(&["stop", "trial"]).run().code, 0);
    let continued = issue.test_env.callboard(&second).run();
    assert_eq!(continued.code, 0, "{}", continued.transcript());
    let refused = issue.test_env.callboard(&["retry", "trial"]).run();
    assert_eq!(refused.code, 3, "{}", refused.transcript());
    assert!(refused.stderr.contains("run `second` has worked on branch"), "{}", refused.transcript());
    assert_eq!(issue.commit_subjects(), ["fix: The light is off"]);
}

#[test]
fn a_branch_of_an_unfinished_workflow_is_refused() {
    let issue = IssueEnv::new();
    issue.test_env.workflow_yaml(&["id: plan, human_in_the_loop: true"]);
    let flags = ["--git-worktree", "--git-worktree-branch", "agent/issue-42"];
    let workflow = ["run", "wf.yaml", "--run-id", "flow", "--rehearse", "--exit-when-waiting"];
    let workflow = issue.test_env.callboard(&[&workflow[..], &flags].concat()).run();
    assert_eq!(workflow.code, 4, "{}", workflow.transcript());
    let refused = issue.run_trial(&["--no-triage", "--continue"]);
    assert_eq!(refused.code, 3, "{}", refused.transcript());
    let expected = "branch `agent/issue-42` belongs to run `flow`";
    assert!(refused.stderr.contains(expected), "{}", refused.transcript());
}

/// Both commands find the branch free, because neither run is in the store yet.
#[test]
fn of_two_concurrent_starts_one_gets_the_branch() {
    let issue = IssueEnv::new();
    issue.set_agent_script(
        "triage",
        "say '\"triage\":{\"should_proceed\":false,\"rejection_reason\":\"too large\"}'",
    );
    // The store is created first, so that both commands wait for the lease lock and for nothing else.
    assert_eq!(issue.test_env.callboard(&["ls"]).run().code, 0);
    std::fs::create_dir_all(issue.test_env.store_dir()).unwrap();
    let path = issue.test_env.store_dir().join("leases.lock");
    let lock = std::fs::File::create(&path).unwrap();
    lock.lock().unwrap();
    let file = issue.shared_path("tracker/issue.json").display().to_string();
    let agent = issue.shared_path("issue-agent.sh").display().to_string();
    let other = issue.shared_path("other");
    issue.test_env.git(&["worktree", "add", "--quiet", "--detach", other.to_str().unwrap()]);
    let start = |name: &str, repo: &Path| {
        let command = ["issue", &file, "--run-id", name, "--wrapper", &agent, "--exit-when-waiting"];
        issue.test_env.callboard(&[&command[..], &["--repo", repo.to_str().unwrap()]].concat()).start()
    };
    let starts = [start("first", issue.test_env.repo()), start("second", &other)];
    wait_for_lock_queue(&path, 2);
    drop(lock);
    let sessions = starts.map(testkit::Running::wait);
    let mut codes = sessions.each_ref().map(|session| session.code);
    codes.sort_unstable();
    assert_eq!(codes, [3, 4], "{}", sessions.each_ref().map(CallOutput::transcript).join("\n"));
    let refused = sessions.iter().find(|session| session.code == 3).unwrap();
    assert!(refused.stderr.contains("belongs to run `"), "{}", refused.transcript());
}

#[test]
fn files_left_by_triage_analyst_and_answers_are_removed() {
    let issue = IssueEnv::new();
    issue.set_agent_script("triage", "touch left-by-triage; say '\"triage\":{\"should_proceed\":true}'");
    issue.set_agent_script(
        "analyst",
        "ls >left-by-the-analyst; say '\"analysis\":{\"issue_type\":\"BUG_FIX\",\"brief\":\"on\",\
         \"test_requirement\":{\"required\":false}}'",
    );
    issue.set_agent_script("analyst.answer", "rm light; touch left-by-the-answer; say '\"answer\":\"on\"'");
    let callboard = issue.test_env.program().display().to_string();
    issue.set_agent_script("writer.1", &format!("echo dim >light; {callboard} ask analyst 'Which light?'"));
    let seen = issue.shared_path("seen");
    let script = "cat light >>$SEEN; ls >>$SEEN; echo on >light; echo on >light.test; \
                  say '\"writer\":{\"summary\":\"s\",\"test_file\":\"light.test\"}'";
    issue.set_agent_script("writer.2", &format!("SEEN={}; {script}", seen.display()));
    let session = issue.run_trial(&[]);
    assert_eq!(session.code, 0, "{}", session.transcript());
    let seen = std::fs::read_to_string(seen).unwrap();
    assert_eq!(
        seen, "dim\ncallboard.toml\nissue-state.json\nlight\ntask.md\n",
        "the writer finds its own work"
    );
    let files = issue.test_env.git(&["diff", "--name-only", "main", "agent/issue-42"]);
    assert_eq!(files, "light\nlight.test\n");
}

#[test]
fn a_rehearsal_needs_no_script_and_leaves_the_outside_world_alone() {
    let issue = IssueEnv::new();
    let file = issue.shared_path("tracker/issue.json").display().to_string();
    // As in GitHub Actions, whose GITHUB_WORKSPACE says where the state file is.
    let workspace = issue.shared_path("workspace");
    std::fs::create_dir(&workspace).unwrap();
    let command = issue.test_env.callboard(&["issue", &file, "--tracker", "files", "--rehearse"]);
    let session = command.env("GITHUB_WORKSPACE", &workspace).run();
    assert_eq!(session.code, 0, "{}", session.transcript());
    assert_eq!(issue.commit_subjects().len(), 1, "the commit is made on its branch");
    let text = std::fs::read_to_string(workspace.join("issue-state.json")).unwrap();
    let document: serde_json::Value = serde_json::from_str(&text).unwrap();
    assert_eq!(
        (&document["commit"]["pushed"], &document["commit"]["pr_created"]),
        (&false.into(), &false.into())
    );
    assert_eq!(issue.tracker_files("").len(), 1, "only the issue is there");
    assert!(!issue.test_env.store_dir().join("learnings.json").exists());
}

#[test]
fn without_a_remote_the_run_completes_unpushed_and_the_issue_stays_open() {
    let issue = IssueEnv::new();
    issue.test_env.git(&["remote", "remove", "origin"]);
    let session = issue.run_trial(&["--no-triage", "--close"]);
    assert_eq!(session.code, 0, "{}", session.transcript());
    let commit = issue.document()["commit"].clone();
    assert_eq!((&commit["completed"], &commit["pushed"]), (&true.into(), &false.into()));
    assert_eq!((&commit["pr_url"], &commit["issue_closed"]), (&().into(), &false.into()));
    assert!(issue.tracker_files("closed").is_empty());
    let learnings = issue.learnings();
    assert_eq!(learnings["statistics"]["successes"], 1);
    assert_eq!(learnings["repo_knowledge"]["o/r"]["test_command"], "cmp light light.test");
}

#[test]
fn an_imported_state_continues_after_its_analysis() {
    let issue = IssueEnv::new();
    let state = serde_json::json!({
        "version": "1.0",
        "issue": { "number": 42, "title": "The light", "url": "https://github.com/o/r/issues/42", "type": "BUG_FIX", "original_body": "", "labels": [] },
        "pipeline": { "status": "in_progress", "attempt": 1, "max_attempts": 3 },
        "triage": { "completed": true, "should_proceed": true },
        "analysis": { "completed": true, "brief": "on", "test_requirement": { "required": false } },
        "mood": "fine",
    });
    let file = issue.shared_path("tracker/state.json");
    std::fs::write(&file, state.to_string()).unwrap();
    let imported = issue.test_env.callboard(&["import", file.to_str().unwrap(), "--tracker", "files"]).run();
    assert_eq!(imported.code, 0, "{}", imported.transcript());
    assert_eq!(issue.test_env.git(&["status", "--porcelain"]), "", "its files are excluded from git");
    let shown = issue.test_env.callboard(&["show", "issue-42"]).run().stdout;
    assert!(
        ["triage", "analyst"].iter().all(|step| shown.contains(&format!("succeeded        {step}"))),
        "{shown}"
    );
    let agent = issue.shared_path("issue-agent.sh").display().to_string();
    let resumed = issue.test_env.callboard(&["resume", "issue-42", "--wrapper", &agent]).run();
    assert_eq!(resumed.code, 0, "{}", resumed.transcript());
    let document = issue.document();
    assert_eq!((&document["pipeline"]["status"], &document["mood"]), (&"completed".into(), &"fine".into()));
    assert_eq!(issue.tracker_files("pull-request-").len(), 1, "the flag is stronger than the address");
    let checked = issue.test_env.callboard(&["check", "issue-state.json"]).run();
    assert_eq!(checked.code, 0, "{}", checked.transcript());
    // A completed state becomes a finished run: nothing is left to resume.
    let again = issue.test_env.callboard(&["import", "issue-state.json", "--as", "again"]).run();
    assert_eq!(again.code, 0, "{}", again.transcript());
    assert!(!again.transcript().contains("callboard resume"), "{}", again.transcript());
}

#[test]
fn an_imported_approval_of_no_change_is_not_published() {
    let issue = IssueEnv::new();
    let done = serde_json::json!({ "completed": true });
    let state = serde_json::json!({
        "version": "1.0",
        "issue": { "number": 42, "title": "The light", "url": "", "type": "BUG_FIX", "original_body": "", "labels": [] },
        "pipeline": { "status": "in_progress", "attempt": 1, "max_attempts": 3 },
        "triage": { "completed": true, "should_proceed": true },
        "analysis": done, "writer": done, "build": { "completed": true, "tests_passed": true },
        "review": { "completed": true, "verdict": "APPROVED" },
    });
    let file = issue.shared_path("tracker/state.json");
    std::fs::write(&file, state.to_string()).unwrap();
    let imported = issue.test_env.callboard(&["import", file.to_str().unwrap(), "--tracker", "files"]).run();
    assert_eq!(imported.code, 0, "{}", imported.transcript());
    let resumed = issue.test_env.callboard(&["resume", "issue-42"]).run();
    assert_eq!(resumed.code, 1, "{}", resumed.transcript());
    assert!(resumed.stderr.contains("`agent/issue-42` changes nothing"), "{}", resumed.transcript());
    assert_eq!((issue.commit_subjects().len(), issue.tracker_files("pull-request-").len()), (0, 0));
}

#[test]
fn an_archive_continues_in_a_worktree_of_the_repository_that_imports_it() {
    let source = IssueEnv::new();
    source.set_agent_script(
        "triage",
        "say '\"triage\":{\"should_proceed\":false,\"rejection_reason\":\"too large\"}'",
    );
    assert_eq!(source.run_trial(&["--exit-when-waiting"]).code, 4);
    let archive = source.shared_path("trial.tar").display().to_string();
    assert_eq!(source.test_env.callboard(&["export", "trial", "-o", &archive]).run().code, 0);
    let state = source.document();

    let target = IssueEnv::new();
    let imported = target.test_env.callboard(&["import", &archive]).run();
    assert_eq!(imported.code, 0, "{}", imported.transcript());
    assert!(imported.stderr.contains("works on branch `agent/issue-42`"), "{}", imported.transcript());
    assert_eq!(target.document()["pipeline"]["status"], "blocked");
    assert_eq!(source.document(), state, "the file of the other repository is not touched");
    target.test_env.git(&[
        "fetch",
        "--quiet",
        source.test_env.repo().to_str().unwrap(),
        "agent/issue-42:agent/issue-42",
    ]);
    assert_eq!(target.test_env.callboard(&["answer", "trial/person", "--text", "go on"]).run().code, 0);
    let agent = target.shared_path("issue-agent.sh").display().to_string();
    let resumed = target.test_env.callboard(&["resume", "trial", "--wrapper", &agent]).run();
    assert_eq!(resumed.code, 0, "{}", resumed.transcript());
    assert_eq!(target.document()["pipeline"]["status"], "completed");
    assert_eq!(target.test_env.git(&["status", "--porcelain"]), "", "the checkout is left alone");
    assert_eq!(target.test_env.git(&["log", "--format=%s", "agent/issue-42"]).lines().count(), 3);
}

/// The lines that set STATE and write UPDATED_STATE are those of the original; they need bash.
#[test]
fn an_attempt_reads_and_writes_the_state_file_as_the_format_says() {
    let issue = IssueEnv::new();
    let script = r#"
STATE=$(cat issue-state.json)
echo on >light
echo on >light.test
UPDATED_STATE=$(sed -e 's/"summary": null/"summary": "Lit."/' -e 's/"test_file": null/"test_file": "light.test"/' \
  -e 's/"brief": "set the light to on"/"brief": "something easier"/' <<<"$STATE")
echo "$UPDATED_STATE" > issue-state.json
"#;
    let file = issue.shared_path("state.sh");
    std::fs::write(&file, script).unwrap();
    issue.set_agent_script("writer", &format!("bash {}", file.display()));
    let session = issue.run_trial(&[]);
    assert_eq!(session.code, 0, "{}", session.transcript());
    let document = issue.document();
    assert_eq!(
        (&document["writer"]["summary"], &document["pipeline"]["attempt"]),
        (&"Lit.".into(), &1.into())
    );
    assert_eq!(document["analysis"]["brief"], "set the light to on", "it is not the writer's to change");
    let log = issue.test_env.callboard(&["log", "trial"]).run();
    assert!(log.stdout.contains("`writer` may not change `analysis"), "{}", log.transcript());
    let files = issue.test_env.git(&["diff", "--name-only", "main", "agent/issue-42"]);
    assert_eq!(files, "light\nlight.test\n", "the private copy is not committed");
}
