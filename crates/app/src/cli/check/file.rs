//! Checking one file against the rules of its format.

use std::fs;
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};

use protocol::check::Violation;
use protocol::located::{Node, SourcePos};
use protocol::present::{CheckedFile, FileFormat};
use protocol::steps::load::Problem;
use protocol::{peer, steps};
use serde::Serialize;
use serde_json::Value;

use super::format::{Format, Guess, guess};
use crate::failure::Failure;
use crate::output::{Diagnostic, Severity, shell_word};
use crate::workspace::definition::workflow::{self, KnownChecks};

/// Larger files are refused; the state of 10,000 steps takes a tenth of this.
const MAX_BYTES: u64 = 64 * 1024 * 1024;

/// The result of checking a file.
#[derive(Debug, Serialize)]
pub(super) struct Checked {
    #[serde(serialize_with = "as_text")]
    pub(super) file: PathBuf,
    format: Option<Format>,
    /// The number of steps, if there are no errors.
    pub(super) steps: Option<usize>,
    /// The peer cycle, if there are no errors.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) peer_cycle: Option<PeerCycle>,
    /// What the file has, if there are no errors.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) summary: Option<String>,
    /// In the order of the file.
    pub(super) findings: Vec<Finding>,
    #[serde(skip)]
    pub(super) source: String,
}

#[derive(Debug, Serialize)]
pub(super) struct PeerCycle {
    pub(super) id: String,
    /// With the phase that it is in.
    pub(super) status: String,
}

#[derive(Debug, Serialize)]
pub(super) struct Finding {
    #[serde(serialize_with = "severity_word")]
    severity: Severity,
    rule: &'static str,
    line: usize,
    column: usize,
    /// The JSON pointer to the value; `None` for workflows.
    #[serde(skip_serializing_if = "Option::is_none")]
    pointer: Option<String>,
    message: String,
    hint: String,
}

/// JSON has no form for a path that is not UTF-8.
fn as_text<S: serde::Serializer>(path: &Path, to: S) -> Result<S::Ok, S::Error> {
    to.serialize_str(&path.to_string_lossy())
}

fn severity_word<S: serde::Serializer>(severity: &Severity, to: S) -> Result<S::Ok, S::Error> {
    to.serialize_str(match severity {
        Severity::Error => "error",
        Severity::Warning => "warning",
    })
}

impl Checked {
    pub(super) fn errors(&self) -> usize {
        self.findings.iter().filter(|finding| finding.severity == Severity::Error).count()
    }
}

impl Finding {
    fn from_violation(severity: Severity, violation: Violation, tree: &Node) -> Self {
        let Violation { rule, pointer, message, repair } = violation;
        let SourcePos { line, column } = tree.find(&pointer);
        Self { severity, rule, line, column, pointer: Some(pointer), message, hint: repair }
    }

    pub(super) fn diagnostic(&self) -> Diagnostic<'_> {
        let Self { severity, rule, line, column, pointer: _, message, hint } = self;
        Diagnostic { severity: *severity, rule, line: *line, column: *column, message, hint }
    }

    fn from_problem(severity: Severity, problem: Problem) -> Self {
        let Problem { line, column, rule, message, hint } = problem;
        Self { severity, rule: rule.name(), line, column, pointer: None, message, hint }
    }
}

/// Checks a file, in the given format or else in the detected one.
pub(super) fn check(file: &Path, format: Option<Format>, repo: Option<&Path>) -> Result<Checked, Failure> {
    let source = read(file)?;
    let guess = format.map_or_else(|| guess(file, &source), Guess::Format);
    let (format, (content, findings)) = match guess {
        Guess::Format(Format::Workflow) => {
            let repo = match repo {
                Some(repo) => repo.to_owned(),
                None => repository(file)?,
            };
            (Some(Format::Workflow), check_workflow(&repo, file, &source))
        }
        Guess::Format(format @ Format::Steps) => (Some(format), check_json(&source, check_steps)),
        Guess::Format(format @ Format::Peer) => (Some(format), check_json(&source, check_peer_cycle)),
        Guess::Format(format @ Format::Other(other)) => {
            (Some(format), check_json(&source, |value| check_other(other, &value)))
        }
        Guess::BrokenJson => (None, check_json(&source, check_steps)),
        Guess::Unknown => (None, (None, vec![unknown_format()])),
    };
    let mut checked = Checked {
        file: file.to_owned(),
        format,
        steps: None,
        peer_cycle: None,
        summary: None,
        findings,
        source,
    };
    match content {
        Some(ValidContent::Steps(steps)) => checked.steps = Some(steps),
        Some(ValidContent::PeerCycle(cycle)) => checked.peer_cycle = Some(cycle),
        Some(ValidContent::Other(summary)) => checked.summary = Some(summary),
        None => {}
    }
    Ok(checked)
}

fn read(file: &Path) -> Result<String, Failure> {
    let cannot = || format!("cannot read `{}`", file.display());
    let mut text = String::new();
    let opened = fs::File::open(file);
    let length = opened.and_then(|opened| opened.take(MAX_BYTES + 1).read_to_string(&mut text));
    match length {
        Ok(length) if length as u64 > MAX_BYTES => {
            Err(Failure::usage(cannot()).hint(format!("choose a file of at most {MAX_BYTES} bytes")))
        }
        Ok(_) => Ok(text),
        Err(error) if error.kind() == io::ErrorKind::IsADirectory => Err(Failure::usage(cannot())
            .because(Some(&error))
            .hint(format!("name its files: `callboard check {}/*.json`", shell_word(file)))),
        Err(error) => Err(Failure::usage(cannot()).because(Some(&error))),
    }
}

