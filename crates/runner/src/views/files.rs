//! View files: written from the store by temporary file and rename, at a limited rate.
//!
//! The store is the truth; a view may be late but never torn. What was written last is stored as a [`ViewMark`] with
//! the next commit. So a file is the engine's own if it has the digest of that mark, or the content that would be
//! written now. Any other file is moved to quarantine before the view is written.

use std::collections::BTreeMap;
use std::fs::{self, DirBuilder, File};
use std::io::{self, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use protocol::{Revision, View};
use store::{Digest, ViewMark};

/// Writing views takes at most 1/20 of the wall time.
const WALL_TIME_DIVISOR: u32 = 20;

/// The longest delay after a write, however expensive it was.
const LONGEST_DELAY: Duration = Duration::from_secs(60);

/// The view files of a run on this host.
#[derive(Debug)]
pub(crate) struct ViewFiles {
    known: BTreeMap<PathBuf, KnownContent>,
    /// View marks that no commit has stored yet.
    pending_view_marks: Vec<ViewMark>,
    /// Where unknown files are moved to.
    quarantine: PathBuf,
    /// No buffered write of the document's view before this time.
    not_before: Instant,
    /// Failed writes since the last success.
    failures: u32,
}

/// The content that an engine last wrote to a view's path.
#[derive(Debug)]
struct KnownContent {
    digest: Digest,
    /// What the file system reported after the write; `None` for a file of an earlier engine.
    stat_data: Option<StatData>,
}

/// Metadata that shows, without reading, that a file is unchanged.
#[derive(Debug, PartialEq, Eq)]
struct StatData {
    inode: u64,
    size: u64,
    modified: (i64, i64),
}

impl StatData {
    fn of(metadata: &fs::Metadata) -> Self {
        Self {
            inode: metadata.ino(),
            size: metadata.size(),
            modified: (metadata.mtime(), metadata.mtime_nsec()),
        }
    }
}

/// How durable a write must be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Durability {
    /// Not synced: the store can write it again.
    Buffered,
    /// Synced to disk before the engine exits.
    Synced,
}

/// An unknown file that was moved away.
#[derive(Debug)]
pub(crate) struct QuarantinedFile {
    pub(crate) view: PathBuf,
    pub(crate) moved_to: PathBuf,
}

impl ViewFiles {
    pub(crate) fn new(marks: &[ViewMark], quarantine: PathBuf) -> Self {
        let known = marks.iter().map(|mark| {
            (PathBuf::from(&mark.path), KnownContent { digest: mark.digest.clone(), stat_data: None })
        });
        Self {
            known: known.collect(),
            pending_view_marks: Vec::new(),
            quarantine,
            not_before: Instant::now(),
            failures: 0,
        }
    }

    /// Returns the earliest time of the next buffered write.
    pub(crate) fn not_before(&self) -> Instant {
        self.not_before
    }

    /// Delays the next write in proportion to the time spent on views, including rendering. The delays of several views add
    /// up: otherwise the short one after a small view would replace the long one after the document's view.
    pub(crate) fn charge(&mut self, spent: Duration) {
        let now = Instant::now();
        let earliest = self.not_before.max(now) + spent.saturating_mul(WALL_TIME_DIVISOR - 1);
        self.not_before = earliest.min(now + LONGEST_DELAY);
    }

    /// Delays the next write after a failure, each time longer. Returns whether it is the first failure since the last
    /// success: only that one is reported, because a disk may stay full for hours.
    pub(crate) fn back_off(&mut self) -> bool {
        let pause = Duration::from_secs(1 << self.failures.min(6));
        self.not_before = Instant::now() + pause;
        self.failures = self.failures.saturating_add(1);
        self.failures == 1
    }

    /// Returns the digest of the file at the view's path, if it is neither what was written last nor what would be
    /// written now.
    pub(crate) fn unknown_digest(&self, view: &View) -> io::Result<Option<Digest>> {
        let path = Path::new(&view.path);
        match fs::symlink_metadata(path) {
            Ok(metadata) if metadata.is_file() => {}
            Ok(_) => return Ok(None),
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(error),
        }
        let found = Digest::of(fs::read(path)?);
        let known = self.known.get(path).is_some_and(|known| known.digest == found);
        Ok((!known && found != Digest::of(&view.body)).then_some(found))
    }

    /// Makes the content with this digest the engine's own: a file that has it is not moved to quarantine.
    pub(crate) fn recognise(&mut self, view: &View, digest: Digest) {
        self.known.insert(PathBuf::from(&view.path), KnownContent { digest, stat_data: None });
    }

