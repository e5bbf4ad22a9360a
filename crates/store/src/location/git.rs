//! Finds a repository's common directory without starting git, because every command does this first.
//!
//! Ignores `GIT_DIR` and similar variables, so that a command started by a git hook finds the same store as one typed
//! in the same directory.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The git repository around a directory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Repository {
    /// The directory that all worktrees share: `.git` of the main one.
    pub common_dir: PathBuf,
    /// The top of the work tree, or `None` inside a bare repository or a git directory.
    pub work_tree: Option<PathBuf>,
}

/// A `.git` that does not point to a repository.
#[derive(Debug)]
pub(crate) struct BrokenDotGit {
    pub(crate) path: PathBuf,
    pub(crate) source: io::Error,
}

/// Searches upwards from `start`, as git does.
pub(crate) fn find(start: &Path) -> Result<Option<Repository>, BrokenDotGit> {
    for directory in start.ancestors() {
        let dot_git = directory.join(".git");
        if let Some(git_dir) = git_dir(&dot_git)? {
            let common_dir = common_dir(&git_dir)?;
            return Ok(Some(Repository { common_dir, work_tree: Some(directory.to_owned()) }));
        }
        if is_git_dir(directory) {
            return Ok(Some(Repository { common_dir: common_dir(directory)?, work_tree: None }));
        }
    }
    Ok(None)
}

/// Resolves `.git`, which is the git directory itself or a file that points to it (worktrees, submodules).
fn git_dir(dot_git: &Path) -> Result<Option<PathBuf>, BrokenDotGit> {
    let Ok(metadata) = fs::metadata(dot_git) else { return Ok(None) };
    if metadata.is_dir() {
        // Git ignores an empty `.git` directory, too, and searches further up.
        return Ok(is_git_dir(dot_git).then(|| dot_git.to_owned()));
    }
    let broken = |source| BrokenDotGit { path: dot_git.to_owned(), source };
    let text = fs::read_to_string(dot_git).map_err(broken)?;
    let target = text.strip_prefix("gitdir:").map(str::trim).filter(|target| !target.is_empty());
    let target = target.ok_or_else(|| broken(io::Error::other("it has no `gitdir:` line")))?;
    let directory = dot_git.parent().unwrap_or(Path::new("/"));
    directory.join(target).canonicalize().map(Some).map_err(broken)
}

/// Resolves the common directory, which the git directory of a linked worktree names in its file `commondir`.
fn common_dir(git_dir: &Path) -> Result<PathBuf, BrokenDotGit> {
    let pointer = git_dir.join("commondir");
    let result = match fs::read_to_string(&pointer) {
        Ok(text) => git_dir.join(text.trim_end()).canonicalize(),
        Err(error) if error.kind() == io::ErrorKind::NotFound => git_dir.canonicalize(),
        Err(error) => Err(error),
    };
    result.map_err(|source| BrokenDotGit { path: pointer, source })
}

fn is_git_dir(directory: &Path) -> bool {
    let has_dir = |name: &str| directory.join(name).is_dir();
    directory.join("HEAD").symlink_metadata().is_ok()
        && ((has_dir("objects") && has_dir("refs")) || directory.join("commondir").is_file())
}

/// Asks git whether it tracks any file at `path`.
pub(crate) fn tracks(work_tree: &Path, path: &Path) -> io::Result<bool> {
    let mut git = Command::new("git");
    // The variables of a git hook would make git answer for the hook's repository.
    for name in ["GIT_DIR", "GIT_COMMON_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE"] {
        git.env_remove(name);
    }
    git.arg("--literal-pathspecs").arg("-C").arg(work_tree).args(["ls-files", "-z", "--"]).arg(path);
    let output = git.output()?;
    if output.status.success() {
        Ok(!output.stdout.is_empty())
    } else {
        Err(io::Error::other(String::from_utf8_lossy(&output.stderr).trim().to_owned()))
    }
}
