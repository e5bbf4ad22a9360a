//! Answer files: while a step waits, a file may answer it. The engine watches the file and commits the answer.
//!
//! A file that is written for one question gets the turn into its name before its answer is committed. So it answers once,
//! and an engine that is killed in between finds it again. A file that is there before its question is no answer: an agent
//! could approve its own work with it. The file of conditions is only read: several questions may wait for what it says.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Display;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use linux::DirWatch;
use protocol::entry::{Author, Evidence};
use protocol::run::{Change, Fact, TurnStatus};
use protocol::{Answer, AnswerFile, Revision, StepId, Turn};
use tokio::sync::mpsc;
use tokio::task::AbortHandle;

use super::{Engine, EngineError};
use crate::engine::Notice;
use crate::run::Journal;

/// A question of a step.
type QuestionId = (StepId, Turn);

/// The files that are watched, one for each question that has one.
#[derive(Debug)]
pub(super) struct AnswerFiles {
    watched: BTreeMap<QuestionId, WatchTask>,
    sender: mpsc::UnboundedSender<QuestionId>,
    written: mpsc::UnboundedReceiver<QuestionId>,
}

/// The task that waits for writes. Aborted when this value is dropped.
#[derive(Debug)]
struct WatchTask(AbortHandle);

impl Drop for WatchTask {
    fn drop(&mut self) {
        self.0.abort();
    }
}

impl AnswerFiles {
    pub(super) fn new() -> Self {
        let (sender, written) = mpsc::unbounded_channel();
        Self { watched: BTreeMap::new(), sender, written }
    }

    /// Waits until a watched file is written, and returns its question. Cancel-safe.
    pub(super) async fn written(&mut self) -> QuestionId {
        self.written.recv().await.expect("BUG: the sender lives as long as the receiver")
    }
}

