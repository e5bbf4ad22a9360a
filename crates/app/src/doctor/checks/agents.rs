//! Known agent programs in PATH.

use std::path::PathBuf;

use supervisor::find_program;

use super::Finding;

const CHECK: &str = "agents";

const KNOWN_AGENTS: [&str; 10] =
    ["aider", "amp", "claude", "codex", "copilot", "cursor-agent", "gemini", "goose", "opencode", "qwen"];

pub(super) fn check() -> Vec<Finding> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let directory = std::env::current_dir().unwrap_or_else(|_| PathBuf::from("/"));
    let found: Vec<_> = KNOWN_AGENTS
        .iter()
        .filter_map(|name| find_program(name, &path, &directory))
        .map(|program| Finding::ok(CHECK, program.display().to_string()))
        .collect();
    match found.is_empty() {
        true => {
            vec![Finding::note(CHECK, format!("no known agent is in PATH ({})", KNOWN_AGENTS.join(", ")))]
        }
        false => found,
    }
}
