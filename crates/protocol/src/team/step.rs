//! The steps of a run, and the closed sets of verdicts that their reports and answers have.

use std::collections::BTreeSet;
use std::fmt;

use serde::{Deserialize, Serialize};

use super::definition::GroupId;
use crate::StepId;
use crate::protocol_trait::StepKind;

/// A step: of the project manager, or of a group.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "StepId", into = "StepId")]
pub enum Step {
    Pm(PmStep),
    Group(GroupId, Role),
}

/// A step that belongs to no group.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum PmStep {
    /// The project manager splits the request into groups, or a group into smaller ones.
    Plan,
    /// The commands of the success criteria run on the integration branch, into which the groups are merged.
    Criteria,
    /// The project manager checks whether the request is fulfilled.
    Check,
    /// A person decides after too many checks.
    Decision,
    /// The base branch is fast-forwarded to the integration branch.
    Merge,
}

/// A step of a group: the part of a role, or the work of the engine (`Merge`) or of a person (`Decision`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Role {
    Developer,
    Qa,
    /// Reviews the group, or helps the role that is blocked.
    TechLead,
    /// The group's branch is merged into the integration branch.
    Merge,
    /// A person decides what becomes of the group.
    Decision,
}

impl PmStep {
    pub(super) const ALL: [Self; 5] = [Self::Plan, Self::Criteria, Self::Check, Self::Decision, Self::Merge];

    pub(super) fn as_str(self) -> &'static str {
        match self {
            Self::Plan => "plan",
            Self::Criteria => "criteria",
            Self::Check => "check",
            Self::Decision => "decision",
            Self::Merge => "merge",
        }
    }
}

impl Role {
    pub(super) const ALL: [Self; 5] =
        [Self::Developer, Self::Qa, Self::TechLead, Self::Merge, Self::Decision];

    pub(super) fn as_str(self) -> &'static str {
        match self {
            Self::Developer => "developer",
            Self::Qa => "qa",
            Self::TechLead => "tech_lead",
            Self::Merge => "merge",
            Self::Decision => "decision",
        }
    }
}

impl Step {
    pub(super) const PLAN: Self = Self::Pm(PmStep::Plan);

    pub(super) fn id(&self) -> StepId {
        let id = match self {
            Self::Pm(step) => format!("pm.{}", step.as_str()),
            Self::Group(group, role) => format!("{group}.{}", role.as_str()),
        };
        StepId::new(id).expect("BUG: a group id is short and safe")
    }

    pub(super) fn parse(id: &StepId) -> Option<Self> {
        let (before, word) = id.as_str().rsplit_once('.')?;
        if before == "pm" {
            return PmStep::ALL.into_iter().find(|step| step.as_str() == word).map(Self::Pm);
        }
        let role = Role::ALL.into_iter().find(|role| role.as_str() == word)?;
        Some(Self::Group(GroupId::new(before).ok()?, role))
    }

    /// Returns the group that the step works on.
    pub fn group(&self) -> Option<&GroupId> {
        match self {
            Self::Pm(_) => None,
            Self::Group(group, _) => Some(group),
        }
    }

    /// Returns the name of the role, for `[roles]` and for the original's `agent_type`; for a step without an agent, who
    /// does its work.
    pub fn agent(&self) -> &'static str {
        match self {
            Self::Pm(PmStep::Plan | PmStep::Check) => "project_manager",
            Self::Pm(PmStep::Criteria) => "command",
            Self::Pm(PmStep::Merge) | Self::Group(_, Role::Merge) => "engine",
            Self::Pm(PmStep::Decision) | Self::Group(_, Role::Decision) => "person",
            Self::Group(_, Role::Developer) => "developer",
            Self::Group(_, Role::Qa) => "qa_expert",
            Self::Group(_, Role::TechLead) => "tech_lead",
        }
    }

    pub(super) fn kind(&self) -> StepKind {
        match self {
            Self::Pm(PmStep::Plan | PmStep::Check)
            | Self::Group(_, Role::Developer | Role::Qa | Role::TechLead) => StepKind::Agent,
            Self::Pm(PmStep::Criteria) => StepKind::Command,
            Self::Pm(PmStep::Decision) | Self::Group(_, Role::Decision) => StepKind::Person,
            Self::Pm(PmStep::Merge) | Self::Group(_, Role::Merge) => StepKind::Effect,
        }
    }
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.id(), f)
    }
}

impl From<Step> for StepId {
    fn from(step: Step) -> Self {
        step.id()
    }
}

impl TryFrom<StepId> for Step {
    type Error = String;

    fn try_from(id: StepId) -> Result<Self, String> {
        Self::parse(&id).ok_or_else(|| format!("`{id}` is not a step of `team`"))
    }
}

/// A report or an answer, parsed. Has ids and numbers only; the texts are in the document.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// A plan, or more groups after a check.
    Plan(PlannedWork),
    /// The project manager claims that the request is fulfilled.
    Complete,
    /// The success criteria whose commands failed, by position.
    Criteria {
        failed: BTreeSet<u16>,
    },
    /// The base branch was fast-forwarded, or the user will merge the integration branch.
    FastForwarded,
    Developer(DeveloperVerdict),
    Qa(QaVerdict),
    TechLead(TechLeadVerdict),
    Merge(MergeVerdict),
    Choice(Choice),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DeveloperVerdict {
    ReadyForQa,
    /// There is nothing for QA to run.
    ReadyForReview,
    /// Blocked, incomplete, in need of a decision, or in error: the tech lead helps.
    Blocked,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum QaVerdict {
    Pass,
    Fail,
    Blocked,
    Flaky,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TechLeadVerdict {
    Approved,
    ChangesRequested {
        /// How many issues are critical or high.
        blocking: u16,
    },
    Unblocked,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum MergeVerdict {
    Merged,
    /// A conflict, or a check that fails on the merged tree.
    Refused,
}

/// What a person decides.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Choice {
    /// The project manager replaces the group by smaller ones.
    Split,
    /// One more turn.
    Continue,
    /// The group is left out: the recorded consent to a smaller scope.
    Skip,
    /// The run fails.
    Fail,
    /// The run succeeds although criteria fail: the recorded consent to a smaller scope.
    Accept,
}

impl Choice {
    pub(super) fn as_str(self) -> &'static str {
        match self {
            Self::Split => "split",
            Self::Continue => "continue",
            Self::Skip => "skip",
            Self::Fail => "fail",
            Self::Accept => "accept",
        }
    }

    /// Returns whether the choice makes the scope smaller, so that a person has to say why.
    pub(super) fn needs_reason(self) -> bool {
        match self {
            Self::Skip | Self::Accept => true,
            Self::Split | Self::Continue | Self::Fail => false,
        }
    }
}

/// A plan as far as decisions depend on it.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct PlannedWork {
    pub groups: Vec<ScheduledGroup>,
    /// The success criteria that have a command, in the order of the plan.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub criteria: Vec<PlannedCriterion>,
}

/// A group of a plan without its texts: when it may start.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct ScheduledGroup {
    pub id: GroupId,
    /// A phase of the plan: its groups start when every group of an earlier phase is merged or closed.
    pub phase: u16,
    /// The groups that must be merged or closed before this one starts: its dependencies, and earlier groups that change
    /// the same files.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub after: BTreeSet<GroupId>,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct PlannedCriterion {
    /// The groups of its tasks.
    pub groups: BTreeSet<GroupId>,
}
