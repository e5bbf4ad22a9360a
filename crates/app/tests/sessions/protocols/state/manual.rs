//! The examples of `docs/state.md`, run by an agent, all at the same time.

use std::fs;
use std::process::Command;

use super::{cycle, history, play};

const MANUAL: &str = include_str!("../../../../../../docs/state.md");

/// The first block of that language.
fn example(language: &str) -> &'static str {
    let (_, after) = MANUAL.split_once(&format!("```{language}\n")).expect("the manual has it");
    after.split_once("```").expect("a block ends").0
}

fn runs(program: &str) -> bool {
    Command::new(program).arg("--version").output().is_ok_and(|output| output.status.success())
}

/// How many entries each of them adds.
const EACH: usize = 4;

#[test]
fn agents_in_shell_python_and_node_work_on_one_document_as_the_manual_shows() {
    let mut profiles = Vec::new();
    for (program, needs, language) in
        [("sh", "jq", "sh"), ("python3", "python3", "python"), ("node", "node", "js")]
    {
        if runs(needs) {
            profiles.push((program, language));
        } else {
            eprintln!("NOT TESTED: the example in {language}, for `{needs}` is not installed");
        }
    }
    let calls: String = profiles
        .iter()
        .map(|(program, language)| {
            format!("for n in 1 2 3 4; do {program} \"$KIT/example.{language}\" {language}-$n || echo {language} >> \"$KIT/failed\"; done &\n")
        })
        .collect();
    let test_env = cycle(&format!(
        "({calls}wait) > /dev/null\ncallboard state get --path /phases/plan/output/steps > \"$KIT/steps\""
    ));
    for (_, language) in &profiles {
        fs::write(test_env.shared_dir().join(format!("example.{language}")), example(language)).unwrap();
    }
    let session = play(&test_env).wait();
    assert_eq!(session.code, 0, "{}", session.transcript());
    assert!(!test_env.shared_dir().join("failed").exists(), "{}", session.transcript());
    let mut steps: Vec<String> = serde_json::from_str(&test_env.wait_for_text("steps")).unwrap();
    steps.sort();
    let mut expected: Vec<_> = profiles
        .iter()
        .flat_map(|(_, language)| (1..=EACH).map(move |n| format!("{language}-{n}")))
        .collect();
    expected.sort();
    assert_eq!(steps, expected, "each once, none lost");
    let writes = history(&test_env);
    assert_eq!(writes.iter().filter(|write| write["by"] == "plan#1.1").count(), expected.len());
}
