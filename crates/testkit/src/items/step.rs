//! The steps of `items`: what each is given, and what its report or answer says.

use std::collections::BTreeSet;
use std::fmt;

use protocol::brief::Brief;
use protocol::checks;
use protocol::edit::Rights;
use protocol::protocol_trait::DEFAULT_MAX_ATTEMPTS;
use protocol::report::{self, Report};
use protocol::{Answer, Effect, ParsedReport, Question, StepId};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::decide::Stage;
use super::document::PLAN;
use super::{Definition, Document};

/// A step of a run. `Make`, `Approve` and `Record` have the id of their item.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "StepId", into = "StepId")]
pub enum Step {
    Plan,
    Make(StepId),
    Approve(StepId),
    Record(StepId),
}

/// What a report or an answer says.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// The ids of the items.
    Planned(Vec<StepId>),
    Made,
    Approved,
    Rejected,
    Recorded,
}

impl Step {
    pub(super) fn id(&self) -> StepId {
        let id = match self {
            Self::Plan => "plan".to_owned(),
            Self::Make(item) => format!("{item}.make"),
            Self::Approve(item) => format!("{item}.approve"),
            Self::Record(item) => format!("{item}.record"),
        };
        StepId::new(id).expect("BUG: an item id is a step id without dots")
    }

    pub(super) fn parse(id: &StepId) -> Option<Self> {
        let Some((item, work)) = id.as_str().rsplit_once('.') else {
            return (id.as_str() == "plan").then_some(Self::Plan);
        };
        let item = StepId::new(item).ok()?;
        match work {
            "make" => Some(Self::Make(item)),
            "approve" => Some(Self::Approve(item)),
            "record" => Some(Self::Record(item)),
            _ => None,
        }
    }

    /// Returns the item that the step works on.
    pub fn item(&self) -> Option<&StepId> {
        match self {
            Self::Plan => None,
            Self::Make(item) | Self::Approve(item) | Self::Record(item) => Some(item),
        }
    }

    /// Returns the stage in which an item needs this step. The plan, which belongs to no item, has the first.
    pub(super) fn stage(&self) -> Stage {
        match self {
            Self::Plan | Self::Make(_) => Stage::Make,
            Self::Approve(_) => Stage::Approve,
            Self::Record(_) => Stage::Record,
        }
    }

    pub(super) fn agent(&self) -> &'static str {
        match self {
            Self::Plan => "planner",
            Self::Make(_) => "maker",
            Self::Approve(_) => "person",
            Self::Record(_) => "engine",
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
        Self::parse(&id).ok_or_else(|| format!("`{id}` is not a step of `items`"))
    }
}

/// Removes from the report what the step may not change in its private copy, and returns a sentence for each refused change. A
/// maker may change the description of its item. A change of the statuses, which the engine keeps, is dropped without a sentence.
pub(super) fn remove_unauthorized(document: &Document, step: &Step, report: &mut Report) -> Vec<String> {
    let Step::Make(item) = step else { return Vec::new() };
    let rights = Rights::new(["/description"], ["/make", "/approve", "/record"]);
    let current = serde_json::to_value(document.items.get(item)).expect("BUG: a document is plain data");
    rights.remove_unauthorized(report, &document.copy_path(item), &current)
}

pub(super) fn parse_report(
    definition: &Definition,
    document: &Document,
    step: &Step,
    report: &Report,
) -> ParsedReport<Verdict> {
    match report.status {
        report::Status::Failed => ParsedReport::Failed(report.logs.last().cloned().unwrap_or_default()),
        report::Status::Completed => match step {
            Step::Plan => match parse_plan(report.extra_fields.get("items")) {
                Ok(items) => {
                    ParsedReport::Verdict(Verdict::Planned(items.into_iter().map(|(id, _)| id).collect()))
                }
                Err(why) => ParsedReport::Invalid(why),
            },
            Step::Make(item) => {
                let edit = report.copy_edits.get(&document.copy_path(item));
                match edit.zip(document.items.get(item)).map(|(edit, item)| item.edited(edit)) {
                    Some(Err(why)) => ParsedReport::Invalid(why),
                    Some(Ok(_)) | None => ParsedReport::Verdict(Verdict::Made),
                }
            }
            Step::Record(_) if definition.commands.is_empty() => ParsedReport::Verdict(Verdict::Recorded),
            Step::Record(_) => parse_command_results(report),
            Step::Approve(_) => ParsedReport::Invalid("only a person approves".to_owned()),
        },
    }
}

