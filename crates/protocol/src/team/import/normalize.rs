//! Brings coordination files, which another program wrote, into the original format. Real ones deviate in many ways;
//! `notes` has the deviations that a person should know.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value, json};

use super::super::definition::GroupId;
use super::super::document::Mailbox;
use super::salvage::CoordinationFiles;
use crate::check::{json_type, shortened};

/// The coordination files of an import, in the original format.
#[derive(Debug, Clone, PartialEq, Default)]
pub(super) struct NormalizedFiles {
    /// `pm_state.json`: `task_groups`, `all_tasks` and `execution_phases` are lists of objects with ids.
    pub pm: Map<String, Value>,
    /// `group_status.json`: an object per group.
    pub status: BTreeMap<String, Map<String, Value>>,
    pub orchestrator: Map<String, Value>,
    pub messages: BTreeMap<Mailbox, Vec<Map<String, Value>>>,
    /// The deviations that a person should know, in a sentence each.
    pub notes: Vec<String>,
}

impl NormalizedFiles {
    pub(super) fn of(imported: &CoordinationFiles) -> Self {
        let mut normalized = Self::default();
        normalized.pm = normalized.object(imported, "pm_state.json");
        normalized.orchestrator = normalized.object(imported, "orchestrator_state.json");
        let status = normalized.object(imported, "group_status.json");
        let mut ids = GroupIds::default();
        normalized.normalize_groups(&mut ids);
        normalized.normalize_tasks(&ids);
        normalized.normalize_phases(&ids);
        normalized.normalize_statuses(status, &mut ids);
        for list in ["completed_groups", "in_progress_groups", "pending_groups"] {
            let named =
                texts(normalized.pm.get(list)).iter().map(|id| Value::from(ids.safe_id(id))).collect();
            normalized.pm.insert(list.to_owned(), Value::Array(named));
        }
        for mailbox in Mailbox::ALL {
            let mut file = normalized.object(imported, mailbox.file());
            let messages = objects(file.remove("messages"), "id").into_iter();
            let messages = messages.map(|mut message| {
                if let Some(id) = message.get("group_id").and_then(Value::as_str) {
                    let id = ids.safe_id(id);
                    message.insert("group_id".to_owned(), id.into());
                }
                message
            });
            normalized.messages.insert(mailbox, messages.collect());
        }
        normalized.notes.append(&mut ids.notes);
        normalized
    }

    fn note(&mut self, note: String) {
        self.notes.push(note);
    }

    /// Returns the object in a file; an empty one, and a note, if it has another type.
    fn object(&mut self, imported: &CoordinationFiles, name: &str) -> Map<String, Value> {
        match imported.files.get(name) {
            Some(Value::Object(members)) => members.clone(),
            Some(other) => {
                self.note(format!("`{name}` is {}, not an object: nothing of it is used", json_type(other)));
                Map::new()
            }
            None => Map::new(),
        }
    }

    fn normalize_groups(&mut self, ids: &mut GroupIds) {
        let found = self.pm.remove("task_groups");
        match &found {
            Some(Value::Array(_)) => {}
            Some(Value::Object(_)) => self.note("`task_groups` is a map: its keys are the ids".to_owned()),
            _ => self.note("`task_groups` is missing".to_owned()),
        }
        let mut groups = Vec::new();
        for mut group in objects(found, "id") {
            rename(&mut group, "id", &["group_id"]);
            rename(&mut group, "name", &["group_name", "title", "description"]);
            rename(&mut group, "files_affected", &["files"]);
            let stated = group.get("id").map(to_text).unwrap_or_default();
            let id = ids.add(&stated, groups.len());
            group.insert("id".to_owned(), id.clone().into());
            if !group.get("name").is_some_and(Value::is_string) {
                group.insert("name".to_owned(), id.into());
            }
            groups.push(Value::Object(group));
        }
        for group in &mut groups {
            let needed = texts(group.get("depends_on"));
            group["depends_on"] = needed.iter().map(|id| ids.safe_id(id)).collect();
        }
        self.pm.insert("task_groups".to_owned(), Value::Array(groups));
    }

