//! Prompt templates of the repository.

use insta::assert_snapshot;

use super::load;
use crate::sessions::test_env;

const CYCLE: &str = "peer:spec:dark-mode:cycle:1";

#[test]
fn a_prompt_of_the_repository_replaces_the_built_in_one_and_is_stored_with_the_cycle() {
    let test_env = test_env();
    let text = "Plan {{scope}} in rhymes.\n\n{{user_requirements}}\n";
    test_env.write(".agents/prompts/peer/planner.md", text);
    test_env.write(".agents/prompts/peer/planer.md", "misspelt");
    let session = test_env.callboard(&["peer", "create-spec", "dark mode", "--rehearse"]).run();
    assert_eq!(session.code, 0, "{}", session.transcript());
    let note = "note: `.agents/prompts/peer/planer.md` is used by no agent; did you mean `planner.md`?";
    assert!(session.stderr.contains(note), "{}", session.stderr);
    test_env.write(".agents/prompts/peer/planner.md", "another");
    let (definition, _) = load(&test_env, CYCLE);
    assert_eq!(definition.prompts.get("planner").map(String::as_str), Some(text));
    let plan = test_env.callboard(&["prompt", CYCLE, "plan"]).run();
    assert!(plan.stdout.contains("Plan the spec `dark-mode` in rhymes.\n\ndark mode\n"), "{}", plan.stdout);
    assert!(plan.stdout.contains("## How to report"), "{}", plan.stdout);
    let review = test_env.callboard(&["prompt", CYCLE, "review"]).run();
    assert!(review.stdout.contains("You are the reviewer of cycle"), "{}", review.stdout);
    let shown = test_env.callboard(&["show", CYCLE]).run();
    let line = "the prompt of `planner` is that of the repository, as it was when the cycle started";
    assert!(shown.stdout.contains(line), "{}", shown.transcript());
}

#[test]
fn an_unknown_placeholder_is_refused_before_the_cycle_exists() {
    let test_env = test_env();
    test_env.write(".agents/prompts/peer/reviewer.md", "Review.\n\nWanted: {{user_requirement}}\n");
    let session = test_env.callboard(&["peer", "create-spec", "dark mode", "--rehearse"]).run();
    assert_snapshot!(session.transcript(), @"
    $ callboard peer create-spec 'dark mode' --rehearse
    error: .agents/prompts/peer/reviewer.md:3:9: unknown placeholder `{{user_requirement}}`

    hint: did you mean `{{user_requirements}}`?
    [exit 2]
    ");
    assert!(!test_env.store_dir().join("callboard.db").exists());
}
