//! `doctor`: each finding with a real cause. It changes nothing.

use std::fs;
use std::os::unix::fs::{DirBuilderExt as _, FileExt as _, PermissionsExt as _};
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use rustix::process::{Pid, Signal, kill_process_group};
use serde_json::Value;
use testkit::{ProcessHandle, Session, TestEnv};

use crate::sessions::test_env;

/// Runs `doctor` without the agents that this machine may have on PATH.
fn doctor(test_env: &TestEnv, more: &[&str]) -> Session {
    let path = test_env.shared_dir().join("bin");
    fs::create_dir_all(&path).unwrap();
    let git = path.join("git");
    if !git.exists() {
        std::os::unix::fs::symlink(found("git"), git).unwrap();
    }
    test_env.callboard(&[&["doctor", "--json"], more].concat()).env("PATH", path).run()
}

/// Finds a program on this machine.
fn found(program: &str) -> std::path::PathBuf {
    let path = std::env::var_os("PATH").unwrap();
    std::env::split_paths(&path).map(|folder| folder.join(program)).find(|file| file.exists()).unwrap()
}

/// The findings of a check, without those about stores of tests that run at the same time.
fn findings(session: &Session, check: &str) -> Vec<Value> {
    let all = session.json()["findings"].as_array().unwrap().clone();
    let ours = |finding: &Value| !finding["message"].as_str().unwrap().contains("another store");
    all.into_iter().filter(|finding| finding["check"] == check && ours(finding)).collect()
}

/// The one finding of a check that needs an action.
#[track_caller]
fn act(session: &Session, check: &str) -> Value {
    let found = findings(session, check);
    let mut acts = found.iter().filter(|finding| finding["level"] == "problem");
    let first = acts.next().unwrap_or_else(|| panic!("nothing needs doing: {}", session.stdout)).clone();
    assert_eq!(acts.next(), None);
    assert_eq!(session.code, 1, "{}", session.stdout);
    assert!(session.json()["problems"].as_u64() > Some(0), "{}", session.stdout);
    first
}

/// Fails if anything needs an action, except limits of the test machine.
#[track_caller]
fn well(session: &Session) {
    let all = session.json();
    let acts = all["findings"].as_array().unwrap().iter().filter(|finding| finding["level"] == "problem");
    let acts: Vec<_> = acts.collect();
    assert!(
        acts.iter().all(|finding| finding["check"] == "limits" || finding["check"] == "disk"),
        "{acts:#?}"
    );
    assert_eq!(session.code, i32::from(!acts.is_empty()));
}

fn succeeded() -> TestEnv {
    let test_env = test_env();
    test_env.workflow(&["a"]);
    assert_eq!(test_env.run(&[]).run().code, 0);
    test_env
}

/// A child process, killed with its group when dropped.
struct Started(Child);

impl Started {
    fn new(command: &mut Command) -> Self {
        Self(command.process_group(0).spawn().unwrap())
    }

    fn pid(&self) -> i32 {
        self.0.id().cast_signed()
    }
}

impl Drop for Started {
    fn drop(&mut self) {
        let _ = kill_process_group(Pid::from_child(&self.0), Signal::KILL);
        let _ = self.0.wait();
    }
}

/// A process with the mark of an attempt.
fn marked(store: &Path, run: &str, attempt: &str) -> Started {
    let mut sleep = Command::new("sleep");
    sleep.arg("1000").env("CALLBOARD_STORE", store);
    Started::new(sleep.env("CALLBOARD_RUN", run).env("CALLBOARD_ATTEMPT", attempt))
}

/// Every file of the store with what is in it.
fn bytes(test_env: &TestEnv) -> Vec<(std::path::PathBuf, Vec<u8>)> {
    let files = fs::read_dir(test_env.store()).unwrap().map(|entry| entry.unwrap().path());
    let mut files: Vec<_> =
        files.filter(|path| path.is_file()).map(|path| (path.clone(), fs::read(path).unwrap())).collect();
    files.sort();
    files
}

#[test]
fn a_healthy_store_needs_no_action_and_is_not_changed() {
    let test_env = succeeded();
    let before = bytes(&test_env);
    let session = doctor(&test_env, &[]);
    well(&session);
    assert_eq!(findings(&session, "runs")[0]["message"], "0 running, 1 finished");
    assert_eq!(bytes(&test_env), before);
}

#[test]
fn findings_are_printed_as_a_list() {
    let test_env = succeeded();
    let session = test_env.callboard(&["doctor"]).run();
    let lines: Vec<_> = session.stdout.lines().collect();
    assert!(lines[0].starts_with("✓ ok       store      "), "{}", session.stdout);
    assert!(lines.last().unwrap().contains("found"), "{}", session.stdout);
    assert_eq!(session.stderr, "");
}

