//! The scripted agent: our own program in the place of an agent, as `callboard __rehearse BEHAVIOUR`.
//!
//! It gets the variables that every agent gets, and the behaviour of this attempt as its argument. It must behave like
//! any external program: it reads nothing from the store, writes its report to `REPORT_PATH`, and reports progress with
//! `callboard report --partial`.

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
use supervisor::adapter::rehearsal::{AGENT_ARGUMENT, Behaviour, Fields, ScriptedAttempt, ScriptedOutput};

use crate::failure::Exit;

/// The argument, instead of a behaviour, of the child process that outlives the agent (`leave_child`).
const LEFT_CHILD: &str = "left-behind";
/// The line that `flood` repeats.
const FLOOD_LINE: &[u8] = b"The rehearsal is long, and so is this line, which is said again and again.\n";
/// A report that cannot be parsed: truncated JSON, then bytes that are not UTF-8.
const RUBBISH: &[u8] = b"{\"schema\": \"run_report@v0\", \"status\": \xff\xfe";

/// Runs one scripted attempt. To be called with the arguments after `__rehearse`.
pub(crate) fn main(mut arguments: impl Iterator<Item = OsString>) -> ExitCode {
    let Some(argument) = arguments.next() else { return usage_error("there is no behaviour") };
    if argument == LEFT_CHILD {
        return run_left_child();
    }
    let attempt = argument.to_str().ok_or_else(|| "it is not UTF-8".to_owned());
    let attempt =
        attempt.and_then(|text| ScriptedAttempt::from_argument(text).map_err(|error| error.to_string()));
    let attempt = match attempt {
        Ok(attempt) => attempt,
        Err(error) => return usage_error(&format!("the behaviour cannot be parsed: {error}")),
    };
    let Some(variables) = AttemptVariables::read(|name| env::var(name).ok()) else {
        return usage_error("the variables of an attempt are missing");
    };
    match variables.perform(&attempt) {
        Ok(exit) => exit,
        Err(error) => {
            print_error(&format!("the scripted agent cannot go on: {error}"));
            Exit::Bug.into()
        }
    }
}

fn usage_error(why: &str) -> ExitCode {
    print_error(&format!(
        "error: `{AGENT_ARGUMENT}` is how a rehearsed run starts its agents, not a command: {why}"
    ));
    Exit::Usage.into()
}

fn print_error(text: &str) {
    // Standard error is the log of the attempt. If it cannot be written, only the exit code remains.
    let _ = writeln!(io::stderr(), "{text}");
}

/// The variables that the engine sets for an attempt, and when the attempt began.
#[derive(Debug)]
struct AttemptVariables {
    run: String,
    step: String,
    agent: String,
    attempt: String,
    iteration: String,
    step_attempt: String,
    report: PathBuf,
    repo: PathBuf,
    artifacts: PathBuf,
    started_at: Timestamp,
}

