//! `scripts/tools`, `scripts/commit-subjects` and `scripts/verify`: what they leave out they say, and what they need and
//! cannot get is an error.

#![expect(clippy::unwrap_used, reason = "a test may fail")]

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use tempfile::TempDir;

/// A project that has only its scripts, and a machine on which nothing can be fetched.
struct Bare(TempDir);

impl Bare {
    fn new() -> Self {
        let bare = Self(tempfile::tempdir().unwrap());
        for script in ["verify", "tools", "commit-subjects"] {
            let ours = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scripts").join(script);
            bare.program(&format!("scripts/{script}"), &fs::read_to_string(ours).unwrap());
        }
        for other in ["file-lengths", "man-pages"] {
            bare.program(&format!("scripts/{other}"), "#!/bin/sh\n");
        }
        bare.program("bin/python3", "#!/bin/sh\necho 'no route to any registry' >&2\nexit 1\n");
        bare.program("bin/cargo", "#!/bin/sh\necho \"cargo $*\"\n");
        for tool in ["cargo-deny", "cargo-nextest", "typos"] {
            bare.program(&format!("bin/{tool}"), &format!("#!/bin/sh\necho '{tool} 1.2.3'\n"));
        }
        bare
    }

    fn program(&self, path: &str, text: &str) -> PathBuf {
        let path = self.0.path().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, text).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
        path
    }

    /// A server on PATH that says this of itself.
    fn server(&self, says: &str) -> PathBuf {
        self.program("bin/nats-server", &format!("#!/bin/sh\n{says}\n"))
    }

    fn run(&self, script: &str, arguments: &[&str]) -> Output {
        let mut command = Command::new("bash");
        command.arg(self.0.path().join("scripts").join(script)).args(arguments);
        command.env("PATH", format!("{}:/usr/bin:/bin", self.0.path().join("bin").display()));
        command.env("CARGO_TARGET_DIR", self.0.path().join("target"));
        command.env("CALLBOARD_TOOLS", self.0.path().join("cache")).output().unwrap()
    }

    /// Makes a commit with this subject, in a repository made for the first one.
    fn commit(&self, subject: &str) {
        for arguments in
            [&["init", "--quiet"][..], &["commit", "--quiet", "--allow-empty", "--message", subject]]
        {
            let mut git = Command::new("git");
            git.args(["-c", "user.name=ada", "-c", "user.email=ada@example.org"]).args(arguments);
            assert!(git.current_dir(self.0.path()).status().unwrap().success(), "{subject}");
        }
    }
}

fn said(output: &Output) -> (String, String) {
    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
    (text(&output.stdout), text(&output.stderr))
}

#[test]
fn a_server_on_path_is_used_if_it_is_new_enough_and_named_if_it_is_not() {
    let bare = Bare::new();
    for version in ["2.10.25", "2.12.1", "3.0.0", "2.15.1-preview.2"] {
        let server = bare.server(&format!("echo 'nats-server: v{version}'"));
        let (found, _) = said(&bare.run("tools", &["nats-server"]));
        assert_eq!(found.trim(), server.to_str().unwrap(), "{version}");
    }
    for version in ["2.9.10", "2.10.24"] {
        bare.server(&format!("echo 'nats-server: v{version}'"));
        let output = bare.run("tools", &["nats-server"]);
        let (found, why) = said(&output);
        assert!(!output.status.success() && found.is_empty(), "{found}");
        assert!(why.contains(&format!("on PATH is {version}, at least 2.10.25 is needed")), "{why}");
    }
}

/// It ended the script without a word.
#[test]
fn a_server_on_path_that_cannot_say_its_version_is_passed_over() {
    let bare = Bare::new();
    bare.server("exit 1");
    let (_, why) = said(&bare.run("tools", &["nats-server"]));
    assert!(why.contains("on PATH is of unknown version, at least 2.10.25 is needed"), "{why}");
    let fetched = bare.program("cache/nats-server-2.15.1", "");
    let (found, _) = said(&bare.run("tools", &["nats-server"]));
    assert_eq!(Path::new(found.trim()), fetched.canonicalize().unwrap());
    let linked = bare.0.path().join("target/tools/nats-server");
    assert_eq!(linked.canonicalize().unwrap(), fetched.canonicalize().unwrap(), "the tests look there");
}

