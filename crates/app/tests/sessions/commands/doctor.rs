//! `doctor`: each finding is provoked by its real cause. The command changes nothing.

use std::fs;
use std::os::unix::fs::{DirBuilderExt as _, FileExt as _, PermissionsExt as _};
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use rustix::process::{Pid, Signal, kill_process_group};
use serde_json::Value;
use testkit::{CallOutput, ProcessHandle, TestEnv};

use crate::sessions::test_env;

/// Runs `doctor` without the agents that this machine may have on PATH.
fn doctor(test_env: &TestEnv, extra_args: &[&str]) -> CallOutput {
    let path = test_env.agent_dir().join("bin");
    fs::create_dir_all(&path).unwrap();
    let git = path.join("git");
    if !git.exists() {
        std::os::unix::fs::symlink(find_program("git"), git).unwrap();
    }
    test_env.callboard(&[&["doctor", "--json"], extra_args].concat()).env("PATH", path).run()
}

/// Returns the path of a program on PATH.
fn find_program(program: &str) -> std::path::PathBuf {
    let path = std::env::var_os("PATH").unwrap();
    std::env::split_paths(&path).map(|folder| folder.join(program)).find(|file| file.exists()).unwrap()
}

/// Returns the findings of a check, without those about the stores of other tests, which run at the same time.
fn findings(session: &CallOutput, check: &str) -> Vec<Value> {
    let all = session.json()["findings"].as_array().unwrap().clone();
    let of_this_store = |finding: &Value| !finding["message"].as_str().unwrap().contains("another store");
    all.into_iter().filter(|finding| finding["check"] == check && of_this_store(finding)).collect()
}

/// Returns the only finding of a check with the level `problem`. Fails if there is none, or more than one.
#[track_caller]
fn expect_one_problem(session: &CallOutput, check: &str) -> Value {
    let findings_of_check = findings(session, check);
    let mut problems = findings_of_check.iter().filter(|finding| finding["level"] == "problem");
    let first = problems.next().unwrap_or_else(|| panic!("no problem found: {}", session.stdout)).clone();
    assert_eq!(problems.next(), None);
    assert_eq!(session.code, 1, "{}", session.stdout);
    assert!(session.json()["problems"].as_u64() > Some(0), "{}", session.stdout);
    first
}

/// Fails if a finding has the level `problem`, except those about limits and disk of the test machine.
#[track_caller]
fn expect_no_problem(session: &CallOutput) {
    let all = session.json();
    let problems = all["findings"].as_array().unwrap().iter().filter(|finding| finding["level"] == "problem");
    let problems: Vec<_> = problems.collect();
    assert!(
        problems.iter().all(|finding| finding["check"] == "limits" || finding["check"] == "disk"),
        "{problems:#?}"
    );
    assert_eq!(session.code, i32::from(!problems.is_empty()));
}

/// Returns a test environment whose run `trial` succeeded.
fn env_with_succeeded_run() -> TestEnv {
    let test_env = test_env();
    test_env.workflow(&["a"]);
    assert_eq!(test_env.run(&[]).run().code, 0);
    test_env
}

/// A child process, killed with its group when dropped.
struct ChildGroup(Child);

impl ChildGroup {
    fn new(command: &mut Command) -> Self {
        Self(command.process_group(0).spawn().unwrap())
    }

    fn pid(&self) -> i32 {
        self.0.id().cast_signed()
    }
}

impl Drop for ChildGroup {
    fn drop(&mut self) {
        let _ = kill_process_group(Pid::from_child(&self.0), Signal::KILL);
        let _ = self.0.wait();
    }
}

/// Starts a process with the mark of an attempt.
fn start_marked(store: &Path, run: &str, attempt: &str) -> ChildGroup {
    let mut sleep = Command::new("sleep");
    sleep.arg("1000").env("CALLBOARD_STORE", store);
    ChildGroup::new(sleep.env("CALLBOARD_RUN", run).env("CALLBOARD_ATTEMPT", attempt))
}

/// Returns path and content of every file directly in the store directory.
fn store_files(test_env: &TestEnv) -> Vec<(std::path::PathBuf, Vec<u8>)> {
    let files = fs::read_dir(test_env.store_dir()).unwrap().map(|entry| entry.unwrap().path());
    let mut files: Vec<_> =
        files.filter(|path| path.is_file()).map(|path| (path.clone(), fs::read(path).unwrap())).collect();
    files.sort();
    files
}

