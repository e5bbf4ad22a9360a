//! `callboard log RUN`.

use std::collections::BTreeMap;

use protocol::entry::Entry;
use protocol::report::Expected;
use protocol::run::{Change, Run};
use protocol::{AttemptId, Revision, StepId};
use runner::{RunAt, for_each_entry};
use serde_json::json;
use store::{Store as _, StoredEntry};

use super::block_on;
use crate::engine::progress::lines;
use crate::failure::{Exit, Failure};
use crate::output::{self, BOLD, DIM, styled};
use crate::present::{self, Deed, Presentation};
use crate::query::attempt_io::{AttemptFiles, AttemptIo, FileText, Response};
use crate::query::{RunHandle, entry_text, step_filter};
use crate::workspace::LocationArgs;

/// Show the journal of a run: every entry with when, who, what and why
///
/// With --full also what each attempt was given and gave back: its prompt, its answer (the accepted report and where it
/// came from, or the last lines it wrote), and the decision taken on it.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  callboard log f8c1a491
  callboard log f8c1a491 --full --step review | less -R
  callboard log f8c1a491 --last 20 --follow
  callboard log f8c1a491 --json | jq 'select(.entry.input.fact)'")]
pub(super) struct Arguments {
    /// The run: its name, a beginning of it, or the id of its cycle
    run: String,

    /// Show prompt, answer and decision of each attempt
    #[arg(long)]
    full: bool,

    /// Only what concerns this step: the name of a step, or of a status of a cycle
    #[arg(long)]
    step: Option<String>,

    /// Begin at this revision
    #[arg(long, value_name = "REV")]
    since: Option<u64>,

    /// Only the last N entries
    #[arg(long, short = 'n', value_name = "N", conflicts_with = "since")]
    last: Option<u64>,

    /// Go on with what is still to come, until the run rests
    #[arg(long, short)]
    follow: bool,

    /// Print one JSON object per entry, as it is stored
    #[arg(long)]
    json: bool,

    #[command(flatten)]
    place: LocationArgs,
}

pub(super) fn run(arguments: Arguments) -> Result<Exit, Failure> {
    block_on(async {
        let handle = RunHandle::of(&arguments.place, &arguments.run).await?;
        let newest = handle.newest().await?;
        let after = match (arguments.since, arguments.last) {
            (Some(since), _) => Revision(handle.in_range(since, newest)?.0 - 1),
            (None, Some(last)) => Revision(newest.0.saturating_sub(last)),
            (None, None) => Revision(0),
        };
        if arguments.as_stored() && !arguments.follow {
            // Nobody has to understand it, so the run may be of any protocol, known or not.
            for_each_entry(&handle.store, &handle.run, after, newest, |stored| tell_as_stored(&stored))
                .await?;
            return Ok(Exit::Success);
        }
        handle.with(Telling { handle: &handle, arguments: &arguments, after, newest }).await
    })
}

impl Arguments {
    /// Whether each entry is printed as it is.
    fn as_stored(&self) -> bool {
        self.json && self.step.is_none() && !self.full
    }
}

/// Prints an entry as it is stored, whatever version wrote it.
fn tell_as_stored(stored: &StoredEntry) -> Result<(), Failure> {
    let entry: serde_json::Value =
        serde_json::from_str(&stored.body).map_err(|error| Failure::from_error(Exit::Store, &error))?;
    output::json(&json!({ "revision": stored.revision, "entry": entry }));
    Ok(())
}

struct Telling<'a> {
    handle: &'a RunHandle,
    arguments: &'a Arguments,
    after: Revision,
    newest: Revision,
}

impl Deed for Telling<'_> {
    type Done = Exit;

    async fn with<P: Presentation>(self) -> Result<Exit, Failure> {
        let Self { handle, arguments, after, newest } = self;
        let mut log = Log::<P>::new(handle, arguments).await?;
        for_each_entry(&handle.store, &handle.run, after, newest, |stored| log.tell(&stored)).await?;
        if arguments.follow {
            let mut watch = handle.store.watch(&handle.run, newest).await?;
            loop {
                let run_at = handle.run_at::<P>(None).await?;
                if run_at.rest().is_some() && run_at.revision <= watch.after() {
                    break;
                }
                for stored in watch.next().await? {
                    log.tell(&stored)?;
                }
            }
        }
        log.tell_of_those_at_work();
        Ok(Exit::Success)
    }
}

