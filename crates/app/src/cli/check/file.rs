//! One file: read, recognised, and held against the rules of its format.

use std::fs;
use std::io::Read as _;
use std::path::{Path, PathBuf};

use protocol::check::Violation;
use protocol::located::{Node, SourcePos};
use protocol::steps::load::Problem;
use protocol::{peer, steps};
use serde::Serialize;
use serde_json::Value;

use super::format::{Format, Guess, guess};
use crate::failure::Failure;
use crate::output::{Remark, Severity};
use crate::workspace::definition::workflow;

/// The longest file we look at; the state of 10,000 steps takes a tenth of it.
const LONGEST: u64 = 64 * 1024 * 1024;

/// What checking a file has shown.
#[derive(Debug, Serialize)]
pub(super) struct Checked {
    pub(super) file: PathBuf,
    format: Option<Format>,
    /// How many steps it has, if nothing is wrong with them.
    pub(super) steps: Option<usize>,
    /// Which cycle it is and where that stands, if nothing is wrong with it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) cycle: Option<Cycle>,
    /// In the order of the file.
    pub(super) findings: Vec<Finding>,
    #[serde(skip)]
    pub(super) source: String,
}

#[derive(Debug, Serialize)]
pub(super) struct Cycle {
    pub(super) id: String,
    pub(super) position: String,
}

#[derive(Debug, Serialize)]
pub(super) struct Finding {
    #[serde(serialize_with = "word")]
    severity: Severity,
    rule: &'static str,
    line: usize,
    column: usize,
    /// The JSON pointer of the value concerned; workflows have none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pointer: Option<String>,
    message: String,
    hint: String,
}

fn word<S: serde::Serializer>(severity: &Severity, to: S) -> Result<S::Ok, S::Error> {
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
    fn at(severity: Severity, violation: Violation, tree: &Node) -> Self {
        let Violation { rule, pointer, message, repair } = violation;
        let SourcePos { line, column } = tree.find(&pointer);
        Self { severity, rule, line, column, pointer: Some(pointer), message, hint: repair }
    }

    pub(super) fn remark(&self) -> Remark<'_> {
        let Self { severity, rule, line, column, pointer: _, message, hint } = self;
        Remark { severity: *severity, rule, line: *line, column: *column, message, hint }
    }

    fn of(severity: Severity, problem: Problem) -> Self {
        let Problem { line, column, rule, message, hint } = problem;
        Self { severity, rule: rule.name(), line, column, pointer: None, message, hint }
    }
}

/// Checks a file as what it is said to be, or as what it looks like.
pub(super) fn check(file: &Path, said: Option<Format>, repo: Option<&Path>) -> Result<Checked, Failure> {
    let source = read(file)?;
    let guess = said.map_or_else(|| guess(file, &source), Guess::Format);
    let (format, (whole, findings)) = match guess {
        Guess::Format(Format::Workflow) => {
            let repo = match repo {
                Some(repo) => repo.to_owned(),
                None => repository(file)?,
            };
            (Some(Format::Workflow), check_workflow(&repo, file, &source))
        }
        Guess::Format(format @ Format::Steps) => (Some(format), check_json(&source, check_steps)),
        Guess::Format(format @ Format::Peer) => (Some(format), check_json(&source, check_cycle)),
        Guess::BrokenJson => (None, check_json(&source, check_steps)),
        Guess::Unknown => (None, (None, vec![unknown_format()])),
    };
    let (steps, cycle) = match whole {
        Some(Whole::Steps(steps)) => (Some(steps), None),
        Some(Whole::Cycle(cycle)) => (None, Some(cycle)),
        None => (None, None),
    };
    Ok(Checked { file: file.to_owned(), format, steps, cycle, findings, source })
}

fn read(file: &Path) -> Result<String, Failure> {
    let cannot = || format!("cannot read `{}`", file.display());
    let mut text = String::new();
    let opened = fs::File::open(file);
    let length = opened.and_then(|opened| opened.take(LONGEST + 1).read_to_string(&mut text));
    match length {
        Ok(length) if length as u64 > LONGEST => {
            Err(Failure::usage(cannot()).hint(format!("it has more than {LONGEST} bytes")))
        }
        Ok(_) => Ok(text),
        Err(error) => Err(Failure::usage(cannot()).because(Some(&error))),
    }
}

