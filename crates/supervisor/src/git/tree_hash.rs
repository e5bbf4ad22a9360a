//! The hash of what a work tree contains, committed or not.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

use tempfile::TempDir;

use super::{Git, GitError};

/// Returns whether the directory is in a work tree of git.
pub fn is_work_tree(dir: &Path) -> Result<bool, GitError> {
    let answer = Git::new(dir).try_run(["rev-parse", "--is-inside-work-tree"])?;
    Ok(answer.as_deref() == Some("true"))
}

/// Returns the hash of the git tree that a commit of the whole work tree would have: tracked and untracked files as they are
/// now, without ignored and excluded ones, and so without the views of runs. Neither the index nor the objects of the
/// repository change.
///
/// The result of a check counts for the tree with this hash only.
pub fn tree_hash(dir: &Path) -> Result<String, GitError> {
    write_tree(dir, Objects::Discarded)
}

/// Stores the tree of [`tree_hash`] in the repository, so that it can be committed. Returns its hash.
pub(super) fn store_tree(dir: &Path) -> Result<String, GitError> {
    write_tree(dir, Objects::Stored)
}

/// What happens to the objects that `git add` and `git write-tree` make.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Objects {
    Discarded,
    Stored,
}

fn write_tree(dir: &Path, storage: Objects) -> Result<String, GitError> {
    let git = Git::new(dir);
    let top = PathBuf::from(git.run(["rev-parse", "--show-toplevel"])?);
    let path_of = |name| git.run(["rev-parse", "--path-format=absolute", "--git-path", name]);
    let (index, objects) = (PathBuf::from(path_of("index")?), path_of("objects")?);
    let temporary =
        TemporaryIndex::copy(&index).map_err(|source| GitError::Spawn { dir: dir.to_owned(), source })?;
    let mut variables = temporary.variables(&objects);
    variables.retain(|(name, _)| storage == Objects::Discarded || name == "GIT_INDEX_FILE");
    let git = Git::new(&top).with_variables(variables);
    git.run(["add", "--all"])?;
    git.run(["write-tree"])
}

/// A directory with an index and an object directory, which is removed when this is dropped.
struct TemporaryIndex(TempDir);

impl TemporaryIndex {
    /// Copies the index, so that git need not read the files that have not changed since the index was written.
    fn copy(index: &Path) -> io::Result<Self> {
        let temporary = tempfile::Builder::new().prefix("callboard-index-").tempdir()?;
        fs::create_dir(temporary.path().join("objects"))?;
        let mut original = match File::open(index) {
            Ok(original) => original,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Self(temporary)),
            Err(error) => return Err(error),
        };
        let mut copy = File::create(temporary.path().join("index"))?;
        io::copy(&mut original, &mut copy)?;
        // git reads a file again that is not older than the index: it may have changed in the same moment. A newer time of
        // the copy would hide such a change.
        copy.set_modified(original.metadata()?.modified()?)?;
        Ok(Self(temporary))
    }

    fn variables(&self, objects: &str) -> Vec<(String, String)> {
        let path = |name: &str| self.0.path().join(name).to_string_lossy().into_owned();
        // Quoted, because the variable is a list whose separator is a colon.
        let objects = format!("\"{}\"", objects.replace('\\', "\\\\").replace('"', "\\\""));
        [
            ("GIT_INDEX_FILE", path("index")),
            ("GIT_OBJECT_DIRECTORY", path("objects")),
            ("GIT_ALTERNATE_OBJECT_DIRECTORIES", objects),
        ]
        .map(|(name, value)| (name.to_owned(), value))
        .to_vec()
    }
}
