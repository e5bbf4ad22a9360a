//! The worktrees of a run: made, set up, committed in, removed.

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};

use protocol::brief::Worktree;
use protocol::{AttemptId, RunId, StepId};
use serde::{Deserialize, Serialize};

use super::merge::{remove_stale_index_lock, worktree_of_branch};
use super::{Git, GitError, GitLock};
use crate::atomic_file::replace_synced_file;
use crate::checks::{CheckError, StopFlag, WaitOutcome, wait_for_group_leader};

/// The suffix of the file that names the branch of a step's worktree. An engine that removes the worktree removes it, too.
const BRANCH_SUFFIX: &str = "branch";

/// The suffix of the file that says that the setup command of a worktree has succeeded.
const SETUP_DONE_SUFFIX: &str = "setup.done";

/// The reason for which git locks a worktree begins with this. The run follows.
pub(super) const LOCK_REASON: &str = "callboard run ";

/// How the worktrees of a run are made and merged. Fixed when the run starts.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct WorktreeOptions {
    /// The directory of this run's worktrees.
    pub dir: PathBuf,
    /// The branch that the run starts from and that is fast-forwarded at its end; `None` if HEAD was detached.
    pub base: Option<String>,
    /// The commit that the run starts from.
    pub start: String,
    pub strategy: MergeStrategy,
    /// The command that prepares a new worktree; empty if there is none.
    pub setup: Vec<String>,
    /// Leave the base branch alone.
    pub no_merge: bool,
    /// The name of the integration branch, if it is not `callboard/RUN`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub integration: Option<String>,
    /// Do not commit what attempts leave: a step of the run does that.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub no_commit: bool,
    /// The worktree of the integration branch, if it is not in `dir`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub integration_dir: Option<PathBuf>,
    /// Keep the worktrees of a run that has succeeded.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub keep: bool,
}

/// How a step's branch gets into the integration branch.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum MergeStrategy {
    /// By a merge commit.
    #[default]
    Merge,
    /// By its own commits, on top of the integration branch.
    Rebase,
}

/// Why a worktree is not ready, or cannot be merged.
#[derive(Debug, thiserror::Error)]
pub enum WorktreeError {
    #[error(transparent)]
    Git(#[from] GitError),
    #[error("cannot use `{}`", path.display())]
    Io { path: PathBuf, source: io::Error },
    #[error("the setup command of the worktree failed ({status}); its output is in `{}`", log.display())]
    Setup { status: String, log: PathBuf },
    #[error("the setup command of the worktree was stopped")]
    SetupStopped,
    #[error("`{}` still has conflict markers: {files}", tree.display())]
    ConflictMarkers { tree: PathBuf, files: String },
    #[error("branch `{branch}` changes nothing, so there is nothing to commit")]
    NoChange { branch: String },
    #[error(
        "the work in `{}` is not based on its branch `{branch}`: check it out, bring the work there, and commit it",
        tree.display()
    )]
    NotOnBranch { tree: PathBuf, branch: String },
    #[error("the worktree `{}` was deleted, with everything that was not committed there", tree.display())]
    Deleted { tree: PathBuf },
    #[error("cannot check the merged tree")]
    Check(#[from] CheckError),
}

/// The worktrees of one run.
#[derive(Debug, Clone)]
pub struct RunWorktrees {
    pub(super) run: RunId,
    /// The main repository.
    pub(super) repo: PathBuf,
    pub(super) options: WorktreeOptions,
    /// Ends the setup command.
    stop: Option<StopFlag>,
}

/// One worktree of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum WorktreeId<'a> {
    Integration,
    /// Where merges are made, with a detached HEAD.
    Merge,
    Step(&'a StepId),
}

impl WorktreeId<'_> {
    fn name(self) -> String {
        match self {
            Self::Integration => "integration".to_owned(),
            Self::Merge => "merge".to_owned(),
            Self::Step(step) => format!("step-{step}"),
        }
    }
}

impl<'a> From<Option<&'a Worktree>> for WorktreeId<'a> {
    fn from(worktree: Option<&'a Worktree>) -> Self {
        worktree.map_or(Self::Integration, |worktree| Self::Step(&worktree.name))
    }
}

impl RunWorktrees {
    pub fn new(run: RunId, repo: PathBuf, options: WorktreeOptions) -> Self {
        Self { run, repo, options, stop: None }
    }

    /// Returns these worktrees with a stop flag for their setup command. A stopped setup command runs again the next time.
    #[must_use]
    pub fn stopped_by(self, stop: StopFlag) -> Self {
        Self { stop: Some(stop), ..self }
    }

