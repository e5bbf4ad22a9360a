//! Shows the progress of a run.

mod control_echo;
mod events;
pub(crate) mod lines;
mod live;

use std::path::PathBuf;
use std::time::Duration;

use protocol::present::{StatusKind, StepSummary};
use protocol::{AttemptId, Outcome, RunId, StepId};
use runner::{EngineExit, Notice, Observer, RunAtRevision};
use store::AnyStore;

use crate::control::restore;
use crate::failure::Code;
use crate::output::{self, BOLD, CYAN, YELLOW, location_flags, styled};
use crate::present::run_status::{self, EnginePresence};
use crate::present::{self, step_table};
use crate::query::hosts;
use crate::query::inbox::InboxItem;
use crate::workspace::Workspace;

/// Shows progress as a live display on a terminal, as plain lines, or as JSON events.
#[derive(Debug)]
pub(crate) struct Progress {
    run: RunId,
    repo: String,
    format: Format,
    /// Why git refused to fast-forward the base branch.
    not_merged: Option<String>,
}

/// A change of the run's engine, as a command in another process sees it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum EngineChange {
    Running {
        pid: u32,
        /// Its host, if it is not this one.
        host: Option<String>,
    },
    /// The run is unfinished and has no engine.
    Missing,
    /// The engine was seen before and no longer holds the run.
    Gone { pid: u32, host: Option<String> },
}

/// What a watching command does when the engine is gone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum WatchMode {
    /// It only watches.
    Observe,
    /// It becomes the engine.
    TakeOver,
}

#[derive(Debug)]
enum Format {
    Live(live::LiveDisplay),
    Plain,
    Json,
}

impl Progress {
    pub(crate) fn new(workspace: &Workspace, run: &RunId, json: bool) -> Self {
        let format = if json {
            Format::Json
        } else if output::can_draw() {
            Format::Live(live::LiveDisplay::new())
        } else {
            Format::Plain
        };
        Self { run: run.clone(), repo: workspace.repo.display().to_string(), format, not_merged: None }
    }

    /// Prints a line, unless the output is JSON.
    fn print(&self, line: &str) {
        match &self.format {
            Format::Live(live) => live.print(&output::sanitize(&location_flags::add_to(line))),
            Format::Plain => output::message(line),
            Format::Json => {}
        }
    }

    /// Removes the live display.
    pub(crate) fn clear(&mut self) {
        match &mut self.format {
            Format::Live(live) => live.clear(),
            Format::Plain | Format::Json => {}
        }
    }

    /// Shows a change of the run's engine.
    pub(crate) fn show_engine(&self, engine: &EngineChange, mode: WatchMode) {
        match self.format {
            Format::Json => output::json(&events::engine(&self.run, engine)),
            Format::Live(_) | Format::Plain => self.print(&lines::engine(&self.run, engine, mode)),
        }
    }

    /// Shows the state of the run when the command began to watch it.
    pub(crate) fn show_snapshot(&self, run_at: &RunAtRevision) {
        let summary = run_at.summary();
        match self.format {
            Format::Json => output::json(&events::snapshot(&self.run, &summary, run_at.revision)),
            Format::Live(_) | Format::Plain => {
                let (done, total) = (summary.progress.done, summary.progress.total);
                let (style, word) = run_status::label_with_engine(&summary, EnginePresence::NotChecked);
                let run = styled(BOLD, &self.run);
                let word = styled(style, word);
                let (_, steps) = run_at.kind().info().step_nouns;
                self.print(&format!("run {run} in {}: {word}, {done} of {total} {steps} done", self.repo));
            }
        }
    }

    /// Shows an attempt that was running before the command began to watch.
    pub(crate) fn show_running(
        &mut self,
        attempt: &AttemptId,
        elapsed: Duration,
        host: Option<&str>,
        stdout: PathBuf,
    ) {
        let on_host = host.map(|host| format!(" on `{host}`")).unwrap_or_default();
        match &mut self.format {
            Format::Json => output::json(&events::running(&self.run, attempt, elapsed, host)),
            Format::Plain => {
                let elapsed = output::duration(elapsed);
                self.print(&format!("{} {attempt} running{on_host} for {elapsed}", styled(CYAN, "▸")));
            }
            Format::Live(live) => {
                if host.is_some() {
                    live.print(&format!("{} {attempt} running{on_host}", styled(CYAN, "▸")));
                }
                live.add(attempt, elapsed);
                live.show_output(attempt, stdout);
            }
        }
    }