#[test]
fn a_healthy_store_needs_no_action_and_is_not_changed() {
    let test_env = env_with_succeeded_run();
    let before = store_files(&test_env);
    let session = doctor(&test_env, &[]);
    expect_no_problem(&session);
    assert_eq!(findings(&session, "runs")[0]["message"], "0 running, 1 finished");
    assert_eq!(store_files(&test_env), before);
}

#[test]
fn findings_are_printed_as_a_list() {
    let test_env = env_with_succeeded_run();
    let session = test_env.callboard(&["doctor"]).run();
    let lines: Vec<_> = session.stdout.lines().collect();
    assert!(lines[0].starts_with("✓ ok       store      "), "{}", session.stdout);
    assert!(lines.last().unwrap().contains("found"), "{}", session.stdout);
    assert_eq!(session.stderr, "");
}

#[test]
fn doctor_works_without_a_store_and_outside_git_and_creates_nothing() {
    let test_env = test_env();
    expect_no_problem(&doctor(&test_env, &[]));
    assert!(!test_env.store_dir().exists());
    let home = test_env.home();
    let session = doctor(&test_env, &["--repo", home.to_str().unwrap()]);
    expect_no_problem(&session);
    assert!(findings(&session, "git")[0]["message"].as_str().unwrap().contains("not in a git repository"));
    assert!(!home.join(".callboard").exists());
}

#[test]
fn doctor_says_how_to_resume_a_run_whose_engine_was_killed() {
    let test_env = test_env();
    test_env.workflow(&["a", "b: a"]);
    test_env.script_agent(&["a * wait barrier"]);
    let mut barrier = test_env.barrier("barrier");
    let running = test_env.run(&[]).start();
    test_env.agent_log().wait_for_start("a#1.1");
    let session = doctor(&test_env, &[]);
    expect_no_problem(&session);
    let engine = &findings(&session, "locks")[0];
    assert_eq!(engine["message"], "1 engine is running");
    assert!(
        engine["details"][0].as_str().unwrap().contains(&format!("process {}", running.pid())),
        "{engine}"
    );
    running.kill();
    running.wait();
    let problem = expect_one_problem(&doctor(&test_env, &[]), "runs");
    assert_eq!(problem["message"], "run `trial` is unfinished and has no engine");
    assert_eq!(problem["commands"][0], "callboard resume trial");
    assert!(problem["details"][0].as_str().unwrap().contains("resuming adopts it"), "{problem}");
    barrier.open();
    assert_eq!(test_env.callboard(&["resume", "--all"]).run().code, 0);
    test_env.wait_for_engine_exit("trial");
    expect_no_problem(&doctor(&test_env, &[]));
    test_env.expect_no_orphans();
}

#[test]
fn a_dead_attempt_is_distinguished_from_a_running_one() {
    let test_env = test_env();
    test_env.workflow(&["a"]);
    test_env.script_agent(&["a * hang"]);
    let running = test_env.run(&[]).start();
    test_env.agent_log().wait_for_start("a#1.1");
    running.kill();
    running.wait();
    let shim = ProcessHandle::shim(&test_env.attempt_dir("trial", "a", "1.1")).unwrap();
    shim.kill();
    shim.wait();
    let problem = expect_one_problem(&doctor(&test_env, &[]), "runs");
    assert!(problem["details"][0].as_str().unwrap().contains("has no process any more"), "{problem}");
    assert_eq!(test_env.callboard(&["stop", "trial"]).run().code, 0);
    let runs = findings(&doctor(&test_env, &[]), "runs");
    assert_eq!(runs[0]["message"], "run `trial` is stopped");
}