    /// Returns whether the file is unchanged since it was written last.
    pub(crate) fn is_unchanged(&self, path: &Path) -> bool {
        let Ok(metadata) = fs::symlink_metadata(path) else { return false };
        let known = self.known.get(path);
        match known.and_then(|known| known.stat_data.as_ref()) {
            Some(stat_data) => *stat_data == StatData::of(&metadata),
            // Written by an earlier engine: compare the content.
            None => known.is_some_and(|known| {
                metadata.is_file() && fs::read(path).is_ok_and(|bytes| Digest::of(bytes) == known.digest)
            }),
        }
    }

    /// Takes the marks for the next commit.
    pub(crate) fn take_view_marks(&mut self) -> Vec<ViewMark> {
        std::mem::take(&mut self.pending_view_marks)
    }

    /// Puts back the marks of a commit that failed.
    pub(crate) fn put_back_view_marks(&mut self, marks: Vec<ViewMark>) {
        let newer = std::mem::replace(&mut self.pending_view_marks, marks);
        super::merge_view_marks(&mut self.pending_view_marks, newer);
    }

    /// Writes a view. Returns the file that was moved to quarantine, if there was one.
    pub(crate) fn write(
        &mut self,
        view: &View,
        revision: Revision,
        durability: Durability,
    ) -> io::Result<Option<QuarantinedFile>> {
        let path = PathBuf::from(&view.path);
        let digest = Digest::of(&view.body);
        let (found, quarantined) = self.inspect(&path, &digest)?;
        let stat_data = match found {
            Some(stat_data) if durability == Durability::Buffered => stat_data,
            Some(_) | None => replace(&path, view.body.as_bytes(), durability)?,
        };
        self.known.insert(path, KnownContent { digest: digest.clone(), stat_data: Some(stat_data) });
        self.failures = 0;
        let mark = ViewMark { path: view.path.clone(), revision, digest };
        super::merge_view_marks(&mut self.pending_view_marks, vec![mark]);
        Ok(quarantined)
    }

    /// Inspects the file at the view's path. Returns its stat data if it has the wanted content already.
    /// Quarantines an unknown file.
    fn inspect(
        &self,
        path: &Path,
        wanted: &Digest,
    ) -> io::Result<(Option<StatData>, Option<QuarantinedFile>)> {
        let metadata = match fs::symlink_metadata(path) {
            Ok(metadata) => metadata,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok((None, None)),
            Err(error) => return Err(error),
        };
        let stat_data = StatData::of(&metadata);
        let known = self.known.get(path);
        let found = match known {
            Some(known) if known.stat_data.as_ref() == Some(&stat_data) => Some(known.digest.clone()),
            Some(_) | None if metadata.is_file() => Some(Digest::of(fs::read(path)?)),
            Some(_) | None => None,
        };
        if found.as_ref() == Some(wanted) {
            return Ok((Some(stat_data), None));
        }
        if found.is_some() && known.map(|known| &known.digest) == found.as_ref() {
            return Ok((None, None));
        }
        Ok((None, Some(self.quarantine(path)?)))
    }

    fn quarantine(&self, path: &Path) -> io::Result<QuarantinedFile> {
        create_private_dir(&self.quarantine)?;
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        let unique = uuid::Uuid::now_v7().simple();
        let moved_to = self.quarantine.join(format!("{unique}-{name}"));
        if fs::rename(path, &moved_to).is_ok() {
            return Ok(QuarantinedFile { view: path.to_owned(), moved_to });
        }
        // The store may be on another file system. Only regular files are copied: reading a pipe might block for
        // ever.
        if fs::symlink_metadata(path)?.is_file() {
            if let Err(error) = fs::copy(path, &moved_to) {
                // An incomplete copy is useless and takes up space.
                let _ = fs::remove_file(&moved_to);
                return Err(error);
            }
            fs::remove_file(path)?;
            return Ok(QuarantinedFile { view: path.to_owned(), moved_to });
        }
        let renamed = path.with_file_name(format!("{unique}-{name}"));
        fs::rename(path, &renamed)?;
        Ok(QuarantinedFile { view: path.to_owned(), moved_to: renamed })
    }
}

/// Creates a directory that only the user can read, and its missing parents.
pub(crate) fn create_private_dir(directory: &Path) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(0o700).create(directory)
}

