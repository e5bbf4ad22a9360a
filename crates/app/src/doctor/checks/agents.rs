//! Known agent programs in PATH and their versions.
//!
//! Each program is started with `--version` only, all at the same time. No process outlives its probe.

use std::path::{Path, PathBuf};
use std::time::Duration;

use supervisor::{ProbeError, find_program, probe};

use super::Finding;
use crate::output::shell_word;

const CHECK: &str = "agents";

const KNOWN_AGENTS: [&str; 10] =
    ["aider", "amp", "claude", "codex", "copilot", "cursor-agent", "gemini", "goose", "opencode", "qwen"];

/// Several of them are large scripts that load slowly.
const TIMEOUT: Duration = Duration::from_secs(5);

pub(super) fn check() -> Vec<Finding> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let directory = std::env::current_dir().unwrap_or_else(|_| PathBuf::from("/"));
    let found: Vec<_> = KNOWN_AGENTS
        .iter()
        .filter_map(|name| Some((*name, find_program(name, &path, &directory)?)))
        .collect();
    if found.is_empty() {
        return vec![Finding::note(
            CHECK,
            format!("no known agent is in PATH ({})", KNOWN_AGENTS.join(", ")),
        )];
    }
    std::thread::scope(|scope| {
        let probes: Vec<_> = found
            .iter()
            .map(|(name, program)| {
                (name, program, scope.spawn(move || probe(program, &["--version"], TIMEOUT)))
            })
            .collect();
        let findings = probes.into_iter().map(|(name, program, thread)| {
            finding(name, program, thread.join().expect("BUG: the version probe panicked"))
        });
        findings.collect()
    })
}

fn finding(name: &str, program: &Path, output: Result<String, ProbeError>) -> Finding {
    let path = program.display();
    match output {
        Ok(output) => Finding::ok(CHECK, format!("{name} {} ({path})", version(name, &output))),
        Err(error) => {
            let mut cause = std::error::Error::source(&error);
            let message = format!("cannot read the version of {name}: {error} ({path})");
            let mut finding = Finding::problem(CHECK, message);
            while let Some(error) = cause {
                finding = finding.detail(error.to_string());
                cause = error.source();
            }
            finding.command(format!("{} --version", shell_word(program)))
        }
    }
}

/// Returns the line with the version, without the program's name and control characters.
fn version(name: &str, output: &str) -> String {
    let lines = output.lines().map(|line| line.chars().filter(|c| !c.is_control()).collect::<String>());
    let lines: Vec<_> = lines.map(|line| line.trim().to_owned()).filter(|line| !line.is_empty()).collect();
    let line = lines.iter().find(|line| line.contains(|c: char| c.is_ascii_digit())).or(lines.first());
    let Some(line) = line else { return "(unknown version)".to_owned() };
    let short = line.strip_prefix(name).filter(|rest| rest.starts_with(' ')).unwrap_or(line).trim_start();
    short.chars().take(60).collect()
}

#[cfg(test)]
mod tests {
    use super::version;

    #[test]
    fn the_version_is_found_in_the_output_of_real_agents() {
        for (name, output, expected) in [
            ("claude", "2.1.3 (Claude Code)\n", "2.1.3 (Claude Code)"),
            ("codex", "codex-cli 0.60.1\n", "codex-cli 0.60.1"),
            ("aider", "\naider 0.86.1\n", "0.86.1"),
            ("goose", "Warning: no keyring\n 1.9.0\n", "1.9.0"),
            ("amp", "", "(unknown version)"),
        ] {
            assert_eq!(version(name, output), expected, "{name}");
        }
    }
}