    /// Shows what a person is asked, and what to type.
    fn show_question(&self, item: &InboxItem) {
        match self.format {
            Format::Json => output::json(&events::question(item)),
            Format::Live(_) | Format::Plain => {
                self.print(&format!("{} {}", styled(YELLOW, "?"), item.question.trim_end()));
                item.commands.iter().for_each(|command| self.print(&format!("    `{command}`")));
            }
        }
    }

    /// Shows an attempt on another host, which this engine leaves alone.
    fn show_remote(&self, attempt: &AttemptId, host: &str) {
        match self.format {
            Format::Json => output::json(&events::remote(&self.run, attempt, host)),
            Format::Live(_) | Format::Plain => {
                self.print(&format!("{} {attempt} stays on `{host}`", styled(YELLOW, "⇢")));
            }
        }
    }

    /// Prints the result of the run, its duration, the steps that did not succeed, and the next command.
    pub(crate) fn show_result(&mut self, store: &AnyStore, run_at: &RunAtRevision, exit: EngineExit) {
        let (summary, machine) = (run_at.summary(), run_at.machine());
        let remote = hosts::remote(store, &run_at.state);
        if matches!(self.format, Format::Json) {
            let mut fields = machine.result_fields();
            if let Some(why) = &self.not_merged {
                fields.insert("not_merged".to_owned(), why.as_str().into());
            }
            if exit == EngineExit::Remote {
                fields.insert("remote".to_owned(), serde_json::json!(remote));
            }
            output::json(&events::result(&self.run, &summary, exit, fields));
            return;
        }
        let (style, word) = lines::outcome(exit);
        // The time of the run, not of this process: earlier engines may have run most of it.
        let took = run_at.state.at.since(machine.created_at());
        output::message("");
        output::data(format_args!(
            "run `{}` {}: {} of {} {} done, {}",
            self.run,
            styled(style, word),
            summary.progress.done,
            summary.progress.total,
            machine.kind().info().step_nouns.1,
            output::duration(took),
        ));
        let mut steps = step_summaries(run_at);
        let is_program_missing =
            steps.iter().filter_map(|(_, step)| step.error.as_deref()).any(is_missing_program);
        let has_not_succeeded = |step: &StepSummary| step.kind != StatusKind::Succeeded;
        if let Some(step_table) =
            machine.step_table().filter(|_| steps.iter().any(|(_, step)| has_not_succeeded(step)))
        {
            for line in step_table::lines(&step_table, &steps, Some(run_at.state.at)) {
                output::data(format_args!("  {line}"));
            }
            steps.retain(|(name, step)| !step_table::has(&step_table, name) || step.error.is_some());
        }
        steps.retain(|(_, step)| has_not_succeeded(step));
        let (status_width, width) = widths(&steps);
        for (name, step) in &steps {
            let status = status(step, status_width);
            match &step.error {
                Some(error) => {
                    let error = output::single_line(error);
                    output::data(format_args!("  {status} {name:<width$}  {error}"));
                }
                None => output::data(format_args!("  {status} {name}")),
            }
        }
        machine.result().iter().for_each(|line| output::data(present::line(line)));
        self.not_merged.iter().for_each(|why| output::data(present::attention(why)));
        if matches!(exit, EngineExit::Finished(Outcome::Incomplete | Outcome::Failed)) {
            if is_program_missing {
                output::note(format_args!(
                    "[{}] run `callboard doctor` to list the installed agents",
                    Code::NoProgram
                ));
            }
            output::note(machine.failure_hint(&self.run));
        }
        if matches!(exit, EngineExit::Stopped(_) | EngineExit::AttemptsLeftAlive) {
            output::note(format_args!("run `callboard resume {}` to continue", self.run));
        }
        if exit == EngineExit::Waiting {
            output::note(format_args!(
                "run `callboard inbox` to see what it waits for; after the answer, run `callboard resume {}`",
                self.run
            ));
        }
        if exit == EngineExit::Remote {
            for (host, attempts) in &remote {
                output::note(hosts::advice(&self.run, host, attempts));
            }
        }
    }
}

/// Whether the program of a step was missing. The document has errors only as text.
fn is_missing_program(error: &str) -> bool {
    error.contains("could not be started: program `")
}