#[test]
fn a_suspended_engine_and_a_suspended_shim_are_named_with_how_to_continue_them() {
    let test_env = test_env();
    test_env.workflow(&["a"]);
    test_env.script_agent(&["a * wait barrier"]);
    let mut barrier = test_env.barrier("barrier");
    let running = test_env.run(&[]).start();
    test_env.agent_log().wait_for_start("a#1.1");
    running.signal(Signal::STOP);
    testkit::wait_until_suspended(running.pid());
    let problem = expect_one_problem(&doctor(&test_env, &[]), "locks");
    assert_eq!(problem["commands"][0], format!("kill -CONT {}", running.pid()));
    running.signal(Signal::CONT);
    let shim = ProcessHandle::shim(&test_env.attempt_dir("trial", "a", "1.1")).unwrap();
    shim.signal(Signal::STOP);
    testkit::wait_until_suspended(shim.pid());
    let problem = expect_one_problem(&doctor(&test_env, &[]), "runs");
    assert_eq!(problem["commands"][0], format!("kill -CONT {}", shim.pid()));
    shim.signal(Signal::CONT);
    barrier.open();
    assert_eq!(running.wait().code, 0);
}

#[test]
fn embedded_a_suspended_holder_of_the_writer_lock_is_named_without_waiting() {
    let test_env = env_with_succeeded_run();
    let mut flock = Command::new("flock");
    flock.arg(test_env.store_dir().join("writer.lock"));
    flock.args(["sh", "-c", "echo held; kill -STOP $PPID; exec sleep 1000"]).stdout(Stdio::piped());
    let mut holder = ChildGroup::new(&mut flock);
    let mut line = [0; 5];
    std::io::Read::read_exact(holder.0.stdout.as_mut().unwrap(), &mut line).unwrap();
    let pid = holder.pid();
    testkit::wait_until_suspended(pid);
    let session = doctor(&test_env, &[]);
    let problems: Vec<_> =
        findings(&session, "locks").into_iter().filter(|finding| finding["level"] == "problem").collect();
    assert_eq!(problems[0]["commands"][0], format!("kill -CONT {pid}"), "{}", session.stdout);
    assert!(problems[0]["message"].as_str().unwrap().contains("holds the writer lock and is stopped"));
    drop(holder);
    expect_no_problem(&doctor(&test_env, &[]));
}

#[test]
fn orphans_are_listed_with_the_command_that_ends_them() {
    let test_env = env_with_succeeded_run();
    let of_ended_attempt = start_marked(&test_env.store_dir(), "trial", "a#1.1");
    let of_unknown_run = start_marked(&test_env.store_dir(), "ghost", "b#1.1");
    let session = doctor(&test_env, &[]);
    let problem = expect_one_problem(&session, "orphans");
    let mut pids = [of_ended_attempt.pid(), of_unknown_run.pid()];
    pids.sort_unstable();
    assert_eq!(problem["commands"][0], format!("kill {} {}", pids[0], pids[1]));
    let details = problem["details"].to_string();
    assert!(
        details.contains("which has ended: sleep 1000") && details.contains("which is not in the store"),
        "{details}"
    );
    drop((of_ended_attempt, of_unknown_run));
    expect_no_problem(&doctor(&test_env, &[]));
}

#[test]
fn a_process_of_an_ended_attempt_is_an_orphan_although_its_run_is_running() {
    let test_env = test_env();
    test_env.workflow(&["a", "b: a"]);
    test_env.script_agent(&["b * wait barrier"]);
    let mut barrier = test_env.barrier("barrier");
    let running = test_env.run(&[]).start();
    test_env.agent_log().wait_for_start("b#1.1");
    expect_no_problem(&doctor(&test_env, &[]));
    let of_ended_attempt = start_marked(&test_env.store_dir(), "trial", "a#1.1");
    let problem = expect_one_problem(&doctor(&test_env, &[]), "orphans");
    assert_eq!(problem["commands"][0], format!("kill {}", of_ended_attempt.pid()), "{problem}");
    drop(of_ended_attempt);
    barrier.open();
    assert_eq!(running.wait().code, 0);
}

#[test]
fn a_process_of_another_store_is_listed_without_a_command_to_end_it() {
    let test_env = env_with_succeeded_run();
    let other_store = test_env.home().join("other");
    fs::create_dir(&other_store).unwrap();
    let _process_of_other_store = start_marked(&other_store, "trial", "a#1.1");
    let session = doctor(&test_env, &[]);
    expect_no_problem(&session);
    let all = session.json();
    let mut orphans =
        all["findings"].as_array().unwrap().iter().filter(|finding| finding["check"] == "orphans");
    let message = format!("1 process belongs to another store: {}", other_store.display());
    assert!(orphans.any(|finding| finding["message"] == message.as_str()), "{}", session.stdout);
}

