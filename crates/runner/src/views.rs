//! View files: written from the store by temp file and rename, paced, and watched for strangers.
//!
//! The store is the truth; a view may be late but never torn. What we last wrote is remembered as a [`ViewMark`],
//! which rides in the next commit: so a file in a view's place is ours if it has the marked digest, or is exactly
//! what we would write now. Anything else is a stranger's: it is moved to quarantine before the view is rewritten.

use std::collections::BTreeMap;
use std::fs::{self, DirBuilder, File};
use std::io::{self, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use protocol::{Revision, View};
use store::{Digest, ViewMark};

/// Views may take one part in this many of the wall time.
const SHARE: u32 = 20;

/// However dear views are, none is later than this.
const LONGEST_PACE: Duration = Duration::from_secs(60);

/// The writer of a run's views.
#[derive(Debug)]
pub(crate) struct Views {
    known: BTreeMap<PathBuf, Known>,
    /// Marks that have not ridden in a commit yet.
    unmarked: Vec<ViewMark>,
    /// Where strangers' bytes go.
    quarantine: PathBuf,
    /// No paced write before this.
    not_before: Instant,
    /// Writes that failed since the last that did not.
    failures: u32,
}

#[derive(Debug)]
struct Known {
    digest: Digest,
    /// What the file system said when we wrote it; `None` for a file of an earlier engine.
    signature: Option<Signature>,
}

/// Enough to see, without reading, that nobody touched a file.
#[derive(Debug, PartialEq, Eq)]
struct Signature {
    inode: u64,
    size: u64,
    modified: (i64, i64),
}

impl Signature {
    fn of(metadata: &fs::Metadata) -> Self {
        Self {
            inode: metadata.ino(),
            size: metadata.size(),
            modified: (metadata.mtime(), metadata.mtime_nsec()),
        }
    }
}

/// How hard a write must stick.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Firmness {
    /// The store can rewrite it: no need to wait for the disk.
    Paced,
    /// The run rests: on disk before we say so.
    AtRest,
}

/// A stranger's file that was moved away.
#[derive(Debug)]
pub(crate) struct SetAside {
    pub(crate) view: PathBuf,
    pub(crate) kept: PathBuf,
}

impl Views {
    pub(crate) fn new(marks: &[ViewMark], quarantine: PathBuf) -> Self {
        let known = marks
            .iter()
            .map(|mark| (PathBuf::from(&mark.path), Known { digest: mark.digest.clone(), signature: None }));
        Self {
            known: known.collect(),
            unmarked: Vec::new(),
            quarantine,
            not_before: Instant::now(),
            failures: 0,
        }
    }

    /// When the next paced write may happen.
    pub(crate) fn not_before(&self) -> Instant {
        self.not_before
    }

    /// Accounts for time that was spent on views, from the making of their text on. What several of them cost adds up:
    /// the small ones of every step must not make room for the large one to be written with every step.
    pub(crate) fn charge(&mut self, spent: Duration) {
        let now = Instant::now();
        let earliest = self.not_before.max(now) + spent.saturating_mul(SHARE - 1);
        self.not_before = earliest.min(now + LONGEST_PACE);
    }

    /// Waits a while after a write that failed, each time longer, and says whether it is the first: a disk may be full for
    /// a whole night.
    pub(crate) fn back_off(&mut self) -> bool {
        let pause = Duration::from_secs(1 << self.failures.min(6));
        self.not_before = Instant::now() + pause;
        self.failures = self.failures.saturating_add(1);
        self.failures == 1
    }

