//! Private copies in a real worktree and a real directory of an attempt.

use std::os::unix::fs::symlink;
use std::path::PathBuf;

use tempfile::TempDir;

use super::*;

struct Scratch(TempDir);

impl Scratch {
    fn new() -> Self {
        let scratch = Self(tempfile::tempdir().unwrap());
        fs::create_dir(scratch.worktree()).unwrap();
        scratch.dir().create().unwrap();
        scratch
    }

    fn dir(&self) -> AttemptDir {
        AttemptDir::at(&self.0.path().join("attempt"))
    }

    fn worktree(&self) -> PathBuf {
        self.0.path().join("worktree")
    }

    fn write(&self, copies: &[(&str, &str)]) -> Result<(), CopyError> {
        let copy =
            |(path, body): &(&str, &str)| PrivateCopy { path: (*path).to_owned(), body: (*body).to_owned() };
        write(&self.dir(), &self.worktree(), &copies.iter().map(copy).collect::<Vec<_>>())
    }

    fn collected(&self) -> BTreeMap<String, CopyEdit> {
        collect(&self.dir(), &self.worktree()).unwrap();
        edits(&self.dir())
    }
}

#[test]
fn copies_are_written_compared_and_kept() {
    let scratch = Scratch::new();
    scratch
        .write(&[("state/a.json", "{}"), ("state/b.json", "{}"), ("notes.md", "one"), ("same.md", "x")])
        .unwrap();
    assert_eq!(fs::read_to_string(scratch.worktree().join("state/a.json")).unwrap(), "{}");
    fs::write(scratch.worktree().join("state/a.json"), r#"{"done": true}"#).unwrap();
    fs::remove_file(scratch.worktree().join("state/b.json")).unwrap();
    fs::write(scratch.worktree().join("notes.md"), "two").unwrap();
    let found = scratch.collected();
    assert_eq!(found.keys().collect::<Vec<_>>(), ["notes.md", "state/a.json", "state/b.json"]);
    assert_eq!(found["notes.md"], CopyEdit::Text("two".to_owned()));
    assert_eq!(found["state/b.json"], CopyEdit::Deleted);
    assert!(matches!(&found["state/a.json"], CopyEdit::Patch(patch) if patch.len() == 1));
    let kept = scratch.dir().path().join("copies-left/state/a.json");
    assert_eq!(fs::read_to_string(kept).unwrap(), r#"{"done": true}"#);
}

/// The engine may be killed at any time: what is recorded is not done again.
#[test]
fn what_was_recorded_is_not_written_or_compared_again() {
    let scratch = Scratch::new();
    scratch.write(&[("a.json", "{}")]).unwrap();
    fs::write(scratch.worktree().join("a.json"), "[1]").unwrap();
    scratch.write(&[("a.json", r#"{"newer": 1}"#)]).unwrap();
    assert_eq!(
        fs::read_to_string(scratch.worktree().join("a.json")).unwrap(),
        "[1]",
        "an agent may be at work"
    );
    let found = scratch.collected();
    remove(&scratch.worktree(), "a.json").unwrap();
    remove(&scratch.worktree(), "a.json").unwrap();
    assert_eq!(scratch.collected(), found);
    assert_eq!(found.len(), 1);
    // Without `copies.json` the attempt was not started, so the copies are written again.
    let other = Scratch::new();
    fs::write(other.worktree().join("a.json"), "torn").unwrap();
    other.write(&[("a.json", "{}")]).unwrap();
    assert_eq!(other.collected(), BTreeMap::new());
}

#[test]
fn no_path_leads_out_of_the_worktree() {
    let scratch = Scratch::new();
    let outside = scratch.0.path().join("outside");
    fs::create_dir(&outside).unwrap();
    symlink(&outside, scratch.worktree().join("link")).unwrap();
    for path in ["", "/etc/x", "../x", "a/../../x", ".git/config", "a/.GIT/config", "link/x"] {
        scratch.write(&[(path, "{}")]).unwrap_err();
    }
    assert_eq!(fs::read_dir(&outside).unwrap().count(), 0);
    // A link in place of the file is replaced, not followed.
    let target = outside.join("target");
    fs::write(&target, "theirs").unwrap();
    symlink(&target, scratch.worktree().join("a.json")).unwrap();
    scratch.write(&[("a.json", "{}"), ("dir/b.json", "{}")]).unwrap();
    assert_eq!(fs::read_to_string(&target).unwrap(), "theirs");
    // Links that the agent made are not followed either.
    for (from, to) in [("a.json", "target"), ("dir", "")] {
        let from = scratch.worktree().join(from);
        fs::rename(&from, scratch.0.path().join("moved").with_extension(to)).unwrap();
        symlink(outside.join(to), from).unwrap();
    }
    fs::write(outside.join("b.json"), "secret").unwrap();
    let found = scratch.collected();
    for path in ["a.json", "dir/b.json"] {
        assert!(matches!(&found[path], CopyEdit::Unreadable(_)), "{path}: {found:?}");
    }
    assert!(!scratch.dir().path().join("copies-left").exists());
    remove(&scratch.worktree(), "dir/b.json").unwrap_err();
    assert!(outside.join("b.json").exists());
}

#[test]
fn a_file_that_is_too_large_or_a_pipe_is_unreadable() {
    let scratch = Scratch::new();
    scratch.write(&[("large.json", "{}"), ("pipe.json", "{}")]).unwrap();
    File::create(scratch.worktree().join("large.json")).unwrap().set_len(MAX_REPORT_SIZE + 1).unwrap();
    let pipe = scratch.worktree().join("pipe.json");
    fs::remove_file(&pipe).unwrap();
    rustix::fs::mknodat(rustix::fs::CWD, &pipe, rustix::fs::FileType::Fifo, 0o600.into(), 0).unwrap();
    let found = scratch.collected();
    for path in ["large.json", "pipe.json"] {
        assert!(matches!(&found[path], CopyEdit::Unreadable(_)), "{path}: {found:?}");
    }
    let kept = fs::metadata(scratch.dir().path().join("copies-left/large.json")).unwrap();
    assert_eq!(kept.len(), MAX_REPORT_SIZE, "its beginning is kept");
}
