//! The fields of each agent's report, typed.
//!
//! One role works in each phase: `ra` (requirements analyst), `ep` (exploration planner), `cd` (code developer), `vas` (validation
//! archivist).

use serde::{Deserialize, Deserializer, Serialize};
use serde_json::{Map, Number, Value};

use crate::cycle::document::{FileAction, PlanTask};
use crate::cycle::step::Role;

/// What every agent may report.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub(in crate::cycle) struct CommonFields {
    pub(in crate::cycle) summary: Option<String>,
    pub(in crate::cycle) files_written: Vec<String>,
    pub(in crate::cycle) decisions: Vec<ReportedDecision>,
    pub(in crate::cycle) blockers: Vec<ReportedBlocker>,
    /// `partial` if the agent could not do everything.
    pub(in crate::cycle) phase_status: PhaseStatus,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(in crate::cycle) enum PhaseStatus {
    #[default]
    #[serde(alias = "completed")]
    Success,
    Partial,
}

/// The report of `ra`.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub(in crate::cycle) struct AnalystFields {
    /// The requirements stay as they are.
    pub(in crate::cycle) unchanged: bool,
    pub(in crate::cycle) specification: Option<String>,
    pub(in crate::cycle) edge_cases: Option<Vec<String>>,
    #[serde(flatten)]
    pub(in crate::cycle) common: CommonFields,
}

/// The report of `ep`.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub(in crate::cycle) struct PlannerFields {
    /// Exploration and plan stay as they are.
    pub(in crate::cycle) unchanged: bool,
    pub(in crate::cycle) architecture_summary: Option<String>,
    pub(in crate::cycle) integration_points: Option<Vec<String>>,
    pub(in crate::cycle) identified_risks: Option<Vec<String>>,
    /// The text of `architecture.md`; by default the summary.
    pub(in crate::cycle) architecture: Option<String>,
    pub(in crate::cycle) tasks: Option<Vec<PlanTask>>,
    pub(in crate::cycle) total_estimated_effort: Option<String>,
    pub(in crate::cycle) critical_path: Option<Vec<String>>,
    pub(in crate::cycle) parallel_opportunities: Option<Value>,
    #[serde(flatten)]
    pub(in crate::cycle) common: CommonFields,
}

/// The report of `cd`.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub(in crate::cycle) struct DeveloperFields {
    pub(in crate::cycle) tasks_completed: Vec<String>,
    pub(in crate::cycle) tasks_blocked: Vec<String>,
    pub(in crate::cycle) changes: Vec<ReportedChange>,
    /// Changed files without a description, as the text block `PHASE_RESULT` (`phase_result.rs`) lists them.
    pub(in crate::cycle) files_modified: Vec<String>,
    pub(in crate::cycle) implementation: Option<String>,
    pub(in crate::cycle) debug_log: Vec<ReportedExperiment>,
    pub(in crate::cycle) issues: Vec<String>,
    #[serde(flatten)]
    pub(in crate::cycle) common: CommonFields,
}

impl DeveloperFields {
    /// Returns whether the report says nothing about the work.
    pub(in crate::cycle) fn is_empty(&self) -> bool {
        let Self {
            tasks_completed,
            tasks_blocked,
            changes,
            files_modified,
            implementation,
            debug_log,
            issues,
            common: _,
        } = self;
        tasks_completed.is_empty()
            && tasks_blocked.is_empty()
            && changes.is_empty()
            && files_modified.is_empty()
            && implementation.is_none()
            && debug_log.is_empty()
            && issues.is_empty()
    }
}

/// The report of `vas`.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub(in crate::cycle) struct ValidatorFields {
    #[serde(alias = "test_pass_rate", deserialize_with = "rate")]
    pub(in crate::cycle) pass_rate: Option<Number>,
    #[serde(deserialize_with = "rate")]
    pub(in crate::cycle) coverage: Option<Number>,
    pub(in crate::cycle) failed_tests: Vec<String>,
    pub(in crate::cycle) total_tests: Option<u64>,
    pub(in crate::cycle) critical_issues: Vec<String>,
    /// How the code meets each requirement, for `validation.md`.
    pub(in crate::cycle) validation: Option<String>,
    /// `by_file`, and other figures that the agent has measured.
    pub(in crate::cycle) coverage_details: Option<Value>,
    pub(in crate::cycle) by_suite: Option<Value>,
    #[serde(flatten)]
    pub(in crate::cycle) common: CommonFields,
}