#[test]
fn doctor_works_without_a_store_and_outside_git_and_creates_nothing() {
    let test_env = test_env();
    well(&doctor(&test_env, &[]));
    assert!(!test_env.store().exists());
    let home = test_env.home();
    let session = doctor(&test_env, &["--repo", home.to_str().unwrap()]);
    well(&session);
    assert!(findings(&session, "git")[0]["message"].as_str().unwrap().contains("not in a git repository"));
    assert!(!home.join(".callboard").exists());
}

#[test]
fn doctor_says_how_to_resume_a_run_whose_engine_was_killed() {
    let test_env = test_env();
    test_env.workflow(&["a", "b: a"]);
    test_env.plan(&["a * wait gate"]);
    let mut gate = test_env.gate("gate");
    let running = test_env.run(&[]).start();
    test_env.agent_log().wait_for_start("a#1.1");
    let session = doctor(&test_env, &[]);
    well(&session);
    let engine = &findings(&session, "locks")[0];
    assert_eq!(engine["message"], "1 engine is running");
    assert!(
        engine["details"][0].as_str().unwrap().contains(&format!("process {}", running.pid())),
        "{engine}"
    );
    running.kill();
    running.wait();
    let found = act(&doctor(&test_env, &[]), "runs");
    assert_eq!(found["message"], "run `trial` is unfinished and has no engine");
    assert_eq!(found["commands"][0], "callboard resume trial");
    assert!(found["details"][0].as_str().unwrap().contains("resuming adopts it"), "{found}");
    gate.open();
    assert_eq!(test_env.callboard(&["resume", "--all"]).run().code, 0);
    test_env.wait_for_engine("trial");
    well(&doctor(&test_env, &[]));
    test_env.expect_no_orphans();
}

#[test]
fn a_dead_attempt_is_told_from_a_running_one() {
    let test_env = test_env();
    test_env.workflow(&["a"]);
    test_env.plan(&["a * hang"]);
    let running = test_env.run(&[]).start();
    test_env.agent_log().wait_for_start("a#1.1");
    running.kill();
    running.wait();
    let shim = ProcessHandle::shim(&test_env.attempt("trial", "a", "1.1")).unwrap();
    shim.kill();
    shim.wait();
    let found = act(&doctor(&test_env, &[]), "runs");
    assert!(found["details"][0].as_str().unwrap().contains("has no process any more"), "{found}");
    assert_eq!(test_env.callboard(&["stop", "trial"]).run().code, 0);
    let waits = findings(&doctor(&test_env, &[]), "runs");
    assert_eq!(waits[0]["message"], "run `trial` is stopped");
}

#[test]
fn a_stopped_engine_and_a_stopped_shim_are_named_with_how_to_continue_them() {
    let test_env = test_env();
    test_env.workflow(&["a"]);
    test_env.plan(&["a * wait gate"]);
    let mut gate = test_env.gate("gate");
    let running = test_env.run(&[]).start();
    test_env.agent_log().wait_for_start("a#1.1");
    running.signal(Signal::STOP);
    testkit::wait_until_stopped(running.pid());
    let found = act(&doctor(&test_env, &[]), "locks");
    assert_eq!(found["commands"][0], format!("kill -CONT {}", running.pid()));
    running.signal(Signal::CONT);
    let shim = ProcessHandle::shim(&test_env.attempt("trial", "a", "1.1")).unwrap();
    shim.signal(Signal::STOP);
    testkit::wait_until_stopped(shim.pid());
    let found = act(&doctor(&test_env, &[]), "runs");
    assert_eq!(found["commands"][0], format!("kill -CONT {}", shim.pid()));
    shim.signal(Signal::CONT);
    gate.open();
    assert_eq!(running.wait().code, 0);
}

#[test]
fn embedded_a_stopped_holder_of_the_writer_lock_is_named_without_waiting() {
    let test_env = succeeded();
    let mut flock = Command::new("flock");
    flock.arg(test_env.store().join("writer.lock"));
    flock.args(["sh", "-c", "echo held; kill -STOP $PPID; exec sleep 1000"]).stdout(Stdio::piped());
    let mut holder = Started::new(&mut flock);
    let mut held = [0; 5];
    std::io::Read::read_exact(holder.0.stdout.as_mut().unwrap(), &mut held).unwrap();
    let pid = holder.pid();
    testkit::wait_until_stopped(pid);
    let session = doctor(&test_env, &[]);
    let found: Vec<_> = findings(&session, "locks").into_iter().filter(|f| f["level"] == "problem").collect();
    assert_eq!(found[0]["commands"][0], format!("kill -CONT {pid}"), "{}", session.stdout);
    assert!(found[0]["message"].as_str().unwrap().contains("holds the writer lock and is stopped"));
    drop(holder);
    well(&doctor(&test_env, &[]));
}