#[test]
fn embedded_a_damaged_store_is_a_finding_and_stays_as_it_is() {
    let test_env = env_with_succeeded_run();
    let database = test_env.store_dir().join("callboard.db");
    let file = fs::File::options().write(true).open(&database).unwrap();
    let pages = file.metadata().unwrap().len() / 4096;
    for page in 2..pages {
        file.write_all_at(&[0xff; 4096], page * 4096).unwrap();
    }
    let before = store_files(&test_env);
    let problem = expect_one_problem(&doctor(&test_env, &[]), "store");
    assert_eq!(problem["code"], "E003", "{problem}");
    assert_eq!(problem["commands"][0], "callboard recover --dry-run", "{problem}");
    file.write_all_at(&[0xff; 4096], 0).unwrap();
    assert_eq!(expect_one_problem(&doctor(&test_env, &[]), "store")["code"], "E003");
    fs::write(&database, "").unwrap();
    assert_eq!(expect_one_problem(&doctor(&test_env, &[]), "store")["code"], "E003");
    fs::remove_file(&database).unwrap();
    assert_eq!(expect_one_problem(&doctor(&test_env, &[]), "store")["code"], "E002");
    assert_eq!(store_files(&test_env).len(), before.len() - 1, "nothing was made");
}

#[test]
fn a_store_readable_by_others_gets_a_command_that_closes_it() {
    let test_env = env_with_succeeded_run();
    fs::set_permissions(test_env.store_dir(), fs::Permissions::from_mode(0o755)).unwrap();
    let problem = expect_one_problem(&doctor(&test_env, &[]), "store");
    let command = problem["commands"][0].as_str().unwrap();
    assert_eq!(command, format!("chmod 700 {}", test_env.store_dir().display()));
    assert!(Command::new("sh").args(["-c", command]).status().unwrap().success());
    expect_no_problem(&doctor(&test_env, &[]));
}

#[test]
fn needs_root_another_users_store_is_a_finding() {
    let test_env = env_with_succeeded_run();
    std::os::unix::fs::chown(test_env.repo().join(".git/callboard"), Some(1), Some(1)).unwrap();
    let problem = expect_one_problem(&doctor(&test_env, &[]), "store");
    assert_eq!(problem["code"], "E005", "{problem}");
}

#[test]
fn with_a_broken_configuration_the_store_of_the_flag_or_the_variable_is_examined() {
    let test_env = env_with_succeeded_run();
    test_env.write("callboard.toml", "job = 3\n");
    let subdirectory = test_env.repo().join("below");
    fs::create_dir(&subdirectory).unwrap();
    let session = test_env.callboard(&["doctor", "--store", "data"]).current_dir(&subdirectory).run();
    assert!(session.stdout.contains(subdirectory.join("data").to_str().unwrap()), "{}", session.transcript());
    let by_variable =
        test_env.callboard(&["doctor"]).env("CALLBOARD_STORE", "other").current_dir(&subdirectory);
    let session = by_variable.run();
    assert!(
        session.stdout.contains(subdirectory.join("other").to_str().unwrap()),
        "{}",
        session.transcript()
    );
}

/// Regression: the default place was examined, and the store was called lost.
#[test]
fn embedded_a_store_that_a_broken_configuration_may_name_is_not_called_lost() {
    let test_env = test_env();
    test_env.write("callboard.toml", "store = \"data\"\njob = 3\n");
    let session = doctor(&test_env, &[]);
    let messages: Vec<_> = findings(&session, "store").iter().map(|it| it["message"].clone()).collect();
    assert_eq!(messages, ["cannot tell which store is used: the configuration has errors"]);
}

