//! Imports the files in `coordination/`, written by the original of `team` or by agents, as a run.
//!
//! [`CoordinationFiles::read`] parses the files, [`NormalizedFiles`] brings their JSON into the original format, and [`Import`]
//! makes a plan, groups and a state of it. What the files say about finished work is a claim: the tech lead verifies
//! it.

mod groups;
mod normalize;
mod plan;
mod salvage;
mod status;

use std::collections::BTreeMap;

use serde::Deserialize as _;
use serde_json::{Map, Value};

use super::decide::Change;
use super::definition::{Definition, GroupId};
use super::document::{DecisionEntry, Document, Imported, Mailbox, Message, PlanPart};
use super::report::plan::Plan;
use super::state::{DecisionReason, FinalStage, Group, GroupProgress, Stage, State};
use super::step::{PmStep, Role, Step};
use crate::protocol_trait::{ImportRefusal, Move, Next};
use crate::{StepRecordStatus, Timestamp, Turn};

pub(in crate::team) use normalize::objects;
use normalize::{NormalizedFiles, to_text};
pub use salvage::{BranchWork, CoordinationFiles, Salvaged};
use status::ImportedStatus;

/// The imported files as far as a run can be made from it.
#[derive(Debug, Clone, PartialEq)]
struct Import {
    normalized: NormalizedFiles,
    plan: Plan,
    /// In the order of the plan.
    groups: Vec<ImportedGroup>,
    notes: Vec<String>,
}

/// One group of the imported files.
#[derive(Debug, Clone, PartialEq)]
struct ImportedGroup {
    id: GroupId,
    status: ImportedStatus,
    /// Why a person has to decide about the group before it can go on.
    question: Option<String>,
}

/// What an import would do, shown to the user before it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ImportPreview {
    pub session_id: Option<String>,
    /// The request; `None` if the files have none.
    pub request: Option<String>,
    /// Each group with what becomes of it.
    pub groups: Vec<(GroupId, String)>,
    /// What deviates from the original format and what was done about it.
    pub notes: Vec<String>,
    /// The branches of the groups.
    pub branches: Vec<String>,
}

impl CoordinationFiles {
    /// Describes what an import of the files would do.
    pub fn preview_import(&self) -> ImportPreview {
        let import = Import::of(self);
        let groups = import.groups.iter().map(|group| match &group.question {
            Some(question) => (group.id.clone(), format!("a person decides: {question}")),
            None => (group.id.clone(), group.status.text()),
        });
        ImportPreview {
            session_id: import.session_id(),
            request: import
                .normalized
                .pm
                .get("original_requirements")
                .map(to_text)
                .filter(|text| !text.trim().is_empty()),
            groups: groups.collect(),
            notes: import.normalized.notes.iter().chain(&import.notes).cloned().collect(),
            branches: import.plan.groups.iter().map(|group| group.branch_name.clone()).collect(),
        }
    }
}

/// Turns the files into the state of a run. Fails only if the JSON is not a [`CoordinationFiles`]: what cannot be used is left out,
/// or becomes a question to a person.
pub(super) fn import(definition: &Definition, files: &Value) -> Result<Move<Change, Step>, ImportRefusal> {
    let files = CoordinationFiles::deserialize(files)
        .map_err(|error| ImportRefusal::Unusable(format!("it is no `coordination/` of a team: {error}")))?;
    let state = Import::of(&files).state(definition);
    let next = state.startable(definition.limits.groups.get());
    Ok(Move { changes: vec![Change::Imported { state }], next: Next::Queue(next) })
}

/// Fills a new document from the files.
pub(super) fn fill(document: &mut Document, files: &Value, at: Timestamp) {
    let Ok(files) = CoordinationFiles::deserialize(files) else { return };
    let import = Import::of(&files);
    import.fill(document, &files, at);
    document.imported = Some(Imported { coordination: files, unchanged: true });
}

impl Import {
    fn of(files: &CoordinationFiles) -> Self {
        let normalized = NormalizedFiles::of(files);
        let mut notes = Vec::new();
        let (plan, mut questions) = plan::read(&normalized, &mut notes);
        let groups = plan
            .groups
            .iter()
            .map(|group| {
                let status = groups::status(&normalized, &group.id, &mut notes);
                let question = match &status {
                    ImportedStatus::Skipped => Some("the imported files say that it was skipped".to_owned()),
                    ImportedStatus::Unknown(word) => {
                        Some(format!("its imported status `{word}` is not known"))
                    }
                    ImportedStatus::Open { .. } | ImportedStatus::Complete => questions.remove(&group.id),
                };
                ImportedGroup { id: group.id.clone(), status, question }
            })
            .collect();
        let mut import = Self { normalized, plan, groups, notes };
        import.compare_sessions();
        import
    }

