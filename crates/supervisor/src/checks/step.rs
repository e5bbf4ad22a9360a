//! The attempt of a command step: our own program as `callboard __checks FILE`, under the shim.
//!
//! It gets the same environment variables as every agent, and the checks in a file of the attempt's directory.

use std::env;
use std::fs;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use jiff::Timestamp;
use protocol::checks::{CHECKS_FIELD, CheckResult, CheckSpec};
use protocol::report::SCHEMA;
use serde_json::json;

use super::run::{CheckRunner, StopFlag};
use crate::replace_file;

/// The argument that makes our program run the checks of a file.
pub const ARGUMENT: &str = "__checks";

/// Writes the checks of an attempt for [`main`].
pub fn write_specs(path: &Path, specs: &[CheckSpec]) -> io::Result<()> {
    replace_file(path, &serde_json::to_vec_pretty(specs)?)
}

/// Runs the checks in the file, in the current directory, and reports. To be called with the argument after [`ARGUMENT`].
///
/// The exit code is 0 if there is a report; whether the checks have passed is in it.
pub fn main(specs: Option<&Path>) -> ExitCode {
    let result = match specs {
        Some(specs) => run(specs),
        None => Err(format!("`{ARGUMENT}` is how a run starts its checks, not a command")),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            // Standard error is the attempt's log. If it cannot be written, the exit code still shows the failure.
            let _ = writeln!(io::stderr(), "error: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run(file: &Path) -> Result<(), String> {
    let cannot = |what: &str, error: &dyn std::error::Error| match error.source() {
        Some(cause) => format!("cannot {what}: {error}: {cause}"),
        None => format!("cannot {what}: {error}"),
    };
    let specs = fs::read(file).map_err(|error| cannot("read the checks", &error))?;
    let specs: Vec<CheckSpec> =
        serde_json::from_slice(&specs).map_err(|error| cannot("read the checks", &error))?;
    let variable = |name: &str| env::var(name).map_err(|_| format!("the variable `{name}` is missing"));
    let started_at = Timestamp::now();
    let tree = env::current_dir().map_err(|error| cannot("find the tree", &error))?;
    let stop = StopFlag::new().map_err(|error| cannot("run the checks", &error))?;
    let logs = file.parent().unwrap_or(Path::new("/"));
    // Nothing requests a stop by `stop`: the shim ends an attempt with signals to this process and to all it has started.
    let runner = CheckRunner { tree: &tree, logs_dir: logs, env: Vec::new(), stop };
    let print_result = |result: &CheckResult| {
        // Standard output is the attempt's log. It may fail to be written: the report has the same results.
        let _ = writeln!(io::stdout(), "{}\n{}", result.summary(), result.output.trim_end());
    };
    let results = runner.run(&specs, print_result).map_err(|error| cannot("run the checks", &error))?;
    let logs: Vec<_> = results.iter().map(CheckResult::summary).collect();
    let report = json!({
        "schema": SCHEMA,
        "run_id": variable("RUN_ID")?,
        "step_id": variable("STEP_ID")?,
        "agent": variable("AGENT_ID")?,
        "status": "COMPLETED",
        "started_at": started_at.to_string(),
        "ended_at": Timestamp::now().to_string(),
        "logs": logs,
        CHECKS_FIELD: results,
    });
    let path = PathBuf::from(variable("REPORT_PATH")?);
    replace_file(&path, report.to_string().as_bytes()).map_err(|error| cannot("report", &error))
}