    fn normalize_tasks(&mut self, ids: &GroupIds) {
        rename(&mut self.pm, "all_tasks", &["tasks"]);
        let found = self.pm.remove("all_tasks");
        let is_text =
            |tasks: &Value| tasks.as_array().is_some_and(|tasks| tasks.iter().any(Value::is_string));
        if found.as_ref().is_some_and(is_text) {
            self.note("`all_tasks` has texts instead of objects".to_owned());
        }
        let mut tasks: Vec<Value> = Vec::new();
        let mut taken = BTreeSet::new();
        for mut task in objects(found, "description") {
            rename(&mut task, "id", &["task_id"]);
            rename(&mut task, "description", &["task", "title", "name"]);
            let description = task.get("description").map(to_text).unwrap_or_default();
            let (task_id, text) = split_task_id(&description);
            let stated = task.get("id").map(to_text).filter(|id| !id.is_empty()).or(task_id);
            let mut id = stated.unwrap_or_else(|| format!("T{}", tasks.len() + 1));
            while !taken.insert(id.clone()) {
                id.push('x');
            }
            task.insert("id".to_owned(), id.into());
            task.insert("description".to_owned(), text.into());
            if let Some(group) = task.get("group_id").and_then(Value::as_str) {
                let group = ids.safe_id(group);
                task.insert("group_id".to_owned(), group.into());
            }
            tasks.push(Value::Object(task));
        }
        // A group may list the texts of its tasks; a task may name its group.
        for group in self.pm.get_mut("task_groups").and_then(Value::as_array_mut).into_iter().flatten() {
            let mut own = Vec::new();
            for stated in texts(group.get("tasks")) {
                let (task_id, text) = split_task_id(&stated);
                let matches = |task: &&Value| {
                    task["id"] == stated
                        || task["description"] == text
                        || task_id.as_ref().is_some_and(|id| task["id"] == **id)
                };
                let found = tasks.iter().find(matches).map(|task| to_text(&task["id"]));
                own.push(found.unwrap_or_else(|| {
                    let id = task_id
                        .unwrap_or_else(|| if stated.contains(' ') { free_task_id(&tasks) } else { stated });
                    tasks.push(json!({ "id": id, "description": text }));
                    id
                }));
            }
            let named =
                tasks.iter().filter(|task| task["group_id"] == group["id"]).map(|task| to_text(&task["id"]));
            own.extend(named.filter(|id| !own.contains(id)).collect::<Vec<_>>());
            group["tasks"] = own.into();
        }
        self.pm.insert("all_tasks".to_owned(), Value::Array(tasks));
    }

    fn normalize_phases(&mut self, ids: &GroupIds) {
        rename(&mut self.pm, "execution_phases", &["phases"]);
        let mut phases = Vec::new();
        for (index, mut phase) in
            objects(self.pm.remove("execution_phases"), "phase_number").into_iter().enumerate()
        {
            rename(&mut phase, "phase_number", &["phase"]);
            rename(&mut phase, "group_ids", &["groups"]);
            rename(&mut phase, "parallel_count", &["parallelism"]);
            if !phase.get("phase_number").is_some_and(Value::is_u64) {
                phase.insert("phase_number".to_owned(), (index + 1).into());
            }
            let named = texts(phase.get("group_ids")).iter().map(|id| ids.safe_id(id)).collect();
            phase.insert("group_ids".to_owned(), named);
            phases.push(Value::Object(phase));
        }
        self.pm.insert("execution_phases".to_owned(), Value::Array(phases));
    }

    fn normalize_statuses(&mut self, mut found: Map<String, Value>, ids: &mut GroupIds) {
        if let Some(Value::Object(inner)) = found.get("groups") {
            found = inner.clone();
        }
        for (key, value) in found.into_iter().filter(|(key, _)| !key.starts_with('_')) {
            let record = match value {
                Value::Object(record) => record,
                Value::String(status) => Map::from_iter([("status".to_owned(), status.into())]),
                other @ (Value::Null | Value::Bool(_) | Value::Number(_) | Value::Array(_)) => {
                    self.note(format!(
                        "group `{key}` in `group_status.json` is {}: not used",
                        shortened(&other)
                    ));
                    continue;
                }
            };
            let id = ids.safe_id(&key);
            if ids.is_taken(&id) {
                self.status.insert(id, record);
            } else {
                let id = ids.add(&key, self.status.len());
                self.note(format!(
                    "group `{id}` is in `group_status.json` and not in the plan: it is added to it"
                ));
                let name = record.get("group_name").map_or_else(|| id.clone(), to_text);
                let mut group = json!({ "id": id, "name": name, "tasks": [], "depends_on": [] });
                if let Some(branch) = record.get("branch_name") {
                    group["branch_name"] = branch.clone();
                }
                if let Some(groups) = self.pm.get_mut("task_groups").and_then(Value::as_array_mut) {
                    groups.push(group);
                }
                self.status.insert(id, record);
            }
        }
    }
}