/// What is printed of a journal.
struct Log<'a, P: Presentation> {
    handle: &'a RunHandle,
    json: bool,
    step: Option<P::Step>,
    /// For what passed between the engine and an attempt, if that is to be shown.
    full: Option<RunAt<P>>,
    /// Attempts that have begun and are not over yet.
    at_work: BTreeMap<AttemptId, AttemptIo>,
    /// Where attempts were begun, if there is more than one place, and if what they were given is to be shown.
    hosts: BTreeMap<AttemptId, String>,
}

impl<'a, P: Presentation> Log<'a, P> {
    async fn new(handle: &'a RunHandle, arguments: &Arguments) -> Result<Self, Failure> {
        let run_at = match (arguments.full, &arguments.step) {
            (false, None) => None,
            (true, _) | (_, Some(_)) => Some(handle.run_at::<P>(None).await?),
        };
        let step = match (&run_at, &arguments.step) {
            (Some(run_at), Some(step)) => Some(handle.step(run_at, step)?),
            (_, None) | (None, _) => None,
        };
        let full = run_at.filter(|_| arguments.full);
        let hosts = match &full {
            Some(run_at) if handle.store.is_shared() => {
                let begun = handle.history(run_at).await?.attempts.into_iter();
                begun.map(|attempted| (attempted.id, attempted.host)).collect()
            }
            Some(_) | None => BTreeMap::new(),
        };
        Ok(Self { handle, json: arguments.json, step, full, at_work: BTreeMap::new(), hosts })
    }

    fn tell(&mut self, stored: &StoredEntry) -> Result<(), Failure> {
        if self.json && self.step.is_none() && self.full.is_none() {
            return tell_as_stored(stored);
        }
        let entry: Entry<P> = Entry::decode(&stored.body).map_err(|error| {
            Failure::from_error(Exit::Store, &error).while_doing(format_args!(
                "cannot read entry {} of run `{}`",
                stored.revision, self.handle.run
            ))
        })?;
        if self.step.as_ref().is_some_and(|step| !step_filter::concerns_step(&entry, step)) {
            return Ok(());
        }
        let exchange = self.exchange(&entry);
        if self.json {
            let mut line = json!({ "revision": stored.revision, "entry": entry });
            if let Some(exchange) = exchange {
                line["exchange"] = json!(exchange);
            }
            output::json(&line);
        } else {
            self.print(stored.revision, &entry, exchange.as_ref());
        }
        Ok(())
    }

    fn print(&self, revision: Revision, entry: &Entry<P>, exchange: Option<&AttemptIo>) {
        output::data(format_args!(
            "{} {}  {}  {}",
            styled(BOLD, format_args!("{revision:>4}")),
            styled(DIM, entry.at),
            entry_text::input(&entry.input),
            styled(DIM, entry_text::author(&entry.by))
        ));
        if let Some(exchange) = exchange {
            print_exchange(exchange);
            output::data("     decision:");
        }
        for line in entry_text::verdict(entry).into_iter().chain(lines::of(entry)) {
            output::data(format_args!("       {line}"));
        }
        for line in entry_text::statuses(entry) {
            output::data(format_args!("       {line}"));
        }
        for attempt in began(entry) {
            let place = match self.handle.host_of_files(&attempt, entry.by.host()) {
                Some(host) => format!("its files are on `{host}`"),
                None => self.handle.dir(&attempt).path().display().to_string(),
            };
            output::data(format_args!("       {}", styled(DIM, place)));
        }
    }