    /// Returns the name of the run's integration branch.
    pub fn integration_branch(&self) -> String {
        self.options.integration.clone().unwrap_or_else(|| format!("callboard/{}", self.run))
    }

    /// Returns the branch of a worktree. With `@`, because git cannot have `callboard/RUN/STEP` beside a branch `callboard/RUN`.
    pub fn branch(&self, worktree: &Worktree) -> String {
        let named = || format!("{}@{}", self.integration_branch(), worktree.name);
        worktree.branch.clone().unwrap_or_else(named)
    }

    pub(super) fn branch_of(&self, worktree: Option<&Worktree>) -> String {
        worktree.map_or_else(|| self.integration_branch(), |worktree| self.branch(worktree))
    }

    /// Returns the directory of a worktree. `None` is the worktree of the integration branch. It need not exist.
    pub fn path(&self, worktree: Option<&Worktree>) -> PathBuf {
        self.worktree_path(worktree.into())
    }

    pub(super) fn worktree_path(&self, tree: WorktreeId<'_>) -> PathBuf {
        match (tree, &self.options.integration_dir) {
            (WorktreeId::Integration, Some(dir)) => dir.clone(),
            (WorktreeId::Integration, None) | (WorktreeId::Merge | WorktreeId::Step(_), _) => {
                self.options.dir.join(tree.name())
            }
        }
    }

    /// Returns the worktrees of the run that exist.
    pub fn existing(&self) -> Vec<PathBuf> {
        let found = fs::read_dir(&self.options.dir).into_iter().flatten().flatten().map(|entry| entry.path());
        found.chain(self.options.integration_dir.clone()).filter(|path| path.join(".git").exists()).collect()
    }

    /// Returns the branches of the run that exist: the integration branch, and those of steps.
    pub fn existing_branches(&self) -> Result<Vec<String>, WorktreeError> {
        let reference = format!("refs/heads/{}", self.integration_branch());
        let of_steps = format!("{reference}@*");
        let found = self.repo_git().run(["for-each-ref", "--format=%(refname)", &reference, &of_steps])?;
        Ok(found.lines().filter_map(|line| line.strip_prefix("refs/heads/")).map(str::to_owned).collect())
    }

    pub(super) fn repo_git(&self) -> Git {
        Git::new(&self.repo)
    }

    pub(super) fn state_file(&self, tree: WorktreeId<'_>, suffix: &str) -> PathBuf {
        self.options.dir.join("state").join(format!("{}.{suffix}", tree.name()))
    }

    /// Waits until no git process of this or an earlier engine works on the tree.
    pub(super) fn lock(&self, tree: WorktreeId<'_>) -> Result<GitLock, WorktreeError> {
        let path = self.state_file(tree, "lock");
        let state = self.options.dir.join("state");
        fs::create_dir_all(&state)
            .and_then(|()| GitLock::take(&path))
            .map_err(|source| WorktreeError::Io { path, source })
    }

    /// Makes the worktree of an attempt ready and returns its directory. A new branch starts at the integration branch, and a
    /// merged one is fast-forwarded to it.
    pub fn prepare(&self, worktree: Option<&Worktree>) -> Result<PathBuf, WorktreeError> {
        self.ensure_integration()?;
        let Some(worktree) = worktree else { return Ok(self.path(None)) };
        let tree = WorktreeId::Step(&worktree.name);
        let lock = self.lock(tree)?;
        let (branch, integration) = (self.branch(worktree), self.integration_branch());
        let git = self.ensure(tree, &lock, &branch, &integration)?;
        let checked_out = git.check(["symbolic-ref", "--quiet", "--short", "HEAD"])?;
        if checked_out.as_ref() == Some(&branch) && git.is_ancestor(&branch, &integration)? {
            git.run(["merge", "--ff-only", "--quiet", &integration])?;
        }
        Ok(self.path(Some(worktree)))
    }

    /// Returns variables with an identity for the commits of an agent, if the user has configured none.
    pub fn identity(&self) -> Result<Vec<(String, String)>, WorktreeError> {
        Ok(self.repo_git().missing_identity()?)
    }

    /// Makes the integration branch and its worktree, if they do not exist.
    pub(super) fn ensure_integration(&self) -> Result<(), WorktreeError> {
        let lock = self.lock(WorktreeId::Integration)?;
        self.ensure(WorktreeId::Integration, &lock, &self.integration_branch(), &self.options.start).map(drop)
    }

