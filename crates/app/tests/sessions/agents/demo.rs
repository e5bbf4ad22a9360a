//! `callboard demo`: what it prints, what it leaves behind, and how it fails.

use std::fs;
use std::path::{Path, PathBuf};

use insta::assert_snapshot;
use testkit::{Callboard, TestEnv};

use crate::sessions::test_env;

/// Prepares the demo with a temporary directory of its own, so that a test sees everything that it leaves.
fn demo<'s>(test_env: &'s TestEnv, arguments: &[&str]) -> Callboard<'s> {
    test_env.callboard(&[&["demo"], arguments].concat()).env("TMPDIR", temp_dir(test_env))
}

fn temp_dir(test_env: &TestEnv) -> PathBuf {
    let directory = test_env.home().join("tmp");
    fs::create_dir_all(&directory).expect("a directory can be made");
    directory
}

/// Returns the directories that demos have left.
fn demo_dirs(test_env: &TestEnv) -> Vec<PathBuf> {
    let entries = fs::read_dir(temp_dir(test_env)).expect("it is there");
    entries.map(|entry| entry.expect("it can be read").path()).collect()
}

/// Replaces process ids.
fn without_pids(text: &str) -> String {
    let mut text = text.to_owned();
    for word in ["kill -9 ", "Engine ", "Agent "] {
        let (before, after) = text.split_once(word).expect("the demo prints it");
        text = format!("{before}{word}[PID]{}", after.trim_start_matches(|c: char| c.is_ascii_digit()));
    }
    text
}

