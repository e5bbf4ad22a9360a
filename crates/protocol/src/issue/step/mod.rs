//! The steps of an `issue` run: the pipeline, from triage to the closed issue, and the steps that answer questions.

pub(super) mod brief;
pub(super) mod forms;
pub(super) mod prompts;

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::{StepId, StepKind};

/// An agent of the pipeline. `build` and `committer`, which the document also names as agents, are work of the engine.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Agent {
    Triage,
    Analyst,
    Writer,
    Reviewer,
}

impl Agent {
    pub const ALL: [Self; 4] = [Self::Triage, Self::Analyst, Self::Writer, Self::Reviewer];

    /// Returns the name that the agent has in the document and in `[roles]`. Its step has the same name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Triage => "triage",
            Self::Analyst => "analyst",
            Self::Writer => "writer",
            Self::Reviewer => "reviewer",
        }
    }

    /// Returns the agent of this name.
    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|agent| agent.name() == name)
    }

    /// Returns the section of the document that the agent writes.
    pub fn section(self) -> &'static str {
        match self {
            Self::Triage => "triage",
            Self::Analyst => "analysis",
            Self::Writer => "writer",
            Self::Reviewer => "review",
        }
    }

    /// Returns the agent that resolves an escalation of this one, if the escalation needs no person.
    pub fn escalation_agent(self) -> Self {
        match self {
            Self::Triage | Self::Writer | Self::Reviewer => Self::Analyst,
            Self::Analyst => Self::Reviewer,
        }
    }

    /// Returns the step of the pipeline that the agent works on.
    pub fn step(self) -> Step {
        match self {
            Self::Triage => Step::Triage,
            Self::Analyst => Step::Analyst,
            Self::Writer => Step::Writer,
            Self::Reviewer => Step::Reviewer,
        }
    }
}

/// Who a question is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Addressee {
    Agent(Agent),
    Human,
}

impl Addressee {
    /// Parses the field `to` of a question. Fails with the reason.
    pub fn parse(name: &str) -> Result<Self, String> {
        match (Agent::parse(name), name) {
            (Some(agent), _) => Ok(Self::Agent(agent)),
            (None, "human") => Ok(Self::Human),
            (None, "build" | "builder" | "committer") => {
                Err(format!("`{name}` is a program and answers no questions"))
            }
            (None, _) => Err(format!("there is no agent `{name}`")),
        }
    }

    pub fn name(self) -> &'static str {
        match self {
            Self::Agent(agent) => agent.name(),
            Self::Human => "human",
        }
    }
}

/// A step of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "StepId", into = "StepId")]
pub enum Step {
    Triage,
    Analyst,
    Writer,
    /// Compares the work with the commit it started from.
    Diff,
    Build,
    Reviewer,
    Commit,
    Push,
    PullRequest,
    /// Comments on the issue: when a person is needed, and at the end.
    Comment,
    Close,
    /// The agent answers one question of another.
    Answer(Agent),
    /// A person answers a question, resolves an escalation, or decides about a run that an agent has blocked.
    Person,
}

impl Step {
    /// All steps except the answers of agents and persons.
    pub const PIPELINE: [Self; 11] = [
        Self::Triage,
        Self::Analyst,
        Self::Writer,
        Self::Diff,
        Self::Build,
        Self::Reviewer,
        Self::Commit,
        Self::Push,
        Self::PullRequest,
        Self::Comment,
        Self::Close,
    ];

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Triage => "triage",
            Self::Analyst => "analyst",
            Self::Writer => "writer",
            Self::Diff => "build.diff",
            Self::Build => "build",
            Self::Reviewer => "reviewer",
            Self::Commit => "committer.commit",
            Self::Push => "committer.push",
            Self::PullRequest => "committer.pull-request",
            Self::Comment => "comment",
            Self::Close => "committer.close",
            Self::Answer(Agent::Triage) => "triage.answer",
            Self::Answer(Agent::Analyst) => "analyst.answer",
            Self::Answer(Agent::Writer) => "writer.answer",
            Self::Answer(Agent::Reviewer) => "reviewer.answer",
            Self::Person => "person",
        }
    }

    pub(super) fn id(self) -> StepId {
        StepId::new(self.name()).expect("BUG: the name is safe")
    }

    pub(super) fn parse(id: &StepId) -> Option<Self> {
        let answers = Agent::ALL.into_iter().map(Self::Answer);
        let mut all = Self::PIPELINE.into_iter().chain(answers).chain([Self::Person]);
        all.find(|step| step.name() == id.as_str())
    }

    /// Returns the agent that works on the step; `None` if the engine or a person does.
    pub fn agent(self) -> Option<Agent> {
        match self {
            Self::Triage => Some(Agent::Triage),
            Self::Analyst => Some(Agent::Analyst),
            Self::Writer => Some(Agent::Writer),
            Self::Reviewer => Some(Agent::Reviewer),
            Self::Answer(agent) => Some(agent),
            Self::Diff
            | Self::Build
            | Self::Commit
            | Self::Push
            | Self::PullRequest
            | Self::Comment
            | Self::Close
            | Self::Person => None,
        }
    }

    /// Returns the value of the document's `current_agent` during the step; `None` if the step does not change it.
    pub(super) fn current_agent(self) -> Option<&'static str> {
        match self {
            Self::Triage => Some("triage"),
            Self::Analyst => Some("analyst"),
            Self::Writer => Some("writer"),
            Self::Diff | Self::Build => Some("build"),
            Self::Reviewer => Some("reviewer"),
            Self::Commit | Self::Push | Self::PullRequest | Self::Close => Some("committer"),
            Self::Comment | Self::Answer(_) | Self::Person => None,
        }
    }

    /// Returns what works on the step: an agent's name, `person`, `build` or `engine`.
    pub(super) fn worker(self) -> &'static str {
        match (self.agent(), self) {
            (Some(agent), _) => agent.name(),
            (None, Self::Person) => "person",
            (None, Self::Build) => "build",
            (None, _) => "engine",
        }
    }

    pub(super) fn kind(self) -> StepKind {
        match self {
            Self::Triage | Self::Analyst | Self::Writer | Self::Reviewer | Self::Answer(_) => StepKind::Agent,
            Self::Build => StepKind::Command,
            Self::Person => StepKind::Person,
            Self::Diff | Self::Commit | Self::Push | Self::PullRequest | Self::Comment | Self::Close => {
                StepKind::Effect
            }
        }
    }
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
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
        Self::parse(&id).ok_or_else(|| format!("`{id}` is not a step of `issue`"))
    }
}
