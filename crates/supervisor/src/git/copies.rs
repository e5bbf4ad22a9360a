//! Private copies: files of the run's document that an attempt finds in its worktree, and that are never committed.
//!
//! Several attempts may work in one worktree, so the changes of one are committed while another edits its copies. The run's
//! state directory has a list of the copies of each attempt.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use protocol::AttemptId;
use protocol::brief::Worktree;

use super::worktrees::WorktreeId;
use super::{Git, RunWorktrees, WorktreeError};
use crate::atomic_file::replace_synced_file;
use crate::attempt::copies;

impl RunWorktrees {
    /// Records files of a worktree as private copies of an attempt. They are not committed until they are
    /// [discarded](Self::discard_copies). `None` is the worktree of the integration branch.
    pub fn record_copies(
        &self,
        worktree: Option<&Worktree>,
        attempt: &AttemptId,
        paths: &[&str],
    ) -> Result<(), WorktreeError> {
        if paths.is_empty() {
            return Ok(());
        }
        let list = self.copy_lists_dir(worktree.into());
        let paths = serde_json::to_vec(paths).expect("BUG: paths are plain data");
        fs::create_dir_all(&list)
            .and_then(|()| replace_synced_file(&list.join(attempt.to_string()), &paths))
            .map_err(io_error(&list))
    }

    /// Removes the private copies of an attempt from its worktree, even if it has staged them. A file that the branch has
    /// gets the content that it has there.
    pub fn discard_copies(
        &self,
        worktree: Option<&Worktree>,
        attempt: &AttemptId,
    ) -> Result<(), WorktreeError> {
        let tree = worktree.into();
        let (path, list) = (self.worktree_path(tree), self.copy_lists_dir(tree).join(attempt.to_string()));
        let paths = read_list(&list).map_err(io_error(&list))?;
        if paths.is_empty() {
            return Ok(());
        }
        if path.join(".git").exists() {
            let lock = self.lock(tree)?;
            let git = Git::locked(&path, &lock);
            for file in &paths {
                if git.try_run(["cat-file", "-e", &format!("HEAD:{file}")])?.is_some() {
                    git.run(["checkout", "--quiet", "HEAD", "--", &literal_pathspec(file)])?;
                    continue;
                }
                git.run([
                    "rm",
                    "-r",
                    "--quiet",
                    "--cached",
                    "--ignore-unmatch",
                    "--",
                    &literal_pathspec(file),
                ])?;
                copies::remove(&path, file).map_err(io_error(&path.join(file)))?;
            }
        }
        fs::remove_file(&list).map_err(io_error(&list))
    }

    /// Resets the private copies of all attempts that work in the tree to `HEAD`, in the index.
    pub(super) fn unstage_copies(&self, tree: WorktreeId<'_>, git: &Git) -> Result<(), WorktreeError> {
        let dir = self.copy_lists_dir(tree);
        let lists = match fs::read_dir(&dir) {
            Ok(lists) => lists,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            Err(error) => return Err(io_error(&dir)(error)),
        };
        let mut paths = Vec::new();
        for list in lists {
            let list = list.map_err(io_error(&dir))?;
            // A temporary file that a killed engine has left.
            if list.file_name().as_encoded_bytes().starts_with(b".") {
                continue;
            }
            let list = list.path();
            paths
                .extend(read_list(&list).map_err(io_error(&list))?.iter().map(|path| literal_pathspec(path)));
        }
        if paths.is_empty() {
            return Ok(());
        }
        git.run([["reset", "--quiet", "--"].map(str::to_owned).as_slice(), &paths].concat())?;
        Ok(())
    }

    /// The directory with one file per attempt: the paths of its copies.
    fn copy_lists_dir(&self, tree: WorktreeId<'_>) -> PathBuf {
        self.state_file(tree, "copies")
    }
}

/// Reads the paths of an attempt. Without the file it has none.
fn read_list(file: &Path) -> io::Result<Vec<String>> {
    match fs::read(file) {
        Ok(paths) => Ok(serde_json::from_slice(&paths)?),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
        Err(error) => Err(error),
    }
}

fn literal_pathspec(path: &str) -> String {
    format!(":(literal,top){path}")
}

fn io_error(path: &Path) -> impl Fn(io::Error) -> WorktreeError {
    move |source| WorktreeError::Io { path: path.to_owned(), source }
}