#[test]
fn the_demo_passes_its_checks_leaves_nothing_and_is_the_picture_in_the_readme() {
    let test_env = test_env();
    let session = demo(&test_env, &[]).run();
    assert_snapshot!(without_pids(session.transcript()), @"
    $ callboard demo
    Three scripted agents fix a bug, and the engine is killed while they work.

      fix   a coder, whose first fix is wrong
      test  a gate, which runs the test and loops back to `fix` if it fails
      docs  a writer, which describes the changes

    $ sh test.sh
    2024: expected yes, got no
    2000: expected yes, got no

    $ callboard run workflow.yaml --run-id leap
    │ run leap in …/leap-year
    │ ▸ fix#1.1 started
    │ ✓ fix#1.1 finished [TIME]
    │ ▸ test#1.1 started
    │ ✓ test#1.1 finished [TIME]
    │ ⟲ gate test failed
    │ ⟲ looping back to fix for test
    │ ▸ fix#2.1 started

    The test failed: 1900: expected no, got yes.
    The coder is running again, as process [PID].

    $ kill -9 [PID]
    Engine [PID] is dead. Agent [PID] is still running.

    $ callboard resume leap
    │ run leap in …/leap-year
    │ ↻ fix#2.1 is still running: adopted
    │ ✓ fix#2.1 finished [TIME]
    │ ▸ test#2.1 started
    │ ✓ test#2.1 finished [TIME]
    │ ▸ docs#1.1 started
    │ ✓ docs#1.1 finished [TIME]
    │ run `leap` succeeded: 3 of 3 steps done, [TIME]

    Nothing was lost and nothing ran twice. Checked in the journal, the agents' log and /proc:
      ✓ engine [PID] was killed by signal 9 while fix#2.1 was running
      ✓ fix#2.1 survived the kill as process [PID] and reported to the next engine
      ✓ each of the 5 attempts ran exactly once
      ✓ fix#1.1 and test#1.1 finished before the kill and did not run again
      ✓ the test failed, the gate looped back to `fix`, and the test passes now
      ✓ engine [PID] resumed the run and the run succeeded
      ✓ no process of the run is left

    The demo took [TIME].
    Run `callboard demo --keep` to keep the folder and look around in it.
    [exit 0]
    ");
    assert_eq!(demo_dirs(&test_env), [] as [PathBuf; 0]);
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/pictures/demo.svg");
    let picture = testkit::redact(&format!("{}\n[exit 0]", text_of_svg(&fs::read_to_string(&file).unwrap())));
    assert_eq!(
        without_pids(&picture),
        without_pids(session.transcript()),
        "run scripts/picture to draw it again"
    );
}

/// Returns the lines of text in the SVG picture of a terminal.
fn text_of_svg(picture: &str) -> String {
    let lines = picture.split("<tspan x=").skip(1).map(|line| {
        let (line, _) = line.split_once("\n</tspan>").expect("a line has an end");
        let (_, line) = line.split_once('>').expect("and a beginning");
        let text: String =
            line.split('<').map(|piece| piece.split_once('>').map_or(piece, |it| it.1)).collect();
        text.replace("&lt;", "<").replace("&gt;", ">").replace("&amp;", "&")
    });
    lines.collect::<Vec<_>>().join("\n")
}

#[test]
fn embedded_the_folder_of_the_demo_can_be_inspected_with_other_commands() {
    let test_env = test_env();
    let session = demo(&test_env, &["--keep", "--fast"]).run();
    assert_eq!(session.code, 0, "{}", session.transcript());
    let kept = demo_dirs(&test_env);
    assert_eq!(kept.len(), 1);
    let repo = kept[0].join("leap-year");
    assert!(session.stdout.contains(&format!("cd {}", repo.display())), "{}", session.stdout);

    let shown = test_env.callboard(&["show", "leap", "--json"]).current_dir(&repo).run().json();
    assert_eq!(shown["status"], "succeeded", "{shown}");
    assert_eq!(shown["document"]["steps"]["test"]["iteration_count"], 1, "the gate looped back once");
    let log = fs::read_to_string(kept[0].join("agents.log")).unwrap();
    // A line has the event, the attempt and the process id.
    let logged = |event: &str| -> Vec<(String, String)> {
        let words = log.lines().map(|line| line.split(' ').collect::<Vec<_>>());
        let words = words.filter(|words| words[0] == event);
        words.map(|words| (words[1].to_owned(), words[2].to_owned())).collect()
    };
    let attempts: Vec<_> = logged("start").into_iter().map(|(attempt, _)| attempt).collect();
    assert_eq!(attempts, ["fix#1.1", "test#1.1", "fix#2.1", "test#2.1", "docs#1.1"]);
    assert_eq!(logged("start"), logged("end"), "an attempt ended as another process");
    assert_eq!(fs::read_to_string(repo.join("CHANGES.md")).unwrap().lines().count(), 4);
    testkit::expect_no_orphans(&repo.join(".git/callboard"));
}

#[test]
fn the_demo_uses_no_user_settings_and_no_current_directory() {
    let test_env = test_env();
    test_env.write("../home/.config/callboard/config.toml", "store = \"/nowhere\"\n");
    test_env.write("../home/.gitconfig", "[commit]\n\tgpgsign = true\n[core]\n\thooksPath = /nowhere\n");
    let removed = test_env.home().join("gone");
    fs::create_dir(&removed).unwrap();
    let session = demo(&test_env, &[])
        .in_shell("rmdir \"$PWD\" && exec \"$@\"")
        .current_dir(&removed)
        .env("TMPDIR", temp_dir(&test_env))
        .env("CALLBOARD_STORE", "/nowhere")
        .env("CALLBOARD_JOBS", "none")
        .env("GIT_DIR", "/nowhere")
        .env("LOOP_BACK_FROM", "nobody")
        .run();
    assert_eq!(session.code, 0, "{}", session.transcript());
}

/// Writes a `git` that kills the agent of `fix` in its second turn. Returns its directory.
fn git_that_kills_the_coder(test_env: &TestEnv) -> PathBuf {
    let path = std::env::var_os("PATH").expect("tests have a PATH");
    let mut programs = std::env::split_paths(&path).map(|directory| directory.join("git"));
    let real = programs.find(|git| git.exists()).expect("tests have git");
    let script = format!(
        "#!/bin/sh\n[ \"${{CALLBOARD_ATTEMPT:-}}\" != 'fix#2.1' ] || kill -9 $PPID\nexec {} \"$@\"\n",
        real.display()
    );
    write_program_dir(test_env, "git", &script)
}

/// Writes a program. Returns its directory.
fn write_program_dir(test_env: &TestEnv, name: &str, script: &str) -> PathBuf {
    let path = test_env.write_program(test_env.home().join("bin").join(name), script);
    path.parent().expect("it lies in a directory").to_owned()
}

/// Returns `PATH` with this directory in front.
fn path_with_first(directory: &Path) -> String {
    format!("{}:{}", directory.display(), std::env::var("PATH").expect("tests have a PATH"))
}

#[test]
fn a_failed_check_is_an_error_and_the_folder_is_kept() {
    let test_env = test_env();
    let path = path_with_first(&git_that_kills_the_coder(&test_env));
    let session = demo(&test_env, &[]).env("PATH", path).run();
    assert_eq!(session.code, 1, "{}", session.transcript());
    assert!(session.stdout.contains("✗ failed: fix#2.1 survived the kill"), "{}", session.stdout);
    assert!(session.stdout.contains("The demo failed."), "{}", session.stdout);
    assert!(session.stderr.contains("checks failed"), "{}", session.stderr);
    let kept = demo_dirs(&test_env);
    assert!(session.stderr.contains(kept[0].to_str().unwrap()), "{}", session.stderr);
    testkit::expect_no_orphans(&kept[0].join("leap-year/.git/callboard"));
}

#[test]
fn without_git_the_demo_says_so() {
    let test_env = test_env();
    let session = demo(&test_env, &[]).env("PATH", "/nowhere").run();
    assert_snapshot!(session.transcript(), @"
    $ callboard demo
    error: the demo needs `git`, which could not be started
      caused by: No such file or directory (os error 2)

    hint: install git, or put it on the PATH
    [exit 2]
    ");
    assert_eq!(demo_dirs(&test_env), [] as [PathBuf; 0]);
}

#[test]
fn an_agent_cannot_run_the_demo() {
    let test_env = test_env();
    let session = demo(&test_env, &[]).env("CALLBOARD_ATTEMPT", "fix#1.1").run();
    assert_snapshot!(session.transcript(), @"
    $ callboard demo
    error[E012]: cannot show the demo from inside attempt `fix#1.1`

    hint: ask a person to run this command outside the attempt
    [exit 3]
    ");
}

#[test]
fn ctrl_c_ends_the_engine_and_the_agents_and_removes_the_folder() {
    let test_env = test_env();
    // The tester calls `date`, which hangs here, so that the demo is interrupted while it waits.
    let stuck = "#!/bin/sh\necho >\"$REPO_DIR/../stuck\"\nread -r _ <\"$REPO_DIR/../release\"\n";
    let path = path_with_first(&write_program_dir(&test_env, "date", stuck));
    let running = demo(&test_env, &[]).env("PATH", path).start();
    running.wait_for_stdout("test#1.1 started");
    let folder = demo_dirs(&test_env).pop().unwrap();
    testkit::wait_until(&folder, "the tester", || folder.join("stuck").exists().then_some(()));
    running.interrupt();
    let session = running.wait();
    assert_eq!(session.code, 130, "{}", session.transcript());
    testkit::expect_no_orphans(&folder.join("leap-year/.git/callboard"));
    assert_eq!(demo_dirs(&test_env), [] as [PathBuf; 0]);
}
