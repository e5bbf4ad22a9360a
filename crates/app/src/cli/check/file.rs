//! One file: read, recognised, and held against the rules of its format.

use std::fs;
use std::io::Read as _;
use std::path::{Path, PathBuf};

use protocol::check::{Place, Places, Violation};
use protocol::steps;
use protocol::steps::load::Problem;
use serde::Serialize;
use serde_json::Value;

use super::format::{Format, Guess, guess};
use crate::failure::Failure;
use crate::render::{Remark, Severity};
use crate::stage::workflow;

/// The longest file we look at; the state of 10,000 steps takes a tenth of it.
const LONGEST: u64 = 64 * 1024 * 1024;

/// What checking a file has shown.
#[derive(Debug, Serialize)]
pub(super) struct Checked {
    pub(super) file: PathBuf,
    format: Option<Format>,
    /// How many steps it has, if nothing is wrong with them.
    pub(super) steps: Option<usize>,
    /// In the order of the file.
    pub(super) findings: Vec<Finding>,
    #[serde(skip)]
    pub(super) source: String,
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
    let (format, (steps, findings)) = match guess {
        Guess::Format(Format::Workflow) => {
            let repo = match repo {
                Some(repo) => repo.to_owned(),
                None => repository(file)?,
            };
            (Some(Format::Workflow), check_workflow(&repo, file, &source))
        }
        Guess::Format(Format::Steps) => (Some(Format::Steps), check_state(&source)),
        Guess::BrokenJson => (None, check_state(&source)),
        Guess::Unknown => (None, (None, vec![unknown_format()])),
    };
    Ok(Checked { file: file.to_owned(), format, steps, findings, source })
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

type Findings = (Option<usize>, Vec<Finding>);

fn check_workflow(repo: &Path, file: &Path, source: &str) -> Findings {
    let workflow::Read { whole, problems, warnings } = workflow::read(repo, file, source);
    let errors = problems.into_iter().map(|problem| Finding::of(Severity::Error, problem));
    let warnings = warnings.into_iter().map(|warning| Finding::of(Severity::Warning, warning));
    let mut findings: Vec<_> = errors.chain(warnings).collect();
    findings.sort_by_key(|finding| (finding.line, finding.column));
    (whole.map(|(workflow, _)| workflow.steps.len()), findings)
}

fn check_state(source: &str) -> Findings {
    let value: Value = match serde_json::from_str(source) {
        Ok(value) => value,
        Err(error) => return (None, vec![broken_json(source, &error)]),
    };
    let violations = steps::check(&value);
    if violations.is_empty() {
        let steps = value["steps"].as_object().map(serde_json::Map::len);
        return (steps, Vec::new());
    }
    let places = Places::of(source);
    let findings = violations.into_iter().map(|violation| {
        let Violation { rule, pointer, message, repair } = violation;
        let Place { line, column } = places.find(&pointer);
        Finding {
            severity: Severity::Error,
            rule,
            line,
            column,
            pointer: Some(pointer),
            message,
            hint: repair,
        }
    });
    let mut findings: Vec<_> = findings.collect();
    findings.sort_by_key(|finding| (finding.line, finding.column));
    (None, findings)
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
        hint: "known are `workflow` (a list of `steps`) and `steps` (`run_state.json`, with `run_id` and `steps`); \
               `--as` names one"
            .to_owned(),
    }
}

#[cfg(test)]
mod tests;
