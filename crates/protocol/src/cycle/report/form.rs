//! How each agent is asked for its report: an example, a JSON Schema, and the rules that a schema cannot say.
//!
//! The phases: `ra` writes the requirements, `ep` explores and plans, `cd` codes, `vas` validates.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::{Map, Value, json};

use crate::cycle::document::{Document, TaskStatus};
use crate::cycle::step::{Role, Step};
use crate::report::{ReportFields, ReportForm};

/// Returns the form of a step's report.
pub(in crate::cycle) fn form(document: &Document, step: &Step) -> ReportForm {
    let (example, properties, rules) = match step {
        Step::Phase(Role::Analyst) => ra(document),
        Step::Explore => explore(),
        Step::Phase(Role::Planner) => ep(document),
        Step::Phase(Role::Developer) => cd(open_tasks(document)),
        Step::Task(task) => cd(vec![task.to_string()]),
        Step::Phase(Role::Validator) | Step::Baseline => vas(),
        Step::Test | Step::Merge(_) | Step::Answer(_) | Step::FastForward => return ReportForm::Plain,
    };
    let mut schema = json!({
        "type": "object",
        "properties": common_properties(),
    });
    if let (Some(all_properties), Value::Object(own_properties)) =
        (schema["properties"].as_object_mut(), properties)
    {
        all_properties.extend(own_properties);
    }
    let rules = format!(
        "{rules} `decisions` are choices that you must not make alone, each with its options; `blockers` are problems that you \
         cannot solve. `needed_by` names the phase (`ra`, `ep`, `cd`, `vas`) that waits for the answer. With a blocker of your \
         own you may leave out all other fields of this step: you are asked again after the answer. Leave both empty if there is \
         nothing to ask."
    );
    ReportForm::Fields(Arc::new(ReportFields {
        example: object(example),
        schema,
        rules,
        rehearsed_files: BTreeMap::new(),
    }))
}

fn object(value: Value) -> Map<String, Value> {
    match value {
        Value::Object(map) => map,
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Array(_) => Map::new(),
    }
}

fn texts() -> Value {
    json!({ "type": "array", "items": { "type": "string" } })
}

fn rate() -> Value {
    json!({ "type": "number", "minimum": 0, "maximum": 100 })
}

fn common_properties() -> Value {
    let phase = json!({ "enum": ["ra", "ep", "cd", "vas"] });
    json!({
        "summary": { "type": "string" },
        "phase_status": { "enum": ["success", "partial"] },
        "decisions": { "type": "array", "items": {
            "type": "object",
            "required": ["description", "options"],
            "properties": {
                "description": { "type": "string" },
                "options": { "type": "array", "items": { "type": "string" }, "minItems": 1 },
                "recommended": { "type": "string" },
                "needed_by": phase,
            },
        } },
        "blockers": { "type": "array", "items": {
            "type": "object",
            "required": ["description"],
            "properties": { "description": { "type": "string" }, "needed_by": phase },
        } },
    })
}

