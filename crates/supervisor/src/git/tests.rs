//! Tests with real repositories.

use std::fs;
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use protocol::brief::Worktree;
use protocol::{AttemptId, AttemptNo, RunId, StepId, Turn};
use tempfile::TempDir;

use super::worktrees::WorktreeId;
use super::*;
use crate::checks::StopFlag;

/// A repository with one commit, in a directory with spaces.
struct Scratch {
    root: TempDir,
}

impl Scratch {
    fn new() -> Self {
        let scratch = Self { root: tempfile::tempdir().unwrap() };
        fs::create_dir(scratch.repo()).unwrap();
        scratch.git(&["init", "--quiet", "--initial-branch=main"]);
        scratch.git(&["config", "user.name", "Owner"]);
        scratch.git(&["config", "user.email", "owner@example.org"]);
        fs::write(scratch.repo().join("page.txt"), "head\nbody\n").unwrap();
        scratch.git(&["add", "."]);
        scratch.git(&["commit", "--quiet", "--message=begin"]);
        scratch
    }

    fn repo(&self) -> PathBuf {
        self.root.path().join("my repo")
    }

    fn git(&self, args: &[&str]) -> String {
        git(&self.repo(), args)
    }

    fn trees(&self, strategy: MergeStrategy, setup: &[&str]) -> RunWorktrees {
        let options = WorktreeOptions {
            dir: self.root.path().join("work trees/trial"),
            base: Some("main".to_owned()),
            start: self.git(&["rev-parse", "main"]),
            strategy,
            setup: setup.iter().map(|&word| word.to_owned()).collect(),
            no_merge: false,
            integration: None,
            no_commit: false,
            integration_dir: None,
            keep: false,
        };
        RunWorktrees::new(RunId::new("trial").unwrap(), self.repo(), options)
    }
}

/// Returns a command whose git ignores the developer's settings, and the repository of a git hook that runs the tests.
fn isolated(program: &str) -> Command {
    let mut command = Command::new(program);
    command.env("GIT_CONFIG_GLOBAL", "/dev/null").env("GIT_CONFIG_SYSTEM", "/dev/null");
    LOCATION_VARIABLES.iter().for_each(|name| {
        command.env_remove(name);
    });
    command
}