    /// Makes the worktree and its branch, if they do not exist. A new branch starts at `start`. Records the branch of a step, so
    /// that [`Self::remove`] deletes this one, whatever is checked out then.
    pub(super) fn ensure(
        &self,
        tree: WorktreeId<'_>,
        lock: &GitLock,
        branch: &str,
        start: &str,
    ) -> Result<Git, WorktreeError> {
        let branch_file = self.state_file(tree, BRANCH_SUFFIX);
        let is_recorded = || fs::read_to_string(&branch_file).is_ok_and(|recorded| recorded == branch);
        if matches!(tree, WorktreeId::Step(_)) && !is_recorded() {
            replace_synced_file(&branch_file, branch.as_bytes())
                .map_err(|source| WorktreeError::Io { path: branch_file, source })?;
        }
        self.add_worktree(tree, lock, |repo| {
            if !repo.has_branch(branch)? {
                repo.run(["branch", "--no-track", branch, start])?;
            }
            Ok(vec![branch.to_owned()])
        })
    }

    /// Adds the worktree, locks it against `git worktree prune`, and runs the setup command, as far as that is not done.
    /// `checkout_args` returns what `git worktree add` checks out: options, if any, and the revision last.
    pub(super) fn add_worktree(
        &self,
        tree: WorktreeId<'_>,
        lock: &GitLock,
        checkout_args: impl FnOnce(&Git) -> Result<Vec<String>, GitError>,
    ) -> Result<Git, WorktreeError> {
        let path = self.worktree_path(tree);
        let text = path.to_string_lossy();
        let git = Git::locked(&path, lock);
        let git_dir = || git.run(["rev-parse", "--absolute-git-dir"]).map(PathBuf::from);
        let is_added = path.join(".git").exists() && git_dir()?.join("locked").exists();
        if !is_added {
            let repo_lock = self.lock_repo()?;
            let repo = Git::locked(&self.repo, &repo_lock);
            let mut options = checkout_args(&repo)?;
            if !path.join(".git").exists() {
                let done = self.state_file(tree, SETUP_DONE_SUFFIX);
                if let Err(source) = fs::remove_file(&done)
                    && source.kind() != io::ErrorKind::NotFound
                {
                    return Err(WorktreeError::Io { path: done, source });
                }
                // `--force` twice: git then also replaces a locked worktree whose directory was deleted.
                let mut add =
                    ["worktree", "add", "--quiet", "--force", "--force"].map(str::to_owned).to_vec();
                let revision = options.pop();
                add.extend(options.into_iter().chain([text.to_string()]).chain(revision));
                repo.run(add)?;
            }
            if !git_dir()?.join("locked").exists() {
                let reason = format!("--reason={LOCK_REASON}{}", self.run);
                repo.run(["worktree", "lock", &reason, &text])?;
            }
        }
        self.set_up(tree, &path, lock)?;
        Ok(git)
    }

    /// Waits until no other worktree of the repository is added or removed. git fails if it finds one half made.
    fn lock_repo(&self) -> Result<GitLock, WorktreeError> {
        let path = self.options.dir.with_file_name(".lock");
        GitLock::take(&path).map_err(|source| WorktreeError::Io { path, source })
    }

    /// Runs the setup command until it has succeeded once. Its output is kept.
    fn set_up(&self, tree: WorktreeId<'_>, path: &Path, lock: &GitLock) -> Result<(), WorktreeError> {
        let [program, args @ ..] = self.options.setup.as_slice() else { return Ok(()) };
        let (log, done) = (self.state_file(tree, "setup.log"), self.state_file(tree, SETUP_DONE_SUFFIX));
        if done.exists() {
            return Ok(());
        }
        if self.stop.as_ref().is_some_and(StopFlag::is_requested) {
            return Err(WorktreeError::SetupStopped);
        }
        let run = || -> io::Result<Option<ExitStatus>> {
            let output = fs::File::create(&log)?;
            // A group of its own, so that the command is stopped with what it has started.
            let mut child = Command::new(program)
                .args(args)
                .current_dir(path)
                .stdin(lock.stdin()?)
                .stdout(Stdio::from(output.try_clone()?))
                .stderr(Stdio::from(output))
                .process_group(0)
                .spawn()?;
            let waited =
                self.stop.as_ref().map(|stop| wait_for_group_leader(&child, stop, None)).transpose()?;
            let status = child.wait()?;
            Ok((waited != Some(WaitOutcome::Stopped)).then_some(status))
        };
        match run() {
            Ok(Some(status)) if status.success() => {}
            Ok(Some(status)) => return Err(WorktreeError::Setup { status: status.to_string(), log }),
            Ok(None) => return Err(WorktreeError::SetupStopped),
            Err(error) => return Err(WorktreeError::Setup { status: error.to_string(), log }),
        }
        fs::write(&done, "").map_err(|source| WorktreeError::Io { path: done, source })
    }