#[test]
fn problems_of_the_configuration_and_missing_programs_are_findings() {
    let test_env = env_with_succeeded_run();
    test_env.write("callboard.toml", "job = 3\n");
    let problem = expect_one_problem(&doctor(&test_env, &[]), "config");
    assert_eq!(
        (problem["code"].as_str(), problem["details"][0].as_str()),
        (Some("E010"), Some("hint: did you mean `jobs`?"))
    );
    test_env.write("callboard.toml", "[adapters.scout]\ncommand = [\"no-such-agent\", \"{prompt}\"]\n");
    let problem = expect_one_problem(&doctor(&test_env, &[]), "config");
    assert_eq!(problem["code"], "E008");
    assert_eq!(problem["message"], "cannot start agent `scout`: program `no-such-agent` was not found");
    test_env.write(
        "callboard.toml",
        "[adapters.scout]\ncommand = [\"git\"]\n[adapters.check]\nshell = \"true\"\n",
    );
    let session = doctor(&test_env, &[]);
    assert_eq!(
        expect_one_problem(&session, "config")["message"],
        "cannot start agent `check`: program `sh` was not found",
        "PATH has only git"
    );
    std::os::unix::fs::symlink(find_program("sh"), test_env.agent_dir().join("bin/sh")).unwrap();
    let config = &findings(&doctor(&test_env, &[]), "config")[0];
    assert_eq!(config["level"], "ok", "{config:#}");
    assert_eq!(config["details"][0], "not checked: the programs in the `shell` lines of `check`");
    test_env.write(
        "callboard.toml",
        "[adapters.scout]\ncommand = [\"git\"]\n[roles.default]\nadapter = \"scot\"\n",
    );
    let problem = expect_one_problem(&doctor(&test_env, &[]), "config");
    let message = "`roles.default.adapter` names the adapter `scot`, which is not configured (";
    assert!(problem["message"].as_str().unwrap().starts_with(message), "{problem:#}");
    assert_eq!(problem["details"][0], "hint: did you mean `scout`?");
}

#[test]
fn known_agents_in_path_are_listed() {
    let test_env = env_with_succeeded_run();
    let claude = test_env.agent_dir().join("bin/claude");
    fs::create_dir_all(claude.parent().unwrap()).unwrap();
    fs::write(&claude, "#!/bin/sh\n").unwrap();
    let listed = || {
        let agents = findings(&doctor(&test_env, &[]), "agents");
        agents.iter().any(|finding| finding["message"] == claude.to_str().unwrap())
    };
    assert!(!listed(), "it is not executable");
    fs::set_permissions(&claude, fs::Permissions::from_mode(0o755)).unwrap();
    assert!(listed());
}

#[test]
fn embedded_a_restored_backup_is_checked_before_the_first_write() {
    let test_env = test_env();
    test_env.workflow(&["a"]);
    test_env.script_agent(&["a * wait barrier"]);
    let mut barrier = test_env.barrier("barrier");
    let running = test_env.run(&[]).start();
    test_env.agent_log().wait_for_start("a#1.1");
    let backup = test_env.agent_dir().join("backup.db");
    let database = rusqlite::Connection::open(test_env.store_dir().join("callboard.db")).unwrap();
    database.execute("VACUUM INTO ?1", [backup.to_str().unwrap()]).unwrap();
    drop(database);
    barrier.open();
    assert_eq!(running.wait().code, 0);
    fs::remove_dir_all(test_env.store_dir()).unwrap();
    fs::DirBuilder::new().mode(0o700).create(test_env.store_dir()).unwrap();
    fs::copy(&backup, test_env.store_dir().join("callboard.db")).unwrap();
    let session = doctor(&test_env, &[]);
    assert_eq!(session.code, 1, "{}", session.transcript());
    assert_eq!(
        expect_one_problem(&session, "runs")["commands"],
        serde_json::json!(["callboard resume trial"])
    );
    assert!(!test_env.store_dir().join("writer.lock").exists(), "doctor leaves no trace");
    assert_eq!(test_env.callboard(&["resume", "trial"]).run().code, 0);
}

#[test]
fn leftovers_of_a_killed_recovery_or_import_are_noted() {
    let test_env = test_env();
    test_env.workflow(&["a"]);
    assert_eq!(test_env.run(&[]).run().code, 0);
    fs::create_dir(test_env.store_dir().join("import-x")).unwrap();
    let session = test_env.callboard(&["doctor"]).run();
    assert!(session.stdout.contains("1 directory of a `recover` or `import`"), "{}", session.stdout);
    assert!(session.stdout.contains("import-x"), "{}", session.stdout);
}
