//! Rehearsed runs of the real binary in real git repositories.
#![expect(clippy::unwrap_used, reason = "helpers of tests fail by panicking, like the tests")]

use std::fs;
use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use serde_json::Value;
use tempfile::TempDir;

const CALLBOARD: &str = env!("CARGO_BIN_EXE_callboard");

/// A repository with a workflow that is committed, and a place for scripts outside it.
struct Scene {
    root: TempDir,
}

impl Scene {
    fn new(steps: &[&str]) -> Self {
        let scene = Self { root: tempfile::tempdir().unwrap() };
        fs::create_dir(scene.repo()).unwrap();
        scene.write("task.md", "Do it.\n");
        let steps: String =
            steps.iter().map(|step| format!("  - {{agent: a, prompt: task.md, {step}}}\n")).collect();
        scene.write("wf.yaml", &format!("name: release\nsteps:\n{steps}"));
        scene.git(&["init", "-q"]);
        scene.git(&["add", "."]);
        scene.git(&["-c", "user.name=a", "-c", "user.email=a@b", "commit", "-q", "-m", "begin"]);
        scene
    }

    fn repo(&self) -> PathBuf {
        self.root.path().join("a repo")
    }

    fn write(&self, file: &str, text: &str) {
        fs::write(self.repo().join(file), text).unwrap();
    }

    /// Writes a script outside the repository; returns the flag that uses it.
    fn script(&self, parts: &str) -> String {
        let file = self.script_file();
        fs::write(&file, format!("steps:\n{parts}")).unwrap();
        format!("--rehearse={}", file.display())
    }

    fn script_file(&self) -> PathBuf {
        self.root.path().join("script.yaml")
    }

    fn command(&self, program: &str, arguments: &[&str]) -> Command {
        let mut command = Command::new(program);
        command
            .args(arguments)
            .current_dir(self.repo())
            .env("HOME", self.root.path())
            .env("XDG_CONFIG_HOME", self.root.path())
            .env("GIT_CONFIG_GLOBAL", "/dev/null")
            .env("CALLBOARD_BACKOFF", "1ms")
            .env_remove("CALLBOARD_STORE")
            .stdin(Stdio::null());
        command
    }

    fn git(&self, arguments: &[&str]) -> String {
        let output = self.command("git", arguments).output().unwrap();
        assert!(output.status.success(), "git {arguments:?}: {}", talk(&output));
        String::from_utf8(output.stdout).unwrap()
    }

    fn callboard(&self, arguments: &[&str]) -> Output {
        self.command(CALLBOARD, arguments).output().unwrap()
    }

    /// Runs the workflow and expects this exit code.
    fn run(&self, rehearse: &str, code: i32) {
        let output = self.callboard(&["run", "wf.yaml", "--run-id", "trial", rehearse]);
        assert_eq!(output.status.code(), Some(code), "{}", talk(&output));
    }

    fn step(&self, step: &str) -> Value {
        let text = fs::read_to_string(self.repo().join(".agents/runs/trial/run_state.json")).unwrap();
        serde_json::from_str::<Value>(&text).unwrap()["steps"][step].clone()
    }

    fn last_error(&self, step: &str) -> String {
        self.step(step)["last_error"].as_str().unwrap_or_default().to_owned()
    }

    /// A file of an attempt.
    fn attempt(&self, attempt: &str, file: &str) -> PathBuf {
        self.repo().join(".git/callboard/attempts/trial").join(attempt).join(file)
    }
}

fn talk(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr)
}

fn json(path: &Path) -> Value {
    serde_json::from_slice(&fs::read(path).unwrap()).unwrap()
}

#[test]
fn any_workflow_is_delivered_and_the_work_tree_stays_as_it_is() {
    let scene =
        Scene::new(&["id: plan", "id: code, needs: [plan]", "id: review, needs: [code], loop_back_to: code"]);
    scene.run("--rehearse", 0);
    assert_eq!(scene.git(&["status", "--porcelain"]), "");
    for step in ["plan", "code", "review"] {
        let shown = scene.step(step);
        assert_eq!((&shown["status"], &shown["attempts"]), (&"COMPLETED".into(), &1.into()));
        let artifact = format!(".agents/runs/trial/artifacts/{step}.1.1.txt");
        assert_eq!(shown["artifacts"], serde_json::json!([artifact]));
        assert!(scene.repo().join(artifact).is_file());
    }
    let said = fs::read_to_string(scene.attempt("plan/1.1", "stdout.log")).unwrap();
    assert_eq!(said, "rehearsing `plan`: iteration 0, try 1\nreported COMPLETED\n");
}