#[test]
fn a_tool_that_cannot_be_fetched_is_an_error_with_a_next_step_and_leaves_nothing_behind() {
    let bare = Bare::new();
    for (tool, hint) in
        [("typos", "typos-cli@"), ("cargo-deny", "cargo-deny@"), ("cargo-nextest", "cargo-nextest@")]
    {
        bare.program(&format!("bin/{tool}"), "#!/bin/sh\nexit 1\n");
        let output = bare.run("tools", &[tool]);
        let (found, why) = said(&output);
        assert!(!output.status.success() && !found.contains("cache"), "{found}");
        assert!(why.contains(&format!("error: cannot fetch {tool} ")), "{why}");
        assert!(why.contains(&format!("hint: run `cargo install --locked {hint}")), "{why}");
    }
    assert_eq!(fs::read_dir(bare.0.path().join("cache")).unwrap().count(), 0);
}

#[test]
fn without_a_server_verify_fails_and_says_how_to_leave_the_tests_out() {
    let bare = Bare::new();
    bare.server("exit 1");
    let output = bare.run("verify", &[]);
    let (steps, why) = said(&output);
    assert!(!output.status.success(), "{steps}");
    assert!(why.contains("verify: FAILED at \"tools\""), "{why}");
    assert!(why.contains("no route to any registry") && why.contains("scripts/verify --no-nats"), "{why}");
    assert!(!steps.contains("cargo nextest"), "no test has passed for one that was not run: {steps}");
}

#[test]
fn without_nats_verify_asks_for_no_server_and_says_what_it_left_out() {
    let bare = Bare::new();
    let output = bare.run("verify", &["--no-nats"]);
    let (steps, why) = said(&output);
    assert!(output.status.success(), "{steps}{why}");
    let tests: Vec<_> = steps.lines().filter(|line| line.starts_with("cargo nextest")).collect();
    assert_eq!(
        tests,
        [
            "cargo nextest run --no-run --workspace",
            "cargo nextest run --workspace -E not binary(/^nats/) and not binary(hosts) and not \
             (package(callboard-runner) and test(/^nats/))"
        ]
    );
    assert!(steps.lines().last().unwrap().contains("left out:"), "{steps}");
    assert!(steps.lines().last().unwrap().contains("tests on NATS (--no-nats)"), "{steps}");
    assert_eq!(bare.run("verify", &["--no-nets"]).status.code(), Some(2));
}

#[test]
fn without_the_history_verify_leaves_the_commit_subjects_out_and_says_so() {
    let bare = Bare::new();
    for subject in ["", "squashed: everything"] {
        if !subject.is_empty() {
            bare.commit(subject);
        }
        let output = bare.run("verify", &["--no-nats"]);
        let (steps, why) = said(&output);
        assert!(output.status.success(), "{steps}{why}");
        assert!(steps.lines().last().unwrap().contains("commit subjects (7ac0553 is not in"), "{steps}");
    }
}

#[test]
fn a_commit_subject_has_an_area_and_at_most_72_characters() {
    let bare = Bare::new();
    bare.commit("what came before does not matter");
    bare.commit(&format!("store: {}", "é".repeat(65)));
    let output = bare.run("commit-subjects", &["HEAD~1..HEAD"]);
    assert!(output.status.success(), "72 characters, not bytes: {}", said(&output).1);
    for (subject, fault) in [
        (format!("store: {}", "e".repeat(66)), "73 characters, the limit is 72"),
        ("fix the store".to_owned(), "no `area: ` in front"),
        ("store:fix it".to_owned(), "no `area: ` in front"),
    ] {
        bare.commit(&subject);
        let output = bare.run("commit-subjects", &["HEAD~1..HEAD"]);
        let (_, why) = said(&output);
        assert!(!output.status.success() && why.contains(&format!("\"{subject}\": {fault}")), "{why}");
    }
    assert!(bare.run("commit-subjects", &["HEAD..HEAD"]).status.success(), "no commits, no faults");
}