    /// The digest of the file in a view's place, if it is neither what we wrote last nor what we would write now.
    pub(crate) fn stranger(&self, view: &View) -> io::Result<Option<Digest>> {
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

    /// Takes the file of that digest for one of ours.
    pub(crate) fn recognise(&mut self, view: &View, digest: Digest) {
        self.known.insert(PathBuf::from(&view.path), Known { digest, signature: None });
    }

    /// Whether the file we wrote last is still in its place, as far as a look without reading tells.
    pub(crate) fn is_there(&self, path: &Path) -> bool {
        let Ok(metadata) = fs::symlink_metadata(path) else { return false };
        let known = self.known.get(path);
        match known.and_then(|known| known.signature.as_ref()) {
            Some(signature) => *signature == Signature::of(&metadata),
            // Written by an earlier engine: then the digest tells.
            None => known.is_some_and(|known| {
                metadata.is_file() && fs::read(path).is_ok_and(|bytes| Digest::of(bytes) == known.digest)
            }),
        }
    }

    /// Marks for the next commit.
    pub(crate) fn take_marks(&mut self) -> Vec<ViewMark> {
        std::mem::take(&mut self.unmarked)
    }

    /// Gives back marks whose commit did not happen.
    pub(crate) fn give_back(&mut self, marks: Vec<ViewMark>) {
        let newer = std::mem::replace(&mut self.unmarked, marks);
        crate::journal::merge_marks(&mut self.unmarked, newer);
    }

    /// Writes one view, and says so if a stranger's file was in its place.
    pub(crate) fn write(
        &mut self,
        view: &View,
        revision: Revision,
        firmness: Firmness,
    ) -> io::Result<Option<SetAside>> {
        let path = PathBuf::from(&view.path);
        let digest = Digest::of(&view.body);
        let (found, set_aside) = self.look(&path, &digest)?;
        let signature = match found {
            Some(signature) if firmness == Firmness::Paced => signature,
            Some(_) | None => replace(&path, view.body.as_bytes(), firmness)?,
        };
        self.known.insert(path, Known { digest: digest.clone(), signature: Some(signature) });
        self.failures = 0;
        let mark = ViewMark { path: view.path.clone(), revision, digest };
        crate::journal::merge_marks(&mut self.unmarked, vec![mark]);
        Ok(set_aside)
    }

    /// Looks at what is in the view's place: the file if it already is what we want, and a stranger set aside.
    fn look(&self, path: &Path, wanted: &Digest) -> io::Result<(Option<Signature>, Option<SetAside>)> {
        let metadata = match fs::symlink_metadata(path) {
            Ok(metadata) => metadata,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok((None, None)),
            Err(error) => return Err(error),
        };
        let signature = Signature::of(&metadata);
        let known = self.known.get(path);
        let found = match known {
            Some(known) if known.signature.as_ref() == Some(&signature) => Some(known.digest.clone()),
            Some(_) | None if metadata.is_file() => Some(Digest::of(fs::read(path)?)),
            Some(_) | None => None,
        };
        if found.as_ref() == Some(wanted) {
            return Ok((Some(signature), None));
        }
        if found.is_some() && known.map(|known| &known.digest) == found.as_ref() {
            return Ok((None, None));
        }
        Ok((None, Some(self.set_aside(path)?)))
    }

    fn set_aside(&self, path: &Path) -> io::Result<SetAside> {
        make_private(&self.quarantine)?;
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        let unique = uuid::Uuid::now_v7().simple();
        let kept = self.quarantine.join(format!("{unique}-{name}"));
        if fs::rename(path, &kept).is_ok() {
            return Ok(SetAside { view: path.to_owned(), kept });
        }
        // The store may lie on another file system than the repository. What is no plain file is not copied but moved
        // out of the way: reading a pipe might never end.
        if fs::symlink_metadata(path)?.is_file() {
            if let Err(error) = fs::copy(path, &kept) {
                // Half of it is no evidence, and takes room that is missing already.
                let _ = fs::remove_file(&kept);
                return Err(error);
            }
            fs::remove_file(path)?;
            return Ok(SetAside { view: path.to_owned(), kept });
        }
        let beside = path.with_file_name(format!("{unique}-{name}"));
        fs::rename(path, &beside)?;
        Ok(SetAside { view: path.to_owned(), kept: beside })
    }
}

/// Makes a directory that others do not look into, and those above it that are missing.
pub(crate) fn make_private(directory: &Path) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(0o700).create(directory)
}