#[test]
fn a_script_says_what_is_left_behind() {
    let scene = Scene::new(&["id: code"]);
    let part = "- ok: {logs: [\"fixed\"], artifacts: [\"a/notes.txt\"], write: {\"src/x.txt\": \"content\"}}";
    scene.run(&scene.script(&format!("  code:\n    {part}\n")), 0);
    assert_eq!(scene.git(&["status", "--porcelain", "-uall"]), "?? src/x.txt\n");
    assert_eq!(fs::read_to_string(scene.repo().join("src/x.txt")).unwrap(), "content");
    let shown = scene.step("code");
    let artifacts = serde_json::json!([".agents/runs/trial/artifacts/a/notes.txt", "src/x.txt"]);
    assert_eq!((&shown["artifacts"], &shown["logs"]), (&artifacts, &serde_json::json!(["fixed"])));
}

#[test]
fn a_step_fails_and_then_does_not() {
    let scene = Scene::new(&["id: code"]);
    scene.run(&scene.script("  code: [fail: syntax error, ok]\n"), 0);
    assert_eq!(scene.step("code")["attempts"], 2);
    assert_eq!(json(&scene.attempt("code/1.1", "report.json"))["logs"], serde_json::json!(["syntax error"]));
}

#[test]
fn a_gate_fails_twice_and_then_passes() {
    let scene = Scene::new(&["id: code", "id: review, needs: [code], loop_back_to: code"]);
    scene.run(&scene.script("  review: [gate_fail: {times: 2, why: found P0 issues}]\n"), 0);
    for step in ["code", "review"] {
        assert_eq!(scene.step(step)["iteration_count"], 2, "{step}");
    }
    let prompt = fs::read_to_string(scene.attempt("code/3.1", "prompt.md")).unwrap();
    assert!(prompt.contains("found P0 issues"), "{prompt}");
}

