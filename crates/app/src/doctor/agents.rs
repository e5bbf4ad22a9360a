//! Agent programs that are installed, with their versions. They are asked `--version` and nothing else, all at once,
//! and what they start does not outlive the question.

use std::path::{Path, PathBuf};
use std::time::Duration;

use supervisor::{ProbeError, find_program, probe};

use super::Finding;
use crate::output::shell_word;

const CHECK: &str = "agents";

/// Programs that people have agents play with.
const KNOWN: [&str; 10] =
    ["aider", "amp", "claude", "codex", "copilot", "cursor-agent", "gemini", "goose", "opencode", "qwen"];

/// Several of them are large scripts that take a while to load.
const LIMIT: Duration = Duration::from_secs(5);

pub(super) fn check() -> Vec<Finding> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let workspace = std::env::current_dir().unwrap_or_else(|_| PathBuf::from("/"));
    let found: Vec<_> =
        KNOWN.iter().filter_map(|name| Some((*name, find_program(name, &path, &workspace)?))).collect();
    if found.is_empty() {
        let what = format!("none of {} is in PATH", KNOWN.join(", "));
        return vec![Finding::note(CHECK, what)];
    }
    std::thread::scope(|scope| {
        let asked: Vec<_> = found
            .iter()
            .map(|(name, program)| {
                (name, program, scope.spawn(move || probe(program, &["--version"], LIMIT)))
            })
            .collect();
        let answers = asked.into_iter().map(|(name, program, answer)| {
            tell(name, program, answer.join().expect("BUG: asking a program panicked"))
        });
        answers.collect()
    })
}

fn tell(name: &str, program: &Path, answer: Result<String, ProbeError>) -> Finding {
    let place = program.display();
    match answer {
        Ok(answer) => Finding::fine(CHECK, format!("{name} {} ({place})", version(name, &answer))),
        Err(error) => {
            let mut cause = std::error::Error::source(&error);
            let mut finding =
                Finding::act(CHECK, format!("{name} does not tell its version: {error} ({place})"));
            while let Some(error) = cause {
                finding = finding.detail(error.to_string());
                cause = error.source();
            }
            finding.remedy(format!("{} --version", shell_word(program)))
        }
    }
}

/// The line with the version in it, without the program's own name and control codes.
fn version(name: &str, answer: &str) -> String {
    let lines = answer.lines().map(|line| line.chars().filter(|c| !c.is_control()).collect::<String>());
    let lines: Vec<_> = lines.map(|line| line.trim().to_owned()).filter(|line| !line.is_empty()).collect();
    let line = lines.iter().find(|line| line.contains(|c: char| c.is_ascii_digit())).or(lines.first());
    let Some(line) = line else { return "of unknown version".to_owned() };
    let short = line.strip_prefix(name).filter(|rest| rest.starts_with(' ')).unwrap_or(line).trim_start();
    short.chars().take(60).collect()
}

#[cfg(test)]
mod tests {
    use super::version;

    #[test]
    fn the_version_is_found_in_what_agents_really_print() {
        for (name, answer, told) in [
            ("claude", "2.1.3 (Claude Code)\n", "2.1.3 (Claude Code)"),
            ("codex", "codex-cli 0.60.1\n", "codex-cli 0.60.1"),
            ("aider", "\naider 0.86.1\n", "0.86.1"),
            ("goose", "Warning: no keyring\n 1.9.0\n", "1.9.0"),
            ("amp", "", "of unknown version"),
        ] {
            assert_eq!(version(name, answer), told, "{name}");
        }
    }
}
