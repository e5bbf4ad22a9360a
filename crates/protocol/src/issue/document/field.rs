//! Fields with a closed set of values. A field may have another text, such as the placeholder `BUG_FIX | NEW_FEATURE` of the
//! original's template. It is written back unchanged.

use serde::{Deserialize, Serialize};

/// A value of the enum `T`, or the text that the field has instead.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum EnumOrText<T> {
    Known(T),
    Other(String),
}

impl<T: Default> Default for EnumOrText<T> {
    fn default() -> Self {
        Self::Known(T::default())
    }
}

impl<T: Copy> EnumOrText<T> {
    /// Returns the value; `None` if the field has another text.
    pub fn known(&self) -> Option<T> {
        match self {
            Self::Known(value) => Some(*value),
            Self::Other(_) => None,
        }
    }
}

/// The type of an issue.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum IssueType {
    BugFix,
    NewFeature,
    RefactorStyle,
}

impl IssueType {
    /// Returns the type of a conventional commit.
    pub fn commit_type(self) -> &'static str {
        match self {
            Self::BugFix => "fix",
            Self::NewFeature => "feat",
            Self::RefactorStyle => "refactor",
        }
    }
}

/// The status of the pipeline.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PipelineStatus {
    InProgress,
    Completed,
    Failed,
    Blocked,
}

/// How many files an issue concerns.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum Scope {
    Small,
    Medium,
    Large,
}

/// How hard an issue is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Complexity {
    Simple,
    Moderate,
    Complex,
}

/// The reviewer's verdict.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum ReviewVerdict {
    Approved,
    Rejected,
    NeedsInfo,
}

/// How bad a finding of the reviewer is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Severity {
    Critical,
    Major,
    Minor,
}