/// Replaces a file by temp file and rename: a reader sees the old one or the new one, whole.
fn replace(path: &Path, body: &[u8], firmness: Firmness) -> io::Result<Signature> {
    let directory = path.parent().ok_or_else(|| io::Error::other("a view has a directory"))?;
    fs::create_dir_all(directory)?;
    let mut file = tempfile::Builder::new()
        .prefix(".callboard-")
        .permissions(fs::Permissions::from_mode(0o666))
        .tempfile_in(directory)?;
    file.write_all(body)?;
    if firmness == Firmness::AtRest {
        file.as_file().sync_data()?;
    }
    // Before anybody can see it: what is changed from then on has another signature.
    let signature = Signature::of(&file.as_file().metadata()?);
    file.persist(path).map_err(|error| error.error)?;
    if firmness == Firmness::AtRest {
        File::open(directory)?.sync_all()?;
    }
    Ok(signature)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn scene() -> (tempfile::TempDir, PathBuf, Views) {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("deep/run_state.json");
        let views = Views::new(&[], directory.path().join("quarantine"));
        (directory, path, views)
    }

    fn view(path: &Path, body: &str) -> View {
        View { path: path.to_str().unwrap().to_owned(), body: body.to_owned() }
    }

    #[test]
    fn a_strangers_bytes_are_kept_before_the_view_is_rewritten() {
        let (_directory, path, mut views) = scene();
        assert!(views.write(&view(&path, "one"), Revision(1), Firmness::Paced).unwrap().is_none());
        fs::write(&path, "edited by hand").unwrap();
        let aside =
            views.write(&view(&path, "two"), Revision(2), Firmness::Paced).unwrap().expect("set aside");
        assert_eq!(fs::read_to_string(aside.kept).unwrap(), "edited by hand");
        assert_eq!(fs::read_to_string(&path).unwrap(), "two");
    }

    #[test]
    fn a_view_that_cannot_be_written_for_long_is_told_once() {
        let (_directory, path, mut views) = scene();
        assert!(views.back_off(), "the first failure is told");
        let soon = views.not_before();
        assert!(!views.back_off() && !views.back_off());
        assert!(views.not_before() > soon + Duration::from_secs(2));
        views.write(&view(&path, "one"), Revision(1), Firmness::Paced).unwrap();
        assert!(views.back_off(), "and so is the next after a success");
    }

    #[test]
    fn what_views_cost_adds_up_to_their_share() {
        let (_directory, _path, mut views) = scene();
        let begun = Instant::now();
        let (small, large) = (Duration::from_millis(10), Duration::from_millis(100));
        views.charge(large);
        views.charge(small);
        assert!(views.not_before() >= begun + (large + small) * (SHARE - 1));
        views.charge(Duration::from_secs(3600));
        assert!(views.not_before() <= Instant::now() + LONGEST_PACE);
    }

    #[test]
    fn a_missing_view_is_written_again_without_fuss() {
        let (_directory, path, mut views) = scene();
        views.write(&view(&path, "one"), Revision(1), Firmness::Paced).unwrap();
        fs::remove_dir_all(path.parent().unwrap()).unwrap();
        assert!(views.write(&view(&path, "one"), Revision(1), Firmness::AtRest).unwrap().is_none());
        assert_eq!(fs::read_to_string(&path).unwrap(), "one");
    }

    #[test]
    fn a_view_of_an_earlier_engine_is_not_a_stranger() {
        let (directory, path, mut views) = scene();
        views.write(&view(&path, "one"), Revision(1), Firmness::Paced).unwrap();
        let marks = views.take_marks();
        let mut later = Views::new(&marks, directory.path().join("quarantine"));
        assert!(later.write(&view(&path, "two"), Revision(2), Firmness::Paced).unwrap().is_none());
        // Written after the last commit: not marked, but exactly what we would write.
        let mut latest = Views::new(&marks, directory.path().join("quarantine"));
        assert!(latest.write(&view(&path, "two"), Revision(2), Firmness::Paced).unwrap().is_none());
        assert!(latest.write(&view(&path, "three"), Revision(3), Firmness::Paced).unwrap().is_none());
        assert!(!directory.path().join("quarantine").exists());
    }
}