/// Returns the names and summaries of all steps.
pub(crate) fn step_summaries(run_at: &RunAtRevision) -> Vec<(StepId, StepSummary)> {
    let machine = run_at.machine();
    machine.steps().into_iter().map(|step| (step.clone(), machine.step_summary(&step))).collect()
}

/// Returns the widths of the status column and the name column.
pub(crate) fn widths(steps: &[(StepId, StepSummary)]) -> (usize, usize) {
    let status = steps.iter().map(|(_, step)| step.status.len()).max().unwrap_or(0);
    let name = steps.iter().map(|(name, _)| name.as_str().len()).max().unwrap_or(0);
    (status, name)
}

/// Formats the status of a step in its colour.
pub(crate) fn status(step: &StepSummary, width: usize) -> String {
    let width = width.max(MIN_STATUS_WIDTH);
    styled(present::style(step.kind.tone()), format_args!("{:<width$}", step.status))
}

/// The width of `COMPLETED`, so that columns rarely move.
const MIN_STATUS_WIDTH: usize = 9;

impl Observer for Progress {
    fn notice(&mut self, notice: Notice<'_>) {
        if let Notice::Committed { entry, .. } = &notice
            && let Some(why) = runner::fast_forward_refusal(entry)
        {
            self.not_merged = Some(why.to_owned());
        }
        match notice {
            Notice::Committed { machine, revision, entry } => match &mut self.format {
                Format::Json => {
                    for event in events::of(machine.kind(), &self.run, revision, entry) {
                        output::json(&event);
                    }
                }
                Format::Live(_) | Format::Plain => {
                    for line in lines::of(machine.kind(), entry) {
                        self.print(&line);
                    }
                    for sentence in
                        entry.input.evidence().into_iter().flat_map(|evidence| &evidence.refused_edits)
                    {
                        self.print(&format!("{} {}", styled(YELLOW, "!"), output::single_line(sentence)));
                    }
                    if let Format::Live(live) = &mut self.format {
                        live.apply(entry);
                        live.show_step_table(machine);
                    }
                }
            },
            Notice::Started { adopted, without_shim } => {
                self.print(&format!("run {} in {}", styled(BOLD, &self.run), self.repo));
                for attempt in adopted {
                    self.print(&format!("{} {attempt} is still running: adopted", styled(CYAN, "↻")));
                }
                for attempt in without_shim {
                    self.print(&format!("{} {attempt} was in progress: continuing", styled(CYAN, "↻")));
                }
                if let Format::Live(live) = &mut self.format {
                    adopted.iter().chain(without_shim).for_each(|attempt| live.add(attempt, Duration::ZERO));
                }
            }
            Notice::Question { spec, machine, step, turn } => {
                self.show_question(&InboxItem::question(spec, machine, step, turn));
            }
            Notice::InvalidAnswerFile { step, turn, path, reason } => {
                let question = format!("{}/{step}#{turn}", self.run);
                match &self.format {
                    Format::Json => output::json(&events::no_answer(&self.run, &question, &path, reason)),
                    Format::Live(_) | Format::Plain => self.print(&format!(
                        "{} {} does not answer {question}: {reason}",
                        styled(YELLOW, "!"),
                        path.display()
                    )),
                }
            }
            Notice::Remote { attempts } => {
                for (attempt, host) in attempts {
                    self.show_remote(attempt, host);
                }
            }
            Notice::StartingOrAdopting { attempt, stdout } => {
                if let Format::Live(live) = &mut self.format {
                    live.show_output(attempt, stdout);
                }
            }
            Notice::Restored(restored) => self.print(&restore::restored_line(restored)),
            Notice::ExternalWrite(resolved) => self.print(&format!("{} {resolved}", styled(YELLOW, "!"))),
            Notice::Lingering { attempt, linger_timeout } => self.print(&format!(
                "{} {attempt} has reported but not exited for {}: stopping it",
                styled(YELLOW, "!"),
                output::duration(linger_timeout)
            )),
            Notice::ViewQuarantined { view, moved_to } => self.print(&format!(
                "{} [{}] another program changed {}: moved it to {} and wrote the view again",
                styled(YELLOW, "!"),
                Code::ViewSetAside,
                view.display(),
                moved_to.display()
            )),
            Notice::ViewFailed { view, error } => {
                self.print(&format!("{} cannot write {}: {error}", styled(YELLOW, "!"), view.display()));
            }
        }
    }
}