    /// Brings the work of an attempt onto the branch of its worktree: the commits that it has made on top of the branch while
    /// something else was checked out, and what is not committed. Returns a sentence if the branch had to be checked out again.
    pub fn commit(
        &self,
        worktree: Option<&Worktree>,
        attempt: &AttemptId,
    ) -> Result<Option<String>, WorktreeError> {
        let tree = worktree.into();
        let path = self.worktree_path(tree);
        if self.options.no_commit {
            return Ok(None);
        }
        if !path.join(".git").exists() {
            return Err(WorktreeError::Deleted { tree: path });
        }
        let lock = self.lock(tree)?;
        let git = Git::locked(&path, &lock);
        // Not in the integration worktree: several steps may work there, and one of them may hold the lock.
        if worktree.is_some() {
            remove_stale_index_lock(&git)?;
        }
        let branch = self.branch_of(worktree);
        let note = self.return_to_branch(&git, &branch)?;
        self.commit_files(tree, &git, attempt)?;
        Ok(note)
    }

    /// Checks out the branch of a worktree if something else is checked out there. The branch gets the commits that were made on
    /// top of it. Fails if HEAD has other commits that the integration branch does not have.
    fn return_to_branch(&self, git: &Git, branch: &str) -> Result<Option<String>, WorktreeError> {
        let reference = format!("refs/heads/{branch}");
        let found = git.check(["symbolic-ref", "--quiet", "HEAD"])?;
        if found.as_ref() == Some(&reference) {
            return Ok(None);
        }
        let head = git.commit_id("HEAD")?;
        let not_on_branch =
            || WorktreeError::NotOnBranch { tree: git.dir().to_owned(), branch: branch.to_owned() };
        // An agent may have renamed the branch.
        let old = if git.has_branch(branch)? { Some(git.commit_id(&reference)?) } else { None };
        let from = old.as_ref().unwrap_or(&self.options.start);
        let found = found.map_or("a detached HEAD".to_owned(), |found| {
            format!("branch `{}`", found.trim_start_matches("refs/heads/"))
        });
        let mut note = format!("branch `{branch}` is checked out again instead of {found}");
        if git.is_ancestor(from, &head)? {
            // Fails if the branch has moved from its old value. An empty old value means that it must not exist.
            git.run(["update-ref", &reference, &head, old.as_deref().unwrap_or_default()])?;
            git.run(["symbolic-ref", "HEAD", &reference])?;
            if old.as_ref() != Some(&head) {
                note.push_str(&format!(", and has its commits up to {}", &head[..head.len().min(10)]));
            }
        } else if git.is_ancestor(&head, from)? || git.is_ancestor(&head, &self.integration_branch())? {
            // HEAD has no new commits. Git refuses the checkout if it would overwrite what is not committed.
            git.check(["checkout", "--quiet", branch, "--"])?.ok_or_else(not_on_branch)?;
        } else {
            return Err(not_on_branch());
        }
        Ok(Some(note))
    }

    fn commit_files(
        &self,
        tree: WorktreeId<'_>,
        git: &Git,
        attempt: &AttemptId,
    ) -> Result<(), WorktreeError> {
        let is_merging = git.check(["rev-parse", "--quiet", "--verify", "MERGE_HEAD"])?.is_some();
        if !is_merging && git.run(["status", "--porcelain"])?.is_empty() {
            return Ok(());
        }
        self.check_conflict_markers(git)?;
        git.run(["add", "--all"])?;
        self.unstage_copies(tree, git)?;
        if !is_merging && git.check(["diff", "--cached", "--quiet"])?.is_some() {
            return Ok(());
        }
        let subject = format!("{}: what {attempt} left uncommitted", attempt.step);
        let trailer = format!("Callboard-Attempt: {}/{attempt}", self.run);
        git.with_identity()?.run([
            "commit",
            "--quiet",
            "--no-verify",
            "--allow-empty",
            "-m",
            &subject,
            "-m",
            &trailer,
        ])?;
        Ok(())
    }