impl ValidatorFields {
    /// Returns whether the report says nothing about the work.
    pub(in crate::cycle) fn is_empty(&self) -> bool {
        let Self {
            pass_rate,
            coverage,
            failed_tests,
            total_tests,
            critical_issues,
            validation,
            coverage_details,
            by_suite,
            common: _,
        } = self;
        pass_rate.is_none()
            && coverage.is_none()
            && failed_tests.is_empty()
            && total_tests.is_none()
            && critical_issues.is_empty()
            && validation.is_none()
            && coverage_details.is_none()
            && by_suite.is_none()
    }
}

#[derive(Debug, Clone, Deserialize)]
pub(in crate::cycle) struct ReportedChange {
    pub(in crate::cycle) file: String,
    #[serde(default)]
    pub(in crate::cycle) action: FileAction,
    #[serde(default)]
    pub(in crate::cycle) description: String,
    /// `task`, `lines_added`, `lines_removed`. Kept as the agent reported them.
    #[serde(flatten)]
    pub(in crate::cycle) unknown: Map<String, Value>,
}

/// A hypothesis about a failure, and what the agent found out about it.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(in crate::cycle) struct ReportedExperiment {
    /// `issue_id`, `file`, `hypothesis`, `action`, `observation`.
    #[serde(flatten)]
    pub(in crate::cycle) fields: Map<String, Value>,
    pub(in crate::cycle) outcome: ExperimentOutcome,
}

#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(in crate::cycle) enum ExperimentOutcome {
    Confirmed,
    Refuted,
    Inconclusive,
}

#[derive(Debug, Clone, Deserialize)]
pub(in crate::cycle) struct ReportedDecision {
    pub(in crate::cycle) description: String,
    pub(in crate::cycle) options: Vec<String>,
    #[serde(default)]
    pub(in crate::cycle) recommended: Option<String>,
    /// The role that waits for the decision, if the agent names one.
    #[serde(default)]
    pub(in crate::cycle) needed_by: Option<Role>,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(untagged)]
pub(in crate::cycle) enum ReportedBlocker {
    Text(String),
    Described {
        description: String,
        #[serde(default)]
        needed_by: Option<Role>,
    },
}

impl ReportedBlocker {
    pub(in crate::cycle) fn description(&self) -> &str {
        match self {
            Self::Text(description) | Self::Described { description, .. } => description,
        }
    }

    pub(in crate::cycle) fn needed_by(&self) -> Option<Role> {
        match self {
            Self::Text(_) => None,
            Self::Described { needed_by, .. } => *needed_by,
        }
    }
}

/// Reads a rate in percent: `92`, `"92%"` or `"11/12"`.
fn rate<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Number>, D::Error> {
    use serde::de::Error as _;
    let value = Value::deserialize(deserializer)?;
    let rate = match &value {
        Value::Null => return Ok(None),
        Value::Number(number) => Some(number.clone()),
        Value::String(text) => parse_rate(text),
        Value::Bool(_) | Value::Array(_) | Value::Object(_) => None,
    };
    match rate {
        Some(rate) if is_rate(&rate) => Ok(Some(rate)),
        Some(_) | None => Err(D::Error::custom(format!("`{value}` is not a rate from 0 to 100"))),
    }
}

/// Returns whether a number is between 0 and 100.
pub(in crate::cycle) fn is_rate(rate: &Number) -> bool {
    rate.as_f64().is_some_and(|rate| (0.0..=100.0).contains(&rate))
}

/// Reads `92%`, `92.5` or `11/12` as a percentage, which may be out of bounds.
pub(in crate::cycle) fn parse_rate(text: &str) -> Option<Number> {
    let text = text.trim();
    if let Some((part, whole)) = text.split_once('/') {
        let (part, whole): (u64, u64) = (part.trim().parse().ok()?, whole.trim().parse().ok()?);
        return Some(percent(part, whole));
    }
    let text = text.strip_suffix('%').unwrap_or(text).trim();
    text.parse::<u64>().ok().map(Number::from).or_else(|| Number::from_f64(text.parse().ok()?))
}

/// Returns a percentage with at most two decimals; 100 if `whole` is 0.
pub(in crate::cycle) fn percent(part: u64, whole: u64) -> Number {
    if whole == 0 {
        return 100.into();
    }
    let hundredths = part.saturating_mul(10_000) / whole;
    if hundredths.is_multiple_of(100) {
        return (hundredths / 100).into();
    }
    let rate = format!("{}.{:02}", hundredths / 100, hundredths % 100);
    rate.parse().ok().and_then(Number::from_f64).unwrap_or_else(|| (hundredths / 100).into())
}
