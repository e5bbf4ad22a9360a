//! The scripted agent: our own program in the place of an agent, as `callboard __rehearse BEHAVIOUR`.
//!
//! It is told what every agent is told, through the usual variables, and the behaviour of this attempt as its argument. It must
//! behave like any external program: it reads nothing of ours and writes its report to `REPORT_PATH`. Progress it
//! hands in as any agent can, by `callboard report --partial`.

mod progress;

use std::collections::BTreeMap;
use std::env;
use std::ffi::{OsStr, OsString};
use std::fs;
use std::io::{self, BufRead as _, BufReader, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};
use std::thread;

use jiff::Timestamp;
use protocol::checks::CHECKS_FIELD;
use protocol::report::SCHEMA;
use rustix::process::{self as kernel, Signal};
use serde_json::{Value, json};
use supervisor::adapter::rehearsal::{
    AGENT_ARGUMENT, AGENT_PROGRAM, Behaviour, Fields, ScriptedAttempt, ScriptedOutput,
};

use crate::failure::Exit;

/// The argument, instead of a behaviour, of the process that is left behind.
const LEFT_BEHIND: &str = "left-behind";
/// What a flood consists of.
const DROP: &[u8] = b"The rehearsal is long, and so is this line, which is said again and again.\n";
/// What no reader of reports can read: JSON that breaks off, then bytes that are no text.
const RUBBISH: &[u8] = b"{\"schema\": \"run_report@v0\", \"status\": \xff\xfe";

/// Runs one scripted attempt. To be called with the arguments after `__rehearse`.
pub(crate) fn main(mut arguments: impl Iterator<Item = OsString>) -> ExitCode {
    let Some(argument) = arguments.next() else { return usage_error("there is no behaviour") };
    if argument == LEFT_BEHIND {
        return stay_behind();
    }
    let attempt = argument.to_str().ok_or_else(|| "it is not UTF-8".to_owned());
    let attempt =
        attempt.and_then(|text| ScriptedAttempt::from_argument(text).map_err(|error| error.to_string()));
    let attempt = match attempt {
        Ok(attempt) => attempt,
        Err(error) => return usage_error(&format!("the behaviour cannot be parsed: {error}")),
    };
    let Some(told) = Told::read(|name| env::var(name).ok()) else {
        return usage_error("the variables of an attempt are missing");
    };
    match told.perform(&attempt) {
        Ok(exit) => exit,
        Err(error) => {
            complain(&format!("the scripted agent cannot go on: {error}"));
            Exit::Bug.into()
        }
    }
}

fn usage_error(why: &str) -> ExitCode {
    complain(&format!(
        "error: `{AGENT_ARGUMENT}` is how a rehearsed run starts its agents, not a command: {why}"
    ));
    Exit::Usage.into()
}

fn complain(text: &str) {
    // Standard error is the attempt's log. If it cannot be written, the exit code says the rest.
    let _ = writeln!(io::stderr(), "{text}");
}

/// What an attempt is told.
#[derive(Debug)]
struct Told {
    run: String,
    step: String,
    agent: String,
    attempt: String,
    iteration: String,
    step_attempt: String,
    report: PathBuf,
    repo: PathBuf,
    artifacts: PathBuf,
    began: Timestamp,
}

impl Told {
    fn read(variable: impl Fn(&str) -> Option<String>) -> Option<Self> {
        Some(Self {
            run: variable("RUN_ID")?,
            step: variable("STEP_ID")?,
            agent: variable("AGENT_ID")?,
            attempt: variable("CALLBOARD_ATTEMPT")?,
            iteration: variable("STEP_ITERATION")?,
            step_attempt: variable("STEP_ATTEMPT")?,
            report: variable("REPORT_PATH")?.into(),
            repo: variable("REPO_DIR")?.into(),
            artifacts: variable("ARTIFACTS_DIR")?.into(),
            began: Timestamp::now(),
        })
    }

    fn perform(&self, attempt: &ScriptedAttempt) -> io::Result<ExitCode> {
        let Self { step, iteration, step_attempt, .. } = self;
        say(&format!("rehearsing `{step}`: iteration {iteration}, try {step_attempt}"))?;
        for output in &attempt.partial {
            say("handing in progress")?;
            progress::hand_in(output)?;
        }
        if let Some(length) = attempt.delay {
            say(&format!("waiting {length:?}"))?;
            thread::sleep(length);
        }
        match &attempt.behaviour {
            Behaviour::Ok(delivery) => self.deliver(delivery, &attempt.fields)?,
            Behaviour::Fail { why } => {
                self.report("FAILED", &[], std::slice::from_ref(why), &Fields::new())?;
            }
            Behaviour::GateFail { why, .. } => {
                let findings = self.leave(&self.own_file(), why)?;
                let mut gate = Fields::from_iter([("gate_failure".to_owned(), true.into())]);
                gate.extend(red_checks(&attempt.fields, why));
                self.report("COMPLETED", &[findings], std::slice::from_ref(why), &gate)?;
            }
            Behaviour::Hang => return hang(),
            Behaviour::Crash => {
                say("crashing")?;
                // Not an abort: that would leave a core file in the work tree, or noise in the system's journal.
                kernel::kill_process(kernel::getpid(), Signal::KILL)?;
            }
            Behaviour::Exit { code } => {
                say(&format!("leaving with code {code} and without a report"))?;
                return Ok(ExitCode::from(*code));
            }
            Behaviour::Flood { bytes } => {
                flood(*bytes)?;
                self.deliver(&ScriptedOutput::default(), &attempt.fields)?;
            }
            Behaviour::Rubbish => {
                say("reporting rubbish")?;
                fs::write(&self.report, RUBBISH)?;
            }
            Behaviour::LeaveChild => {
                leave_child()?;
                self.deliver(&ScriptedOutput::default(), &attempt.fields)?;
            }
            Behaviour::ReportThenHang => {
                self.deliver(&ScriptedOutput::default(), &attempt.fields)?;
                return hang();
            }
        }
        Ok(ExitCode::SUCCESS)
    }