#[test]
fn whatever_goes_wrong_is_told_by_its_name() {
    let steps = ["hangs", "crashes", "leaves", "babbles"];
    let written = steps
        .map(|id| format!("id: {id}, max_attempts: 1, timeout: {}", if id == "hangs" { "1s" } else { "1h" }));
    let scene = Scene::new(&written.each_ref().map(String::as_str));
    let rehearse =
        scene.script("  hangs: [hang]\n  crashes: [crash]\n  leaves: [exit: 3]\n  babbles: [rubbish]\n");
    let arguments = ["run", "wf.yaml", "--run-id", "trial", "--on-failure", "continue", &rehearse];
    let output = scene.callboard(&arguments);
    assert_eq!(output.status.code(), Some(1), "{}", talk(&output));
    // How long the machine took to notice is not ours to promise.
    let shown = |error: String| match error.split_once(" after ") {
        Some((what, _)) => format!("{what} after […]"),
        None => error,
    };
    let errors = steps.map(|step| shown(scene.last_error(step))).join("\n");
    insta::assert_snapshot!(errors, @"
    Agent process timed out after […]
    Agent process was ended by signal 9 without a report: crashing
    Agent process exited with code 3 without a report: leaving with code 3 and without a report
    Agent process exited with code 0 and its report was refused: the report file: it is not JSON: expected value at line 1, column 39
    ");
    assert_eq!(scene.git(&["status", "--porcelain"]), "");
}

#[test]
fn a_flood_is_kept_and_a_child_left_behind_is_not() {
    let scene = Scene::new(&["id: floods", "id: forgets"]);
    scene.run(&scene.script("  floods: [flood: 10MB]\n  forgets: [leave_child]\n"), 0);
    assert!(fs::metadata(scene.attempt("floods/1.1", "stdout.log")).unwrap().len() > 10_000_000);
    let said = fs::read_to_string(scene.attempt("forgets/1.1", "stdout.log")).unwrap();
    let (_, left) = said.split_once("leaving process ").unwrap();
    let (process, how) = left.split_once(" behind: ").unwrap();
    assert!(how.starts_with("in a session of its own\n"), "{said}");
    assert_eq!(json(&scene.attempt("forgets/1.1", "exit.json"))["swept"], 1);
    let command = fs::read(format!("/proc/{process}/cmdline")).unwrap_or_default();
    assert!(!String::from_utf8_lossy(&command).contains("left-behind"), "it lives on");
}

#[test]
fn a_killed_engine_changes_nothing_in_the_play() {
    let scene = Scene::new(&["id: a", "id: b, needs: [a]"]);
    let rehearse = scene.script("  a: [take: 300ms]\n  b: [fail: once, ok: {logs: [from the script]}]\n");
    let arguments = ["run", "wf.yaml", "--run-id", "trial", "--json", &rehearse];
    let mut engine = scene.command(CALLBOARD, &arguments).stdout(Stdio::piped()).spawn().unwrap();
    let mut events = BufReader::new(engine.stdout.take().unwrap()).lines();
    events.find(|event| event.as_ref().unwrap().contains("a#1.1")).expect("it starts").unwrap();
    engine.kill().unwrap();
    engine.wait().unwrap();
    fs::remove_file(scene.script_file()).unwrap();
    let output = scene.callboard(&["resume", "trial"]);
    assert_eq!(output.status.code(), Some(0), "{}", talk(&output));
    assert_eq!(scene.step("a")["attempts"], 1);
    let shown = scene.step("b");
    assert_eq!((&shown["attempts"], &shown["logs"]), (&2.into(), &serde_json::json!(["from the script"])));
}

#[test]
fn a_rehearsed_run_is_not_played_by_anybody_else() {
    let scene = Scene::new(&["id: code"]);
    let flag = scene.script("  code: [{fail: \"no\"}]\n");
    scene.run(&flag, 1);
    let output = scene.callboard(&["retry", "trial", "--wrapper", "true"]);
    assert_eq!(output.status.code(), Some(3), "{}", talk(&output));
    assert!(talk(&output).contains("is a rehearsal and stays one"), "{}", talk(&output));
}

#[test]
fn a_retried_run_is_still_rehearsed() {
    let scene = Scene::new(&["id: a, max_attempts: 1"]);
    scene.run(&scene.script("  a: [fail: never]\n"), 1);
    fs::remove_file(scene.script_file()).unwrap();
    let output = scene.callboard(&["retry", "trial"]);
    assert_eq!(output.status.code(), Some(1), "{}", talk(&output));
    assert_eq!(json(&scene.attempt("a/2.1", "report.json"))["logs"], serde_json::json!(["never"]));
}

#[test]
fn a_player_that_reports_and_hangs_has_written_its_whole_report() {
    let root = tempfile::tempdir().unwrap();
    let report = root.path().join("report.json");
    let part = r#"{"play": "report_then_hang"}"#;
    let path = root.path().display().to_string();
    let told = [
        ("RUN_ID", "trial"),
        ("STEP_ID", "a"),
        ("AGENT_ID", "x"),
        ("CALLBOARD_ATTEMPT", "a#1.1"),
        ("STEP_ITERATION", "0"),
        ("STEP_ATTEMPT", "1"),
        ("REPO_DIR", &path),
        ("ARTIFACTS_DIR", &path),
    ];
    let mut player = Command::new(CALLBOARD)
        .args(["__player", part])
        .envs(told)
        .env("REPORT_PATH", &report)
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let said: Vec<_> =
        BufReader::new(player.stdout.take().unwrap()).lines().map(Result::unwrap).take(3).collect();
    assert_eq!(said[1..], ["reported COMPLETED", "hanging"]);
    assert_eq!(json(&report)["artifacts"], serde_json::json!(["a.1.1.txt"]));
    assert!(player.try_wait().unwrap().is_none(), "it does not end by itself");
    player.kill().unwrap();
    player.wait().unwrap();
}

#[test]
fn a_broken_script_is_refused_before_anything_happens() {
    let scene = Scene::new(&["id: code"]);
    let rehearse = scene.script("  coed: [ok]\n  code: [hnag]\n");
    let output = scene.callboard(&["run", "wf.yaml", "--run-id", "trial", &rehearse]);
    assert_eq!(output.status.code(), Some(2));
    let said = talk(&output);
    for part in ["has 2 problems", ":2:3", "did you mean `code`?", ":3:10", "did you mean `hang`?"] {
        assert!(said.contains(part), "{part}: {said}");
    }
    assert!(!scene.repo().join(".agents").exists());
    let output = scene.callboard(&["run", "wf.yaml", "--rehearse", "--wrapper", "x"]);
    assert_eq!(output.status.code(), Some(2), "{}", talk(&output));
}

#[test]
fn a_printed_script_can_be_used_and_is_never_overwritten() {
    let scene = Scene::new(&["id: code", "id: review, needs: [code], loop_back_to: code"]);
    let file = scene.script_file().display().to_string();
    let write = || scene.callboard(&["rehearse-script", "wf.yaml", "--output", &file]);
    assert_eq!(write().status.code(), Some(0));
    let printed = scene.callboard(&["rehearse-script", "wf.yaml"]);
    assert_eq!(String::from_utf8(printed.stdout).unwrap(), fs::read_to_string(&file).unwrap());
    scene.run(&format!("--rehearse={file}"), 0);
    fs::write(&file, "edited for hours").unwrap();
    let again = write();
    assert_eq!(again.status.code(), Some(3), "{}", talk(&again));
    assert_eq!(fs::read_to_string(&file).unwrap(), "edited for hours");
}

#[test]
fn a_player_that_nobody_asked_for_says_so() {
    for arguments in [&["__player"][..], &["__player", "{"], &["__player", r#"{"play":"hang"}"#]] {
        let output = Command::new(CALLBOARD).args(arguments).env_clear().output().unwrap();
        assert_eq!(output.status.code(), Some(2), "{arguments:?}");
        assert!(talk(&output).starts_with("error: `__player` is how a rehearsed run"), "{}", talk(&output));
    }
}
