//! `when`: what must be true for a step to run. If it is not, the step is skipped.

use std::fmt;

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::StepId;
use crate::protocol_trait::{Effect, ParsedReport};
use crate::report::Report;
use crate::steps::document::{Document, Status};
use crate::steps::step::Verdict;
use crate::steps::workflow::StepSpec;

/// The effect that looks for files. It changes nothing, and is an effect because only the engine can read files.
pub const FIND_ARTIFACTS: &str = "find-artifacts";

/// The argument of the effect: the files to look for.
pub const PATHS: &str = "paths";

/// The field of the effect's report: the files that exist.
pub const EXISTING: &str = "existing";

/// One condition of `when`. All of them must hold, or the step is skipped. The conditions in `gates` are others:
/// the step waits for those.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum When {
    /// The step was completed, or skipped.
    Status { step: StepId, status: EndStatus },
    /// The metric of the step's report compares like this.
    Metric { step: StepId, metric: String, comparison: Comparison },
    /// The file exists. The path is relative to the repository.
    Artifact(String),
}

/// How a step that others need has ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum EndStatus {
    Completed,
    Skipped,
}

/// A comparison with a value.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Comparison {
    Is(Operand),
    IsNot(Operand),
    Above(f64),
    AtLeast(f64),
    Below(f64),
    AtMost(f64),
}

/// What a metric is compared with.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Operand {
    Number(f64),
    Word(String),
}

impl fmt::Display for Operand {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Number(number) => write!(f, "{number}"),
            Self::Word(word) => write!(f, "`{word}`"),
        }
    }
}

impl When {
    /// Returns the step that the condition is about.
    pub fn step(&self) -> Option<&StepId> {
        match self {
            Self::Status { step, .. } | Self::Metric { step, .. } => Some(step),
            Self::Artifact(_) => None,
        }
    }
}

impl Comparison {
    /// Returns why the value does not compare like this; `None` if it does.
    fn unmet(&self, value: &str) -> Option<String> {
        let number = || value.trim().parse::<f64>().map_err(|_| format!("`{value}`, which is no number"));
        let compared = |holds: fn(&f64, &f64) -> bool, limit: &f64, word: &str| match number() {
            Ok(number) if holds(&number, limit) => None,
            Ok(number) => Some(format!("{number}, not {word} {limit}")),
            Err(why) => Some(why),
        };
        let equals = |operand: &Operand| match operand {
            Operand::Number(expected) => number().is_ok_and(|number| number == *expected),
            Operand::Word(expected) => value == expected,
        };
        match self {
            Self::Is(operand) => (!equals(operand)).then(|| format!("`{value}`, not {operand}")),
            Self::IsNot(operand) => equals(operand).then(|| format!("`{value}`")),
            Self::Above(limit) => compared(f64::gt, limit, "above"),
            Self::AtLeast(limit) => compared(f64::ge, limit, "at least"),
            Self::Below(limit) => compared(f64::lt, limit, "below"),
            Self::AtMost(limit) => compared(f64::le, limit, "at most"),
        }
    }
}

/// Returns the effect that looks for the files of a step's conditions.
pub(in crate::steps) fn effect(step: &StepSpec) -> Effect {
    let paths = step.when.iter().filter_map(|when| match when {
        When::Artifact(path) => Some(path),
        When::Status { .. } | When::Metric { .. } => None,
    });
    Effect { name: FIND_ARTIFACTS, arguments: json!({ PATHS: paths.collect::<Vec<_>>() }) }
}

/// Returns whether the step runs.
pub(in crate::steps) fn parse(
    document: &Document,
    step: &StepSpec,
    report: &Report,
) -> ParsedReport<Verdict> {
    ParsedReport::Verdict(match unmet(document, step, report) {
        None => Verdict::Done,
        Some(_) => Verdict::Skip,
    })
}

/// Returns why the step does not run; `None` if all its conditions hold.
pub(in crate::steps) fn unmet(document: &Document, step: &StepSpec, report: &Report) -> Option<String> {
    step.when.iter().find_map(|when| match when {
        When::Status { step, status } => {
            let is_skipped = document.step(step.as_str()).is_some_and(|step| step.status == Status::Skipped);
            match (status, is_skipped) {
                (EndStatus::Completed, false) | (EndStatus::Skipped, true) => None,
                (EndStatus::Completed, true) => Some(format!("`{step}` was skipped")),
                (EndStatus::Skipped, false) => Some(format!("`{step}` was not skipped")),
            }
        }
        When::Metric { step, metric, comparison } => {
            let Some(value) = document.step(step.as_str()).and_then(|step| step.metrics.get(metric)) else {
                return Some(format!("`{step}` reported no metric `{metric}`"));
            };
            let value = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
            comparison.unmet(&value).map(|why| format!("`{metric}` of `{step}` is {why}"))
        }
        When::Artifact(path) => {
            let existing = report.extra_fields.get(EXISTING).and_then(Value::as_array);
            let exists = existing.is_some_and(|existing| existing.iter().any(|other| other == path.as_str()));
            (!exists).then(|| format!("`{path}` does not exist"))
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn metrics_are_compared_as_numbers_or_as_words() {
        let number = |number| Operand::Number(number);
        let word = |word: &str| Operand::Word(word.to_owned());
        for (comparison, value, unmet) in [
            (Comparison::Below(80.0), "79.5", None),
            (Comparison::Below(80.0), "80", Some("80, not below 80")),
            (Comparison::AtMost(80.0), "80", None),
            (Comparison::Above(0.0), "0", Some("0, not above 0")),
            (Comparison::AtLeast(1.5), " 1.5 ", None),
            (Comparison::AtLeast(1.0), "n/a", Some("`n/a`, which is no number")),
            (Comparison::Is(number(3.0)), "3.0", None),
            (Comparison::Is(word("high")), "high", None),
            (Comparison::Is(word("high")), "low", Some("`low`, not `high`")),
            (Comparison::IsNot(word("low")), "high", None),
            (Comparison::IsNot(number(0.0)), "0", Some("`0`")),
        ] {
            assert_eq!(comparison.unmet(value).as_deref(), unmet, "{comparison:?} {value}");
        }
    }
}
