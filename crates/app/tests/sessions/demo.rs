//! `callboard demo`: the real story, what it leaves, and that it does not pretend.

use std::fs;
use std::path::{Path, PathBuf};

use insta::assert_snapshot;
use testkit::{Callboard, Scene, embedded_only};

use crate::scene;

/// The demo with a temporary directory of its own, so that a test sees all it leaves.
fn demo<'s>(scene: &'s Scene, arguments: &[&str]) -> Callboard<'s> {
    scene.callboard(&[&["demo"], arguments].concat()).env("TMPDIR", temporary(scene))
}

fn temporary(scene: &Scene) -> PathBuf {
    let directory = scene.home().join("tmp");
    fs::create_dir_all(&directory).expect("a directory can be made");
    directory
}

/// The folders of demos that are still there.
fn folders(scene: &Scene) -> Vec<PathBuf> {
    let entries = fs::read_dir(temporary(scene)).expect("it is there");
    entries.map(|entry| entry.expect("it can be read").path()).collect()
}

/// Without numbers of processes, wherever they stand.
fn without_pids(text: &str) -> String {
    let mut text = text.to_owned();
    for word in ["kill -9 ", "Engine ", "Agent "] {
        let (before, after) = text.split_once(word).expect("the story has it");
        text = format!("{before}{word}[PID]{}", after.trim_start_matches(|c: char| c.is_ascii_digit()));
    }
    text
}