/// The repository around a file, else the current directory, which is what `run` takes.
pub(in crate::cli) fn repository(file: &Path) -> Result<PathBuf, Failure> {
    let cannot = |error| Failure::usage(format!("cannot read `{}`", file.display())).because(Some(&error));
    let file = file.canonicalize().map_err(cannot)?;
    let around = store::repository(file.parent().unwrap_or(Path::new("/")))?;
    Ok(around.and_then(|found| found.work_tree).unwrap_or_else(|| PathBuf::from(".")))
}

/// What a file holds in which nothing is wrong.
enum Whole {
    Steps(usize),
    Cycle(Cycle),
}

type Findings = (Option<Whole>, Vec<Finding>);

fn check_workflow(repo: &Path, file: &Path, source: &str) -> Findings {
    let workflow::Read { whole, problems, warnings } = workflow::read(repo, file, source);
    let errors = problems.into_iter().map(|problem| Finding::of(Severity::Error, problem));
    let warnings = warnings.into_iter().map(|warning| Finding::of(Severity::Warning, warning));
    let mut findings: Vec<_> = errors.chain(warnings).collect();
    findings.sort_by_key(|finding| (finding.line, finding.column));
    (whole.map(|(workflow, _)| Whole::Steps(workflow.steps.len())), findings)
}

/// What a format's rules say of a document.
struct Rules {
    violations: Vec<Violation>,
    warnings: Vec<Violation>,
    whole: Option<Whole>,
}

fn check_json(source: &str, rules: fn(Value) -> Rules) -> Findings {
    let value: Value = match serde_json::from_str(source) {
        Ok(value) => value,
        Err(error) => return (None, vec![broken_json(source, &error)]),
    };
    let Rules { violations, warnings, whole } = rules(value);
    if violations.is_empty() && warnings.is_empty() {
        return (whole, Vec::new());
    }
    let tree = Node::from_json(source).expect("BUG: the text has just been parsed");
    let violations = violations.into_iter().map(|found| Finding::at(Severity::Error, found, &tree));
    let warnings = warnings.into_iter().map(|found| Finding::at(Severity::Warning, found, &tree));
    let mut findings: Vec<_> = violations.chain(warnings).collect();
    findings.sort_by_key(|finding| (finding.line, finding.column));
    (whole, findings)
}

fn check_steps(value: Value) -> Rules {
    let violations = steps::check(&value);
    let steps = value["steps"].as_object().map(serde_json::Map::len).filter(|_| violations.is_empty());
    Rules { violations, warnings: Vec::new(), whole: steps.map(Whole::Steps) }
}

fn check_cycle(value: Value) -> Rules {
    let peer::Checked { violations, warnings } = peer::check(&value);
    let whole = violations.is_empty().then(|| {
        let document: peer::Document =
            serde_json::from_value(value).expect("BUG: a document that keeps the rules can be read");
        Whole::Cycle(Cycle { id: document.cycle_id.to_string(), position: document.position().to_string() })
    });
    Rules { violations, warnings, whole }
}

fn broken_json(source: &str, error: &serde_json::Error) -> Finding {
    let line = error.line().max(1);
    // Theirs counts bytes, and is 0 right behind a line's end.
    let text = source.split('\n').nth(line - 1).unwrap_or_default();
    let before = text.char_indices().take_while(|(start, _)| start + 1 < error.column()).count();
    let hint = if source.starts_with('\u{feff}') {
        "remove the byte order mark before the first character"
    } else if error.is_eof() {
        "the file ends too early; if it was cut off, `callboard show` still has the run"
    } else {
        "look just before this place: a comma, a quote or a bracket may be missing or too many"
    };
    let said = error.to_string();
    let said = said.split(" at line ").next().unwrap_or_default();
    Finding {
        severity: Severity::Error,
        rule: "broken-json",
        line,
        column: before + 1,
        pointer: None,
        message: format!("this is not valid JSON: {said}"),
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
        message: "this is no format that can be checked".to_owned(),
        hint: "known are `workflow` (a list of `steps`), `steps` (`run_state.json`, with `run_id` and `steps`) and \
               `peer` (a cycle, with `cycle_id` and `phases`); `--as` names one"
            .to_owned(),
    }
}

#[cfg(test)]
mod tests;
