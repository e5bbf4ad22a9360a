//! `callboard log RUN`.

use std::collections::{BTreeMap, VecDeque};

use protocol::entry::Entry;
use protocol::report::{Report, ReportIdentity};
use protocol::run::Change;
use protocol::{AttemptId, ProtocolKind, Revision, StepId, StepKind};
use runner::{RunAtRevision, for_each_entry};
use serde_json::json;
use store::StoredEntry;

use super::block_on;
use crate::engine::progress::lines;
use crate::failure::{Exit, Failure};
use crate::output::{self, BOLD, DIM, YELLOW, styled};
use crate::present::wording;
use crate::query::attempts::files::{AttemptFiles, AttemptIo, AttemptReport, FileText};
use crate::query::{RunHandle, entry_text, step_filter};
use crate::workspace::LocationArgs;

/// Show the journal of a run: time, author, input and decision of every entry
///
/// With --full, also shows for each attempt the prompt, the report with its source, and what was decided. If no report was
/// accepted, the last lines of the output are shown instead.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  callboard log f8c1a491
  callboard log f8c1a491 --full --step review | less -R
  callboard log f8c1a491 --last 20 --follow
  callboard log f8c1a491 --json | jq 'select(.entry.input.fact)'")]
pub(super) struct Arguments {
    /// The run: its name, a unique prefix of it, or the id of a peer cycle
    run: String,

    /// Show the prompt, the report and the decision of each attempt
    #[arg(long)]
    full: bool,

    /// Only entries about this step or this phase of a peer cycle
    #[arg(long)]
    step: Option<String>,

    /// Start at this revision
    #[arg(long, value_name = "REV")]
    since: Option<u64>,

    /// Only the last N entries, with --step those of the step
    #[arg(long, short = 'n', value_name = "N", conflicts_with = "since")]
    last: Option<u64>,

    /// Wait for new entries until the run ends or stops
    #[arg(long, short)]
    follow: bool,

    /// Print one JSON object per line: each entry as it is stored; --full adds attempts
    #[arg(long)]
    json: bool,

    #[command(flatten)]
    location: LocationArgs,
}

pub(super) fn run(arguments: Arguments) -> Result<Exit, Failure> {
    block_on(async {
        let handle = RunHandle::of(&arguments.location, &arguments.run).await?;
        let newest = handle.newest().await?;
        let after = match (arguments.since, arguments.last) {
            (Some(since), _) => Revision(handle.checked_revision(since, newest)?.0 - 1),
            (None, Some(last)) if arguments.step.is_none() => Revision(newest.0.saturating_sub(last)),
            (None, _) => Revision(0),
        };
        if arguments.prints_as_stored() && !arguments.follow {
            // Entries are not decoded, so the protocol may be unknown to this version.
            for_each_entry(handle.store.as_ref(), &handle.run, after, newest, |stored| {
                print_as_stored(&stored)
            })
            .await?;
            return Ok(Exit::Success);
        }
        let mut log = Log::new(&handle, &arguments).await?;
        match arguments.last.filter(|_| arguments.step.is_some()) {
            // The last entries of a step are known only after all entries are read.
            Some(count) => {
                let mut last = VecDeque::new();
                for_each_entry(handle.store.as_ref(), &handle.run, after, newest, |stored| {
                    last.extend(log.decode_if_selected(&stored)?.map(|entry| (stored.revision, entry)));
                    if last.len() as u64 > count {
                        last.pop_front();
                    }
                    Ok::<_, Failure>(())
                })
                .await?;
                last.iter().for_each(|(revision, entry)| log.print_entry(*revision, entry));
            }
            None => {
                for_each_entry(handle.store.as_ref(), &handle.run, after, newest, |stored| {
                    log.print_stored(&stored)
                })
                .await?;
            }
        }
        if arguments.follow {
            let mut watch = handle.store.watch(&handle.run, newest).await?;
            let mut entries = Vec::new();
            loop {
                let run_at = handle.run_at(None).await?;
                let has_ended = run_at.engine_exit().is_some() && run_at.revision <= watch.after();
                // The entries may be about steps that the run has created meanwhile.
                if let Some(newest) = &mut log.run_at {
                    *newest = run_at;
                }
                for stored in &entries {
                    log.print_stored(stored)?;
                }
                if has_ended {
                    break;
                }
                entries = watch.next().await?;
            }
        }
        log.print_running_attempts();
        Ok(Exit::Success)
    })
}

impl Arguments {
    /// Returns whether entries are printed as they are stored.
    fn prints_as_stored(&self) -> bool {
        self.json && self.step.is_none() && !self.full
    }
}

/// Prints an entry as it is stored, without decoding it.
fn print_as_stored(stored: &StoredEntry) -> Result<(), Failure> {
    let entry: serde_json::Value =
        serde_json::from_str(&stored.body).map_err(|error| Failure::from_error(Exit::Store, &error))?;
    output::json(&json!({ "revision": stored.revision, "entry": entry }));
    Ok(())
}