#[test]
fn the_demo_tells_a_story_that_holds_and_leaves_nothing() {
    let scene = scene();
    let session = demo(&scene, &[]).run();
    assert_snapshot!(without_pids(session.transcript()), @"
    $ callboard demo
    A bug, three agents, and a kill -9. No model, no network.

      fix   a coder: its first fix will be wrong
      test  a gate: runs the test, and sends `fix` back if it fails
      docs  a writer: notes what changed

    $ sh test.sh
    2024: expected yes, got no
    2000: expected yes, got no

    $ callboard run workflow.yaml --run-id leap
    │ run leap in …/leap-year
    │ ▸ fix#1.1 started
    │ ✓ fix#1.1 done [TIME]
    │ ▸ test#1.1 started
    │ ✓ test#1.1 done [TIME]
    │ ⟲ the gate of test failed
    │ ⟲ back to fix, because of test
    │ ▸ fix#2.1 started

    The gate ran the test: 1900: expected no, got yes.
    The coder is at work again, as process [PID].

    $ kill -9 [PID]
    Engine [PID] is dead. Agent [PID] works on: nobody told it.

    $ callboard resume leap
    │ run leap in …/leap-year
    │ ↻ fix#2.1 was found at work and adopted
    │ ✓ fix#2.1 done [TIME]
    │ ▸ test#2.1 started
    │ ✓ test#2.1 done [TIME]
    │ ▸ docs#1.1 started
    │ ✓ docs#1.1 done [TIME]
    │ succeeded run `leap`: 3 of 3 steps done, [TIME]

    What the kill cost: nothing. By journal, agents' ledger and /proc:
      ✓ engine [PID] was killed by signal 9 while fix#2.1 was at work
      ✓ fix#2.1 outlived it: process [PID] before, the same process at its end
      ✓ 5 attempts, and each ran exactly once
      ✓ fix#1.1 and test#1.1 were finished before the kill and did not run again
      ✓ the test failed, the gate sent the wrong fix back, the test passes now
      ✓ engine [PID] succeeded the run
      ✓ no process of any attempt is left

    Told in [TIME].
    `callboard demo --keep` leaves the folder, to look around in.
    [exit 0]
    ");
    assert_eq!(folders(&scene), [] as [PathBuf; 0]);
}

#[test]
fn the_picture_in_the_readme_shows_what_the_demo_says() {
    let scene = scene();
    let session = demo(&scene, &["--fast"]).run();
    let said = session.transcript().replace("demo --fast", "demo");
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/pictures/demo.svg");
    let picture = fs::read_to_string(&file).unwrap();
    let shown = testkit::redact(&format!("{}\n[exit 0]", text_of(&picture)));
    assert_eq!(without_pids(&shown), without_pids(&said), "scripts/picture draws it anew");
}

/// The lines of text in the picture of a terminal.
fn text_of(picture: &str) -> String {
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
fn what_the_demo_keeps_can_be_looked_at_and_bears_the_story_out() {
    embedded_only!("the demo has a store of its own");
    let scene = scene();
    let session = demo(&scene, &["--keep", "--fast"]).run();
    assert_eq!(session.code, 0, "{}", session.transcript());
    let kept = folders(&scene);
    assert_eq!(kept.len(), 1);
    let repo = kept[0].join("leap-year");
    assert!(session.stdout.contains(&format!("cd {}", repo.display())), "{}", session.stdout);

    let shown = scene.callboard(&["show", "leap", "--json"]).current_dir(&repo).run().json();
    assert_eq!(shown["phase"], "succeeded", "{shown}");
    assert_eq!(shown["document"]["steps"]["test"]["iteration_count"], 1, "the gate sent it back once");
    let agent_log = fs::read_to_string(kept[0].join("ledger")).unwrap();
    let noted = |run_at: &str| -> Vec<(String, String)> {
        let words = agent_log.lines().map(|line| line.split(' ').collect::<Vec<_>>());
        let words = words.filter(|words| words[0] == run_at);
        words.map(|words| (words[1].to_owned(), words[2].to_owned())).collect()
    };
    let attempts: Vec<_> = noted("begin").into_iter().map(|(attempt, _)| attempt).collect();
    assert_eq!(attempts, ["fix#1.1", "test#1.1", "fix#2.1", "test#2.1", "docs#1.1"]);
    assert_eq!(noted("begin"), noted("end"), "each ended as the process as which it began");
    assert_eq!(fs::read_to_string(repo.join("CHANGES.md")).unwrap().lines().count(), 4);
    testkit::expect_no_orphans(&repo.join(".git/callboard"));
}

#[test]
fn nobodys_settings_reach_the_demo_and_it_needs_no_directory_to_stand_in() {
    let scene = scene();
    scene.write("../home/.config/callboard/config.toml", "store = \"/nowhere\"\n");
    scene.write("../home/.gitconfig", "[commit]\n\tgpgsign = true\n[core]\n\thooksPath = /nowhere\n");
    let gone = scene.home().join("gone");
    fs::create_dir(&gone).unwrap();
    let session = demo(&scene, &[])
        .in_shell("rmdir \"$PWD\" && exec \"$@\"")
        .current_dir(&gone)
        .env("TMPDIR", temporary(&scene))
        .env("CALLBOARD_STORE", "/nowhere")
        .env("CALLBOARD_JOBS", "none")
        .env("GIT_DIR", "/nowhere")
        .env("LOOP_BACK_FROM", "nobody")
        .run();
    assert_eq!(session.code, 0, "{}", session.transcript());
}

/// A `git` that does as it is told, save that it kills the coder in its second turn.
fn git_that_kills_the_coder(scene: &Scene) -> PathBuf {
    let path = std::env::var_os("PATH").expect("tests have a PATH");
    let mut programs = std::env::split_paths(&path).map(|directory| directory.join("git"));
    let real = programs.find(|git| git.exists()).expect("tests have git");
    let script = format!(
        "#!/bin/sh\n[ \"${{CALLBOARD_ATTEMPT:-}}\" != 'fix#2.1' ] || kill -9 $PPID\nexec {} \"$@\"\n",
        real.display()
    );
    program(scene, "git", &script)
}

fn program(scene: &Scene, name: &str, script: &str) -> PathBuf {
    let path = scene.write_program(scene.home().join("bin").join(name), script);
    path.parent().expect("it lies in a directory").to_owned()
}

fn before_path(directory: &Path) -> String {
    format!("{}:{}", directory.display(), std::env::var("PATH").expect("tests have a PATH"))
}

#[test]
fn a_story_that_does_not_hold_is_an_error_and_the_evidence_is_kept() {
    let scene = scene();
    let path = before_path(&git_that_kills_the_coder(&scene));
    let session = demo(&scene, &[]).env("PATH", path).run();
    assert_eq!(session.code, 1, "{}", session.transcript());
    assert!(session.stdout.contains("✗ not so: fix#2.1 outlived it"), "{}", session.stdout);
    assert!(session.stdout.contains("This is not how it should have gone."), "{}", session.stdout);
    assert!(session.stderr.starts_with("error: the story does not hold: "), "{}", session.stderr);
    let kept = folders(&scene);
    assert!(session.stderr.contains(kept[0].to_str().unwrap()), "{}", session.stderr);
    testkit::expect_no_orphans(&kept[0].join("leap-year/.git/callboard"));
}

#[test]
fn without_git_the_demo_says_so() {
    let scene = scene();
    let session = demo(&scene, &[]).env("PATH", "/nowhere").run();
    assert_snapshot!(session.transcript(), @"
    $ callboard demo
    error: the demo needs `git`, which could not be started
      caused by: No such file or directory (os error 2)

    hint: install git, or put it on the PATH
    [exit 2]
    ");
    assert_eq!(folders(&scene), [] as [PathBuf; 0]);
}

#[test]
fn an_agent_cannot_show_the_demo() {
    let scene = scene();
    let session = demo(&scene, &[]).env("CALLBOARD_ATTEMPT", "fix#1.1").run();
    assert_snapshot!(session.transcript(), @"
    $ callboard demo
    error[E012]: cannot show the demo from inside attempt `fix#1.1`

    hint: agents report; people steer
    [exit 3]
    ");
}

#[test]
fn ctrl_c_ends_engine_and_agents_and_takes_the_folder_away() {
    let scene = scene();
    // The coder never comes to its second turn: the demo waits, and is interrupted in the middle.
    let stuck = "#!/bin/sh\necho >\"$REPO_DIR/../stuck\"\nread -r _ <\"$REPO_DIR/../idea\"\n";
    let path = before_path(&program(&scene, "date", stuck));
    let running = demo(&scene, &[]).env("PATH", path).start();
    running.wait_until_it_shows("test#1.1 started");
    let folder = folders(&scene).pop().unwrap();
    testkit::until(&folder, "the tester", || folder.join("stuck").exists().then_some(()));
    running.interrupt();
    let session = running.wait();
    assert_eq!(session.code, 130, "{}", session.transcript());
    testkit::expect_no_orphans(&folder.join("leap-year/.git/callboard"));
    assert_eq!(folders(&scene), [] as [PathBuf; 0]);
}
