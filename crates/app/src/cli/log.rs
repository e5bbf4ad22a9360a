//! `callboard log RUN`.

use protocol::entry::{Author, Entry, Input};
use protocol::run::{Change, Request, Run};
use protocol::steps::Steps;
use protocol::{Revision, SeatName};
use store::{Store as _, StoredEntry};
use supervisor::AttemptDir;

use super::block_on;
use crate::config::Flags;
use crate::failure::{Exit, Failure};
use crate::here::{Here, Place};
use crate::progress::lines;
use crate::render::{self, BOLD, DIM, styled};

/// Show the journal of a run: every entry with when, who and what
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  callboard log f8c1a491
  callboard log f8c1a491 --json | jq 'select(.entry.input.fact)'")]
pub(super) struct Arguments {
    /// The run, or a beginning of its name
    run: String,

    /// Print one JSON object per entry, as it is stored
    #[arg(long)]
    json: bool,

    #[command(flatten)]
    place: Place,
}

pub(super) fn run(arguments: Arguments) -> Result<Exit, Failure> {
    let here = Here::find(&arguments.place, Flags::default())?;
    let (run, entries) = block_on(async {
        let store = here.store_with(&arguments.run)?;
        let run = here.resolve(&store, &arguments.run).await?;
        let entries = store.entries(&run, Revision(0)).await?;
        Ok((run, entries))
    })?;
    for stored in &entries {
        if arguments.json {
            let entry: serde_json::Value = serde_json::from_str(&stored.body)
                .map_err(|error| Failure::from_error(Exit::Store, &error))?;
            render::json(&serde_json::json!({ "revision": stored.revision, "entry": entry }));
            continue;
        }
        show(&here, &run, stored)?;
    }
    Ok(Exit::Delivered)
}

fn show(here: &Here, run: &protocol::RunId, stored: &StoredEntry) -> Result<(), Failure> {
    let entry: Entry<Steps> = Entry::decode(&stored.body).map_err(|error| {
        Failure::from_error(Exit::Store, &error)
            .while_doing(format_args!("cannot read entry {} of run `{run}`", stored.revision))
    })?;
    let who = match &entry.by {
        Author::Engine { host, pid, .. } => format!("engine {pid} on {host}"),
        Author::Person { name, host } => format!("{name} on {host}"),
    };
    render::data(format_args!(
        "{} {}  {}  {}",
        styled(BOLD, format_args!("{:>4}", stored.revision)),
        styled(DIM, entry.at),
        what(&entry.input),
        styled(DIM, who)
    ));
    for line in lines::of(&entry) {
        render::data(format_args!("       {line}"));
    }
    for change in &entry.changes {
        if let Change::Began { attempt, .. } = change {
            let dir = AttemptDir::new(&here.location.attempts_dir(), run, &Run::<Steps>::id(attempt));
            render::data(format_args!("       {}", styled(DIM, dir.path().display())));
        }
    }
    Ok(())
}

fn what(input: &Input<Steps>) -> String {
    match input {
        Input::Opened { .. } => "opened".to_owned(),
        Input::Request { request, reason } => {
            let reason = reason.as_deref().map(|reason| format!(": {reason}")).unwrap_or_default();
            format!("{}{reason}", wish(request))
        }
        Input::Refused { request, attempt } => {
            format!("{} was refused: it came from inside {attempt}", wish(request))
        }
        Input::Due => "what was due is done".to_owned(),
        Input::Fact { fact, .. } => match fact {
            protocol::run::Fact::Over { attempt, .. } => format!("{attempt} is over"),
            protocol::run::Fact::Rested { attempt } => format!("{attempt} has rested"),
        },
    }
}

fn wish(request: &Request<SeatName>) -> String {
    match request {
        Request::Pause => "pause".to_owned(),
        Request::Resume => "resume".to_owned(),
        Request::Stop => "stop".to_owned(),
        Request::Interrupt => "interrupt".to_owned(),
        Request::Retry { seat: None } => "retry".to_owned(),
        Request::Retry { seat: Some(seat) } => format!("retry {seat}"),
        Request::Skip { seat } => format!("skip {seat}"),
    }
}