impl AttemptVariables {
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
            started_at: Timestamp::now(),
        })
    }

    fn perform(&self, attempt: &ScriptedAttempt) -> io::Result<ExitCode> {
        let Self { step, iteration, step_attempt, .. } = self;
        print_line(&format!("rehearsing `{step}`: iteration {iteration}, attempt {step_attempt}"))?;
        for output in &attempt.partial {
            print_line("handing in progress")?;
            progress::report_partial(output)?;
        }
        if let Some(delay) = attempt.delay {
            print_line(&format!("waiting {delay:?}"))?;
            thread::sleep(delay);
        }
        match &attempt.behaviour {
            Behaviour::Ok(output) => self.report_completed(output, attempt)?,
            Behaviour::Fail { why } => {
                self.report("FAILED", &[], std::slice::from_ref(why), &Fields::new())?;
            }
            Behaviour::GateFail { why, .. } => {
                let findings = self.write_artifact(&self.default_artifact(), why)?;
                let mut gate = Fields::from_iter([("gate_failure".to_owned(), true.into())]);
                gate.extend(failed_checks(&attempt.fields, why));
                self.report("COMPLETED", &[findings], std::slice::from_ref(why), &gate)?;
            }
            Behaviour::Hang => return hang(),
            Behaviour::Crash => {
                print_line("crashing")?;
                // Not an abort: that would leave a core file in the work tree, or noise in the system's journal.
                kernel::kill_process(kernel::getpid(), Signal::KILL)?;
            }
            Behaviour::Exit { code } => {
                print_line(&format!("leaving with code {code} and without a report"))?;
                return Ok(ExitCode::from(*code));
            }
            Behaviour::Flood { bytes } => {
                flood(*bytes)?;
                self.report_completed(&ScriptedOutput::default(), attempt)?;
            }
            Behaviour::Rubbish => {
                print_line("reporting rubbish")?;
                fs::write(&self.report, RUBBISH)?;
            }
            Behaviour::LeaveChild => {
                leave_child()?;
                self.report_completed(&ScriptedOutput::default(), attempt)?;
            }
            Behaviour::ReportThenHang => {
                self.report_completed(&ScriptedOutput::default(), attempt)?;
                return hang();
            }
        }
        Ok(ExitCode::SUCCESS)
    }

    /// Writes the files of the script and reports that the work is done.
    fn report_completed(&self, output: &ScriptedOutput, attempt: &ScriptedAttempt) -> io::Result<()> {
        let text = format!("rehearsed by the built-in scripted agent as `{}`", self.attempt);
        let mut artifacts = Vec::new();
        let default = [self.default_artifact()];
        let files = if output.artifacts.is_empty() { default.as_slice() } else { &output.artifacts };
        for file in files {
            artifacts.push(self.write_artifact(file, &text)?);
        }
        let repo_files = if output.write.is_empty() { &attempt.default_files } else { &output.write };
        artifacts.extend(self.write_repo_files(repo_files)?);
        let logs = if output.logs.is_empty() { vec![text] } else { output.logs.clone() };
        self.report("COMPLETED", &artifacts, &logs, &attempt.fields)
    }

    /// Returns the name of the artifact if the script names none. Each attempt has its own.
    fn default_artifact(&self) -> String {
        format!("{}.json", self.attempt.replacen('#', ".", 1))
    }

    /// Writes a small file in the run's artifacts; returns its path in the repository. A JSON file has two items, for
    /// data loops.
    fn write_artifact(&self, file: &str, text: &str) -> io::Result<String> {
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
    fn write_repo_files(&self, files: &BTreeMap<String, String>) -> io::Result<Vec<String>> {
        for (file, text) in files {
            print_line(&format!("writing `{file}`"))?;
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
            "started_at": self.started_at.to_string(),
            "ended_at": Timestamp::now().to_string(),
            "artifacts": artifacts,
            "metrics": {},
            "logs": logs,
            "gate_failure": false,
        });
        for (field, value) in fields {
            report[field.as_str()] = value.clone();
        }
        // Write the report atomically: the engine may read it at any time.
        supervisor::replace_file(&self.report, format!("{report:#}\n").as_bytes())?;
        let gate = if report["gate_failure"] == true { ", the gate fails" } else { "" };
        print_line(&format!("reported {status}{gate}"))
    }
}

/// Returns the check results of the script with the first one failed; `None` if the step has no checks.
fn failed_checks(fields: &Fields, why: &str) -> Option<(String, Value)> {
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

fn print_line(text: &str) -> io::Result<()> {
    writeln!(io::stdout(), "{text}")
}

fn flood(bytes: u64) -> io::Result<()> {
    let mut out = io::BufWriter::with_capacity(1 << 16, io::stdout().lock());
    let mut left = bytes;
    while left > 0 {
        let line = &FLOOD_LINE[..usize::try_from(left).unwrap_or(usize::MAX).min(FLOOD_LINE.len())];
        out.write_all(line)?;
        left -= line.len() as u64;
    }
    out.write_all(b"\n")?;
    out.flush()
}

fn hang() -> io::Result<ExitCode> {
    print_line("hanging")?;
    wait_for_signal()
}

/// Does nothing until a signal ends the process.
fn wait_for_signal() -> ! {
    loop {
        thread::park();
    }
}

/// Starts a child process that outlives this one. Returns when the child is in a session of its own.
fn leave_child() -> io::Result<()> {
    let mut child = Command::new(linux::OWN_PROGRAM)
        .args([OsStr::new(AGENT_ARGUMENT), OsStr::new(LEFT_CHILD)])
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()?;
    let mut line = String::new();
    if let Some(out) = child.stdout.take() {
        BufReader::new(out).read_line(&mut line)?;
    }
    print_line(&format!("leaving process {} behind: {}", child.id(), line.trim()))
}

/// Runs the child process of `leave_child`: prints one line when it has left the session, then waits.
fn run_left_child() -> ExitCode {
    let left_session =
        kernel::setsid().map_err(io::Error::from).and_then(|_| print_line("in a session of its own"));
    match left_session {
        Ok(()) => wait_for_signal(),
        Err(error) => {
            print_error(&format!("cannot stay behind: {error}"));
            Exit::Bug.into()
        }
    }
}