    /// Fails if a file that git could not merge still has conflict markers.
    pub(super) fn check_conflict_markers(&self, git: &Git) -> Result<(), WorktreeError> {
        let unmerged = git.run(["diff", "--name-only", "--diff-filter=U", "-z"])?;
        let mut with_markers = Vec::new();
        for file in unmerged.split('\0').filter(|file| !file.is_empty()) {
            let path = git.dir().join(file);
            let text = match fs::read(&path) {
                Ok(text) => text,
                // Resolved by a deletion.
                Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
                Err(source) => return Err(WorktreeError::Io { path, source }),
            };
            if text.split(|byte| *byte == b'\n').any(|line| line.starts_with(b"<<<<<<< ")) {
                with_markers.push(file);
            }
        }
        if with_markers.is_empty() {
            return Ok(());
        }
        Err(WorktreeError::ConflictMarkers { tree: git.dir().to_owned(), files: with_markers.join(", ") })
    }

    /// Removes the worktrees that are clean and whose commits the integration branch has, and their branches. Returns the
    /// others.
    pub fn remove(&self) -> Result<Vec<PathBuf>, WorktreeError> {
        let mut left = Vec::new();
        let names = |dir: &Path| {
            let found = fs::read_dir(dir).into_iter().flatten().flatten();
            found.filter_map(|entry| entry.file_name().into_string().ok()).collect::<Vec<_>>()
        };
        let trees = names(&self.options.dir);
        // An engine that was killed here may have removed a worktree and not its branch.
        let state = names(&self.options.dir.join("state"));
        let without_tree =
            state.iter().filter_map(|name| name.strip_suffix(BRANCH_SUFFIX)?.strip_suffix('.'));
        let steps = trees.iter().map(String::as_str).chain(without_tree);
        let steps: BTreeSet<_> =
            steps.filter_map(|name| StepId::new(name.strip_prefix("step-")?).ok()).collect();
        for tree in steps.iter().map(WorktreeId::Step).chain([WorktreeId::Merge, WorktreeId::Integration]) {
            let path = self.worktree_path(tree);
            if path.join(".git").exists() && !self.remove_tree(tree, &path)? {
                left.push(path);
                continue;
            }
            self.remove_branch(tree)?;
        }
        Ok(left)
    }

    /// Removes a worktree if it is clean and the integration branch has its commits. Returns whether it is gone.
    pub(super) fn remove_tree(&self, tree: WorktreeId<'_>, path: &Path) -> Result<bool, WorktreeError> {
        let lock = self.lock(tree)?;
        let repo_lock = self.lock_repo()?;
        // The git process of an engine that was killed may have removed it while we waited for the locks.
        if !path.join(".git").exists() {
            return Ok(true);
        }
        let (git, repo) = (Git::locked(path, &lock), Git::locked(&self.repo, &repo_lock));
        let is_clean = git.run(["status", "--porcelain"])?.is_empty();
        if !is_clean || !self.is_integrated(&git, "HEAD")? {
            return Ok(false);
        }
        let text = path.to_string_lossy();
        repo.try_run(["worktree", "unlock", &text])?;
        // Git refuses to remove a worktree with submodules. For others it checks once more that nothing is lost.
        let force = path.join(".gitmodules").exists().then_some("--force");
        repo.run(["worktree", "remove"].into_iter().chain(force).chain([text.as_ref()]).collect::<Vec<_>>())?;
        Ok(true)
    }

    /// Returns whether the integration branch has the commits up to this one: themselves, or the same changes after a rebase.
    fn is_integrated(&self, git: &Git, commit: &str) -> Result<bool, WorktreeError> {
        let integration = self.integration_branch();
        if !git.has_branch(&integration)? {
            return Ok(false);
        }
        Ok(match self.options.strategy {
            MergeStrategy::Merge => git.is_ancestor(commit, &integration)?,
            MergeStrategy::Rebase => {
                git.is_ancestor(commit, &integration)?
                    || !git.run(["cherry", &integration, commit])?.lines().any(|line| line.starts_with('+'))
            }
        })
    }

    /// Removes the branch of a worktree that was removed, if the integration branch has its commits.
    fn remove_branch(&self, tree: WorktreeId<'_>) -> Result<(), WorktreeError> {
        let file = self.state_file(tree, BRANCH_SUFFIX);
        let Ok(branch) = fs::read_to_string(&file) else { return Ok(()) };
        let lock = self.lock_repo()?;
        let repo = Git::locked(&self.repo, &lock);
        // A person may have checked it out elsewhere.
        if repo.has_branch(&branch)? && worktree_of_branch(&repo, &branch)?.is_none() {
            // `-d` asks whether HEAD of the main repository has it; we ask for the integration branch.
            let commit = repo.commit_id(&branch)?;
            if self.is_integrated(&repo, &commit)? {
                repo.run(["update-ref", "-d", &format!("refs/heads/{branch}"), &commit])?;
            }
        }
        fs::remove_file(&file).map_err(|source| WorktreeError::Io { path: file, source })
    }
}