    /// Adds a note if two files have different session ids, as in some real directories.
    fn compare_sessions(&mut self) {
        let other = self.normalized.pm.get("session_id").and_then(Value::as_str);
        if let (Some(id), Some(other)) = (self.session_id(), other)
            && id != other
        {
            self.notes.push(format!("the session ids differ: `{id}` counts, not `{other}`"));
        }
    }

    fn session_id(&self) -> Option<String> {
        let id_in = |file: &Map<String, Value>| {
            Some(file.get("session_id")?.as_str()?.to_owned()).filter(|id| !id.is_empty())
        };
        id_in(&self.normalized.orchestrator).or_else(|| id_in(&self.normalized.pm))
    }

    fn state(&self, definition: &Definition) -> State {
        let mut state = State::begin(definition);
        let work = self.plan.planned_work(0);
        for (position, (planned, imported)) in (0..).zip(work.groups.iter().zip(&self.groups)) {
            // Turns count from the import on.
            let mut group = Group::new(planned, position, &definition.limits);
            group.stage = imported.status.stage();
            match group.stage {
                Stage::Develop(_) => {}
                Stage::Test | Stage::Review | Stage::Unblock(_) | Stage::Merge | Stage::Complete => {
                    group.use_turn();
                }
            }
            if imported.question.is_some() {
                group.progress = GroupProgress::Asks(DecisionReason::Imported);
            }
            state.groups.insert(planned.id.clone(), group);
        }
        (state.criteria, state.final_stage) = (work.criteria, FinalStage::Criteria);
        state
    }

    fn fill(&self, document: &mut Document, files: &CoordinationFiles, at: Timestamp) {
        let plan = &self.plan;
        document.plan = PlanPart {
            mode: plan.mode,
            mode_reasoning: plan.mode_reasoning.clone(),
            tasks: plan.tasks.clone(),
            groups: plan.groups.clone(),
            phases: plan.phases.clone(),
            criteria: plan.criteria.iter().cloned().map(Into::into).collect(),
            shared_files: plan.shared_files(),
            replaced: BTreeMap::new(),
        };
        for (group, planned) in self.groups.iter().zip(&plan.groups) {
            let mut part = groups::part(self.normalized.status.get(group.id.as_str()), group, at);
            if let Some(work) = files.branches.get(&planned.branch_name) {
                (part.commits, part.files_modified) = (work.commits.clone(), work.files.clone());
            }
            document.groups.insert(group.id.clone(), part);
        }
        let (pm, orchestrator) = (&self.normalized.pm, &self.normalized.orchestrator);
        let run = &mut document.run;
        if let Some(id) = self.session_id() {
            run.session_id = id;
        }
        run.iteration = count(orchestrator, "iteration");
        run.total_spawns = count(orchestrator, "total_spawns");
        run.pm_iteration = count(pm, "iteration");
        run.start_time = time(orchestrator, "start_time").unwrap_or(at);
        if !plan.groups.is_empty()
            && let Some(step) = run.steps.get_mut(PmStep::Plan.as_str())
        {
            step.status = StepRecordStatus::Succeeded;
        }
        let decisions = objects(orchestrator.get("decisions_log").cloned(), "decision").into_iter();
        document.decisions = decisions
            .map(|entry| DecisionEntry {
                iteration: count(&entry, "iteration"),
                decision: entry.get("decision").map(to_text).unwrap_or_default(),
                reasoning: entry.get("reasoning").map(to_text).unwrap_or_default(),
                timestamp: time(&entry, "timestamp").unwrap_or(at),
            })
            .collect();
        let mailboxes = self.normalized.messages.iter();
        document.messages = mailboxes
            .flat_map(|(mailbox, messages)| messages.iter().map(|found| message(*mailbox, found, at)))
            .collect();
    }
}

/// Takes over a message. One that was read is not delivered again.
fn message(mailbox: Mailbox, found: &Map<String, Value>, at: Timestamp) -> Message {
    let group = found.get("group_id").and_then(Value::as_str).and_then(|id| GroupId::new(id).ok());
    let is_read = found.get("read").and_then(Value::as_bool).unwrap_or(false);
    let reader = group.clone().map_or(Step::PLAN, |group| Step::Group(group, Role::Developer));
    let mut body = found.clone();
    for name in ["id", "group_id", "read"] {
        body.remove(name);
    }
    Message {
        mailbox,
        id: found.get("id").map(to_text).unwrap_or_default(),
        timestamp: time(found, "timestamp").unwrap_or(at),
        body,
        // A read message counts as received in turn 0, which no step has, so no attempt receives it.
        received_by: is_read.then(|| (reader.id(), Turn(0))),
        group,
    }
}

fn count(members: &Map<String, Value>, name: &str) -> u64 {
    members.get(name).and_then(Value::as_u64).unwrap_or(0)
}

fn time(members: &Map<String, Value>, name: &str) -> Option<Timestamp> {
    members.get(name)?.as_str()?.parse().ok()
}