    fn deliver(&self, delivery: &ScriptedOutput, fields: &Fields) -> io::Result<()> {
        let said = format!("rehearsed by the built-in scripted agent as `{}`", self.attempt);
        let mut made = Vec::new();
        let own = [self.own_file()];
        let files = if delivery.artifacts.is_empty() { own.as_slice() } else { &delivery.artifacts };
        for file in files {
            made.push(self.leave(file, &said)?);
        }
        made.extend(self.write(&delivery.write)?);
        let logs = if delivery.logs.is_empty() { vec![said] } else { delivery.logs.clone() };
        self.report("COMPLETED", &made, &logs, fields)
    }

    /// The file that is made when a script names none. It carries the attempt, so that no attempt hides another's.
    fn own_file(&self) -> String {
        format!("{}.json", self.attempt.replacen('#', ".", 1))
    }

    /// Makes a small file in the run's artifacts; returns its path in the repository. A JSON file has two items, so that a
    /// data loop can read it.
    fn leave(&self, file: &str, text: &str) -> io::Result<String> {
        let path = self.artifacts.join(file);
        let text = match path.extension() {
            Some(extension) if extension == "json" => {
                serde_json::json!([format!("{text}, first item"), format!("{text}, second item")]).to_string()
            }
            Some(_) | None => text.to_owned(),
        };
        write_file(&path, &format!("{text}\n"))?;
        let shown = path.strip_prefix(&self.repo).unwrap_or(&path);
        Ok(shown.to_string_lossy().into_owned())
    }

    /// Writes the files of the script into the repository.
    fn write(&self, files: &BTreeMap<String, String>) -> io::Result<Vec<String>> {
        for (file, text) in files {
            say(&format!("writing `{file}`"))?;
            write_file(&self.repo.join(file), text)?;
        }
        Ok(files.keys().cloned().collect())
    }

    fn report(&self, status: &str, artifacts: &[String], logs: &[String], fields: &Fields) -> io::Result<()> {
        let mut report = json!({
            "schema": SCHEMA,
            "run_id": self.run,
            "step_id": self.step,
            "agent": self.agent,
            "status": status,
            "started_at": self.began.to_string(),
            "ended_at": Timestamp::now().to_string(),
            "artifacts": artifacts,
            "metrics": {},
            "logs": logs,
            "gate_failure": false,
        });
        for (field, value) in fields {
            report[field.as_str()] = value.clone();
        }
        // Whole or not at all: the engine may look at any run_at.
        let mut draft: OsString = self.report.clone().into_os_string();
        draft.push(".draft");
        fs::write(&draft, format!("{report:#}\n"))?;
        fs::rename(&draft, &self.report)?;
        let gate = if report["gate_failure"] == true { ", the gate fails" } else { "" };
        say(&format!("reported {status}{gate}"))
    }
}

/// Returns the results of a command step's checks, the first of which fails.
fn red_checks(fields: &Fields, why: &str) -> Option<(String, Value)> {
    let mut results = fields.get(CHECKS_FIELD)?.clone();
    let first = results.get_mut(0)?;
    (first["exit_code"], first["output"]) = (1.into(), why.into());
    Some((CHECKS_FIELD.to_owned(), results))
}

fn write_file(path: &Path, text: &str) -> io::Result<()> {
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder)?;
    }
    fs::write(path, text)
}

fn say(text: &str) -> io::Result<()> {
    writeln!(io::stdout(), "{text}")
}

fn flood(bytes: u64) -> io::Result<()> {
    let mut out = io::BufWriter::with_capacity(1 << 16, io::stdout().lock());
    let mut left = bytes;
    while left > 0 {
        let drop = &DROP[..usize::try_from(left).unwrap_or(usize::MAX).min(DROP.len())];
        out.write_all(drop)?;
        left -= drop.len() as u64;
    }
    out.write_all(b"\n")?;
    out.flush()
}

fn hang() -> io::Result<ExitCode> {
    say("hanging")?;
    wait_for_the_end()
}

/// Does nothing until it is killed.
fn wait_for_the_end() -> ! {
    loop {
        thread::park();
    }
}

/// Starts a process and goes away from it. It has left our session when this returns.
fn leave_child() -> io::Result<()> {
    let mut child = Command::new(AGENT_PROGRAM)
        .args([OsStr::new(AGENT_ARGUMENT), OsStr::new(LEFT_BEHIND)])
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()?;
    let mut word = String::new();
    if let Some(out) = child.stdout.take() {
        BufReader::new(out).read_line(&mut word)?;
    }
    say(&format!("leaving process {} behind: {}", child.id(), word.trim()))
}

fn stay_behind() -> ExitCode {
    let left = kernel::setsid().map_err(io::Error::from).and_then(|_| say("in a session of its own"));
    match left {
        Ok(()) => wait_for_the_end(),
        Err(error) => {
            complain(&format!("cannot stay behind: {error}"));
            Exit::Bug.into()
        }
    }
}