/// Maps the group ids of the files ("stated") to ids that are valid and unique ("safe").
#[derive(Debug, Default)]
struct GroupIds {
    /// The safe id, by the stated one.
    safe: BTreeMap<String, String>,
    taken: BTreeSet<String>,
    notes: Vec<String>,
}

impl GroupIds {
    /// Takes the id of a new group and returns a safe one.
    fn add(&mut self, stated: &str, index: usize) -> String {
        let mut id = stated.to_owned();
        if GroupId::new(&id).is_err() {
            let safe: String = stated
                .chars()
                .map(|c| if c.is_ascii_alphanumeric() || c == '_' { c } else { '-' })
                .take(30)
                .collect();
            id = safe.trim_start_matches(['-', '_']).to_owned();
            if GroupId::new(&id).is_err() {
                id = format!("group-{}", index + 1);
            }
        }
        if self.taken.contains(&id) {
            // Room for the number: an id has at most 40 characters.
            let base: String = id.chars().take(34).collect();
            let mut numbered = (2_u32..).map(|number| format!("{base}-{number}"));
            id = numbered.find(|id| !self.taken.contains(id)).unwrap_or_default();
        }
        if id != stated {
            self.notes.push(format!("the group `{stated}` gets the id `{id}`"));
        }
        self.taken.insert(id.clone());
        self.safe.entry(stated.to_owned()).or_insert_with(|| id.clone());
        id
    }

    /// Returns the safe id of a group; an id that no group has stays as it is.
    fn safe_id(&self, stated: &str) -> String {
        self.safe.get(stated).cloned().unwrap_or_else(|| stated.to_owned())
    }

    fn is_taken(&self, id: &str) -> bool {
        self.taken.contains(id)
    }
}

/// Renames the first of `names` that is present to the original's name `to`, unless `to` is present.
fn rename(members: &mut Map<String, Value>, to: &str, names: &[&str]) {
    if members.get(to).is_none_or(Value::is_null)
        && let Some(value) = names.iter().find_map(|name| members.remove(*name))
    {
        members.insert(to.to_owned(), value);
    }
}

/// Returns the objects of a list, or of a map whose keys are their ids. An entry that is no object becomes one
/// with the entry as its member `text_member`.
pub(in crate::team) fn objects(value: Option<Value>, text_member: &str) -> Vec<Map<String, Value>> {
    let object = |value: Value| match value {
        Value::Object(members) => members,
        Value::Null => Map::new(),
        other @ (Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Array(_)) => {
            Map::from_iter([(text_member.to_owned(), other)])
        }
    };
    match value {
        Some(Value::Array(items)) => items.into_iter().map(object).collect(),
        Some(Value::Object(items)) => items
            .into_iter()
            .filter(|(key, _)| !key.starts_with('_'))
            .map(|(key, value)| {
                let mut members = object(value);
                members.entry("id").or_insert(key.into());
                members
            })
            .collect(),
        _ => Vec::new(),
    }
}

/// Returns the texts of a list; a single text counts as a list of one, an object by its id.
pub(super) fn texts(value: Option<&Value>) -> Vec<String> {
    match value {
        Some(Value::Array(items)) => {
            items.iter().map(|item| to_text(item.get("id").unwrap_or(item))).collect()
        }
        Some(Value::String(text)) if !text.is_empty() => vec![text.clone()],
        _ => Vec::new(),
    }
}

/// Returns a text as it is, and another value as JSON.
pub(super) fn to_text(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

/// Returns a new task id that is not taken.
fn free_task_id(tasks: &[Value]) -> String {
    let ids = (tasks.len() + 1..).map(|number| format!("T{number}"));
    let mut free = ids.filter(|id| tasks.iter().all(|task| task["id"] != **id));
    free.next().expect("BUG: the numbers do not end")
}

/// Splits `T1: text` into the id of a task and its text.
fn split_task_id(text: &str) -> (Option<String>, String) {
    let split = text.split_once(':').filter(|(number, _)| {
        number
            .strip_prefix('T')
            .is_some_and(|digits| !digits.is_empty() && digits.chars().all(|c| c.is_ascii_digit()))
    });
    match split {
        Some((number, rest)) => (Some(number.to_owned()), rest.trim().to_owned()),
        None => (None, text.to_owned()),
    }
}
