//! `callboard report`, for agents.

mod straggler;

use std::io::{IsTerminal as _, Read as _};
use std::path::PathBuf;

use protocol::peer::output::OUTPUT;
use protocol::peer::{CycleId, Phase, check_report};
use protocol::report::{Expected, SCHEMA, parse};
use protocol::{AttemptId, RunId};
use serde_json::{Map, Value, json};
use supervisor::AttemptDir;
use supervisor::partial::{PartialError, submit_partial};
use supervisor::report::{SubmitError, submit};

use super::block_on;
use crate::failure::{Exit, Failure};
use crate::output;

/// EditAuthor in the report of the attempt this is called from
///
/// Give the report as JSON with --file or on standard input, or let the flags make one. It is checked at once; a later
/// one replaces it as long as the attempt lives.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  callboard report --status COMPLETED --log 'added the login page' --artifact src/login.rs
  callboard report --status COMPLETED --output output.json   # a phase of a cycle hands in an output
  callboard report --file report.json
  make-report | callboard report
  echo '{\"current_step\": 3}' | callboard report --partial")]
pub(super) struct Arguments {
    /// A complete report as JSON; `-` is standard input
    #[arg(long, value_name = "FILE", conflicts_with_all = ["status", "log", "artifact", "metric", "output"])]
    file: Option<PathBuf>,

    /// What there is of the output so far, as a JSON object from --file or standard input; the engine enters the newest
    /// once per second
    #[arg(long, conflicts_with_all = ["status", "log", "artifact", "metric", "output"])]
    partial: bool,

    /// COMPLETED or FAILED
    #[arg(long)]
    status: Option<String>,

    /// A sentence about what was done (repeatable)
    #[arg(long, value_name = "TEXT", requires = "status")]
    log: Vec<String>,

    /// A file that was made or changed, relative to the repository (repeatable)
    #[arg(long, value_name = "PATH", requires = "status")]
    artifact: Vec<String>,

    /// A figure (repeatable)
    #[arg(long, value_name = "NAME=VALUE", requires = "status")]
    metric: Vec<String>,

    /// What a phase of a cycle has produced, as a JSON object in this file; `-` is standard input
    #[arg(long, value_name = "FILE", requires = "status")]
    output: Option<PathBuf>,
}

pub(super) fn run(arguments: Arguments) -> Result<Exit, Failure> {
    let attempt = Attempt::of_this_process()?;
    let bytes = match (&arguments.file, &arguments.status) {
        (Some(file), _) => read(file)?,
        (None, Some(status)) => compose(&arguments, status, &attempt.expected)?,
        (None, None) if std::io::stdin().is_terminal() => {
            return Err(Failure::usage("there is no report")
                .hint("give `--status COMPLETED`, or `--file FILE`, or pipe the report in"));
        }
        (None, None) => read("-".as_ref())?,
    };
    if arguments.partial {
        return hand_in_part(&attempt, &bytes);
    }
    attempt.check_output(&bytes)?;
    submit(&attempt.dir, &attempt.expected, &bytes).map_err(|error| {
        let exit = match error {
            SubmitError::TooLarge { .. } | SubmitError::Unfit(_) => Exit::Usage,
            SubmitError::Write { .. } => Exit::Store,
        };
        Failure::from_error(exit, &error)
    })?;
    attempt.refuse_if_given_up()?;
    output::message(format_args!("the report of `{}` is accepted", attempt.id));
    Ok(Exit::Success)
}

fn hand_in_part(attempt: &Attempt, bytes: &[u8]) -> Result<Exit, Failure> {
    // Told to every attempt whose document has room for it.
    if std::env::var_os("CALLBOARD_STATE_KEY").is_none() {
        let what = format!("the document of run `{}` has no room for parts", attempt.expected.run_id);
        return Err(Failure::new(Exit::Refused, what)
            .hint("hand in the whole report at the end: `callboard report --status COMPLETED`"));
    }
    submit_partial(&attempt.dir, bytes).map_err(|error| {
        let exit = match error {
            PartialError::TooLarge { .. } | PartialError::NotAnObject(_) => Exit::Usage,
            PartialError::Write { .. } => Exit::Store,
        };
        Failure::from_error(exit, &error)
    })?;
    attempt.refuse_if_given_up()?;
    output::message(format_args!("a part of the output of `{}` is accepted", attempt.id));
    Ok(Exit::Success)
}

/// The attempt we are called from, as its environment tells.
struct Attempt {
    id: AttemptId,
    store: PathBuf,
    dir: AttemptDir,
    expected: Expected,
}