#[test]
fn orphans_are_listed_with_the_command_that_ends_them() {
    let test_env = succeeded();
    let over = marked(&test_env.store(), "trial", "a#1.1");
    let unknown = marked(&test_env.store(), "ghost", "b#1.1");
    let session = doctor(&test_env, &[]);
    let found = act(&session, "orphans");
    let mut pids = [over.pid(), unknown.pid()];
    pids.sort_unstable();
    assert_eq!(found["commands"][0], format!("kill {} {}", pids[0], pids[1]));
    let details = found["details"].to_string();
    assert!(
        details.contains("which has ended: sleep 1000") && details.contains("which is not in the store"),
        "{details}"
    );
    drop((over, unknown));
    well(&doctor(&test_env, &[]));
}

#[test]
fn an_ended_attempts_process_is_told_from_a_running_one_of_the_same_run() {
    let test_env = test_env();
    test_env.workflow(&["a", "b: a"]);
    test_env.plan(&["b * wait gate"]);
    let mut gate = test_env.gate("gate");
    let running = test_env.run(&[]).start();
    test_env.agent_log().wait_for_start("b#1.1");
    well(&doctor(&test_env, &[]));
    let left = marked(&test_env.store(), "trial", "a#1.1");
    let found = act(&doctor(&test_env, &[]), "orphans");
    assert_eq!(found["commands"][0], format!("kill {}", left.pid()), "{found}");
    drop(left);
    gate.open();
    assert_eq!(running.wait().code, 0);
}

#[test]
fn a_process_of_another_store_is_listed_without_a_command_to_end_it() {
    let test_env = succeeded();
    let other = test_env.home().join("other");
    fs::create_dir(&other).unwrap();
    let _stranger = marked(&other, "trial", "a#1.1");
    let session = doctor(&test_env, &[]);
    well(&session);
    let all = session.json();
    let mut found = all["findings"].as_array().unwrap().iter().filter(|f| f["check"] == "orphans");
    let listed = format!("1 process belongs to another store: {}", other.display());
    assert!(found.any(|finding| finding["message"] == listed.as_str()), "{}", session.stdout);
}

#[test]
fn embedded_a_damaged_store_is_a_finding_and_stays_as_it_is() {
    let test_env = succeeded();
    let database = test_env.store().join("callboard.db");
    let file = fs::File::options().write(true).open(&database).unwrap();
    let pages = file.metadata().unwrap().len() / 4096;
    for page in 2..pages {
        file.write_all_at(&[0xff; 4096], page * 4096).unwrap();
    }
    let before = bytes(&test_env);
    let found = act(&doctor(&test_env, &[]), "store");
    assert_eq!(found["code"], "E003", "{found}");
    assert_eq!(found["commands"][0], "callboard recover --dry-run", "{found}");
    file.write_all_at(&[0xff; 4096], 0).unwrap();
    assert_eq!(act(&doctor(&test_env, &[]), "store")["code"], "E003");
    fs::write(&database, "").unwrap();
    assert_eq!(act(&doctor(&test_env, &[]), "store")["code"], "E003");
    fs::remove_file(&database).unwrap();
    assert_eq!(act(&doctor(&test_env, &[]), "store")["code"], "E002");
    assert_eq!(bytes(&test_env).len(), before.len() - 1, "nothing was made");
}

#[test]
fn a_store_readable_by_others_gets_a_command_that_closes_it() {
    let test_env = succeeded();
    fs::set_permissions(test_env.store(), fs::Permissions::from_mode(0o755)).unwrap();
    let found = act(&doctor(&test_env, &[]), "store");
    let command = found["commands"][0].as_str().unwrap();
    assert_eq!(command, format!("chmod 700 {}", test_env.store().display()));
    assert!(Command::new("sh").args(["-c", command]).status().unwrap().success());
    well(&doctor(&test_env, &[]));
}

#[test]
fn another_users_store_is_a_finding() {
    // Only root can create another user's directory.
    if !rustix::process::geteuid().is_root() {
        return;
    }
    let test_env = succeeded();
    std::os::unix::fs::chown(test_env.repo().join(".git/callboard"), Some(1), Some(1)).unwrap();
    let found = act(&doctor(&test_env, &[]), "store");
    assert_eq!(found["code"], "E005", "{found}");
}

#[test]
fn with_a_broken_configuration_a_relative_store_is_in_the_current_directory() {
    let test_env = succeeded();
    test_env.write("callboard.toml", "job = 3\n");
    let below = test_env.repo().join("below");
    fs::create_dir(&below).unwrap();
    let session = test_env.callboard(&["doctor", "--store", "data"]).current_dir(&below).run();
    assert!(session.stdout.contains(below.join("data").to_str().unwrap()), "{}", session.transcript());
}

