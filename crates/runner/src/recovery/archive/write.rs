//! Writes an archive of a run.

use std::collections::BTreeMap;
use std::fs::{self, DirEntry, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use protocol::run::Change;
use protocol::{AttemptId, Revision, RunId};
use store::{Digest, DigestReader, ReadError, Store, StoredEntry};
use supervisor::AttemptDir;
use tar::{Builder, Header};

use super::{
    ATTEMPT_FILES, ATTEMPTS, ArchivedFile, DEFINITION, FORMAT, JOURNAL, LOGS, MANIFEST, Manifest,
    parse_attempt_path,
};
use crate::recovery::{ReplayError, spec_digest};
use crate::run::{LoadError, decode};

/// Whether the output of the agents is archived.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Logs {
    With,
    Without,
}

/// Why a run could not be archived.
#[derive(Debug, thiserror::Error)]
pub enum ExportError {
    #[error(transparent)]
    Read(#[from] ReadError),
    #[error(transparent)]
    Load(#[from] LoadError),
    #[error("the run's first entry is invalid")]
    First(#[from] ReplayError),
    #[error("the run is damaged: {0}")]
    Damaged(&'static str),
    #[error("cannot read `{}`", path.display())]
    File { path: PathBuf, source: io::Error },
    #[error("`{}` changed while it was read", path.display())]
    Changed { path: PathBuf },
    #[error("cannot write the archive")]
    Write(#[source] io::Error),
}

/// Writes a run to an archive. Only the journal is read, so a run with a corrupted document can be archived before it
/// is restored. `attempts` is the directory with the attempts of all runs.
pub async fn export(
    store: &dyn Store,
    run: &RunId,
    attempts: &Path,
    logs: Logs,
    host: &str,
    out: impl Write,
) -> Result<Manifest, ExportError> {
    let entries = store.entries(run, Revision(0)).await?;
    let protocol = store.protocol(run).await?.ok_or(ExportError::Damaged("it is gone"))?;
    let first = entries.first().ok_or(ExportError::Damaged("its journal is empty"))?;
    let spec = store.blob(&spec_digest(&first.body)?).await?;
    let created_at = decode(run, first)?.at;
    let lines: String = entries.iter().flat_map(|entry| [entry.body.as_str(), "\n"]).collect();
    let spec = spec.ok_or(ExportError::Damaged("its run spec is missing"))?;
    let attempt_files = attempt_files(&attempts.join(run.as_str()), logs)?;
    let texts = [(DEFINITION, spec.as_slice()), (JOURNAL, lines.as_bytes())];
    let listed_file = |(path, bytes): &(&str, &[u8])| ArchivedFile {
        path: (*path).to_owned(),
        bytes: bytes.len() as u64,
        sha256: Digest::of(bytes),
    };
    let manifest = Manifest {
        callboard_archive: FORMAT,
        run: run.clone(),
        protocol,
        host: host.to_owned(),
        created_at,
        entries: entries.len() as u64,
        remote: if store.is_shared() {
            remote_attempts(run, &entries, attempts, host)
        } else {
            BTreeMap::new()
        },
        files: texts
            .iter()
            .map(listed_file)
            .chain(attempt_files.iter().map(|(_, listed)| listed.clone()))
            .collect(),
    };
    let mut archive = Builder::new(out);
    let mut text = serde_json::to_vec_pretty(&manifest).expect("BUG: a manifest is plain data");
    text.push(b'\n');
    append(&mut archive, MANIFEST, text.len() as u64, text.as_slice())?;
    for (path, bytes) in texts {
        append(&mut archive, path, bytes.len() as u64, bytes)?;
    }
    for (source_path, listed) in attempt_files {
        append_attempt_file(&mut archive, source_path, &listed)?;
    }
    archive.into_inner().and_then(|mut out| out.flush()).map_err(ExportError::Write)?;
    Ok(manifest)
}

/// Returns the attempts whose files are on other hosts and not on this one.
fn remote_attempts(
    run: &RunId,
    entries: &[StoredEntry],
    attempts: &Path,
    host: &str,
) -> BTreeMap<String, Vec<AttemptId>> {
    let mut by_host: BTreeMap<_, Vec<_>> = BTreeMap::new();
    // An entry that cannot be read is archived as it is; its attempts are unknown.
    let readable = entries.iter().filter_map(|entry| decode(run, entry).ok());
    for entry in readable.filter(|entry| entry.by.host() != host) {
        for change in &entry.changes {
            if let Change::Started { attempt, .. } = change {
                let attempt = attempt.clone();
                if !AttemptDir::new(attempts, run, &attempt).path().is_dir() {
                    by_host.entry(entry.by.host().to_owned()).or_default().push(attempt);
                }
            }
        }
    }
    by_host
}

/// Appends a file. A log may have grown since it was listed: only the listed bytes are archived. Any other change,
/// such as a new report, is an error, because the manifest would be wrong.
fn append_attempt_file(
    archive: &mut Builder<impl Write>,
    source_path: PathBuf,
    listed: &ArchivedFile,
) -> Result<(), ExportError> {
    let mut file = DigestReader::new(open(&source_path)?.take(listed.bytes));
    append(archive, &listed.path, listed.bytes, &mut file)?;
    if file.digest() == listed.sha256 { Ok(()) } else { Err(ExportError::Changed { path: source_path }) }
}

/// Appends a file without times and owners, so that the same run gives the same bytes.
fn append(
    archive: &mut Builder<impl Write>,
    path: &str,
    bytes: u64,
    data: impl Read,
) -> Result<(), ExportError> {
    let mut header = Header::new_ustar();
    header.set_size(bytes);
    header.set_mode(0o600);
    archive.append_data(&mut header, path, data).map_err(ExportError::Write)
}

/// Lists the files of the attempts, sorted by path.
fn attempt_files(directory: &Path, logs: Logs) -> Result<Vec<(PathBuf, ArchivedFile)>, ExportError> {
    let names = ATTEMPT_FILES.iter().chain(LOGS.iter().filter(|_| logs == Logs::With));
    let names: Vec<_> = names.collect();
    let mut found = Vec::new();
    for step in children(directory)? {
        for attempt in children(&step)? {
            for name in &names {
                let source_path = attempt.join(name);
                let Ok(relative) = source_path.strip_prefix(directory) else { continue };
                let path = format!("{ATTEMPTS}/{}", relative.to_string_lossy());
                if parse_attempt_path(&path).is_none() || !is_regular_file(&source_path) {
                    continue;
                }
                let file = open(&source_path)?;
                let bytes = file.metadata().map_err(failed(&source_path))?.len();
                let sha256 = Digest::of_reader(file.take(bytes)).map_err(failed(&source_path))?;
                found.push((source_path, ArchivedFile { path, bytes, sha256 }));
            }
        }
    }
    found.sort_by(|(_, one), (_, other)| one.path.cmp(&other.path));
    Ok(found)
}

/// Returns the directories in a directory, or none if it does not exist.
fn children(directory: &Path) -> Result<Vec<PathBuf>, ExportError> {
    match fs::read_dir(directory) {
        Ok(entries) => {
            entries.filter_map(directory_path).collect::<io::Result<_>>().map_err(failed(directory))
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
        Err(source) => Err(failed(directory)(source)),
    }
}

/// Returns the path of an entry that is a directory. An entry that cannot be read is an error: the archive would lack its attempts.
fn directory_path(entry: io::Result<DirEntry>) -> Option<io::Result<PathBuf>> {
    match entry.and_then(|entry| Ok((entry.file_type()?, entry.path()))) {
        Ok((file_type, path)) => file_type.is_dir().then_some(Ok(path)),
        Err(error) => Some(Err(error)),
    }
}

/// Returns whether the path is a regular file. A link that an agent left there is not followed.
fn is_regular_file(path: &Path) -> bool {
    fs::symlink_metadata(path).is_ok_and(|metadata| metadata.is_file())
}

fn open(path: &Path) -> Result<File, ExportError> {
    const NOFOLLOW: i32 = rustix::fs::OFlags::NOFOLLOW.bits().cast_signed();
    OpenOptions::new().read(true).custom_flags(NOFOLLOW).open(path).map_err(failed(path))
}

fn failed(path: &Path) -> impl FnOnce(io::Error) -> ExportError {
    let path = path.to_owned();
    move |source| ExportError::File { path, source }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_directory_that_cannot_be_read_is_an_error() {
        assert!(directory_path(Err(io::Error::other("no answer"))).is_some_and(|path| path.is_err()));
    }

    #[test]
    fn a_report_that_changes_during_the_export_is_an_error() {
        let home = tempfile::tempdir().unwrap();
        let attempt = home.path().join("plan/1.1");
        fs::create_dir_all(&attempt).unwrap();
        fs::write(attempt.join("report.json"), "first").unwrap();
        fs::write(attempt.join("stdout.log"), "a line\n").unwrap();
        let mut listed = attempt_files(home.path(), Logs::With).unwrap();
        let (log, report) = (listed.pop().unwrap(), listed.pop().unwrap());
        fs::write(attempt.join("stdout.log"), "a line\nand another\n").unwrap();
        let mut archive = Builder::new(Vec::new());
        append_attempt_file(&mut archive, log.0, &log.1).unwrap();
        for later in ["other", "x"] {
            fs::write(attempt.join("report.json"), later).unwrap();
            let refused = append_attempt_file(&mut archive, report.0.clone(), &report.1);
            assert!(matches!(refused, Err(ExportError::Changed { .. })), "{refused:?}");
        }
    }
}
