//! Answer files that are there before their question is committed. They are no answers: an agent could approve its own work
//! with one. They are moved aside.

use std::collections::BTreeSet;
use std::fmt::{self, Display};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use protocol::run::Change;
use protocol::{AnswerFile, RunId, StepId, Turn};

use super::Journal;

/// A file that was moved aside, or could not be.
#[derive(Debug)]
pub struct EarlyAnswer {
    pub run: RunId,
    pub step: StepId,
    pub turn: Turn,
    pub path: PathBuf,
    moved_to: Result<PathBuf, io::Error>,
}

impl EarlyAnswer {
    /// Returns why the file does not answer the question.
    pub fn reason(&self) -> String {
        let written = "it was written before the question was asked";
        match &self.moved_to {
            Ok(path) => format!("{written}, and was moved to `{}`", path.display()),
            Err(error) => format!("{written}, and cannot be moved aside: {error}"),
        }
    }

    /// Moves the file back, because its question was not committed. Keeps a file that was written since.
    fn put_back(&self) {
        if let Ok(moved_to) = &self.moved_to
            && fs::hard_link(moved_to, &self.path).is_ok()
        {
            let _ = fs::remove_file(moved_to);
        }
    }
}

impl Display for EarlyAnswer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { run, step, turn, path, .. } = self;
        write!(f, "{} does not answer {run}/{step}#{turn}: {}", path.display(), self.reason())
    }
}

pub(super) fn put_back(moved: &[EarlyAnswer]) {
    moved.iter().for_each(EarlyAnswer::put_back);
}

impl Journal {
    /// Moves files aside before the questions that the changes ask are committed. Afterwards a file may be a real answer.
    pub(super) fn move_files_before_commit(&self, changes: &[Change]) -> Vec<EarlyAnswer> {
        let asked: BTreeSet<_> = changes
            .iter()
            .filter_map(|change| match change {
                Change::Waiting { step, .. } => Some(step),
                _ => None,
            })
            .collect();
        let waiting = self.state.run.waiting_steps().filter(|(step, _)| asked.contains(step));
        waiting.flat_map(|(step, turn)| self.move_answer_files(step, turn)).collect()
    }

    /// Moves the answer files of a question aside, if there are any.
    pub(crate) fn move_answer_files(&self, step: &StepId, turn: Turn) -> Vec<EarlyAnswer> {
        let Some(AnswerFile::OneQuestion(path)) = self.machine().answer_file(step) else { return Vec::new() };
        let path = PathBuf::from(path);
        [taken_path(&path, turn), path]
            .into_iter()
            .filter_map(|path| {
                let aside = with_suffix(&path, format_args!("early-{turn}"));
                let moved_to = match fs::rename(&path, &aside) {
                    Ok(()) => Ok(aside),
                    Err(error) if error.kind() == io::ErrorKind::NotFound => return None,
                    Err(error) => Err(error),
                };
                Some(EarlyAnswer { run: self.run.clone(), step: step.clone(), turn, path, moved_to })
            })
            .collect()
    }
}

/// Returns the path of a file that was taken as the answer of a turn: `r1__ship#2.json`.
pub(crate) fn taken_path(path: &Path, turn: Turn) -> PathBuf {
    with_suffix(path, turn)
}

/// Appends to the name of an answer file. The id of a step cannot contain `#`, so that this is the answer file of no other step.
fn with_suffix(path: &Path, suffix: impl Display) -> PathBuf {
    let stem = path.file_stem().unwrap_or_default().to_string_lossy();
    path.with_file_name(format!("{stem}#{suffix}.json"))
}
