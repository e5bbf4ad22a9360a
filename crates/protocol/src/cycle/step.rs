//! The steps of a cycle, and what their reports and answers say.

use std::fmt;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::definition::Definition;
use crate::StepId;
use crate::protocol_trait::StepKind;

/// The four agents, in the order in which they work.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Role {
    /// The requirements analyst.
    #[serde(rename = "ra")]
    Analyst,
    /// The exploration planner.
    #[serde(rename = "ep")]
    Planner,
    /// The code developer.
    #[serde(rename = "cd")]
    Developer,
    /// The validation archivist.
    #[serde(rename = "vas")]
    Validator,
}

impl Role {
    pub const ALL: [Self; 4] = [Self::Analyst, Self::Planner, Self::Developer, Self::Validator];

    /// Returns the name in documents, and the name of the agent.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Analyst => "ra",
            Self::Planner => "ep",
            Self::Developer => "cd",
            Self::Validator => "vas",
        }
    }

    /// Returns the role of that name.
    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|role| role.as_str() == name)
    }

    /// Returns the role whose work follows; after the last, the first of the next iteration.
    pub fn next(self) -> Self {
        match self {
            Self::Analyst => Self::Planner,
            Self::Planner => Self::Developer,
            Self::Developer => Self::Validator,
            Self::Validator => Self::Analyst,
        }
    }
}

/// Returns the role whose phase waits for an answer: the field `needed_by` of a decision or a blocker in the document, or
/// `ra` if it has none.
pub(super) fn needed_by(fields: &Map<String, Value>) -> Role {
    fields.get("needed_by").and_then(|role| Role::parse(role.as_str()?)).unwrap_or(Role::Analyst)
}

impl fmt::Display for Role {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

/// A decision or a blocker that waits for a person, with its number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RaisedItem {
    /// A choice between options.
    Decision(u32),
    /// A problem that an agent cannot solve.
    Blocker(u32),
}

impl RaisedItem {
    /// Returns the id in the document: `D1`, `B1`.
    pub fn id(self) -> String {
        match self {
            Self::Decision(number) => format!("D{number}"),
            Self::Blocker(number) => format!("B{number}"),
        }
    }

    /// Returns the item with this id in the document.
    pub fn parse(id: &str) -> Option<Self> {
        let number = |text: &str| text.parse().ok().filter(|number: &u32| number.to_string() == text);
        match id.split_at_checked(1)? {
            ("D", rest) => number(rest).map(Self::Decision),
            ("B", rest) => number(rest).map(Self::Blocker),
            _ => None,
        }
    }
}

/// A step of a cycle. If it had one turn in every iteration so far, the number of the turn is that of the iteration.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "StepId", into = "StepId")]
pub enum Step {
    /// The step of one of the four phases.
    Phase(Role),
    /// `ep.explore`: the exploration, in parallel with `ra`.
    Explore,
    /// `vas.baseline`: a test run before the code changes, in parallel with `ep`.
    Baseline,
    /// `vas.test`: the checks, run by the engine before `vas`.
    Test,
    /// `cd.TASK-001`: one task of the plan, in a worktree of its own.
    Task(StepId),
    /// `cd.TASK-001.merge`: its branch is merged.
    Merge(StepId),
    /// `decision.D1`, `blocker.B1`: a person answers.
    Answer(RaisedItem),
    /// `fast-forward`: the base branch gets the code.
    FastForward,
}

impl Step {
    /// Returns the id of a task; `None` if `cd.TASK.merge` would not be the id of a step.
    pub fn task_id(task: &str) -> Option<StepId> {
        let is_plain = !task.is_empty() && !task.contains('.');
        let task = StepId::new(task).ok().filter(|_| is_plain)?;
        StepId::new(format!("cd.{task}.merge")).ok().map(|_| task)
    }

    pub(super) fn id(&self) -> StepId {
        let id = match self {
            Self::Phase(role) => role.as_str().to_owned(),
            Self::Explore => "ep.explore".to_owned(),
            Self::Baseline => "vas.baseline".to_owned(),
            Self::Test => "vas.test".to_owned(),
            Self::Task(task) => format!("cd.{task}"),
            Self::Merge(task) => format!("cd.{task}.merge"),
            Self::Answer(item @ RaisedItem::Decision(_)) => format!("decision.{}", item.id()),
            Self::Answer(item @ RaisedItem::Blocker(_)) => format!("blocker.{}", item.id()),
            Self::FastForward => "fast-forward".to_owned(),
        };
        StepId::new(id).expect("BUG: the id of a task fits into the id of a step")
    }

