//! The examples of `docs/state.md`, run by an agent, all at the same time.

use std::fs;

use super::{history, open_cycle, resume_cycle};

const STATE_PAGE: &str = include_str!("../../../../../../docs/state.md");

/// Returns the first code block of a language.
fn example(language: &str) -> &'static str {
    let (_, after) = STATE_PAGE.split_once(&format!("```{language}\n")).expect("the page has it");
    after.split_once("```").expect("a block ends").0
}

/// How often the example of a language is run; each time it adds one entry.
const ENTRIES_PER_LANGUAGE: usize = 4;

#[test]
fn needs_jq_needs_node_agents_in_shell_python_and_node_work_on_one_document_as_the_documentation_shows() {
    let languages = [("sh", "sh"), ("python3", "python"), ("node", "js")];
    let calls: String = languages
        .iter()
        .map(|(program, language)| {
            format!("for n in $(seq {ENTRIES_PER_LANGUAGE}); do {program} \"$SHARED/example.{language}\" {language}-$n || echo {language} >> \"$SHARED/failed\"; done &\n")
        })
        .collect();
    let test_env = open_cycle(&format!(
        "({calls}wait) > /dev/null\ncallboard state get --path /phases/plan/output/steps > \"$SHARED/steps\""
    ));
    for (_, language) in &languages {
        fs::write(test_env.agent_dir().join(format!("example.{language}")), example(language)).unwrap();
    }
    let session = resume_cycle(&test_env).wait();
    assert_eq!(session.code, 0, "{}", session.transcript());
    assert!(!test_env.agent_dir().join("failed").exists(), "{}", session.transcript());
    let mut steps: Vec<String> = serde_json::from_str(&test_env.wait_for_lines("steps")).unwrap();
    steps.sort();
    let mut expected: Vec<_> = languages
        .iter()
        .flat_map(|(_, language)| (1..=ENTRIES_PER_LANGUAGE).map(move |n| format!("{language}-{n}")))
        .collect();
    expected.sort();
    assert_eq!(steps, expected, "each once, none lost");
    let writes = history(&test_env);
    assert_eq!(writes.iter().filter(|write| write["by"] == "plan#1.1").count(), expected.len());
}
