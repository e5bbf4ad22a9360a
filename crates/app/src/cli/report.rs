//! `callboard report`, for agents.

mod abandoned;

use std::io::{IsTerminal as _, Read as _};
use std::path::PathBuf;

use protocol::peer::output::OUTPUT;
use protocol::report::{ReportIdentity, SCHEMA};
use protocol::{AttemptId, RunId};
use serde_json::{Map, Value, json};
use supervisor::AttemptDir;
use supervisor::partial::{PartialError, submit_partial};
use supervisor::report::{SubmitError, merge_with, submit};

use super::block_on;
use crate::failure::{Exit, Failure};
use crate::output;

/// Hand in the report of the current attempt
///
/// Give the report as JSON with --file or on standard input, or give its parts as flags. The report is checked at once. A
/// later report of the attempt replaces what it states and keeps the rest.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  callboard report --status COMPLETED --log 'added the login page' --artifact src/login.rs
  callboard report --status COMPLETED --output output.json   # for a phase of a cycle
  callboard report --gate-failure 'two tests fail'           # for a gate: send the work back
  callboard report --file report.json
  make-report | callboard report
  echo '{\"current_step\": 3}' | callboard report --partial")]
#[command(group = clap::ArgGroup::new("result").args(["status", "gate_failure"]).multiple(true))]
pub(super) struct Arguments {
    /// A complete report as JSON; `-` is standard input
    #[arg(long, value_name = "FILE", conflicts_with_all = ["status", "log", "artifact", "metric", "output", "gate_failure"])]
    file: Option<PathBuf>,

    /// Hand in a partial output, a JSON object from --file or standard input; the engine records the newest one
    /// once per second
    #[arg(long, conflicts_with_all = ["status", "log", "artifact", "metric", "output", "gate_failure"])]
    partial: bool,

    /// The result: COMPLETED or FAILED
    #[arg(long)]
    status: Option<String>,

    /// Fails the gate for this reason and sends the work back; COMPLETED is implied
    #[arg(long, value_name = "WHY")]
    gate_failure: Option<String>,

    /// A sentence about the work (repeatable)
    #[arg(long, value_name = "TEXT", requires = "result")]
    log: Vec<String>,

    /// A new or changed file, relative to the repository (repeatable)
    #[arg(long, value_name = "PATH", requires = "result")]
    artifact: Vec<String>,

    /// A measurement (repeatable)
    #[arg(long, value_name = "NAME=VALUE", requires = "result")]
    metric: Vec<String>,

    /// The output of a phase of a peer cycle, as a JSON object in this file; `-` is standard input
    #[arg(long, value_name = "FILE", requires = "result")]
    output: Option<PathBuf>,
}

pub(super) fn run(arguments: Arguments) -> Result<Exit, Failure> {
    let attempt = Attempt::of_this_process()?;
    if arguments.gate_failure.is_some() && !attempt.is_gate() {
        let what = format!("step `{}` is not a gate, so it cannot send work back", attempt.id.step);
        return Err(Failure::new(Exit::Refused, what)
            .hint("use `--status FAILED`, or set `loop_back_to` in the workflow"));
    }
    let status = arguments.status.as_deref().or(arguments.gate_failure.as_ref().map(|_| "COMPLETED"));
    let bytes = match (&arguments.file, status) {
        (Some(file), _) => read(file)?,
        (None, Some(status)) => compose(&arguments, status, &attempt.expected)?,
        (None, None) if std::io::stdin().is_terminal() => {
            return Err(Failure::usage("the report is missing")
                .hint("use `--status COMPLETED` or `--file FILE`, or pipe the report to standard input"));
        }
        (None, None) => read("-".as_ref())?,
    };
    if arguments.partial {
        return submit_partial_output(&attempt, &bytes);
    }
    attempt.check_fields(&bytes)?;
    attempt.submit(&bytes)?;
    output::message(format_args!("accepted the report of `{}`", attempt.id));
    Ok(Exit::Success)
}

fn submit_partial_output(attempt: &Attempt, bytes: &[u8]) -> Result<Exit, Failure> {
    // This is the key of the document in its bucket. Every attempt has it whose document can hold a partial output.
    if std::env::var_os("CALLBOARD_STATE_KEY").is_none() {
        let what = format!("run `{}` has no partial outputs", attempt.expected.run_id);
        return Err(Failure::new(Exit::Refused, what)
            .hint("run `callboard report --status COMPLETED` at the end instead"));
    }
    submit_partial(&attempt.dir, bytes).map_err(|error| {
        let exit = match error {
            PartialError::TooLarge { .. } | PartialError::NotAnObject(_) => Exit::Usage,
            PartialError::Write { .. } => Exit::Store,
        };
        Failure::from_error(exit, &error)
    })?;
    attempt.refuse_if_abandoned()?;
    output::message(format_args!("accepted a partial output of `{}`", attempt.id));
    Ok(Exit::Success)
}

/// The attempt that this command was started by, from its environment.
pub(super) struct Attempt {
    id: AttemptId,
    local_dir: PathBuf,
    dir: AttemptDir,
    expected: ReportIdentity,
}