    pub(super) fn parse(id: &StepId) -> Option<Self> {
        let id = id.as_str();
        if let Some(role) = Role::parse(id) {
            return Some(Self::Phase(role));
        }
        match id {
            "ep.explore" => return Some(Self::Explore),
            "vas.baseline" => return Some(Self::Baseline),
            "vas.test" => return Some(Self::Test),
            "fast-forward" => return Some(Self::FastForward),
            _ => {}
        }
        match id.split_once('.')? {
            ("cd", rest) => match rest.strip_suffix(".merge") {
                Some(task) => Self::task_id(task).map(Self::Merge),
                None => Self::task_id(rest).map(Self::Task),
            },
            ("decision", rest) => RaisedItem::parse(rest)
                .filter(|item| matches!(item, RaisedItem::Decision(_)))
                .map(Self::Answer),
            ("blocker", rest) => RaisedItem::parse(rest)
                .filter(|item| matches!(item, RaisedItem::Blocker(_)))
                .map(Self::Answer),
            _ => None,
        }
    }

    /// Returns the role to whose phase the step belongs, even if the engine performs it, as tests and merges. `None` for an
    /// answer and for the fast-forward.
    pub fn role(&self) -> Option<Role> {
        match self {
            Self::Phase(role) => Some(*role),
            Self::Explore => Some(Role::Planner),
            Self::Baseline | Self::Test => Some(Role::Validator),
            Self::Task(_) | Self::Merge(_) => Some(Role::Developer),
            Self::Answer(_) | Self::FastForward => None,
        }
    }
}

impl Step {
    /// Returns what works on the step.
    pub(super) fn kind(&self, definition: &Definition) -> StepKind {
        match self {
            Self::Test => StepKind::Command,
            Self::Baseline if !definition.checks.is_empty() => StepKind::Command,
            Self::Phase(_) | Self::Explore | Self::Baseline | Self::Task(_) => StepKind::Agent,
            Self::Answer(_) => StepKind::Person,
            Self::Merge(_) | Self::FastForward => StepKind::Effect,
        }
    }

    /// Returns the task, if an agent works on a single task of the plan in this step.
    pub fn task(&self) -> Option<&StepId> {
        match self {
            Self::Task(task) => Some(task),
            Self::Phase(_)
            | Self::Explore
            | Self::Baseline
            | Self::Test
            | Self::Merge(_)
            | Self::Answer(_)
            | Self::FastForward => None,
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
        Self::parse(&id).ok_or_else(|| format!("`{id}` is not a step of a cycle"))
    }
}

/// What a report or an answer says, as far as decisions depend on it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "verdict")]
pub enum Verdict {
    /// `ra` has written the requirements.
    Specified {
        raised: Vec<Raised>,
    },
    /// `ep.explore` has explored the repository.
    Explored {
        raised: Vec<Raised>,
    },
    /// `vas.baseline` has run the tests.
    BaselineTested,
    /// `ep` has a plan. `tasks` are its open tasks.
    Planned {
        tasks: Vec<PlannedTask>,
        completeness: Completeness,
        raised: Vec<Raised>,
    },
    /// `cd` or the step of a task has changed the code.
    Coded {
        completeness: Completeness,
        problems: Problems,
        raised: Vec<Raised>,
    },
    /// The agent cannot continue before a person has answered, and reports nothing else.
    Blocked {
        raised: Vec<Raised>,
    },
    Merged,
    /// The branch conflicts with the others, or the checks failed on the merged tree.
    Conflict,
    /// The checks have run.
    Tested {
        problems: Problems,
    },
    /// `vas` has validated the code.
    Validated {
        problems: Problems,
        raised: Vec<Raised>,
    },
    /// A person has made a decision, or has answered a blocker.
    Answered,
    /// The base branch has the code, or the report says why it could not be fast-forwarded.
    FastForwarded,
}

/// Whether everything that was planned is done.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Completeness {
    Complete,
    Incomplete,
}

/// Whether something is wrong: failing tests, open issues.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Problems {
    None,
    Some,
}

impl Problems {
    /// Returns `Some` if the condition holds.
    pub fn some_if(has_problems: bool) -> Self {
        if has_problems { Self::Some } else { Self::None }
    }
}

/// A decision or a blocker in a report. It becomes a [`RaisedItem`] when the engine numbers it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Raised {
    pub kind: RaisedKind,
    /// The phase that waits for the answer.
    pub needed_by: Role,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RaisedKind {
    Decision,
    Blocker,
}

/// An open task of the plan: its id, its dependencies and its conflicts.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct PlannedTask {
    pub id: StepId,
    /// The open tasks that must be merged before.
    pub depends_on: Vec<StepId>,
    /// The open tasks that change the same files.
    pub conflicts_with: Vec<StepId>,
}