/// The example, the properties of the schema, and the rules of a form.
type FormParts = (Value, Value, &'static str);

fn ra(document: &Document) -> FormParts {
    let example = json!({
        "specification": format!("## FR-001\n\n{}\n\n## Success criteria\n\n- [ ] A test shows that FR-001 works.", document.master_file.title),
        "edge_cases": ["EC-001: empty input"],
        "unchanged": false,
        "summary": "one functional requirement and one edge case",
        "decisions": [],
        "blockers": [],
    });
    let properties = json!({
        "specification": { "type": "string" },
        "edge_cases": texts(),
        "unchanged": { "type": "boolean" },
    });
    let rules = "`specification` is the whole text of the requirements, in Markdown, with sections `FR-nnn`, `NFR-nnn` and \
                 success criteria. If nothing has changed since the last iteration, say `\"unchanged\": true` and leave it out.";
    (example, properties, rules)
}

fn exploration_properties() -> Value {
    json!({
        "architecture_summary": { "type": "string" },
        "architecture": { "type": "string" },
        "integration_points": texts(),
        "identified_risks": texts(),
    })
}

fn explore() -> FormParts {
    let example = json!({
        "architecture_summary": "One crate with a command line in front of a library.",
        "integration_points": ["src/main.rs: the command line"],
        "identified_risks": ["no test covers the command line"],
        "summary": "explored the repository",
    });
    (example, exploration_properties(), "Explore only: the requirements are not known yet, so plan nothing.")
}

fn ep(document: &Document) -> FormParts {
    let example = json!({
        "architecture_summary": "One crate with a command line in front of a library.",
        "integration_points": ["src/main.rs: the command line"],
        "identified_risks": ["no test covers the command line"],
        "tasks": [
            { "id": "TASK-001", "title": "Library", "description": format!("Implement: {}", document.master_file.title), "effort": "small",
              "depends_on": [], "files": ["src/lib.rs"], "success_criteria": ["its test passes"] },
            { "id": "TASK-002", "title": "Documentation", "description": "Document it", "effort": "small",
              "depends_on": [], "files": ["README.md"], "success_criteria": ["the README shows it"] },
        ],
        "total_estimated_effort": "2 hours",
        "critical_path": ["TASK-001"],
        "unchanged": false,
        "summary": "two independent tasks",
        "decisions": [],
        "blockers": [],
    });
    let mut properties = exploration_properties();
    properties["tasks"] = json!({ "type": "array", "items": {
        "type": "object",
        "required": ["id", "description"],
        "properties": {
            "id": { "type": "string", "pattern": "^[A-Za-z0-9_][A-Za-z0-9_-]*$" },
            "title": { "type": "string" },
            "description": { "type": "string" },
            "effort": { "enum": ["small", "medium", "large"] },
            "depends_on": texts(),
            "files": texts(),
            "success_criteria": texts(),
        },
    } });
    properties["total_estimated_effort"] = json!({ "type": "string" });
    properties["critical_path"] = texts();
    properties["unchanged"] = json!({ "type": "boolean" });
    let rules = "`architecture` describes in Markdown how the change fits into the code. `tasks` is the whole plan, including \
                 what is done; `files` are the files or globs that a task changes. If exploration and plan are still right, say \
                 `\"unchanged\": true` and leave them out.";
    (example, properties, rules)
}

fn open_tasks(document: &Document) -> Vec<String> {
    let tasks = document.master_file.plan.iter().flat_map(|plan| &plan.tasks);
    tasks.filter(|task| task.status != TaskStatus::Completed).map(|task| task.id.clone()).collect()
}

fn cd(tasks: Vec<String>) -> FormParts {
    let example = json!({
        "tasks_completed": tasks,
        "tasks_blocked": [],
        "changes": [{ "file": "src/lib.rs", "action": "modify", "description": "implemented the task" }],
        "implementation": "Implemented as planned.",
        "debug_log": [],
        "issues": [],
        "summary": "implemented as planned",
        "decisions": [],
        "blockers": [],
    });
    let properties = json!({
        "tasks_completed": texts(),
        "tasks_blocked": texts(),
        "changes": { "type": "array", "items": {
            "type": "object",
            "required": ["file"],
            "properties": {
                "file": { "type": "string" },
                "action": { "enum": ["create", "modify", "delete"] },
                "description": { "type": "string" },
                "task": { "type": "string" },
                "lines_added": { "type": "integer" },
                "lines_removed": { "type": "integer" },
            },
        } },
        "implementation": { "type": "string" },
        "debug_log": { "type": "array", "items": {
            "type": "object",
            "required": ["hypothesis", "outcome"],
            "properties": {
                "issue_id": { "type": "string" },
                "file": { "type": "string" },
                "hypothesis": { "type": "string" },
                "action": { "type": "string" },
                "observation": { "type": "string" },
                "outcome": { "enum": ["confirmed", "refuted", "inconclusive"] },
            },
        } },
        "issues": texts(),
    });
    let rules = "`changes` names every file that you created, modified or deleted, relative to the repository. `debug_log` has \
                 each hypothesis that you tried about a failing test. `issues` are open questions about the requirements; each \
                 leads to another iteration.";
    (example, properties, rules)
}

fn vas() -> FormParts {
    let example = json!({
        "pass_rate": 100,
        "coverage": 85,
        "failed_tests": [],
        "total_tests": 12,
        "critical_issues": [],
        "validation": "- FR-001: met, its test passes",
        "summary": "all tests pass",
        "decisions": [],
        "blockers": [],
    });
    let properties = json!({
        "pass_rate": rate(),
        "coverage": rate(),
        "failed_tests": texts(),
        "total_tests": { "type": "integer", "minimum": 0 },
        "critical_issues": texts(),
        "validation": { "type": "string" },
        "coverage_details": { "type": "object" },
        "by_suite": { "type": "array" },
    });
    let rules = "`failed_tests` and `critical_issues` lead to another iteration. `validation` says in Markdown how the code meets \
                 each requirement. Your figures are shown as claims if the engine has run the tests itself.";
    (example, properties, rules)
}
