//! The rules that a cycle's master file, `.workflow/.cycle/ID.json`, must keep.

use std::collections::BTreeSet;

use serde::de::DeserializeOwned;
use serde_json::Value;

use super::document::{
    AgentStatus, BlockerStatus, DecisionStatus, Effort, FeedbackKind, FileAction, MasterFile, Phase, Status,
    TaskStatus,
};
use crate::check::{Location, Violation, ViolationCollector, json_type, shortened};
use crate::present::{CheckedFile, FileFormat};

/// The files of `cycle` that `callboard check` recognises.
pub(super) const FORMATS: &[FileFormat] = &[FileFormat { name: "cycle", matches, check: check_file }];

fn matches(name: &str, value: &Value) -> bool {
    let has_cycle_name = name.contains(super::layout::DIRECTORY) || name.starts_with("cycle-");
    value.get("cycle_id").is_some() && (has_cycle_name || value.get("current_iteration").is_some())
}

fn check_file(value: &Value) -> CheckedFile {
    let violations = check(value);
    let summary = match serde_json::from_value::<MasterFile>(value.clone()) {
        Ok(state) => format!(
            "iteration {} of {}, {}",
            state.current_iteration,
            state.max_iterations,
            state.status.as_str()
        ),
        Err(_) => String::new(),
    };
    CheckedFile { violations, warnings: Vec::new(), summary }
}

/// Returns the violations of the rules. Most fields may be missing, because examples and old files are partial.
pub fn check(document: &Value) -> Vec<Violation> {
    let mut violations = ViolationCollector::default();
    let root = Location::document();
    if !document.is_object() {
        violations.wrong_type(&root, document, "an object", "start from the file of a new cycle");
        return violations.0;
    }
    let mut rules = Rules { violations };
    rules.check_enum::<Status>(document, &root, "status");
    rules.check_enum::<Phase>(document, &root, "current_phase");
    rules.agents(document, &root);
    rules.iterations(document, &root);
    rules.plan(document, &root);
    rules.results(document, &root);
    rules.coordination(document, &root);
    let changes = root.field("changes");
    // Usually an object with the list, sometimes the bare list.
    let (changes, entries) = match document["changes"].get("changes") {
        Some(entries) => (changes.field("changes"), entries),
        None => (changes, &document["changes"]),
    };
    for (index, entry) in entries.as_array().into_iter().flatten().enumerate() {
        rules.check_enum::<FileAction>(entry, &changes.entry(index), "action");
    }
    if document["status"] == "failed" && document["failure_reason"].as_str().is_none_or(str::is_empty) {
        let message = "the cycle has failed and has no `failure_reason`".to_owned();
        rules.violations.add("failed-without-reason", &root, message, "add the field `failure_reason`");
    }
    if rules.violations.0.is_empty()
        && let Err(error) = serde_json::from_value::<MasterFile>(document.clone())
    {
        let message = format!("the document cannot be read: {error}");
        rules.violations.add("wrong-type", &root, message, "give the field the type of the format");
    }
    rules.violations.0
}

struct Rules {
    violations: ViolationCollector,
}

impl Rules {
    /// Checks that a field, if it is there, has a value of the enum `T`.
    fn check_enum<T: DeserializeOwned>(&mut self, object: &Value, at: &Location, field: &str) {
        let Some(value) = object.get(field) else { return };
        let Err(error) = serde_json::from_value::<T>(value.clone()) else { return };
        let at = at.field(field);
        let message = format!("{} is {}", at.name, shortened(value));
        // The error lists the permitted values: "unknown variant `x`, expected one of `a`, `b`".
        let error = error.to_string();
        let words = error.split_once("expected ").map_or("a word of the format", |(_, words)| words);
        self.violations.add("unknown-word", &at, message, format!("use {}", words.replace('`', "")));
    }

    fn agents(&mut self, document: &Value, root: &Location) {
        let at = root.field("agents");
        for (name, agent) in document["agents"].as_object().into_iter().flatten() {
            self.check_enum::<AgentStatus>(agent, &at.inside(name), "status");
        }
        let phases = document["completed_phases"].as_array().into_iter().flatten();
        let mut seen = BTreeSet::new();
        let at = root.field("completed_phases");
        for (index, phase) in phases.enumerate() {
            if let Some(name) = phase.as_str()
                && !seen.insert(name)
            {
                let at = at.entry(index);
                let message = format!("`{name}` is completed twice");
                self.violations.add("duplicate-phase", &at, message, "remove the second entry");
            }
        }
    }