/// Returns the repository around a file, or else the current directory, as `run` does.
pub(in crate::cli) fn repository(file: &Path) -> Result<PathBuf, Failure> {
    let cannot = |error| Failure::usage(format!("cannot read `{}`", file.display())).because(Some(&error));
    let file = file.canonicalize().map_err(cannot)?;
    let around = store::repository(file.parent().unwrap_or(Path::new("/")))?;
    Ok(around.and_then(|found| found.work_tree).unwrap_or_else(|| PathBuf::from(".")))
}

/// What a file without errors contains: a number of steps, a peer cycle, or a summary in words.
enum ValidContent {
    Steps(usize),
    PeerCycle(PeerCycle),
    Other(String),
}

/// The content, if there are no errors, and all findings.
type ContentAndFindings = (Option<ValidContent>, Vec<Finding>);

fn check_workflow(repo: &Path, file: &Path, source: &str) -> ContentAndFindings {
    let workflow::ReadResult { workflow, problems, warnings } =
        workflow::read(repo, file, source, &KnownChecks::of(repo));
    let errors = problems.into_iter().map(|problem| Finding::from_problem(Severity::Error, problem));
    let warnings = warnings.into_iter().map(|warning| Finding::from_problem(Severity::Warning, warning));
    let mut findings: Vec<_> = errors.chain(warnings).collect();
    findings.sort_by_key(|finding| (finding.line, finding.column));
    (workflow.map(|(workflow, _)| ValidContent::Steps(workflow.steps_in_file().count())), findings)
}

/// The result of checking a document against the rules of its format.
struct RuleCheck {
    violations: Vec<Violation>,
    warnings: Vec<Violation>,
    content: Option<ValidContent>,
}

fn check_json(source: &str, rules: impl FnOnce(Value) -> RuleCheck) -> ContentAndFindings {
    let value: Value = match serde_json::from_str(source) {
        Ok(value) => value,
        Err(error) => return (None, vec![broken_json(source, &error)]),
    };
    let RuleCheck { violations, warnings, content } = rules(value);
    if violations.is_empty() && warnings.is_empty() {
        return (content, Vec::new());
    }
    let tree = Node::from_json(source).expect("BUG: the text has just been parsed");
    let violations =
        violations.into_iter().map(|found| Finding::from_violation(Severity::Error, found, &tree));
    let warnings = warnings.into_iter().map(|found| Finding::from_violation(Severity::Warning, found, &tree));
    let mut findings: Vec<_> = violations.chain(warnings).collect();
    findings.sort_by_key(|finding| (finding.line, finding.column));
    (content, findings)
}

fn check_steps(value: Value) -> RuleCheck {
    let violations = steps::check(&value);
    let steps = value["steps"].as_object().map(serde_json::Map::len).filter(|_| violations.is_empty());
    RuleCheck { violations, warnings: Vec::new(), content: steps.map(ValidContent::Steps) }
}

fn check_peer_cycle(value: Value) -> RuleCheck {
    let peer::RuleViolations { violations, warnings } = peer::check(&value);
    let content = violations.is_empty().then(|| {
        let document: peer::Document =
            serde_json::from_value(value).expect("BUG: a valid document cannot be read");
        ValidContent::PeerCycle(PeerCycle {
            id: document.cycle_id.to_string(),
            status: document.status_with_phase().to_string(),
        })
    });
    RuleCheck { violations, warnings, content }
}

fn check_other(format: &FileFormat, value: &Value) -> RuleCheck {
    let CheckedFile { violations, warnings, summary } = (format.check)(value);
    let content = violations.is_empty().then_some(ValidContent::Other(summary));
    RuleCheck { violations, warnings, content }
}

fn broken_json(source: &str, error: &serde_json::Error) -> Finding {
    let line = error.line().max(1);
    // serde_json counts bytes from 1, and has column 0 right after a line break.
    let text = source.split('\n').nth(line - 1).unwrap_or_default();
    let before = text.char_indices().take_while(|(start, _)| start + 1 < error.column()).count();
    let hint = if source.starts_with('\u{feff}') {
        "remove the byte order mark before the first character"
    } else if error.is_eof() {
        "the file is truncated; the store still has the run, see `callboard show`"
    } else {
        "look just before this position: a comma, a quote or a bracket may be missing or superfluous"
    };
    let text = error.to_string();
    let reason = text.split(" at line ").next().unwrap_or_default();
    Finding {
        severity: Severity::Error,
        rule: "broken-json",
        line,
        column: before + 1,
        pointer: None,
        message: format!("this is not valid JSON: {reason}"),
        hint: hint.to_owned(),
    }
}

fn unknown_format() -> Finding {
    Finding {
        severity: Severity::Error,
        rule: "unknown-format",
        line: 1,
        column: 1,
        pointer: None,
        message: "the format of this file is unknown".to_owned(),
        hint: format!(
            "choose one with `--as`: `workflow` (a list of `steps`), `steps` (`run_state.json`, with `run_id` and `steps`), \
             `peer` (with `cycle_id` and `phases`), {}",
            Format::names_of_others()
        ),
    }
}

#[cfg(test)]
mod tests;