/// Prints the entries of a journal.
struct Log<'a> {
    handle: &'a RunHandle,
    kind: &'static dyn ProtocolKind,
    json: bool,
    step: Option<StepId>,
    /// The newest state of the run, with --full.
    run_at: Option<RunAtRevision>,
    /// Attempts that have started and not ended, with --full. They may have started before the first entry that is shown.
    running: BTreeMap<AttemptId, StepKind>,
    /// The host of each attempt, with --full on a shared store.
    hosts: BTreeMap<AttemptId, String>,
}

impl<'a> Log<'a> {
    async fn new(handle: &'a RunHandle, arguments: &Arguments) -> Result<Self, Failure> {
        let kind = handle.kind().await?;
        let run_at = match (arguments.full, &arguments.step) {
            (false, None) => None,
            (true, _) | (_, Some(_)) => Some(handle.run_at(None).await?),
        };
        let step = match (&run_at, &arguments.step) {
            (Some(run_at), Some(step)) => Some(handle.step(run_at, step)?),
            (_, None) | (None, _) => None,
        };
        let run_at = run_at.filter(|_| arguments.full);
        let (mut running, mut hosts) = (BTreeMap::new(), BTreeMap::new());
        if let Some(run_at) = &run_at {
            for record in handle.history(run_at).await?.attempts {
                if record.end.is_none() && step.as_ref().is_none_or(|step| *step == record.id.step) {
                    running.insert(record.id.clone(), record.kind);
                }
                if handle.store.is_shared() {
                    hosts.insert(record.id, record.host);
                }
            }
        }
        Ok(Self { handle, kind, json: arguments.json, step, run_at, running, hosts })
    }

    fn print_stored(&mut self, stored: &StoredEntry) -> Result<(), Failure> {
        if self.json && self.step.is_none() && self.run_at.is_none() {
            return print_as_stored(stored);
        }
        if let Some(entry) = self.decode_if_selected(stored)? {
            self.print_entry(stored.revision, &entry);
        }
        Ok(())
    }

    /// Decodes the entry. Returns `None` if it is not about the step of `--step`.
    fn decode_if_selected(&self, stored: &StoredEntry) -> Result<Option<Entry>, Failure> {
        let entry = Entry::decode(&stored.body).map_err(|error| {
            Failure::from_error(Exit::Store, &error)
                .context(format_args!("cannot parse entry {} of run `{}`", stored.revision, self.handle.run))
        })?;
        let is_selected =
            self.step.as_ref().is_none_or(|step| step_filter::concerns_step(self.kind, &entry, step));
        Ok(is_selected.then_some(entry))
    }

    fn print_entry(&mut self, revision: Revision, entry: &Entry) {
        let ended = self.track_attempts(entry);
        if self.json {
            let mut line = json!({ "revision": revision, "entry": entry });
            if let Some(ended) = ended {
                line["attempt"] = json!(ended);
            }
            output::json(&line);
        } else {
            self.print_as_text(revision, entry, ended.as_ref());
        }
    }

    fn print_as_text(&self, revision: Revision, entry: &Entry, ended: Option<&AttemptIo>) {
        output::data(format_args!(
            "{} {}  {}  {}",
            styled(BOLD, format_args!("{revision:>4}")),
            styled(DIM, entry.at),
            entry_text::input(self.kind, entry),
            styled(DIM, entry_text::author(&entry.by))
        ));
        if let Some(ended) = ended {
            self.print_attempt(ended);
            output::data("     decision:");
        }
        let verdict = entry_text::verdict(self.kind, entry);
        for line in verdict.into_iter().chain(lines::of(self.kind, entry)) {
            output::data(format_args!("       {line}"));
        }
        let refused = entry.input.evidence().map_or(&[][..], |evidence| &evidence.refused_edits);
        for sentence in refused {
            output::data(format_args!(
                "       {} refused: {}",
                styled(YELLOW, "!"),
                output::single_line(sentence)
            ));
        }
        for line in entry_text::statuses(entry) {
            output::data(format_args!("       {line}"));
        }
        for (attempt, step_kind) in started(entry) {
            if step_kind == StepKind::Effect {
                continue;
            }
            let files = match self.handle.host_of_files(&attempt, entry.by.host()) {
                Some(host) => format!("its files are on `{host}`"),
                None => self.handle.dir(&attempt).path().display().to_string(),
            };
            output::data(format_args!("       {}", styled(DIM, files)));
        }
    }

