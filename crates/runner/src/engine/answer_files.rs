//! Answer files: while a step waits, a file may answer it. The engine watches the file and commits the answer.
//!
//! Before an answer is committed, its file is renamed to a name with the turn. So it answers once, and an engine that is killed
//! between the two finds it again. The file of conditions is only read: several questions may wait for what it says. Files that
//! are there before their question are moved aside (`run/journal/early_answers.rs`).

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io;
use std::path::Path;

use linux::DirWatch;
use protocol::entry::{Author, Evidence};
use protocol::run::{Change, Fact, TurnStatus};
use protocol::{Answer, AnswerFile, StepId, Turn};
use tokio::sync::mpsc;
use tokio::task::AbortHandle;

use super::{Engine, EngineError, Notice};
use crate::run::{Journal, taken_path};

/// A question of a step.
type QuestionId = (StepId, Turn);

/// The files that are watched, one for each question that has one.
#[derive(Debug)]
pub(super) struct AnswerFiles {
    /// Without a task if its directory cannot be watched.
    watched: BTreeMap<QuestionId, Option<WatchTask>>,
    /// The questions whose early files were moved aside when they were committed: those of this engine, and those that were open
    /// when it began. Another host that asks a question does not see the files here.
    known: BTreeSet<QuestionId>,
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
    /// Of the run that an engine has just loaded.
    pub(super) fn new(journal: &Journal) -> Self {
        let (sender, written) = mpsc::unbounded_channel();
        let known = open_questions(journal).into_iter().collect();
        Self { watched: BTreeMap::new(), known, sender, written }
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
            if self.answer_files.known.insert(question.clone()) {
                let early = self.journal.move_answer_files(&question.0, question.1);
                self.journal.early_answers.extend(early);
                self.notice_early_answers(&[]);
            }
            let task = match watch(&self.dir_watcher, &file) {
                Ok(watch) => {
                    let (sender, id) = (self.answer_files.sender.clone(), question.clone());
                    let task = tokio::spawn(async move {
                        while watch.written().await.is_ok() && sender.send(id.clone()).is_ok() {}
                    });
                    Some(WatchTask(task.abort_handle()))
                }
                Err(error) => {
                    let reason =
                        format!("changes of it are not noticed, its directory cannot be watched: {error}");
                    self.notice_no_answer(&question, Path::new(file.path()), &reason);
                    None
                }
            };
            self.answer_files.watched.insert(question.clone(), task);
            self.read_answer_file(&question).await?;
        }
        Ok(())
    }

    /// Reports the files that the commit of these changes has moved aside. Those of its questions are not moved again.
    pub(super) fn notice_early_answers(&mut self, changes: &[Change]) {
        let run = &self.journal.state.run;
        let asked = changes.iter().filter_map(|change| match change {
            Change::Waiting { step, .. } => Some((step.clone(), run.active_turns.get(step)?.turn)),
            _ => None,
        });
        self.answer_files.known.extend(asked);
        for early in std::mem::take(&mut self.journal.early_answers) {
            self.notice_no_answer(&(early.step.clone(), early.turn), &early.path, &early.reason());
        }
    }

    /// Makes the directories for answers, before a view names them. A failure is reported later, when the directory is watched.
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
        let read = self.find_answer(question, &file).and_then(|found| {
            let Some(answer) = found else { return Ok(None) };
            let verdict = self.journal.machine().parse_answer(step, &answer)?;
            Ok(Some((answer, verdict)))
        });
        let (answer, verdict) = match read {
            Ok(Some(read)) => read,
            Ok(None) => return Ok(()),
            Err(reason) => {
                self.notice_no_answer(question, Path::new(file.path()), &reason);
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
                let earlier = read(&taken);
                // A taken file that is no answer, because its writer had not finished, does not hide the next version.
                if matches!(earlier, Ok(Some(_))) || read(path)?.is_none() {
                    return earlier;
                }
                fs::rename(path, &taken).map_err(|error| format!("it cannot be moved aside: {error}"))?;
                read(&taken)
            }
        }
    }

    /// Returns the author of an answer in a file: the file itself, because its writer is not known. Returns `None` for the file
    /// of conditions: the author is the engine, which has found that they hold.
    fn author_of(&self, file: &AnswerFile) -> Option<Author> {
        let path = match file {
            AnswerFile::OneQuestion(path) => Path::new(path),
            AnswerFile::Conditions(_) => return None,
        };
        let name = path.file_name().unwrap_or(path.as_os_str()).to_string_lossy();
        Some(Author::Person { name: format!("the file {name}"), host: self.engine_config.host().to_owned() })
    }

    fn notice_no_answer(&mut self, (step, turn): &QuestionId, path: &Path, reason: &str) {
        let path = path.to_owned();
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

fn open_questions(journal: &Journal) -> Vec<QuestionId> {
    journal.state.run.waiting_steps().map(|(step, turn)| (step.clone(), turn)).collect()
}