#[test]
fn problems_of_the_configuration_and_missing_programs_are_findings() {
    let test_env = succeeded();
    test_env.write("callboard.toml", "job = 3\n");
    let found = act(&doctor(&test_env, &[]), "config");
    assert_eq!(
        (found["code"].as_str(), found["details"][0].as_str()),
        (Some("E010"), Some("hint: did you mean `jobs`?"))
    );
    test_env.write("callboard.toml", "[adapters.scout]\ncommand = [\"no-such-agent\", \"{prompt}\"]\n");
    let found = act(&doctor(&test_env, &[]), "config");
    assert_eq!(found["code"], "E008");
    assert_eq!(found["message"], "cannot start agent `scout`: program `no-such-agent` was not found");
    test_env.write(
        "callboard.toml",
        "[adapters.scout]\ncommand = [\"git\"]\n[adapters.check]\nshell = \"true\"\n",
    );
    let session = doctor(&test_env, &[]);
    assert_eq!(
        act(&session, "config")["message"],
        "cannot start agent `check`: program `sh` was not found",
        "PATH has only git"
    );
    test_env.write(
        "callboard.toml",
        "[adapters.scout]\ncommand = [\"git\"]\n[roles.default]\nadapter = \"scot\"\n",
    );
    let found = act(&doctor(&test_env, &[]), "config");
    let named = "`roles.default.adapter` names the adapter `scot`, which is not configured (";
    assert!(found["message"].as_str().unwrap().starts_with(named), "{found:#}");
    assert_eq!(found["details"][0], "hint: did you mean `scout`?");
}

#[test]
fn agents_are_asked_for_their_version_and_one_that_hangs_is_named() {
    let test_env = succeeded();
    let bin = test_env.shared_dir().join("bin");
    fs::create_dir_all(&bin).unwrap();
    let agent = |name: &str, script: &str| {
        fs::write(bin.join(name), format!("#!/bin/sh\n{script}\n")).unwrap();
        fs::set_permissions(bin.join(name), fs::Permissions::from_mode(0o755)).unwrap();
    };
    agent("claude", "echo \"2.1.3 (Claude Code)\"");
    agent(
        "codex",
        &format!(
            "{} 1000 & echo $! >{}; wait",
            found("sleep").display(),
            test_env.shared_dir().join("child").display()
        ),
    );
    let session = doctor(&test_env, &[]);
    let hangs = act(&session, "agents");
    assert!(
        hangs["message"].as_str().unwrap().starts_with("cannot read the version of codex: it did not end"),
        "{hangs}"
    );
    let answer = format!("claude 2.1.3 (Claude Code) ({})", bin.join("claude").display());
    assert!(findings(&session, "agents").iter().any(|finding| finding["message"] == answer.as_str()));
    let child: i32 = fs::read_to_string(test_env.shared_dir().join("child")).unwrap().trim().parse().unwrap();
    assert!(ProcessHandle::of(child).is_none(), "what it started is left");
}

#[test]
fn embedded_a_restored_backup_is_checked_before_the_first_write() {
    let test_env = test_env();
    test_env.workflow(&["a"]);
    test_env.plan(&["a * wait gate"]);
    let mut gate = test_env.gate("gate");
    let running = test_env.run(&[]).start();
    test_env.agent_log().wait_for_start("a#1.1");
    let backup = test_env.shared_dir().join("backup.db");
    let database = rusqlite::Connection::open(test_env.store().join("callboard.db")).unwrap();
    database.execute("VACUUM INTO ?1", [backup.to_str().unwrap()]).unwrap();
    drop(database);
    gate.open();
    assert_eq!(running.wait().code, 0);
    fs::remove_dir_all(test_env.store()).unwrap();
    fs::DirBuilder::new().mode(0o700).create(test_env.store()).unwrap();
    fs::copy(&backup, test_env.store().join("callboard.db")).unwrap();
    let session = doctor(&test_env, &[]);
    assert_eq!(session.code, 1, "{}", session.transcript());
    assert_eq!(act(&session, "runs")["commands"], serde_json::json!(["callboard resume trial"]));
    assert!(!test_env.store().join("writer.lock").exists(), "doctor leaves no trace");
    assert_eq!(test_env.callboard(&["resume", "trial"]).run().code, 0);
}

#[test]
fn leftovers_of_a_killed_recovery_or_import_are_noted() {
    let test_env = test_env();
    test_env.workflow(&["a"]);
    assert_eq!(test_env.run(&[]).run().code, 0);
    fs::create_dir(test_env.store().join("import-x")).unwrap();
    let told = test_env.callboard(&["doctor"]).run();
    assert!(told.stdout.contains("1 directory of a `recover` or `import`"), "{}", told.stdout);
    assert!(told.stdout.contains("import-x"), "{}", told.stdout);
}
