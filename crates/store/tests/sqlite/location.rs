//! Finds the store's directory, with a real git.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use store::{LocateError, Location, SqliteStore};

/// A temporary directory with its canonical path, so that paths can be compared.
struct Scratch {
    _directory: tempfile::TempDir,
    path: PathBuf,
}

impl Scratch {
    fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().canonicalize().unwrap();
        Self { _directory: directory, path }
    }

    /// A repository with one commit.
    fn repository(&self) -> PathBuf {
        let path = self.path.join("repo");
        fs::create_dir(&path).unwrap();
        git(&path, &["init", "-q", "-b", "main"]);
        git(&path, &["commit", "-q", "--allow-empty", "-m", "first"]);
        path
    }
}

fn git(directory: &Path, arguments: &[&str]) {
    let identity =
        ["-c", "user.name=Test", "-c", "user.email=test@example.org", "-c", "commit.gpgsign=false"];
    let output = Command::new("git")
        .current_dir(directory)
        .args(identity)
        .args(arguments)
        .env("GIT_CONFIG_GLOBAL", "/dev/null")
        .env("GIT_CONFIG_SYSTEM", "/dev/null")
        // A git hook that runs the tests has these for its own repository.
        .env_remove("GIT_DIR")
        .env_remove("GIT_INDEX_FILE")
        .env_remove("GIT_WORK_TREE")
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

fn root(start: &Path) -> PathBuf {
    Location::find(start, None).unwrap().root().to_owned()
}

#[test]
fn a_repository_has_one_store_for_all_its_worktrees() {
    let scratch = Scratch::new();
    let repository = scratch.repository();
    let worktree = scratch.path.join("tree with space");
    git(&repository, &["worktree", "add", "-q", "-b", "side", worktree.to_str().unwrap()]);
    let below = worktree.join("a/b");
    fs::create_dir_all(&below).unwrap();
    let expected = repository.join(".git/callboard");
    for start in [&repository, &worktree, &below, &repository.join(".git"), &repository.join(".git/hooks")] {
        assert_eq!(root(start), expected, "from {}", start.display());
    }
}

#[test]
fn git_clean_does_not_reach_the_store() {
    let scratch = Scratch::new();
    let repository = scratch.repository();
    let location = Location::find(&repository, None).unwrap();
    SqliteStore::open(&location).unwrap();
    git(&repository, &["clean", "-fdxq"]);
    assert!(SqliteStore::open_existing(&location).unwrap().is_some());
}

#[test]
fn a_bare_repository_has_a_store() {
    let scratch = Scratch::new();
    scratch.repository();
    git(&scratch.path, &["clone", "-q", "--bare", "repo", "bare.git"]);
    assert_eq!(root(&scratch.path.join("bare.git")), scratch.path.join("bare.git/callboard"));

    // A bare clone next to its worktrees, with a `.git` file that points to it.
    let project = scratch.path.join("project");
    fs::create_dir(&project).unwrap();
    git(&scratch.path, &["clone", "-q", "--bare", "repo", "project/.bare"]);
    fs::write(project.join(".git"), "gitdir: ./.bare\n").unwrap();
    git(&project, &["worktree", "add", "-q", "tree"]);
    for start in [&project, &project.join("tree")] {
        assert_eq!(root(start), project.join(".bare/callboard"), "from {}", start.display());
    }
}

#[test]
fn a_submodule_has_its_own_store() {
    let scratch = Scratch::new();
    let repository = scratch.repository();
    let outer = scratch.path.join("outer");
    fs::create_dir(&outer).unwrap();
    git(&outer, &["init", "-q"]);
    let add = ["-c", "protocol.file.allow=always", "submodule", "--quiet", "add"];
    git(&outer, &[&add[..], &[repository.to_str().unwrap(), "inner"]].concat());
    assert_eq!(root(&outer.join("inner")), outer.join(".git/modules/inner/callboard"));
}

#[test]
fn a_git_file_that_points_to_no_repository_is_an_error() {
    let scratch = Scratch::new();
    for text in ["gitdir: /nowhere/at/all\n", "something else\n", ""] {
        fs::write(scratch.path.join(".git"), text).unwrap();
        let error = Location::find(&scratch.path, None).unwrap_err();
        assert!(matches!(error, LocateError::BrokenGit { .. }), "{text:?}: {error}");
    }
}

#[test]
fn without_git_the_nearest_dot_callboard_is_used() {
    let scratch = Scratch::new();
    let below = scratch.path.join("a/b");
    fs::create_dir_all(&below).unwrap();
    fs::create_dir(scratch.path.join("a/.git")).unwrap(); // empty, so not a repository
    assert_eq!(root(&below), below.join(".callboard"));
    fs::create_dir(scratch.path.join(".callboard")).unwrap();
    assert_eq!(root(&below), scratch.path.join(".callboard"));
}

#[test]
fn an_explicit_store_wins_and_may_be_relative() {
    let scratch = Scratch::new();
    let repository = scratch.repository();
    let found = Location::find(&repository, Some("relative".into())).unwrap();
    assert_eq!(found.root(), repository.join("relative"));
    assert_eq!(found.attempts_dir(), repository.join("relative/attempts"));
    let found = Location::find(&repository, Some(scratch.path.join("absolute"))).unwrap();
    assert_eq!(found.root(), scratch.path.join("absolute"));
}

#[test]
fn a_store_that_git_tracks_is_refused() {
    let scratch = Scratch::new();
    let repository = scratch.repository();
    let explicit = || Location::find(&repository, Some("[a]*store".into()));
    SqliteStore::open(&explicit().unwrap()).unwrap();
    // A tracked file that the store's name would match as a pattern.
    fs::write(repository.join("a store"), "").unwrap();
    git(&repository, &["add", "a store"]);
    explicit().expect("an untracked store is accepted");
    git(&repository, &["add", "."]);
    let error = explicit().unwrap_err();
    assert!(matches!(error, LocateError::Tracked { .. }), "{error}");
    // Git's own directory is not part of a work tree.
    let inside = Location::find(&repository, Some(".git/callboard".into())).unwrap();
    SqliteStore::open(&inside).unwrap();
    Location::find(&repository, Some(".git/callboard".into())).unwrap();
}

#[test]
fn the_store_of_another_user_is_refused() {
    let scratch = Scratch::new();
    let theirs = scratch.path.join("theirs");
    fs::create_dir(&theirs).unwrap();
    let us = rustix::process::geteuid();
    let theirs = if us.is_root() {
        std::os::unix::fs::chown(&theirs, Some(12345), None).unwrap();
        theirs
    } else {
        PathBuf::from("/usr")
    };
    let error = Location::find(&scratch.path, Some(theirs)).unwrap_err();
    let LocateError::OtherOwner { owner, us: ours, .. } = error else { panic!("{error}") };
    assert!(owner != ours && ours == us.as_raw());
}

#[test]
fn a_file_with_the_name_of_the_store_is_refused() {
    let scratch = Scratch::new();
    fs::write(scratch.path.join("file"), "").unwrap();
    let error = Location::find(&scratch.path, Some("file".into())).unwrap_err();
    assert!(matches!(error, LocateError::NotADirectory { .. }), "{error}");
}
