//! The brief: all that one attempt is told, as data. The runner turns it into files and an environment.

use std::num::NonZeroU32;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::report::{Form, Report};

/// What an attempt is told.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Brief {
    /// What the run is about: the workflow's name.
    pub workflow: String,
    /// The kind of agent that is asked; an adapter of this name may be configured.
    pub agent: String,
    /// The frozen prompt, verbatim.
    pub prompt: String,
    pub model: Option<String>,
    #[serde(skip)]
    pub timeout: Option<Duration>,
    /// The number of this attempt among those that count.
    pub counted: u32,
    /// How many attempts count in all.
    pub of: NonZeroU32,
    /// Why the attempt before this one failed.
    pub last_error: Option<String>,
    /// What the report is to have.
    #[serde(skip)]
    pub form: Form,
    /// Where the run's document is kept, if agents may read and write it themselves.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub state: Option<Whereabouts>,
    /// What earlier steps handed over, in the order they are needed.
    pub upstream: Vec<Upstream>,
    /// How often the step was sent back.
    pub iteration: u32,
    /// Why it was sent back, if this is the turn for it.
    pub findings: Vec<Finding>,
}

/// Where a run's document is kept. The store itself is known to whoever starts the attempt.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Whereabouts {
    pub bucket: String,
    pub key: String,
    /// The document's own name for what it is about.
    pub document: String,
}

/// What a gate found.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Finding {
    /// The gate's step.
    pub from: String,
    /// The file that shows its report.
    pub report_path: String,
    pub report: Report,
}

/// What an earlier step handed over.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Upstream {
    pub step: String,
    /// Relative to the repository.
    pub artifacts: Vec<String>,
    pub logs: Vec<String>,
}