impl Engine<'_> {
    /// Watches and reads the answer files of new questions, and no longer watches those of closed ones.
    pub(super) async fn watch_answer_files(&mut self) -> Result<(), EngineError> {
        if self.views.repo_missing() {
            return Ok(());
        }
        let open = open_questions(&self.journal);
        self.answer_files.watched.retain(|question, _| open.contains(question));
        for question in open {
            if self.answer_files.watched.contains_key(&question) {
                continue;
            }
            let Some(file) = self.journal.machine().answer_file(&question.0) else { continue };
            let watch = watch(&self.dir_watcher, &file).map_err(|error| error.to_string());
            let sender = self.answer_files.sender.clone();
            let id = question.clone();
            let watch_error = watch.as_ref().err().cloned();
            let task = tokio::spawn(async move {
                let Ok(watch) = watch else { return };
                while watch.written().await.is_ok() && sender.send(id.clone()).is_ok() {}
            });
            self.answer_files.watched.insert(question.clone(), WatchTask(task.abort_handle()));
            if let Some(reason) = watch_error {
                self.notice_no_answer(
                    &question,
                    &file,
                    &format!("its directory cannot be watched: {reason}"),
                );
            }
            self.read_answer_file(&question).await?;
        }
        Ok(())
    }

    /// Moves files aside that are there before the first engine of the run shows the questions that it begins with.
    pub(super) fn move_files_before_run(&mut self) {
        if self.journal.position.revision == Revision(1) {
            let questions = open_questions(&self.journal);
            questions.iter().for_each(|question| self.move_early_files(question));
        }
    }

    /// Moves files aside that are there before the questions of an entry are committed. Afterwards a program may have read a
    /// question, and written its answer.
    pub(super) fn move_files_before_commit(&mut self, changes: &[Change]) {
        let asked: BTreeSet<_> = changes
            .iter()
            .filter_map(|change| match change {
                Change::Waiting { step, .. } => Some(step),
                _ => None,
            })
            .collect();
        if asked.is_empty() {
            return;
        }
        let mut questions = open_questions(&self.journal);
        questions.retain(|(step, _)| asked.contains(step));
        questions.iter().for_each(|question| self.move_early_files(question));
    }

    fn move_early_files(&mut self, question: &QuestionId) {
        if self.views.repo_missing() {
            return;
        }
        let Some(AnswerFile::OneQuestion(path)) = self.journal.machine().answer_file(&question.0) else {
            return;
        };
        let path = Path::new(&path);
        for early in [path.to_owned(), taken_path(path, question.1)] {
            let aside = with_suffix(&early, "early");
            let reason = match fs::rename(&early, &aside) {
                Ok(()) => format!(
                    "it was written before the question was asked, and was moved to `{}`",
                    aside.display()
                ),
                Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
                Err(error) => format!(
                    "it was written before the question was asked, and cannot be moved aside: {error}"
                ),
            };
            self.notice_no_answer(question, &AnswerFile::OneQuestion(early.display().to_string()), &reason);
        }
    }

    /// Makes the directories for answers, before a view names them. What cannot be made is reported when it is watched.
    pub(super) fn make_answer_dirs(&self) {
        let machine = self.journal.machine();
        for (step, _) in self.journal.state.run.waiting_steps() {
            if let Some(AnswerFile::OneQuestion(path)) = machine.answer_file(step)
                && let Some(directory) = Path::new(&path).parent()
            {
                let _ = fs::create_dir_all(directory);
            }
        }
    }

    /// Reads the file of a question and commits its answer, if it has one.
    pub(super) async fn read_answer_file(&mut self, question: &QuestionId) -> Result<(), EngineError> {
        let (step, turn) = question;
        let active = self.journal.state.run.active_turns.get(step);
        let is_open =
            active.is_some_and(|active| active.turn == *turn && active.status == TurnStatus::Waiting);
        let Some(file) = self.journal.machine().answer_file(step).filter(|_| is_open) else { return Ok(()) };
        let answer = match self.find_answer(question, &file) {
            Ok(Some(answer)) => answer,
            Ok(None) => return Ok(()),
            Err(reason) => {
                self.notice_no_answer(question, &file, &reason);
                return Ok(());
            }
        };
        let verdict = match self.journal.machine().parse_answer(step, &answer) {
            Ok(verdict) => verdict,
            Err(reason) => {
                self.notice_no_answer(question, &file, &reason);
                return Ok(());
            }
        };
        let by = self.author_of(&file);
        let fact = Fact::Answered { step: step.clone(), turn: *turn, verdict };
        let evidence = Evidence { answer: Some(answer), ..Evidence::default() };
        self.absorb_from(by, fact, Some(evidence)).await
    }

    fn find_answer(&self, (step, turn): &QuestionId, file: &AnswerFile) -> Result<Option<Answer>, String> {
        let machine = self.journal.machine();
        let read = |path: &Path| match read(path)? {
            None => Ok(None),
            Some(text) => machine.parse_answer_file(step, &text),
        };
        let path = Path::new(file.path());
        match file {
            AnswerFile::Conditions(_) => read(path),
            AnswerFile::OneQuestion(_) => {
                let taken = taken_path(path, *turn);
                if let Some(answer) = read(&taken)? {
                    return Ok(Some(answer));
                }
                let Some(_) = read(path)? else { return Ok(None) };
                fs::rename(path, &taken).map_err(|error| format!("it cannot be moved aside: {error}"))?;
                read(&taken)
            }
        }
    }

    /// Returns the author of an answer in a file: the file itself, because its writer is not known. Returns `None` for
    /// a shared file of conditions: the engine finds that they hold.
    fn author_of(&self, file: &AnswerFile) -> Option<Author> {
        let path = match file {
            AnswerFile::OneQuestion(path) => Path::new(path),
            AnswerFile::Conditions(_) => return None,
        };
        let name = path.file_name().unwrap_or(path.as_os_str()).to_string_lossy();
        Some(Author::Person { name: format!("the file {name}"), host: self.engine_config.host().to_owned() })
    }

    fn notice_no_answer(&mut self, (step, turn): &QuestionId, file: &AnswerFile, reason: &str) {
        let path = PathBuf::from(file.path());
        self.observer.notice(Notice::InvalidAnswerFile { step, turn: *turn, path, reason });
    }
}

/// Watches a file. The directory for answers is made, so that it can be watched.
fn watch(watcher: &linux::DirWatcher, file: &AnswerFile) -> io::Result<DirWatch> {
    let path = Path::new(file.path());
    let directory = path.parent().unwrap_or(Path::new("/"));
    match file {
        AnswerFile::OneQuestion(_) => fs::create_dir_all(directory)?,
        AnswerFile::Conditions(_) => {}
    }
    watcher.watch(directory, &[path.to_owned()])
}

/// Reads a file; `None` if there is none.
fn read(path: &Path) -> Result<Option<String>, String> {
    match fs::read_to_string(path) {
        Ok(text) => Ok(Some(text)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(format!("it cannot be read: {error}")),
    }
}

/// Returns the path of a file that was taken as the answer of a turn: `r1__ship#2.json`.
fn taken_path(path: &Path, turn: Turn) -> PathBuf {
    with_suffix(path, turn)
}

/// Appends to the name of an answer file. The id of a step cannot contain `#`, so that this is the answer file of no other step.
fn with_suffix(path: &Path, suffix: impl Display) -> PathBuf {
    let stem = path.file_stem().unwrap_or_default().to_string_lossy();
    path.with_file_name(format!("{stem}#{suffix}.json"))
}

fn open_questions(journal: &Journal) -> Vec<QuestionId> {
    journal.state.run.waiting_steps().map(|(step, turn)| (step.clone(), turn)).collect()
}
