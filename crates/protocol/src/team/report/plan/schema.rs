//! The JSON Schema of a plan.

use serde_json::Value;

/// Returns the JSON Schema of a plan.
pub(in crate::team) fn schema() -> Value {
    let text = serde_json::json!({ "type": "string", "minLength": 1 });
    let texts = serde_json::json!({ "type": "array", "items": text });
    serde_json::json!({
        "type": "object",
        "required": ["verdict", "all_tasks", "task_groups", "success_criteria"],
        "properties": {
            "verdict": { "enum": ["PLANNING_COMPLETE"] },
            "mode": { "enum": ["simple", "parallel"] },
            "mode_reasoning": { "type": "string" },
            "all_tasks": { "type": "array", "minItems": 1, "items": {
                "type": "object", "required": ["id", "description"],
                "properties": { "id": text, "description": text },
            } },
            "task_groups": { "type": "array", "minItems": 1, "items": {
                "type": "object", "required": ["id", "name", "tasks", "files_affected"],
                "properties": {
                    "id": { "type": "string", "pattern": "^[A-Za-z0-9][A-Za-z0-9_-]{0,39}$" },
                    "name": text, "tasks": texts, "files_affected": texts,
                    "branch_name": { "type": "string", "pattern": "^feature/" },
                    "can_parallel": { "type": "boolean" }, "depends_on": texts,
                    "complexity": { "enum": ["low", "medium", "high"] },
                    "estimated_effort_minutes": { "type": "integer", "minimum": 0 },
                },
            } },
            "execution_phases": { "type": "array", "items": {
                "type": "object", "required": ["phase_number", "group_ids"],
                "properties": { "phase_number": { "type": "integer", "minimum": 1 }, "group_ids": texts },
            } },
            "success_criteria": { "type": "array", "items": {
                "type": "object", "required": ["id", "text", "tasks"],
                "properties": { "id": text, "text": text, "tasks": texts, "command": {
                    "type": "string", "minLength": 1,
                    "description": "a program and its arguments, without a shell; for operators write a script or sh -c '…'",
                } },
            } },
        },
    })
}
