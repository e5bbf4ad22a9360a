//! `scripts/tools`, `scripts/commit-subjects` and `scripts/verify`: they report what they leave out, and fail if
//! something they need is missing.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use tempfile::TempDir;

/// A directory with nothing but our scripts, some of them stubs, and programs on PATH that do nothing. Its `python3` fails, so
/// nothing can be downloaded.
struct Project(TempDir);

impl Project {
    fn new() -> Self {
        let project = Self(tempfile::tempdir().unwrap());
        for script in ["verify", "tools", "commit-subjects"] {
            let ours = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scripts").join(script);
            project.program(&format!("scripts/{script}"), &fs::read_to_string(ours).unwrap());
        }
        for other in ["file-lengths", "man-pages"] {
            project.program(&format!("scripts/{other}"), "#!/bin/sh\n");
        }
        project.program("bin/python3", "#!/bin/sh\necho 'no route to any registry' >&2\nexit 1\n");
        project.program("bin/cargo", "#!/bin/sh\necho \"cargo $*\"\n");
        for tool in ["cargo-deny", "cargo-nextest", "typos"] {
            project.program(&format!("bin/{tool}"), &format!("#!/bin/sh\necho '{tool} 1.2.3'\n"));
        }
        project
    }

    fn program(&self, path: &str, text: &str) -> PathBuf {
        let path = self.0.path().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, text).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
        path
    }

    /// Puts a `nats-server` on PATH that runs this line of shell.
    fn server(&self, shell_line: &str) -> PathBuf {
        self.program("bin/nats-server", &format!("#!/bin/sh\n{shell_line}\n"))
    }

    fn run(&self, script: &str, arguments: &[&str]) -> Output {
        let mut command = isolated("bash");
        command.arg(self.0.path().join("scripts").join(script)).args(arguments);
        command.env("PATH", format!("{}:/usr/bin:/bin", self.0.path().join("bin").display()));
        command.env("CARGO_TARGET_DIR", self.0.path().join("target"));
        command.env("CALLBOARD_TOOLS", self.0.path().join("cache")).output().unwrap()
    }

    /// Commits with this subject. The first call creates the repository.
    fn commit(&self, subject: &str) {
        for arguments in
            [&["init", "--quiet"][..], &["commit", "--quiet", "--allow-empty", "--message", subject]]
        {
            let mut git = isolated("git");
            git.args(["-c", "user.name=ada", "-c", "user.email=ada@example.org"]).args(arguments);
            assert!(git.current_dir(self.0.path()).status().unwrap().success(), "{subject}");
        }
    }
}

/// Returns a command whose git ignores the developer's settings, and the repository of a git hook that runs the tests.
fn isolated(program: &str) -> Command {
    let mut command = Command::new(program);
    command.env("GIT_CONFIG_GLOBAL", "/dev/null").env("GIT_CONFIG_SYSTEM", "/dev/null");
    command.env_remove("GIT_DIR").env_remove("GIT_INDEX_FILE").env_remove("GIT_WORK_TREE");
    command
}

/// Returns stdout and stderr.
fn text_of(output: &Output) -> (String, String) {
    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
    (text(&output.stdout), text(&output.stderr))
}

#[test]
fn a_server_on_path_is_used_if_it_is_new_enough() {
    let project = Project::new();
    for version in ["2.10.25", "2.12.1", "3.0.0", "2.15.1-preview.2"] {
        let server = project.server(&format!("echo 'nats-server: v{version}'"));
        let (stdout, _) = text_of(&project.run("tools", &["nats-server"]));
        assert_eq!(stdout.trim(), server.to_str().unwrap(), "{version}");
    }
    for version in ["2.9.10", "2.10.24"] {
        project.server(&format!("echo 'nats-server: v{version}'"));
        let output = project.run("tools", &["nats-server"]);
        let (stdout, stderr) = text_of(&output);
        assert!(!output.status.success() && stdout.is_empty(), "{stdout}");
        assert!(stderr.contains(&format!("on PATH is {version}, at least 2.10.25 is needed")), "{stderr}");
    }
}

/// A `nats-server --version` that fails must not end the script (`set -e`) without a message.
#[test]
fn a_server_on_path_without_a_version_is_ignored() {
    let project = Project::new();
    project.server("exit 1");
    let (_, stderr) = text_of(&project.run("tools", &["nats-server"]));
    assert!(stderr.contains("on PATH is of unknown version, at least 2.10.25 is needed"), "{stderr}");
    let fetched = project.program("cache/nats-server-2.15.1", "");
    let (stdout, _) = text_of(&project.run("tools", &["nats-server"]));
    assert_eq!(Path::new(stdout.trim()), fetched.canonicalize().unwrap());
    let linked = project.0.path().join("target/tools/nats-server");
    assert_eq!(linked.canonicalize().unwrap(), fetched.canonicalize().unwrap(), "the tests look there");
}