/// Replaces a file by temporary file and rename: a reader sees the old or the new content.
fn replace(path: &Path, body: &[u8], durability: Durability) -> io::Result<StatData> {
    let directory = path.parent().ok_or_else(|| io::Error::other("a view has a directory"))?;
    fs::create_dir_all(directory)?;
    let mut file = tempfile::Builder::new()
        .prefix(".callboard-")
        .permissions(fs::Permissions::from_mode(0o666))
        .tempfile_in(directory)?;
    file.write_all(body)?;
    if durability == Durability::Synced {
        file.as_file().sync_data()?;
    }
    // Before the file is visible: a later change then has other stat data.
    let stat_data = StatData::of(&file.as_file().metadata()?);
    file.persist(path).map_err(|error| error.error)?;
    if durability == Durability::Synced {
        File::open(directory)?.sync_all()?;
    }
    Ok(stat_data)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn test_env() -> (tempfile::TempDir, PathBuf, ViewFiles) {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("deep/run_state.json");
        let views = ViewFiles::new(&[], directory.path().join("quarantine"));
        (directory, path, views)
    }

    fn view(path: &Path, body: &str) -> View {
        View { path: path.to_str().unwrap().to_owned(), body: body.to_owned() }
    }

    #[test]
    fn an_unknown_file_is_quarantined_before_the_view_is_written() {
        let (_directory, path, mut views) = test_env();
        assert!(views.write(&view(&path, "one"), Revision(1), Durability::Buffered).unwrap().is_none());
        fs::write(&path, "edited by hand").unwrap();
        let quarantined = views
            .write(&view(&path, "two"), Revision(2), Durability::Buffered)
            .unwrap()
            .expect("a quarantined file");
        assert_eq!(fs::read_to_string(quarantined.moved_to).unwrap(), "edited by hand");
        assert_eq!(fs::read_to_string(&path).unwrap(), "two");
    }

    #[test]
    fn every_unknown_file_of_a_view_is_kept() {
        let (_directory, path, mut views) = test_env();
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        let mut quarantined = Vec::new();
        for edit in ["first edit", "second edit"] {
            fs::write(&path, edit).unwrap();
            let written = views.write(&view(&path, "view"), Revision(1), Durability::Buffered).unwrap();
            quarantined.push((written.expect("a quarantined file").moved_to, edit));
        }
        for (moved_to, edit) in quarantined {
            assert_eq!(fs::read_to_string(moved_to).unwrap(), edit);
        }
    }

    #[test]
    fn repeated_write_failures_are_reported_once() {
        let (_directory, path, mut views) = test_env();
        assert!(views.back_off(), "the first failure is reported");
        let soon = views.not_before();
        assert!(!views.back_off() && !views.back_off());
        assert!(views.not_before() > soon + Duration::from_secs(2));
        views.write(&view(&path, "one"), Revision(1), Durability::Buffered).unwrap();
        assert!(views.back_off(), "so is the next one after a success");
    }

    #[test]
    fn the_costs_of_views_add_up() {
        let (_directory, _path, mut views) = test_env();
        let start = Instant::now();
        let (small, large) = (Duration::from_millis(10), Duration::from_millis(100));
        views.charge(large);
        views.charge(small);
        assert!(views.not_before() >= start + (large + small) * (WALL_TIME_DIVISOR - 1));
        views.charge(Duration::from_secs(3600));
        assert!(views.not_before() <= Instant::now() + LONGEST_DELAY);
    }

    #[test]
    fn a_missing_view_is_written_again() {
        let (_directory, path, mut views) = test_env();
        views.write(&view(&path, "one"), Revision(1), Durability::Buffered).unwrap();
        fs::remove_dir_all(path.parent().unwrap()).unwrap();
        assert!(views.write(&view(&path, "one"), Revision(1), Durability::Synced).unwrap().is_none());
        assert_eq!(fs::read_to_string(&path).unwrap(), "one");
    }

    #[test]
    fn a_view_of_an_earlier_engine_is_recognised() {
        let (directory, path, mut views) = test_env();
        views.write(&view(&path, "one"), Revision(1), Durability::Buffered).unwrap();
        let marks = views.take_view_marks();
        let mut later = ViewFiles::new(&marks, directory.path().join("quarantine"));
        assert!(later.write(&view(&path, "two"), Revision(2), Durability::Buffered).unwrap().is_none());
        // Written after the last commit: not marked, but with the content that would be written.
        let mut latest = ViewFiles::new(&marks, directory.path().join("quarantine"));
        assert!(latest.write(&view(&path, "two"), Revision(2), Durability::Buffered).unwrap().is_none());
        assert!(latest.write(&view(&path, "three"), Revision(3), Durability::Buffered).unwrap().is_none());
        assert!(!directory.path().join("quarantine").exists());
    }
}