impl Attempt {
    fn of_this_process() -> Result<Self, Failure> {
        let variable = |name: &str| {
            std::env::var(name).map_err(|_| {
                Failure::new(
                    Exit::Refused,
                    format!("this is not called from inside an attempt: `{name}` is not set"),
                )
                .hint("`callboard report` is for agents that callboard has started")
            })
        };
        let run: RunId = parsed("CALLBOARD_RUN", &variable("CALLBOARD_RUN")?)?;
        let id: AttemptId = parsed("CALLBOARD_ATTEMPT", &variable("CALLBOARD_ATTEMPT")?)?;
        let store = PathBuf::from(variable("CALLBOARD_STORE")?);
        let agent = variable("AGENT_ID")?;
        let dir = AttemptDir::new(&store.join("attempts"), &run, &id);
        if !dir.claim().exists() {
            return Err(Failure::new(
                Exit::Refused,
                format!("attempt `{id}` of run `{run}` is not under way"),
            ));
        }
        if dir.exit().exists() {
            return Err(Failure::new(Exit::Refused, format!("attempt `{id}` of run `{run}` is over")));
        }
        let expected = Expected { run_id: run, step_id: id.step.clone(), agent };
        Ok(Self { id, store, dir, expected })
    }

    /// What it has handed in is kept as evidence; asked for afterwards, so that one who is given up in between is told.
    fn refuse_if_given_up(&self) -> Result<(), Failure> {
        let run = &self.expected.run_id;
        let is_straggler = block_on(async { Ok(straggler::is_one(&self.store, run, &self.id).await) })?;
        if !is_straggler {
            return Ok(());
        }
        let what = format!(
            "attempt `{}` of run `{run}` is not at work any more: somebody gave up its host",
            self.id
        );
        Err(Failure::new(Exit::Refused, what)
            .hint("what was handed in is kept and counts for nothing; end here"))
    }

    /// In a cycle, refuses what its phase cannot be completed with: later it would cost an attempt, now it can be mended.
    /// Reports that are unfit anywhere are left to [`submit`].
    fn check_output(&self, bytes: &[u8]) -> Result<(), Failure> {
        let cycle = std::env::var("CALLBOARD_STATE_ID").ok().and_then(|id| id.parse::<CycleId>().ok());
        let phase = Phase::ALL.into_iter().find(|phase| phase.as_str() == self.expected.step_id.as_str());
        let (Some(_), Some(phase), Ok(report)) = (cycle, phase, parse(bytes, &self.expected)) else {
            return Ok(());
        };
        check_report(phase, &report).map_err(|why| {
            let hint = if report.others.contains_key(OUTPUT) {
                "mend it and hand it in again; the attempt goes on"
            } else {
                "the output is the field `output` of the report, or `--output FILE` beside `--status COMPLETED`"
            };
            Failure::usage(format!("the report cannot be accepted: {why}")).hint(hint)
        })
    }
}

fn parsed<T: std::str::FromStr<Err: std::error::Error + 'static>>(
    name: &str,
    text: &str,
) -> Result<T, Failure> {
    text.parse().map_err(|error: T::Err| {
        Failure::new(Exit::Refused, format!("`{name}` does not name an attempt's part: `{text}`"))
            .because(Some(&error))
    })
}

fn read(file: &std::path::Path) -> Result<Vec<u8>, Failure> {
    let bytes = if file.as_os_str() == "-" {
        let mut bytes = Vec::new();
        std::io::stdin().read_to_end(&mut bytes).map(|_| bytes)
    } else {
        std::fs::read(file)
    };
    bytes.map_err(|error| Failure::usage(format!("cannot read `{}`", file.display())).because(Some(&error)))
}

/// Makes a report from the flags.
fn compose(arguments: &Arguments, status: &str, expected: &Expected) -> Result<Vec<u8>, Failure> {
    let mut metrics = Map::new();
    for metric in &arguments.metric {
        let (name, value) = metric.split_once('=').ok_or_else(|| {
            Failure::usage(format!("`--metric {metric}` has no value")).hint("write it as NAME=VALUE")
        })?;
        metrics.insert(name.to_owned(), Value::from(value));
    }
    let now = jiff::Timestamp::now().to_string();
    let mut report = json!({
        "schema": SCHEMA,
        "run_id": expected.run_id,
        "step_id": expected.step_id,
        "agent": expected.agent,
        "status": status,
        "started_at": now,
        "ended_at": now,
        "artifacts": arguments.artifact,
        "metrics": metrics,
        "logs": arguments.log,
    });
    if let Some(file) = &arguments.output {
        report[OUTPUT] = serde_json::from_slice(&read(file)?).map_err(|error| {
            Failure::usage(format!("the output in `{}` is not JSON", file.display())).because(Some(&error))
        })?;
    }
    Ok(report.to_string().into_bytes())
}