impl Attempt {
    pub(super) fn of_this_process() -> Result<Self, Failure> {
        let variable = |name: &str| {
            std::env::var(name).map_err(|_| {
                Failure::new(
                    Exit::Refused,
                    format!("this command runs inside an attempt only: `{name}` is not set"),
                )
                .hint("let an agent that callboard has started call it")
            })
        };
        let run: RunId = parse_variable("CALLBOARD_RUN", &variable("CALLBOARD_RUN")?)?;
        let id: AttemptId = parse_variable("CALLBOARD_ATTEMPT", &variable("CALLBOARD_ATTEMPT")?)?;
        // Inside an attempt, CALLBOARD_STORE is the local directory, also on NATS.
        let local_dir = PathBuf::from(variable("CALLBOARD_STORE")?);
        let agent = variable("AGENT_ID")?;
        let dir = AttemptDir::new(&local_dir.join("attempts"), &run, &id);
        // The process that may run the attempt creates its claim, a file. It creates the exit record at the end.
        if !dir.claim().exists() {
            return Err(Failure::new(Exit::Refused, format!("attempt `{id}` of run `{run}` is not running")));
        }
        if dir.exit().exists() {
            return Err(Failure::new(Exit::Refused, format!("attempt `{id}` of run `{run}` has ended")));
        }
        let expected = ReportIdentity { run_id: run, step_id: id.step.clone(), agent };
        Ok(Self { id, local_dir, dir, expected })
    }

    /// Returns `context.json`: null if it cannot be read.
    fn context(&self) -> Value {
        let context = std::fs::read(self.dir.context()).ok();
        context.and_then(|context| serde_json::from_slice(&context).ok()).unwrap_or_default()
    }

    /// Whether a gate failure of this attempt has an effect. In doubt it is accepted: the engine decides.
    fn is_gate(&self) -> bool {
        self.context()["gate"] != false
    }

    /// Adds a question or an escalation to the report of this attempt. Fails if the run's protocol has none.
    pub(super) fn add_to_communication(&self, list: &str, item: Value) -> Result<(), Failure> {
        if self.context()["protocol"] != "issue" {
            let what = format!("run `{}` has no questions between agents", self.expected.run_id);
            return Err(Failure::new(Exit::Refused, what).hint("report FAILED and say why instead"));
        }
        let earlier = std::fs::read(self.dir.submitted()).ok();
        let earlier: Option<Value> = earlier.and_then(|earlier| serde_json::from_slice(&earlier).ok());
        let now = jiff::Timestamp::now().to_string();
        let mut report = earlier.unwrap_or_else(|| {
            json!({
                "schema": SCHEMA,
                "run_id": self.expected.run_id,
                "step_id": self.expected.step_id,
                "agent": self.expected.agent,
                "status": "COMPLETED",
                "started_at": now,
                "ended_at": now,
            })
        });
        if !report["communication"].is_object() {
            report["communication"] = json!({});
        }
        let mut items = report["communication"][list].as_array().cloned().unwrap_or_default();
        items.push(item);
        report["communication"][list] = items.into();
        self.submit(report.to_string().as_bytes())
    }

    fn submit(&self, bytes: &[u8]) -> Result<(), Failure> {
        submit(&self.dir, &self.expected, bytes).map_err(|error| {
            let exit = match error {
                SubmitError::TooLarge { .. } | SubmitError::Invalid(_) => Exit::Usage,
                SubmitError::Write { .. } => Exit::Store,
            };
            Failure::from_error(exit, &error)
        })?;
        self.refuse_if_abandoned()
    }

    /// Fails if the host of the attempt was abandoned. The check comes after the report was written, so that it also sees an
    /// attempt that was abandoned meanwhile; the report stays in the attempt's directory and has no effect.
    fn refuse_if_abandoned(&self) -> Result<(), Failure> {
        let run = &self.expected.run_id;
        let is_abandoned =
            block_on(async { Ok(abandoned::is_abandoned(&self.local_dir, run, &self.id).await) })?;
        if !is_abandoned {
            return Ok(());
        }
        let what = format!("attempt `{}` of run `{run}` was abandoned with its host", self.id);
        Err(Failure::new(Exit::Refused, what)
            .hint("end here: the report is kept as evidence and has no effect"))
    }

    /// Refuses a report that lacks what the protocol requires of the step. Now the agent can correct it; later it would cost
    /// an attempt. Reports that are invalid in every protocol are left to [`submit`].
    fn check_fields(&self, bytes: &[u8]) -> Result<(), Failure> {
        let context = self.context();
        let kind = context["protocol"].as_str().and_then(|name| crate::program().protocols.find(name));
        // With what the attempt has reported before: a later report may leave that out.
        let merged = merge_with(&self.dir, &self.expected, bytes);
        let (Some(kind), Some(report)) = (kind, merged) else { return Ok(()) };
        kind.check_report(&self.id.step, &report).map_err(|reason| {
            let hint = if reason.contains("without the field `output`") {
                "add the field `output` to the report, or `--output FILE` to `--status COMPLETED`"
            } else {
                "correct it and hand it in again; the attempt is still running"
            };
            Failure::usage(format!("the report cannot be accepted: {reason}")).hint(hint)
        })
    }
}

fn parse_variable<T: std::str::FromStr<Err: std::error::Error + 'static>>(
    name: &str,
    text: &str,
) -> Result<T, Failure> {
    text.parse().map_err(|error: T::Err| {
        Failure::new(Exit::Refused, format!("`{name}` is not valid: `{text}`")).because(Some(&error))
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

/// Builds a report from the flags.
fn compose(arguments: &Arguments, status: &str, expected: &ReportIdentity) -> Result<Vec<u8>, Failure> {
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
        "logs": arguments.log.iter().chain(&arguments.gate_failure).collect::<Vec<_>>(),
    });
    // Left out unless given: a report without the field keeps the gate failure of an earlier report.
    if arguments.gate_failure.is_some() {
        report["gate_failure"] = true.into();
    }
    if let Some(file) = &arguments.output {
        report[OUTPUT] = serde_json::from_slice(&read(file)?).map_err(|error| {
            Failure::usage(format!("the output in `{}` is not JSON", file.display())).because(Some(&error))
        })?;
    }
    Ok(report.to_string().into_bytes())
}
