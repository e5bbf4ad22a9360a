//! What a person or program sees of a run while it is played.

mod drawn;
mod events;
pub(crate) mod lines;

use std::path::PathBuf;
use std::time::Duration;

use protocol::{AttemptId, Outcome, RunId, StepId};
use runner::{EngineExit, Notice, Observer, RunAt};
use store::Store;

use crate::control::restore;
use crate::failure::Code;
use crate::output::paste;
use crate::output::{self, BOLD, CYAN, YELLOW, styled};
use crate::present::run_status;
use crate::present::{Presentation, Shown, StatusKind};
use crate::query::hosts;
use crate::workspace::Workspace;

/// Follows an engine: drawn on a terminal, plain lines off it, or JSON events.
#[derive(Debug)]
pub(crate) struct Progress {
    run: RunId,
    repo: String,
    form: Form,
}

/// What is known of the engine of another process.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum EngineNews {
    AtWork {
        pid: u32,
        /// If it is not this one.
        host: Option<String>,
    },
    /// There is none, although the run is not finished.
    Missing,
    /// It was there, and has ended.
    Gone { pid: u32, host: Option<String> },
}

/// Who goes on with a run whose engine is gone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Heir {
    /// Whoever types it.
    Anybody,
    /// We have waited for it.
    Us,
}

#[derive(Debug)]
enum Form {
    Drawn(drawn::Drawn),
    Plain,
    Json,
}

impl Progress {
    pub(crate) fn new(workspace: &Workspace, run: &RunId, json: bool) -> Self {
        let form = if json {
            Form::Json
        } else if output::can_draw() {
            Form::Drawn(drawn::Drawn::new())
        } else {
            Form::Plain
        };
        Self { run: run.clone(), repo: workspace.repo.display().to_string(), form }
    }

    /// Tells people something; programs read events instead.
    fn say(&self, line: &str) {
        match &self.form {
            Form::Drawn(drawn) => drawn.say(&output::tame(&paste::completed(line))),
            Form::Plain => output::talk(line),
            Form::Json => {}
        }
    }

    /// Takes what is drawn off the terminal.
    pub(crate) fn clear(&mut self) {
        match &mut self.form {
            Form::Drawn(drawn) => drawn.clear(),
            Form::Plain | Form::Json => {}
        }
    }

    /// What the engine of another process does with the run, as far as we can see, and who goes on when it does no more.
    pub(crate) fn engine(&self, engine: &EngineNews, heir: Heir) {
        match self.form {
            Form::Json => output::json(&events::engine(&self.run, engine)),
            Form::Drawn(_) | Form::Plain => self.say(&lines::engine(&self.run, engine, heir)),
        }
    }

    /// The run as it was found by somebody who watches it.
    pub(crate) fn found<P: Presentation>(&self, run_at: &RunAt<P>) {
        let summary = run_at.summary();
        match self.form {
            Form::Json => output::json(&events::found(&self.run, &summary, run_at.revision)),
            Form::Drawn(_) | Form::Plain => {
                let (done, total) = (summary.progress.done, summary.progress.total);
                let (style, word) = run_status::word(summary.status);
                let run = styled(BOLD, &self.run);
                let word = styled(style, word);
                let (_, steps) = P::STEP;
                self.say(&format!("run {run} in {}: {word}, {done} of {total} {steps} done", self.repo));
            }
        }
    }

    /// An attempt that was at work before we looked, and its host if that is another one.
    pub(crate) fn at_work(
        &mut self,
        attempt: &AttemptId,
        length: Duration,
        host: Option<&str>,
        stdout: PathBuf,
    ) {
        let there = host.map(|host| format!(" on `{host}`")).unwrap_or_default();
        match &mut self.form {
            Form::Json => output::json(&events::at_work(&self.run, attempt, length, host)),
            Form::Plain => {
                let length = output::duration(length);
                self.say(&format!("{} {attempt} is at work{there} for {length}", styled(CYAN, "▸")));
            }
            Form::Drawn(drawn) => {
                if host.is_some() {
                    drawn.say(&format!("{} {attempt} is at work{there}", styled(CYAN, "▸")));
                }
                drawn.begin(attempt, length);
                drawn.output(attempt, stdout);
            }
        }
    }

    /// An attempt that is not ours to do anything about.
    fn remote(&self, attempt: &AttemptId, host: &str) {
        match self.form {
            Form::Json => output::json(&events::remote(&self.run, attempt, host)),
            Form::Drawn(_) | Form::Plain => {
                self.say(&format!("{} {attempt} is on `{host}` and left to it", styled(YELLOW, "⇢")));
            }
        }
    }