#[test]
fn a_tool_that_cannot_be_fetched_is_an_error_with_a_hint() {
    let project = Project::new();
    for (tool, hint) in
        [("typos", "typos-cli@"), ("cargo-deny", "cargo-deny@"), ("cargo-nextest", "cargo-nextest@")]
    {
        project.program(&format!("bin/{tool}"), "#!/bin/sh\nexit 1\n");
        let output = project.run("tools", &[tool]);
        let (stdout, stderr) = text_of(&output);
        assert!(!output.status.success() && !stdout.contains("cache"), "{stdout}");
        assert!(stderr.contains(&format!("error: cannot fetch {tool} ")), "{stderr}");
        assert!(stderr.contains(&format!("hint: run `cargo install --locked {hint}")), "{stderr}");
    }
    assert_eq!(fs::read_dir(project.0.path().join("cache")).unwrap().count(), 0);
}

#[test]
fn verify_fails_without_a_nats_server_and_names_the_flag() {
    let project = Project::new();
    project.server("exit 1");
    let output = project.run("verify", &[]);
    let (stdout, stderr) = text_of(&output);
    assert!(!output.status.success(), "{stdout}");
    assert!(stderr.contains("verify: FAILED at \"tools\""), "{stderr}");
    assert!(
        stderr.contains("no route to any registry") && stderr.contains("scripts/verify --no-nats"),
        "{stderr}"
    );
    assert!(!stdout.contains("cargo nextest"), "no tests may run: {stdout}");
}

#[test]
fn verify_no_nats_needs_no_server_and_reports_what_it_left_out() {
    let project = Project::new();
    let output = project.run("verify", &["--no-nats"]);
    let (stdout, stderr) = text_of(&output);
    assert!(output.status.success(), "{stdout}{stderr}");
    let tests: Vec<_> = stdout.lines().filter(|line| line.starts_with("cargo nextest")).collect();
    let [build, tests] = tests[..] else { panic!("{tests:?}") };
    assert_eq!(build, "cargo nextest run --no-run --workspace");
    assert!(tests.starts_with("cargo nextest run --workspace --profile no-nats -E all()"), "{tests}");
    let (_, left_out) = stdout.lines().last().unwrap().split_once("left out:").unwrap();
    assert!(left_out.contains("tests on NATS (--no-nats)"), "{stdout}");
    // The `python3` of this project does not run.
    assert!(
        tests.contains(" - test(/needs_python3_/)") && left_out.contains("tests that need python3"),
        "{stdout}"
    );
    assert_eq!(project.run("verify", &["--no-nets"]).status.code(), Some(2));
}

/// The commit since which `scripts/verify` checks the subjects of commits: its `rule_since`. A test repository does not
/// contain it.
const SUBJECTS_CHECKED_SINCE: &str = "7ac0553";

#[test]
fn verify_without_the_history_reports_that_commit_subjects_are_not_checked() {
    let project = Project::new();
    for subject in ["", "squashed: everything"] {
        if !subject.is_empty() {
            project.commit(subject);
        }
        let output = project.run("verify", &["--no-nats"]);
        let (stdout, stderr) = text_of(&output);
        assert!(output.status.success(), "{stdout}{stderr}");
        let left_out = format!("commit subjects ({SUBJECTS_CHECKED_SINCE} is not in");
        assert!(stdout.lines().last().unwrap().contains(&left_out), "{stdout}");
    }
}

#[test]
fn a_commit_subject_has_an_area_and_at_most_72_characters() {
    let project = Project::new();
    project.commit("what came before does not matter");
    project.commit(&format!("store: {}", "é".repeat(65)));
    let output = project.run("commit-subjects", &["HEAD~1..HEAD"]);
    assert!(output.status.success(), "72 characters, not bytes: {}", text_of(&output).1);
    for (subject, fault) in [
        (format!("store: {}", "e".repeat(66)), "73 characters, the limit is 72"),
        ("fix the store".to_owned(), "no `area: ` in front"),
        ("store:fix it".to_owned(), "no `area: ` in front"),
    ] {
        project.commit(&subject);
        let output = project.run("commit-subjects", &["HEAD~1..HEAD"]);
        let (_, stderr) = text_of(&output);
        assert!(!output.status.success() && stderr.contains(&format!("\"{subject}\": {fault}")), "{stderr}");
    }
    assert!(project.run("commit-subjects", &["HEAD..HEAD"]).status.success(), "an empty range passes");
}