    fn iterations(&mut self, document: &Value, root: &Location) {
        let number = |field: &str| document[field].as_u64();
        if let (Some(current), Some(max)) = (number("current_iteration"), number("max_iterations"))
            && current > max
        {
            let message = format!("`current_iteration` is {current}, and `max_iterations` is {max}");
            self.violations.add(
                "too-many-iterations",
                &root.field("current_iteration"),
                message,
                "raise `max_iterations`",
            );
        }
        let at = root.field("iterations");
        let mut seen = BTreeSet::new();
        let mut open = Vec::new();
        for (index, iteration) in document["iterations"].as_array().into_iter().flatten().enumerate() {
            let at = at.entry(index);
            if let Some(number) = iteration["number"].as_u64() {
                if !seen.insert(number) {
                    let message = format!("there are two iterations {number}");
                    self.violations.add("duplicate-id", &at, message, "number the iterations from 1");
                }
                if iteration.get("completed_at").is_none_or(Value::is_null) {
                    open.push((number, at));
                }
            } else {
                self.violations.add(
                    "missing-field",
                    &at,
                    "the iteration has no `number`".to_owned(),
                    "number the iterations from 1",
                );
            }
        }
        if let [(first, _), .., (_, at)] = open.as_slice() {
            let message = format!("iteration {first} is open, too");
            self.violations.add(
                "open-iterations",
                at,
                message,
                "close all iterations but the last: add `completed_at`",
            );
        }
    }

    /// Checks that every entry of a list has an id of its own. Returns the ids.
    fn check_ids(&mut self, list: &Value, at: &Location) -> BTreeSet<String> {
        let mut seen = BTreeSet::new();
        for (index, entry) in list.as_array().into_iter().flatten().enumerate() {
            let at = at.entry(index);
            match entry["id"].as_str() {
                Some(id) if !seen.insert(id.to_owned()) => {
                    self.violations.add(
                        "duplicate-id",
                        &at,
                        format!("there are two entries `{id}`"),
                        "use each id once",
                    );
                }
                Some(_) => {}
                None => {
                    let found = json_type(&entry["id"]);
                    self.violations.add(
                        "missing-field",
                        &at,
                        format!("`id` is {found}"),
                        "give the entry an id",
                    );
                }
            }
        }
        seen
    }

    fn plan(&mut self, document: &Value, root: &Location) {
        let at = root.field("plan").field("tasks");
        let tasks = &document["plan"]["tasks"];
        let ids = self.check_ids(tasks, &at);
        for (index, task) in tasks.as_array().into_iter().flatten().enumerate() {
            let at = at.entry(index);
            self.check_enum::<Effort>(task, &at, "effort");
            self.check_enum::<TaskStatus>(task, &at, "status");
            let dependencies = task["depends_on"].as_array().into_iter().flatten();
            for (index, dependency) in dependencies.enumerate() {
                if !dependency.as_str().is_some_and(|id| ids.contains(id)) {
                    let at = at.field("depends_on").entry(index);
                    let message = format!("the plan has no task {}", shortened(dependency));
                    self.violations.add("unknown-dependency", &at, message, "name a task of the plan");
                }
            }
        }
    }

    fn results(&mut self, document: &Value, root: &Location) {
        for field in ["pass_rate", "coverage"] {
            let Some(rate) = document["test_results"].get(field) else { continue };
            if !rate.as_f64().is_some_and(|rate| (0.0..=100.0).contains(&rate)) {
                let at = root.field("test_results").field(field);
                let message = format!("{} is {}", at.name, shortened(rate));
                self.violations.add("rate-out-of-range", &at, message, "use a number from 0 to 100");
            }
        }
    }

    fn coordination(&mut self, document: &Value, root: &Location) {
        let at = root.field("coordination");
        let section = &document["coordination"];
        for (list, check) in [
            (
                "feedback_log",
                (|rules, entry, at| rules.check_enum::<FeedbackKind>(entry, at, "type")) as EntryCheck,
            ),
            ("pending_decisions", |rules, entry, at| rules.check_enum::<DecisionStatus>(entry, at, "status")),
            ("blockers", |rules, entry, at| rules.check_enum::<BlockerStatus>(entry, at, "status")),
        ] {
            let at = at.field(list);
            if list != "feedback_log" {
                self.check_ids(&section[list], &at);
            }
            for (index, entry) in section[list].as_array().into_iter().flatten().enumerate() {
                check(self, entry, &at.entry(index));
            }
        }
    }
}

type EntryCheck = fn(&mut Rules, &Value, &Location);