fn git(dir: &Path, args: &[&str]) -> String {
    let output = isolated("git").arg("-C").arg(dir).args(args).output().unwrap();
    assert!(output.status.success(), "git {args:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap().trim_end().to_owned()
}

fn sh(dir: &Path, script: &str) {
    let output = isolated("sh").args(["-c", script]).current_dir(dir).output().unwrap();
    assert!(output.status.success(), "{script}: {}", String::from_utf8_lossy(&output.stderr));
}

fn step(id: &str) -> StepId {
    StepId::new(id).unwrap()
}

fn worktree(id: &str) -> Worktree {
    Worktree { name: step(id), branch: None }
}

fn attempt(id: &str) -> AttemptId {
    AttemptId { step: step(id), turn: Turn(1), attempt_no: AttemptNo(1) }
}

/// Writes `page.txt` in the worktree of a step and commits it. Returns the worktree.
fn work(trees: &RunWorktrees, id: &str, page: &str) -> PathBuf {
    let tree = trees.prepare(Some(&worktree(id))).unwrap();
    fs::write(tree.join("page.txt"), page).unwrap();
    trees.commit(Some(&worktree(id)), &attempt(id)).unwrap();
    tree
}

fn merge(trees: &RunWorktrees, id: &str) -> MergeOutcome {
    trees.merge(&worktree(id), &format!("trial/{id}.merge#1"), |_| Ok(true)).unwrap()
}

#[test]
fn what_an_attempt_leaves_is_committed_with_its_id_and_merged_once() {
    let scratch = Scratch::new();
    let config = fs::read(scratch.repo().join(".git/config")).unwrap();
    let trees = scratch.trees(MergeStrategy::Merge, &[]);
    let tree = work(&trees, "a", "head\nbody of a\n");
    assert_eq!(trees.prepare(Some(&worktree("a"))).unwrap(), tree, "it is found again");
    assert_eq!(git(&tree, &["branch", "--show-current"]), "callboard/trial@a");
    let trailer = git(&tree, &["log", "-1", "--format=%(trailers:key=Callboard-Attempt,valueonly)"]);
    assert_eq!(trailer, "trial/a#1.1");
    assert_eq!(trees.find_effect_commit("trial/a.merge#1").unwrap(), None);
    let MergeOutcome::Commit(commit) = merge(&trees, "a") else { panic!("nothing is in the way") };
    assert_eq!(trees.find_effect_commit("trial/a.merge#1").unwrap(), Some(commit.clone()));
    assert_eq!(trees.find_effect_commit("trial/a.merge#11").unwrap(), None);
    assert_eq!(scratch.git(&["rev-parse", "callboard/trial"]), commit);
    let checked = trees.check_merged(&commit, |tree| Ok(fs::read_to_string(tree.join("page.txt")).unwrap()));
    assert_eq!(checked.unwrap(), "head\nbody of a\n", "the checks of a found merge see its tree");
    assert_eq!(merge(&trees, "a"), MergeOutcome::Nothing);
    let integrated = trees.path(None).join("page.txt");
    assert_eq!(
        fs::read_to_string(integrated).unwrap(),
        "head\nbody of a\n",
        "its worktree follows the branch"
    );
    assert_eq!(fs::read(scratch.repo().join(".git/config")).unwrap(), config, "no setting was written");
}

#[test]
fn a_conflict_is_returned_with_its_hunks_and_merges_after_it_was_resolved() {
    for strategy in [MergeStrategy::Merge, MergeStrategy::Rebase] {
        let scratch = Scratch::new();
        let trees = scratch.trees(strategy, &[]);
        work(&trees, "a", "head\nbody of a\n");
        let tree = work(&trees, "b", "head\nbody of b\n");
        assert!(matches!(merge(&trees, "a"), MergeOutcome::Commit(_)));
        let before = scratch.git(&["rev-parse", "callboard/trial"]);
        let MergeOutcome::Conflict(conflict) = merge(&trees, "b") else { panic!("both changed the body") };
        assert_eq!(conflict.files, ["page.txt"]);
        assert!(conflict.diff.contains("body of a") && conflict.diff.contains("body of b"));
        assert_eq!(scratch.git(&["rev-parse", "callboard/trial"]), before, "the branch did not move");
        // The next turn: the step merges and leaves the markers, then resolves them.
        assert_eq!(trees.prepare(Some(&worktree("b"))).unwrap(), tree);
        sh(&tree, "! git merge callboard/trial");
        let markers = trees.commit(Some(&worktree("b")), &attempt("b")).unwrap_err();
        assert!(matches!(markers, WorktreeError::ConflictMarkers { .. }), "{markers}");
        fs::write(tree.join("page.txt"), "head\nbody of a and b\n").unwrap();
        trees.commit(Some(&worktree("b")), &attempt("b")).unwrap();
        let result = trees.merge(&worktree("b"), "trial/b.merge#2", |_| Ok(true)).unwrap();
        assert!(matches!(result, MergeOutcome::Commit(_)), "{strategy:?}: {result:?}");
        assert!(trees.find_effect_commit("trial/b.merge#2").unwrap().is_some());
        assert_eq!(scratch.git(&["show", "callboard/trial:page.txt"]), "head\nbody of a and b");
    }
}

#[test]
fn new_files_are_committed_although_the_user_hides_untracked_ones() {
    let scratch = Scratch::new();
    scratch.git(&["config", "status.showUntrackedFiles", "no"]);
    let trees = scratch.trees(MergeStrategy::Merge, &[]);
    let tree = trees.prepare(Some(&worktree("a"))).unwrap();
    fs::write(tree.join("new.txt"), "work\n").unwrap();
    assert_eq!(trees.remove().unwrap(), std::slice::from_ref(&tree), "it has work that is not committed");
    trees.commit(Some(&worktree("a")), &attempt("a")).unwrap();
    assert_eq!(git(&tree, &["show", "HEAD:new.txt"]), "work");
}

#[test]
fn conflict_markers_are_found_in_files_with_any_name() {
    let scratch = Scratch::new();
    let trees = scratch.trees(MergeStrategy::Merge, &[]);
    let tree = trees.prepare(Some(&worktree("a"))).unwrap();
    for branch in ["one", "two"] {
        sh(
            &tree,
            &format!(
                "git checkout --quiet -b {branch} main; echo {branch} >café.txt; git add .; git commit -qm x"
            ),
        );
    }
    sh(&tree, "git checkout --quiet callboard/trial@a; git merge --quiet one; ! git merge --quiet two");
    let markers = trees.commit(Some(&worktree("a")), &attempt("a")).unwrap_err();
    assert!(
        matches!(&markers, WorktreeError::ConflictMarkers { files, .. } if files == "café.txt"),
        "{markers}"
    );
}

#[test]
fn commits_that_an_attempt_made_off_its_branch_are_merged_if_they_are_based_on_it() {
    let commit = "echo new >new.txt && git add . && git commit -q -m new";
    let scripts = [
        (format!("git checkout -q -b other && {commit}"), "instead of branch `other`, and has its commits"),
        (format!("git checkout -q --detach && {commit}"), "instead of a detached HEAD, and has its commits"),
        (format!("git branch -m renamed && {commit}"), "instead of branch `renamed`, and has its commits"),
        ("git checkout -q -b other && echo new >new.txt".to_owned(), "instead of branch `other`"),
    ];
    for (script, expected) in scripts {
        let scratch = Scratch::new();
        let trees = scratch.trees(MergeStrategy::Merge, &[]);
        let tree = trees.prepare(Some(&worktree("a"))).unwrap();
        sh(&tree, &script);
        let note = trees.commit(Some(&worktree("a")), &attempt("a")).unwrap();
        assert!(note.as_ref().is_some_and(|note| note.contains(expected)), "{script}: {note:?}");
        assert_eq!(git(&tree, &["branch", "--show-current"]), "callboard/trial@a", "{script}");
        assert!(matches!(merge(&trees, "a"), MergeOutcome::Commit(_)), "{script}");
        assert_eq!(scratch.git(&["show", "callboard/trial:new.txt"]), "new", "{script}");
        assert_eq!(trees.commit(Some(&worktree("a")), &attempt("a")).unwrap(), None, "once");
    }
}

#[test]
fn work_that_is_not_based_on_its_branch_or_is_deleted_fails_the_attempt() {
    let scratch = Scratch::new();
    let trees = scratch.trees(MergeStrategy::Merge, &[]);
    let tree = work(&trees, "a", "head\nbody of a\n");
    sh(&tree, "git checkout -q -b other HEAD~1 && echo new >new.txt && git add . && git commit -q -m new");
    let refused = trees.commit(Some(&worktree("a")), &attempt("a")).unwrap_err();
    assert!(refused.to_string().contains("is not based on its branch `callboard/trial@a`"), "{refused}");
    assert_eq!(git(&tree, &["branch", "--show-current"]), "other", "its work is left to the next attempt");
    sh(&tree, "git checkout -q --detach HEAD~1");
    let note = trees.commit(Some(&worktree("a")), &attempt("a")).unwrap();
    assert_eq!(
        note.as_deref(),
        Some("branch `callboard/trial@a` is checked out again instead of a detached HEAD")
    );
    assert_eq!(fs::read_to_string(tree.join("page.txt")).unwrap(), "head\nbody of a\n");
    fs::remove_dir_all(&tree).unwrap();
    let deleted = trees.commit(Some(&worktree("a")), &attempt("a")).unwrap_err();
    assert!(matches!(deleted, WorktreeError::Deleted { .. }), "{deleted}");
}

#[test]
fn what_a_step_that_only_reads_leaves_is_neither_committed_nor_merged() {
    let scripts = [
        "echo x >left.txt; echo x >page.txt",
        "echo x >left.txt; git add .; git commit -q -m left",
        "git checkout -q -b other; echo x >left.txt; git add .; git commit -q -m left; git branch -D callboard/trial@a",
        "git checkout -q --detach HEAD~1; echo x >left.txt",
        "git checkout -q --detach",
        "git checkout -q -b other",
        "git merge -q -s ours --no-commit \"$(git commit-tree -m new HEAD^{tree})\" --allow-unrelated-histories",
        "rm -rf \"$PWD\"",
    ];
    for script in scripts {
        let scratch = Scratch::new();
        let trees = scratch.trees(MergeStrategy::Merge, &[]);
        let tree = work(&trees, "a", "head\nbody of a\n");
        let before = git(&tree, &["rev-parse", "HEAD"]);
        trees.snapshot_work(Some(&worktree("a"))).unwrap();
        sh(&tree, script);
        let note = trees.discard_read_only_changes(Some(&worktree("a"))).unwrap();
        assert_eq!(note.is_some(), !script.starts_with("rm"), "{script}: {note:?}");
        assert!(note.is_none_or(|note| !note.ends_with(": ")), "{script}: it says what was removed");
        sh(&tree, "! git rev-parse -q --verify MERGE_HEAD");
        assert_eq!(git(&tree, &["status", "--porcelain", "--branch"]), "## callboard/trial@a", "{script}");
        assert_eq!(git(&tree, &["rev-parse", "HEAD"]), before, "{script}");
        assert_eq!(trees.discard_read_only_changes(Some(&worktree("a"))).unwrap(), None, "once");
        merge(&trees, "a");
        assert_eq!(scratch.git(&["ls-tree", "--name-only", "callboard/trial"]), "page.txt", "{script}");
    }
}

#[test]
fn a_red_check_of_the_merged_tree_leaves_the_branch_where_it_is() {
    let scratch = Scratch::new();
    let trees = scratch.trees(MergeStrategy::Merge, &[]);
    work(&trees, "a", "head\nred\n");
    let before = scratch.git(&["rev-parse", "callboard/trial"]);
    let accept = |tree: &Path| Ok(fs::read_to_string(tree.join("page.txt")).unwrap() != "head\nred\n");
    let result = trees.merge(&worktree("a"), "trial/a.merge#1", accept).unwrap();
    assert_eq!(result, MergeOutcome::Refused, "it sees the merged tree");
    assert_eq!(scratch.git(&["rev-parse", "callboard/trial"]), before);
    assert!(matches!(merge(&trees, "a"), MergeOutcome::Commit(_)), "the next merge is not disturbed");
}

#[test]
fn the_base_branch_is_fast_forwarded_only_without_touching_local_changes() {
    let scratch = Scratch::new();
    let trees = scratch.trees(MergeStrategy::Merge, &[]);
    work(&trees, "a", "head\nbody of a\n");
    merge(&trees, "a");
    assert!(!trees.is_in_base().unwrap());
    fs::write(scratch.repo().join("page.txt"), "the user is typing\n").unwrap();
    let refused = trees.fast_forward().unwrap();
    let why = "Your local changes to the following files would be overwritten by merge: page.txt";
    assert_eq!(refused, FastForward::NotPossible(why.to_owned()));
    assert_eq!(fs::read_to_string(scratch.repo().join("page.txt")).unwrap(), "the user is typing\n");
    scratch.git(&["checkout", "--quiet", "page.txt"]);
    fs::write(scratch.repo().join("notes.txt"), "unrelated\n").unwrap();
    assert_eq!(trees.fast_forward().unwrap(), FastForward::Done);
    assert_eq!(fs::read_to_string(scratch.repo().join("page.txt")).unwrap(), "head\nbody of a\n");
    assert!(scratch.repo().join("notes.txt").exists() && trees.is_in_base().unwrap());
}

#[test]
fn a_base_branch_with_new_commits_is_left_alone_and_one_that_is_not_checked_out_moves() {
    let scratch = Scratch::new();
    let trees = scratch.trees(MergeStrategy::Merge, &[]);
    work(&trees, "a", "head\nbody of a\n");
    merge(&trees, "a");
    scratch.git(&["switch", "--quiet", "--create", "elsewhere"]);
    assert_eq!(trees.fast_forward().unwrap(), FastForward::Done);
    assert_eq!(scratch.git(&["rev-parse", "main"]), scratch.git(&["rev-parse", "callboard/trial"]));
    scratch.git(&["branch", "--force", "main", "elsewhere"]);
    scratch.git(&["switch", "--quiet", "main"]);
    scratch.git(&["commit", "--quiet", "--allow-empty", "--message=meanwhile"]);
    let result = trees.fast_forward().unwrap();
    assert_eq!(result, FastForward::NotPossible("branch `main` has new commits".to_owned()));
}

#[test]
fn the_setup_command_runs_once_in_each_worktree_and_its_output_is_kept() {
    let scratch = Scratch::new();
    let trees = scratch.trees(MergeStrategy::Merge, &["sh", "-c", "echo ready; echo x >>../count"]);
    for _ in 0..2 {
        trees.prepare(Some(&worktree("a"))).unwrap();
    }
    let dir = scratch.root.path().join("work trees/trial");
    assert_eq!(fs::read_to_string(dir.join("count")).unwrap(), "x\nx\n", "integration and step");
    assert_eq!(fs::read_to_string(dir.join("state/step-a.setup.log")).unwrap(), "ready\n");
    fs::remove_dir_all(trees.path(Some(&worktree("a")))).unwrap();
    trees.prepare(Some(&worktree("a"))).unwrap();
    assert_eq!(fs::read_to_string(dir.join("count")).unwrap(), "x\nx\nx\n", "again in a new worktree");
    let failing = scratch.trees(MergeStrategy::Merge, &["false"]);
    fs::remove_file(dir.join("state/step-a.setup.done")).unwrap();
    assert!(matches!(failing.prepare(Some(&worktree("a"))).unwrap_err(), WorktreeError::Setup { .. }));
}

#[test]
fn a_stopped_setup_command_ends_with_what_it_has_started_and_runs_again() {
    let scratch = Scratch::new();
    let pipe = scratch.root.path().join("pipe");
    rustix::fs::mkfifoat(rustix::fs::CWD, &pipe, 0o600.into()).unwrap();
    let script = format!("[ -e ../again ] && exit; exec 3>'{}'; echo >&3; sleep 1000 & wait", pipe.display());
    let trees = scratch.trees(MergeStrategy::Merge, &["sh", "-c", &script]);
    let stop = StopFlag::new().unwrap();
    let stopped = trees.clone().stopped_by(stop.clone());
    let preparation = std::thread::spawn(move || stopped.prepare(Some(&worktree("a"))));
    let mut alive = fs::File::open(&pipe).unwrap();
    alive.read_exact(&mut [0]).unwrap();
    stop.request();
    assert!(matches!(preparation.join().unwrap(), Err(WorktreeError::SetupStopped)));
    // No process has the pipe any more.
    assert_eq!(alive.read(&mut [0]).unwrap(), 0);
    fs::write(scratch.root.path().join("work trees/trial/again"), "").unwrap();
    assert!(trees.stopped_by(StopFlag::new().unwrap()).prepare(Some(&worktree("a"))).is_ok());
}

#[test]
fn work_is_committed_although_a_git_of_the_agent_was_killed() {
    let scratch = Scratch::new();
    let trees = scratch.trees(MergeStrategy::Merge, &[]);
    let tree = trees.prepare(Some(&worktree("a"))).unwrap();
    fs::write(tree.join("page.txt"), "head\nbody of a\n").unwrap();
    fs::write(scratch.repo().join(".git/worktrees/step-a/index.lock"), "").unwrap();
    trees.commit(Some(&worktree("a")), &attempt("a")).unwrap();
    assert_eq!(git(&tree, &["show", "HEAD:page.txt"]), "head\nbody of a");
}

#[test]
fn a_branch_of_the_user_in_the_worktree_of_a_step_is_neither_moved_nor_deleted() {
    let scratch = Scratch::new();
    let trees = scratch.trees(MergeStrategy::Merge, &[]);
    let tree = work(&trees, "a", "head\nbody of a\n");
    merge(&trees, "a");
    let main = scratch.git(&["rev-parse", "main"]);
    scratch.git(&["checkout", "--quiet", "-b", "other"]);
    git(&tree, &["checkout", "--quiet", "main"]);
    trees.prepare(Some(&worktree("a"))).unwrap();
    assert!(trees.remove().unwrap().is_empty());
    assert_eq!(scratch.git(&["rev-parse", "main"]), main);
    assert_eq!(scratch.git(&["branch", "--list", "--format=%(refname:short)", "callboard/trial@*"]), "");
}

#[test]
fn a_branch_whose_last_commit_is_empty_is_rebased() {
    let scratch = Scratch::new();
    let trees = scratch.trees(MergeStrategy::Rebase, &[]);
    work(&trees, "a", "head\nbody of a\n");
    let tree = trees.prepare(Some(&worktree("b"))).unwrap();
    fs::write(tree.join("other.txt"), "b\n").unwrap();
    trees.commit(Some(&worktree("b")), &attempt("b")).unwrap();
    git(
        &tree,
        &["-c", "user.name=a", "-c", "user.email=b", "commit", "--quiet", "--allow-empty", "-m", "note"],
    );
    merge(&trees, "a");
    assert!(matches!(merge(&trees, "b"), MergeOutcome::Commit(_)));
}

#[test]
fn an_option_is_not_the_name_of_a_branch() {
    let scratch = Scratch::new();
    let is_name = |name: &str| is_branch_name(&scratch.repo(), name).unwrap();
    assert!(is_name("agents/run-1") && is_name("日本"));
    assert!(!["-m", "-D", "HEAD", "a b", "", "a..b"].into_iter().any(is_name));
}

#[test]
fn a_worktree_with_submodules_is_removed() {
    let scratch = Scratch::new();
    let library = scratch.root.path().join("library");
    fs::create_dir(&library).unwrap();
    git(&library, &["init", "--quiet"]);
    git(
        &library,
        &["-c", "user.name=a", "-c", "user.email=b", "commit", "--quiet", "--allow-empty", "-m", "begin"],
    );
    let allow = ["-c", "protocol.file.allow=always", "submodule", "--quiet"];
    scratch.git(&[&allow[..], &["add", library.to_str().unwrap(), "library"]].concat());
    scratch.git(&["commit", "--quiet", "--message=submodule"]);
    let trees = scratch.trees(MergeStrategy::Merge, &[&["git"][..], &allow, &["update", "--init"]].concat());
    let tree = trees.prepare(Some(&worktree("a"))).unwrap();
    assert!(tree.join("library/.git").exists());
    assert!(trees.remove().unwrap().is_empty());
}

#[test]
fn a_directory_may_have_the_name_of_a_branch() {
    for strategy in [MergeStrategy::Merge, MergeStrategy::Rebase] {
        let scratch = Scratch::new();
        for branch in ["callboard/trial", "callboard/trial@a"] {
            fs::create_dir_all(scratch.repo().join(branch)).unwrap();
            fs::write(scratch.repo().join(branch).join("page.txt"), "head\n").unwrap();
        }
        scratch.git(&["add", "."]);
        scratch.git(&["commit", "--quiet", "--message=directories"]);
        let trees = scratch.trees(strategy, &[]);
        let tree = work(&trees, "a", "head\nbody of a\n");
        // The agent has left an older commit checked out.
        git(&tree, &["checkout", "--quiet", "--detach", "HEAD~"]);
        trees.commit(Some(&worktree("a")), &attempt("a")).unwrap();
        assert_eq!(trees.worktree_changes(&worktree("a")).unwrap().files, ["page.txt"]);
        merge(&trees, "a");
        assert!(trees.find_effect_commit("trial/a.merge#1").unwrap().is_some());
    }
}

#[test]
fn a_worktree_is_removed_only_when_clean_and_merged() {
    for strategy in [MergeStrategy::Merge, MergeStrategy::Rebase] {
        let scratch = Scratch::new();
        let trees = scratch.trees(strategy, &[]);
        let (merged, open) = (work(&trees, "a", "head\nbody of a\n"), work(&trees, "b", "head\nbody of b\n"));
        merge(&trees, "a");
        let listed = list_worktrees(&scratch.repo()).unwrap();
        assert!(listed.iter().any(|listed| listed.path == merged && listed.run() == Some("trial")));
        fs::write(trees.path(None).join("page.txt"), "not committed\n").unwrap();
        assert_eq!(trees.remove().unwrap(), [open.clone(), trees.path(None)], "{strategy:?}");
        assert!(!merged.exists() && open.exists() && trees.path(None).exists());
        let branches = scratch.git(&["branch", "--format=%(refname:short)"]);
        assert_eq!(branches, "callboard/trial\ncallboard/trial@b\nmain");
        let again = trees.prepare(Some(&worktree("a"))).unwrap();
        assert_eq!(fs::read_to_string(again.join("page.txt")).unwrap(), "head\nbody of a\n");
    }
}

#[test]
fn a_worktree_that_a_killed_engine_was_removing_is_not_an_error() {
    let scratch = Scratch::new();
    let trees = scratch.trees(MergeStrategy::Merge, &[]);
    let tree = work(&trees, "a", "head\nbody of a\n");
    merge(&trees, "a");
    // The next engine has seen the worktree. It gets the lock from the git process of the killed one, which has removed it.
    scratch.git(&["worktree", "remove", "--force", "--force", &tree.to_string_lossy()]);
    assert!(trees.remove_tree(WorktreeId::Step(&step("a")), &tree).unwrap());
}

#[test]
fn a_worktree_whose_directory_was_deleted_is_made_again() {
    let scratch = Scratch::new();
    let trees = scratch.trees(MergeStrategy::Merge, &[]);
    let tree = work(&trees, "a", "head\nbody of a\n");
    fs::remove_dir_all(&tree).unwrap();
    assert_eq!(trees.prepare(Some(&worktree("a"))).unwrap(), tree);
    assert_eq!(fs::read_to_string(tree.join("page.txt")).unwrap(), "head\nbody of a\n");
}

#[test]
fn a_tree_hash_covers_tracked_and_untracked_files_and_leaves_the_index_alone() {
    let scratch = Scratch::new();
    let repo = scratch.repo();
    fs::write(repo.join(".git/info/exclude"), "/views/\n").unwrap();
    let committed = scratch.git(&["rev-parse", "HEAD^{tree}"]);
    let hash = || tree_hash(&repo).unwrap();
    assert_eq!(hash(), committed, "nothing has changed");
    fs::create_dir(repo.join("views")).unwrap();
    fs::write(repo.join("views/plan.json"), "{}").unwrap();
    assert_eq!(hash(), committed, "excluded files do not count");
    fs::write(repo.join(".gitignore"), "*.tmp\n").unwrap();
    let with_untracked = hash();
    assert_ne!(with_untracked, committed, "an untracked file counts");
    fs::write(repo.join("a.tmp"), "x").unwrap();
    assert_eq!(hash(), with_untracked, "an ignored file does not count");
    fs::write(repo.join("page.txt"), "head\nbodY\n").unwrap();
    let changed = hash();
    assert_ne!(changed, with_untracked, "a changed file counts");
    fs::create_dir(repo.join("below")).unwrap();
    assert_eq!(tree_hash(&repo.join("below")).unwrap(), changed, "from a folder below, too");
    assert_eq!(scratch.git(&["status", "--porcelain"]), " M page.txt\n?? .gitignore", "nothing was added");
    assert!(scratch.git(&["count-objects"]).starts_with("3 objects,"), "no object was written");
    scratch.git(&["add", "--all"]);
    scratch.git(&["commit", "--quiet", "--message=all"]);
    assert_eq!(scratch.git(&["rev-parse", "HEAD^{tree}"]), changed, "it is the tree of that commit");
    fs::remove_file(repo.join("page.txt")).unwrap();
    assert_ne!(hash(), changed, "a deleted file counts");
    scratch.git(&["checkout", "--quiet", "page.txt"]);
    let tree = scratch.trees(MergeStrategy::Merge, &[]).prepare(None).unwrap();
    assert_eq!(tree_hash(&tree).unwrap(), changed, "a worktree with the same files has the same hash");
    assert!(!is_work_tree(scratch.root.path()).unwrap() && is_work_tree(&tree).unwrap());
}

#[test]
fn private_copies_are_not_committed_and_are_taken_out_of_a_worktree() {
    let scratch = Scratch::new();
    let trees = scratch.trees(MergeStrategy::Merge, &[]);
    let tree = trees.prepare(None).unwrap();
    let (one, other) = (attempt("a"), attempt("b"));
    trees.record_copies(None, &one, &["state/*.json", "staged.json", "page.txt", "absent.json"]).unwrap();
    trees.record_copies(None, &other, &["other.json"]).unwrap();
    fs::create_dir(tree.join("state")).unwrap();
    for file in ["state/*.json", "state/a.json", "staged.json", "page.txt", "work.txt", "other.json"] {
        fs::write(tree.join(file), "edited\n").unwrap();
    }
    git(&tree, &["add", "staged.json", "page.txt"]);
    trees.commit(None, &one).unwrap();
    let committed = "page.txt\nstate/a.json\nwork.txt";
    assert_eq!(git(&tree, &["ls-tree", "-r", "--name-only", "HEAD"]), committed);
    assert_eq!(git(&tree, &["show", "HEAD:page.txt"]), "head\nbody");
    git(&tree, &["add", "staged.json"]);
    for _ in 0..2 {
        trees.discard_copies(None, &one).unwrap();
    }
    assert_eq!(fs::read_to_string(tree.join("page.txt")).unwrap(), "head\nbody\n");
    assert_eq!(git(&tree, &["status", "--porcelain"]), "?? other.json", "another attempt edits it");
    let before = git(&tree, &["rev-parse", "HEAD"]);
    trees.commit(None, &one).unwrap();
    assert_eq!(git(&tree, &["rev-parse", "HEAD"]), before, "there is nothing to commit");
    trees.discard_copies(None, &other).unwrap();
    assert_eq!(git(&tree, &["status", "--porcelain"]), "");
}

#[test]
fn the_changes_of_a_branch_are_summarised_with_the_command_that_shows_them() {
    let scratch = Scratch::new();
    let trees = scratch.trees(MergeStrategy::Merge, &[]);
    assert_eq!(trees.changes(None).unwrap(), None, "there is no branch yet");
    let tree = trees.prepare(Some(&worktree("a"))).unwrap();
    assert_eq!(trees.changes(None).unwrap(), None, "nothing has changed");
    fs::write(tree.join("page.txt"), "head\nbody\nfoot\n").unwrap();
    trees.commit(Some(&worktree("a")), &attempt("a")).unwrap();
    let changes = trees.changes(Some(&worktree("a"))).unwrap().unwrap();
    assert_eq!(changes.command, "git diff callboard/trial...callboard/trial@a");
    assert_eq!(changes.stat, [" page.txt | 1 +", " 1 file changed, 1 insertion(+)"]);
    assert_eq!(trees.changes(None).unwrap(), None, "it is not merged");
    trees.merge(&worktree("a"), "key", |_| Ok(true)).unwrap();
    let merged = trees.changes(None).unwrap().unwrap();
    assert_eq!((merged.command.as_str(), &merged.stat), ("git diff main...callboard/trial", &changes.stat));

    let mut trees = trees;
    trees.options.no_commit = true;
    fs::write(trees.path(None).join("page.txt"), "new\n").unwrap();
    fs::write(trees.path(None).join("added.txt"), "new\n").unwrap();
    let changes = trees.changes(None).unwrap().unwrap();
    assert!(changes.command.starts_with("git -C '"), "{}", changes.command);
    let last = [" 1 file changed, 1 insertion(+), 2 deletions(-)", " added.txt | not in git"];
    assert_eq!(changes.stat[1..], last);
}
