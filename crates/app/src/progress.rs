//! What a person or program sees of a run while it is played.

mod drawn;
mod events;
pub(crate) mod lines;

use std::path::PathBuf;
use std::time::Duration;

use protocol::steps::{Document, Status, Steps};
use protocol::{AttemptId, Outcome, Revision, RunId};
use runner::{Notice, Observer, Rest, Summary};

use crate::failure::Code;
use crate::here::Here;
use crate::phase;
use crate::render::{self, BOLD, CYAN, DIM, GREEN, RED, YELLOW, styled};

/// Follows an engine: drawn on a terminal, plain lines off it, or JSON events.
#[derive(Debug)]
pub(crate) struct Progress {
    run: RunId,
    repo: String,
    face: Face,
}

/// What is known of the engine of another process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum EngineNews {
    AtWork {
        pid: u32,
    },
    /// There is none, although the run is not finished.
    Missing,
    /// It was there, and has ended.
    Gone {
        pid: u32,
    },
}

#[derive(Debug)]
enum Face {
    Drawn(drawn::Drawn),
    Plain,
    Json,
}

impl Progress {
    pub(crate) fn new(here: &Here, run: &RunId, json: bool) -> Self {
        let face = if json {
            Face::Json
        } else if render::can_draw() {
            Face::Drawn(drawn::Drawn::new())
        } else {
            Face::Plain
        };
        Self { run: run.clone(), repo: here.repo.display().to_string(), face }
    }

    /// Tells people something; programs read events instead.
    fn say(&self, line: &str) {
        match &self.face {
            Face::Drawn(drawn) => drawn.say(&render::tame(line)),
            Face::Plain => render::talk(line),
            Face::Json => {}
        }
    }

    /// Takes what is drawn off the terminal.
    pub(crate) fn clear(&mut self) {
        match &mut self.face {
            Face::Drawn(drawn) => drawn.clear(),
            Face::Plain | Face::Json => {}
        }
    }

    /// What the engine of another process does with the run, as far as we can see.
    pub(crate) fn engine(&self, engine: EngineNews) {
        match self.face {
            Face::Json => render::json(&events::engine(&self.run, engine)),
            Face::Drawn(_) | Face::Plain => self.say(&lines::engine(&self.run, engine)),
        }
    }

    /// The run as it was found by somebody who watches it.
    pub(crate) fn found(&self, summary: &Summary, revision: Revision) {
        match self.face {
            Face::Json => render::json(&events::found(&self.run, summary, revision)),
            Face::Drawn(_) | Face::Plain => {
                let (done, total) = (summary.progress.done, summary.progress.total);
                let (style, word) = phase::word(summary.phase);
                let run = styled(BOLD, &self.run);
                let word = styled(style, word);
                self.say(&format!("run {run} in {}: {word}, {done} of {total} steps done", self.repo));
            }
        }
    }

    /// An attempt that was at work before we looked.
    pub(crate) fn at_work(&mut self, attempt: &AttemptId, length: Duration, stdout: PathBuf) {
        match &mut self.face {
            Face::Json => render::json(&events::at_work(&self.run, attempt, length)),
            Face::Plain => {
                let length = render::duration(length);
                self.say(&format!("{} {attempt} is at work for {length}", styled(CYAN, "▸")));
            }
            Face::Drawn(drawn) => {
                drawn.begin(attempt, length);
                drawn.output(attempt, stdout);
            }
        }
    }

    /// The summary at the end: what the run came to, how long it took, and what to type next.
    pub(crate) fn conclude(&mut self, summary: &Summary, document: &Document, rest: Rest, took: Duration) {
        if matches!(self.face, Face::Json) {
            render::json(&events::rest(&self.run, summary, rest));
            return;
        }
        let (style, word) = lines::rest(rest);
        render::talk("");
        render::data(format_args!(
            "{} run `{}`: {} of {} steps done, {}",
            styled(style, word),
            self.run,
            summary.progress.done,
            summary.progress.total,
            render::duration(took),
        ));
        let undone = || document.steps.iter().filter(|(_, step)| step.status != Status::Completed);
        let width = undone().map(|(id, _)| id.len()).max().unwrap_or(0);
        for (id, step) in undone() {
            let status = status(step.status);
            match &step.last_error {
                Some(error) => {
                    let error = render::harmless(error);
                    render::data(format_args!("  {status} {id:<width$}  {error}"));
                }
                None => render::data(format_args!("  {status} {id}")),
            }
        }
        let mut errors = document.steps.values().filter_map(|step| step.last_error.as_deref());
        if errors.any(lacks_program) {
            render::note(format_args!(
                "[{}] `callboard doctor` lists the agents it finds; `callboard retry {}` tries again",
                Code::NoProgram,
                self.run
            ));
        } else if rest == Rest::Finished(Outcome::Undelivered) {
            render::note(lines::after_failure(&self.run));
        }
        if matches!(rest, Rest::Halted(_) | Rest::Abandoned) {
            render::note(format_args!("`callboard resume {}` goes on with it", self.run));
        }
    }
}

/// Whether a step failed because its program could not be started. The document keeps its errors as text.
fn lacks_program(error: &str) -> bool {
    error.contains("could not be started: program `")
}

/// A step's status in its colour.
pub(crate) fn status(status: Status) -> String {
    let style = match status {
        Status::Pending | Status::Skipped => DIM,
        Status::Running => CYAN,
        Status::WaitingOnHuman => YELLOW,
        Status::Completed => GREEN,
        Status::Failed => RED,
    };
    styled(style, format_args!("{:<9}", status.as_str()))
}

impl Observer<Steps> for Progress {
    fn notice(&mut self, notice: Notice<'_, Steps>) {
        match notice {
            Notice::Committed { revision, entry } => match &mut self.face {
                Face::Json => {
                    for event in events::of(&self.run, revision, entry) {
                        render::json(&event);
                    }
                }
                Face::Drawn(_) | Face::Plain => {
                    for line in lines::of(entry) {
                        self.say(&line);
                    }
                    if let Face::Drawn(drawn) = &mut self.face {
                        drawn.follow(entry);
                    }
                }
            },
            Notice::Leads { adopted, open } => {
                self.say(&format!("run {} in {}", styled(BOLD, &self.run), self.repo));
                for attempt in adopted {
                    self.say(&format!("{} {attempt} was found at work and adopted", styled(CYAN, "↻")));
                }
                for attempt in open {
                    self.say(&format!("{} {attempt} was under way and is taken up", styled(CYAN, "↻")));
                }
                if let Face::Drawn(drawn) = &mut self.face {
                    adopted.iter().chain(open).for_each(|attempt| drawn.begin(attempt, Duration::ZERO));
                }
            }
            Notice::Output { attempt, stdout } => {
                if let Face::Drawn(drawn) = &mut self.face {
                    drawn.output(attempt, stdout);
                }
            }
            Notice::Lingers { attempt, grace } => self.say(&format!(
                "{} {attempt} has reported and did not exit for {}; it is being ended",
                styled(YELLOW, "!"),
                render::duration(grace)
            )),
            Notice::SetAside { view, kept } => self.say(&format!(
                "{} [{}] {} was changed by somebody else; it is kept as {} and written anew",
                styled(YELLOW, "!"),
                Code::ViewSetAside,
                view.display(),
                kept.display()
            )),
            Notice::ViewFailed { view, error } => {
                self.say(&format!("{} cannot write {}: {error}", styled(YELLOW, "!"), view.display()));
            }
        }
    }
}