    /// The summary at the end: what the run came to, how long it took, and what to type next.
    pub(crate) fn conclude<P: Presentation>(
        &mut self,
        store: &impl Store,
        run_at: &RunAt<P>,
        rest: EngineExit,
    ) {
        let (summary, document) = (run_at.summary(), &run_at.document);
        let remote = hosts::remote(store, &run_at.state);
        if matches!(self.form, Form::Json) {
            let mut result = P::result_fields(document);
            if rest == EngineExit::Remote {
                result.insert("elsewhere".to_owned(), serde_json::json!(remote));
            }
            output::json(&events::rest(&self.run, &summary, rest, result));
            return;
        }
        let (style, word) = lines::rest(rest);
        // The run's time, not ours: an engine before us may have played most of it.
        let took = run_at.state.at.since(P::created_at(document));
        output::talk("");
        output::data(format_args!(
            "{} run `{}`: {} of {} {} done, {}",
            styled(style, word),
            self.run,
            summary.progress.done,
            summary.progress.total,
            P::STEP.1,
            output::duration(took),
        ));
        let mut steps = shown_steps(run_at);
        let lacking = steps.iter().filter_map(|(_, shown)| shown.error.as_deref()).any(lacks_program);
        steps.retain(|(_, shown)| shown.kind != StatusKind::Succeeded);
        let (wide, width) = widths(&steps);
        for (name, shown) in &steps {
            let status = status(shown, wide);
            match &shown.error {
                Some(error) => {
                    let error = output::harmless(error);
                    output::data(format_args!("  {status} {name:<width$}  {error}"));
                }
                None => output::data(format_args!("  {status} {name}")),
            }
        }
        P::result(document).iter().for_each(output::data);
        if lacking {
            output::note(format_args!(
                "[{}] `callboard doctor` lists the agents it finds; `callboard retry {}` tries again",
                Code::NoProgram,
                self.run
            ));
        } else if matches!(rest, EngineExit::Finished(Outcome::Incomplete | Outcome::Failed)) {
            output::note(P::after_failure(&self.run, document));
        }
        if matches!(rest, EngineExit::Stopped(_) | EngineExit::Abandoned) {
            output::note(format_args!("`callboard resume {}` goes on with it", self.run));
        }
        if rest == EngineExit::Remote {
            for (host, attempts) in &remote {
                output::note(hosts::advice(&self.run, host, attempts));
            }
        }
    }
}

/// Whether a step failed because its program could not be started. The document keeps its errors as text.
fn lacks_program(error: &str) -> bool {
    error.contains("could not be started: program `")
}

/// All steps of a run by their names, and how they stand.
pub(crate) fn shown_steps<P: Presentation>(run_at: &RunAt<P>) -> Vec<(StepId, Shown)> {
    let steps = P::steps(&run_at.spec.definition).into_iter();
    steps.map(|step| (P::step_id(&step), P::shown(&run_at.document, &step))).collect()
}

/// How wide their statuses and their names are.
pub(crate) fn widths(steps: &[(StepId, Shown)]) -> (usize, usize) {
    let status = steps.iter().map(|(_, shown)| shown.status.len()).max().unwrap_or(0);
    let name = steps.iter().map(|(name, _)| name.as_str().len()).max().unwrap_or(0);
    (status, name)
}

/// A step's status in its colour.
pub(crate) fn status(shown: &Shown, width: usize) -> String {
    let width = width.max(STATUS_WIDTH);
    styled(shown.kind.style(), format_args!("{:<width$}", shown.status))
}

/// As wide as the status of most steps at most times.
const STATUS_WIDTH: usize = 9;

impl<P: Presentation> Observer<P> for Progress {
    fn notice(&mut self, notice: Notice<'_, P>) {
        match notice {
            Notice::Committed { revision, entry } => match &mut self.form {
                Form::Json => {
                    for event in events::of(&self.run, revision, entry) {
                        output::json(&event);
                    }
                }
                Form::Drawn(_) | Form::Plain => {
                    for line in lines::of(entry) {
                        self.say(&line);
                    }
                    if let Form::Drawn(drawn) = &mut self.form {
                        drawn.follow(entry);
                    }
                }
            },
            Notice::Started { adopted, open } => {
                self.say(&format!("run {} in {}", styled(BOLD, &self.run), self.repo));
                for attempt in adopted {
                    self.say(&format!("{} {attempt} was found at work and adopted", styled(CYAN, "↻")));
                }
                for attempt in open {
                    self.say(&format!("{} {attempt} was under way and is taken up", styled(CYAN, "↻")));
                }
                if let Form::Drawn(drawn) = &mut self.form {
                    adopted.iter().chain(open).for_each(|attempt| drawn.begin(attempt, Duration::ZERO));
                }
            }
            Notice::Remote { attempts } => {
                for (attempt, host) in attempts {
                    self.remote(attempt, host);
                }
            }
            Notice::Output { attempt, stdout } => {
                if let Form::Drawn(drawn) = &mut self.form {
                    drawn.output(attempt, stdout);
                }
            }
            Notice::Restored(restored) => self.say(&restore::told(restored)),
            Notice::ExternalWrite(resolved) => self.say(&format!("{} {resolved}", styled(YELLOW, "!"))),
            Notice::Lingering { attempt, grace } => self.say(&format!(
                "{} {attempt} has reported and did not exit for {}; it is being ended",
                styled(YELLOW, "!"),
                output::duration(grace)
            )),
            Notice::ViewQuarantined { view, moved_to } => self.say(&format!(
                "{} [{}] {} was changed by somebody else; it is kept as {} and written anew",
                styled(YELLOW, "!"),
                Code::ViewSetAside,
                view.display(),
                moved_to.display()
            )),
            Notice::ViewFailed { view, error } => {
                self.say(&format!("{} cannot write {}: {error}", styled(YELLOW, "!"), view.display()));
            }
        }
    }
}