    /// Records the attempts that the entry starts. Returns the prompt and the report of the one that it ends.
    fn track_attempts(&mut self, entry: &Entry) -> Option<AttemptIo> {
        self.run_at.as_ref()?;
        if self.handle.store.is_shared() {
            // The history has no attempts that start while the log is followed.
            self.hosts.extend(started(entry).map(|(attempt, _)| (attempt, entry.by.host().to_owned())));
        }
        let is_selected = |attempt: &AttemptId| self.step.as_ref().is_none_or(|step| *step == attempt.step);
        self.running.extend(started(entry).filter(|(attempt, _)| is_selected(attempt)));
        let (attempt, step_kind) = wording::ended(entry).filter(|(attempt, _)| is_selected(attempt))?;
        self.running.remove(attempt);
        let report = entry.input.evidence().and_then(|evidence| evidence.report.as_ref());
        self.read_attempt(attempt, step_kind, report)
    }

    /// Reads the files of an attempt, with --full. `report` is the accepted report from the journal.
    fn read_attempt(
        &self,
        attempt: &AttemptId,
        step_kind: StepKind,
        report: Option<&Report>,
    ) -> Option<AttemptIo> {
        let machine = self.run_at.as_ref()?.machine();
        let host = self.hosts.get(attempt).and_then(|host| self.handle.host_of_files(attempt, host));
        if let Some(host) = host {
            return Some(AttemptIo::remote(host, (attempt, step_kind), report));
        }
        let step = &attempt.step;
        let expected = ReportIdentity {
            run_id: self.handle.run.clone(),
            step_id: step.clone(),
            agent: if machine.has_step(step) { machine.agent(step) } else { String::new() },
        };
        Some(AttemptIo::read(&self.handle.dir(attempt), (attempt, step_kind), &expected, report))
    }

    /// Prints the attempts that have not ended.
    fn print_running_attempts(&self) {
        let running = self.running.iter();
        for attempt in running.filter_map(|(attempt, kind)| self.read_attempt(attempt, *kind, None)) {
            if self.json {
                output::json(&json!({ "attempt": attempt }));
                continue;
            }
            let name = wording::attempt(self.kind, &attempt.id, attempt.kind);
            output::data(format_args!("{} is still running", styled(BOLD, name)));
            self.print_attempt(&attempt);
        }
    }

    fn print_attempt(&self, attempt: &AttemptIo) {
        let AttemptIo { id, kind, files, prompt, report } = attempt;
        let name = wording::attempt(self.kind, id, *kind);
        let location = |file: &str| match files {
            AttemptFiles::Directory(directory) => directory.join(file).display().to_string(),
            AttemptFiles::Host(host) => format!("on `{host}`"),
        };
        if kind.is_agent() {
            output::data(format_args!("     prompt of {id}: {}", styled(DIM, location("prompt.md"))));
        }
        prompt.iter().for_each(print_text);
        match report {
            AttemptReport::Accepted { from, report } => {
                output::data(format_args!("     report of {name}, from {from}:"));
                let text = serde_json::to_string_pretty(report).expect("BUG: a report is plain data");
                print_lines(text.lines());
            }
            AttemptReport::Missing { stdout, stderr, rejected } => {
                output::data(format_args!("     report of {name}: none was accepted"));
                if let Some(rejected) = rejected {
                    output::data(format_args!("     refused: {}", output::single_line(&rejected.reason)));
                    rejected.report.iter().for_each(print_text);
                }
                for (name, lines) in [("stdout", stdout), ("stderr", stderr)] {
                    if !lines.is_empty() {
                        let log = location(&format!("{name}.log"));
                        output::data(format_args!("     the end of {}:", styled(DIM, log)));
                        print_lines(lines.iter().map(String::as_str));
                    }
                }
                if stdout.is_empty() && stderr.is_empty() {
                    output::data("     no output");
                }
            }
            AttemptReport::Gone => {
                output::data(format_args!("     report of {name}: its directory is gone"));
            }
            // The engine did the work itself.
            AttemptReport::None => output::data(format_args!("     report of {name}: none")),
            AttemptReport::Remote => {
                output::data(format_args!("     report of {name}: {}", location("stdout.log")));
            }
        }
    }
}

/// The attempts that an entry starts, and the kind of their steps.
fn started(entry: &Entry) -> impl Iterator<Item = (AttemptId, StepKind)> {
    entry.changes.iter().filter_map(|change| match change {
        Change::Started { attempt, kind, .. } => Some((attempt.clone(), *kind)),
        _ => None,
    })
}

fn print_text(text: &FileText) {
    match text {
        FileText::Read { text, left_out } => {
            print_lines(text.lines());
            if *left_out > 0 {
                output::data(format_args!("       … {left_out} more bytes"));
            }
        }
        FileText::Missing => output::data("       the file is missing"),
        FileText::Unreadable(why) => output::data(format_args!("       cannot be read: {why}")),
    }
}

fn print_lines<'l>(lines: impl Iterator<Item = &'l str>) {
    lines.for_each(|line| {
        output::data(format_args!("       {} {}", styled(DIM, "│"), output::single_line(line)));
    });
}