    /// What passed between the engine and the attempt that the entry says is over.
    fn exchange(&mut self, entry: &Entry<P>) -> Option<AttemptIo> {
        let definition = &self.full.as_ref()?.spec.definition;
        if self.handle.store.is_shared() {
            // Of those that begin while we follow the run, nobody knew before.
            self.hosts.extend(began(entry).map(|attempt| (attempt, entry.by.host().to_owned())));
        }
        let agent = |name: &StepId| {
            let step = present::find_step::<P>(definition, name);
            step.map_or_else(String::new, |step| P::agent(definition, &step))
        };
        let read = |attempt: &AttemptId, report| {
            let host = self.hosts.get(attempt).and_then(|host| self.handle.host_of_files(attempt, host));
            if let Some(host) = host {
                return AttemptIo::remote(host, attempt, report);
            }
            let expected = Expected {
                run_id: self.handle.run.clone(),
                step_id: attempt.step.clone(),
                agent: agent(&attempt.step),
            };
            AttemptIo::read(&self.handle.dir(attempt), attempt, &expected, report)
        };
        let step = self.step.as_ref().map(P::step_id);
        let wanted = |attempt: &AttemptId| step.as_ref().is_none_or(|step| *step == attempt.step);
        let begun: Vec<_> =
            began(entry).filter(wanted).map(|attempt| (attempt.clone(), read(&attempt, None))).collect();
        let over = entry.changes.iter().find_map(|change| match change {
            Change::Ended { attempt, .. } => Some(Run::<P>::id(attempt)).filter(wanted),
            _ => None,
        });
        let report = entry.input.evidence().and_then(|evidence| evidence.report.as_ref());
        let exchange = over.as_ref().map(|attempt| read(attempt, report));
        self.at_work.extend(begun);
        over.and_then(|attempt| self.at_work.remove(&attempt));
        exchange
    }

    /// Attempts that nothing has been decided on yet.
    fn tell_of_those_at_work(&self) {
        for exchange in self.at_work.values() {
            if self.json {
                output::json(&json!({ "exchange": exchange }));
                continue;
            }
            output::data(format_args!("{} is not over", styled(BOLD, &exchange.attempt)));
            print_exchange(exchange);
        }
    }
}

fn began<P: Presentation>(entry: &Entry<P>) -> impl Iterator<Item = AttemptId> {
    entry.changes.iter().filter_map(|change| match change {
        Change::Started { attempt, .. } => Some(Run::<P>::id(attempt)),
        _ => None,
    })
}

fn print_exchange(exchange: &AttemptIo) {
    let AttemptIo { attempt, files, prompt, response } = exchange;
    let place = |file: &str| match files {
        AttemptFiles::Directory(directory) => directory.join(file).display().to_string(),
        AttemptFiles::Host(host) => format!("on `{host}`"),
    };
    output::data(format_args!("     prompt of {attempt}: {}", styled(DIM, place("prompt.md"))));
    prompt.iter().for_each(print_text);
    match response {
        Response::Report { from, report } => {
            output::data(format_args!("     answer of {attempt}, from {from}:"));
            let text = serde_json::to_string_pretty(report).expect("BUG: a report is plain data");
            print_lines(text.lines());
        }
        Response::Output { stdout, stderr, rejected } => {
            output::data(format_args!("     answer of {attempt}: no report was accepted"));
            if let Some(rejected) = rejected {
                output::data(format_args!("     refused: {}", rejected.reason));
                print_text(&rejected.report);
            }
            for (name, lines) in [("stdout", stdout), ("stderr", stderr)] {
                if !lines.is_empty() {
                    let log = place(&format!("{name}.log"));
                    output::data(format_args!("     the end of {}:", styled(DIM, log)));
                    print_lines(lines.iter().map(String::as_str));
                }
            }
            if stdout.is_empty() && stderr.is_empty() {
                output::data("     it wrote nothing");
            }
        }
        Response::Gone => output::data(format_args!("     answer of {attempt}: its directory is gone")),
        Response::Remote => output::data(format_args!("     answer of {attempt}: {}", place("stdout.log"))),
    }
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
        FileText::Unreadable(why) => output::data(format_args!("       it cannot be read: {why}")),
    }
}

fn print_lines<'l>(lines: impl Iterator<Item = &'l str>) {
    lines.for_each(|line| {
        output::data(format_args!("       {} {}", styled(DIM, "│"), output::single_line(line)));
    });
}