/// Reads the results of the commands that record an item.
fn parse_command_results(report: &Report) -> ParsedReport<Verdict> {
    match checks::results(report) {
        Err(why) => ParsedReport::Invalid(why),
        Ok(results) => match results.iter().find(|result| !result.passed()) {
            Some(failed) => ParsedReport::Failed(failed.summary()),
            None => ParsedReport::Verdict(Verdict::Recorded),
        },
    }
}

/// Returns the ids and names of the items in the report of a plan.
pub(super) fn parse_plan(items: Option<&Value>) -> Result<Vec<(StepId, String)>, String> {
    let items = items.and_then(Value::as_array).ok_or("the plan has no field `items`")?;
    let mut seen = BTreeSet::new();
    let mut planned = Vec::new();
    for item in items {
        let id = item["id"].as_str().ok_or("an item has no `id`")?;
        let parsed = StepId::new(id).ok().filter(is_item_id);
        let parsed = parsed.ok_or_else(|| format!("`{id}` cannot be the id of an item"))?;
        if !seen.insert(parsed.clone()) {
            return Err(format!("the plan has two items `{id}`"));
        }
        planned.push((parsed, item["name"].as_str().unwrap_or(id).to_owned()));
    }
    if planned.is_empty() { Err("the plan is empty".to_owned()) } else { Ok(planned) }
}

/// Returns whether the id can be that of an item: the ids of the item's steps are valid, and neither they nor the name of its
/// part are those of another thing.
fn is_item_id(id: &StepId) -> bool {
    let longest = format!("{id}.approve");
    id.as_str() != PLAN && !id.as_str().contains('.') && StepId::new(longest).is_ok()
}

/// Returns what an attempt is given. `counted_attempt` is its number among those that count towards the limit.
pub(super) fn brief(
    definition: &Definition,
    document: &Document,
    step: &Step,
    counted_attempt: u32,
) -> Brief {
    let task = match step.item() {
        None => "Name the items to make.".to_owned(),
        Some(item) => {
            let known = document.items.get(item);
            let reasons = known.iter().flat_map(|item| &item.rejections);
            let reasons: String = reasons.map(|reason| format!("\nIt was rejected: {reason}")).collect();
            format!("Make `{}`.{reasons}", known.map_or(item.as_str(), |item| &item.name))
        }
    };
    let prompt = format!("The request:\n\n{}\n\n{task}\n", definition.request);
    Brief {
        workflow: "items".to_owned(),
        counted_attempt,
        checks: match step {
            Step::Record(_) => definition.commands.clone(),
            Step::Plan | Step::Make(_) | Step::Approve(_) => Vec::new(),
        },
        last_error: document.step(&step.id()).and_then(|step| step.error.clone()),
        copies: match step {
            Step::Make(item) => document.copy(item).into_iter().collect(),
            Step::Plan | Step::Approve(_) | Step::Record(_) => Vec::new(),
        },
        ..Brief::new(step.agent(), prompt, DEFAULT_MAX_ATTEMPTS)
    }
}

pub(super) fn question(document: &Document, step: &Step) -> Option<Question> {
    let Step::Approve(item) = step else { return None };
    let name = document.items.get(item).map_or(item.as_str(), |item| &item.name);
    Some(Question::approval(format!("Is `{name}` good?")))
}

pub(super) fn parse_answer(step: &Step, answer: &Answer) -> Result<Verdict, String> {
    match (step, answer) {
        (Step::Approve(_), Answer::Approve { .. }) => Ok(Verdict::Approved),
        (Step::Approve(_), Answer::Reject { .. }) => Ok(Verdict::Rejected),
        (Step::Approve(_), _) => Err("answer `approve` or `reject`".to_owned()),
        (Step::Plan | Step::Make(_) | Step::Record(_), _) => Err(format!("`{step}` asks no person")),
    }
}

pub(super) fn effect(document: &Document, step: &Step) -> Option<Effect> {
    let Step::Record(item) = step else { return None };
    let name = document.items.get(item).map_or(item.as_str(), |item| &item.name);
    Some(Effect { name: "record", arguments: json!({ "item": item, "name": name }) })
}
