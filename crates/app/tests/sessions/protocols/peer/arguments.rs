//! The command line of `peer` and its errors. Nothing is written before all of it is valid.

use insta::assert_snapshot;
use protocol::peer::PeerCycleStatus;
use serde_json::json;

use super::{document, load, peer, rehearsed};
use crate::sessions::test_env;

#[test]
fn an_invalid_cycle_is_refused_before_anything_is_written() {
    let test_env = test_env();
    let long = "x".repeat(300);
    let calls: [&[&str]; 12] = [
        &[],
        &["create-spec", "--continue"],
        &["--instruction", "create-spec", "--continue"],
        &[""],
        &["creat-spec"],
        &["deploy"],
        &["create-spec", "--spec", " "],
        &["create-spec", "--spec", &long],
        &["refine-spec"],
        &["git-commit", "--spec", "login"],
        &["execute-tasks"],
        &["create-spec", "--timeout", "soon"],
    ];
    let sessions = calls.map(|arguments| peer(&test_env, arguments).run());
    assert!(sessions.iter().all(|session| session.code == 2), "{sessions:#?}");
    let errors = sessions.map(|session| session.stderr.replace("\n\n", "\n"));
    let errors = errors.join("\n").replace(test_env.repo().to_str().unwrap(), "[REPO]");
    assert_snapshot!(errors, @"
    error: the following required arguments were not provided:
      <INSTRUCTION>
    Usage: callboard peer [OPTIONS] INSTRUCTION [REQUIREMENTS]...
           callboard peer [OPTIONS] --continue
    For more information, try '--help'.

    error: the argument '[INSTRUCTION]' cannot be used with '--continue'
    Usage: callboard peer [OPTIONS] INSTRUCTION [REQUIREMENTS]...
           callboard peer [OPTIONS] --continue
    For more information, try '--help'.

    error: the argument '--instruction <INSTRUCTION>' cannot be used with '--continue'
    Usage: callboard peer [OPTIONS] INSTRUCTION [REQUIREMENTS]...
           callboard peer [OPTIONS] --continue
    For more information, try '--help'.

    error: the instruction is empty
    hint: use one of `create-spec`, `execute-tasks`, `refine-spec`, `analyze-product`, `plan-product`, `git-commit`

    error: `creat-spec` is not an instruction
    hint: did you mean `create-spec`?

    error: `deploy` is not an instruction
    hint: use one of `create-spec`, `execute-tasks`, `refine-spec`, `analyze-product`, `plan-product`, `git-commit`

    error: ` ` cannot name a spec
      caused by: it is empty

    error: `xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx…` cannot name a spec
      caused by: it takes 300 bytes as a key, the limit is 200

    error: `refine-spec` needs an existing spec
    hint: name the spec: `callboard peer refine-spec --spec NAME`

    error: `git-commit` takes no spec: it is about the whole repository
    hint: leave out `--spec`: `callboard peer git-commit`

    error: there is no spec in `[REPO]/.agent-os/specs`
    hint: create a spec first: `callboard peer create-spec 'what you want'`
    hint: or name a spec in another folder: `callboard peer execute-tasks --spec NAME`

    error: invalid value 'soon' for '--timeout <TIME>': `soon` is not a length of time; write seconds, or `90s`, `10m`, `2h`, `1h30m`
    For more information, try '--help'.
    ");
    assert!(!test_env.store_dir().exists());
}

#[test]
fn every_phase_needs_an_adapter() {
    let test_env = test_env();
    assert_snapshot!(test_env.callboard(&["peer", "create-spec", "dark mode"]).run().transcript(), @r#"
    $ callboard peer create-spec 'dark mode'
    error[E007]: no command is configured for agents `executor` (used by step `execute`), `expresser` (used by step `express`), `planner` (used by step `plan`), `reviewer` (used by step `review`)

    hint: add `--wrapper PROGRAM` or `--command-template COMMAND`, or write in callboard.toml:

        [adapters.planner]
        command = ["your-agent", "{prompt}"]
        report = "required"    # without this line the exit code is the report

        [roles.default]    # for every agent without an adapter of its own
        adapter = "planner"
    hint: or use `--rehearse` to run with the built-in scripted agent
    [exit 2]
    "#);
    let failed = test_env.callboard(&["peer", "create-spec", "dark mode", "--json"]).run();
    assert_eq!(
        (&failed.json_lines()[0]["event"], &failed.json_lines()[0]["code"]),
        (&json!("failed"), &json!("E007"))
    );
    let adapter = |step: &str| format!("[adapters.{step}]\nwrapper = {:?}\n", test_env.agent_path());
    let three_adapters = ["planner", "executor", "expresser"].map(adapter).concat();
    test_env.write("callboard.toml", &three_adapters);
    let session = test_env.callboard(&["peer", "create-spec", "dark mode"]).run();
    assert_eq!(session.code, 2);
    assert!(
        session.stderr.contains("no command is configured for agent `reviewer` (used by step `review`)"),
        "{session:?}"
    );
    assert!(!test_env.store_dir().exists());
    test_env.write("callboard.toml", &(three_adapters + &adapter("reviewer")));
    let session = test_env.callboard(&["peer", "create-spec", "dark mode"]).run();
    assert_eq!(session.code, 0, "{}", session.transcript());
    assert_eq!(
        document(&test_env, "peer:spec:dark-mode:cycle:1").metadata.status,
        PeerCycleStatus::Completed
    );
}

#[test]
fn requirements_are_kept_verbatim() {
    let test_env = test_env();
    let requirements = "Dark mode, *everywhere*:\n  \u{1F319} and \"quotes\"\n";
    let from_stdin = peer(&test_env, &["create-spec", "-"]);
    let session =
        from_stdin.in_shell(&format!("printf '{}' | \"$@\"", requirements.replace('\n', "\\n"))).run();
    assert_eq!(session.code, 0, "{}", session.transcript());
    let (definition, document) = load(&test_env, "peer:spec:dark-mode-everywhere-quotes:cycle:1");
    assert_eq!(
        (definition.user_requirements.as_str(), definition.instruction_args.as_str()),
        (requirements, "")
    );
    assert_eq!(document.context.user_requirements, requirements);
    let arguments = ["--instruction=create-spec", "--spec=a b", "Dark", "mode"];
    assert_eq!(peer(&test_env, &arguments).run().code, 0);
    let context = self::document(&test_env, "peer:spec:a b:cycle:1").context;
    assert_eq!(
        (context.user_requirements.as_str(), context.instruction_args.as_str()),
        ("Dark mode", "--spec=a b")
    );
}

#[test]
fn execute_tasks_takes_the_newest_spec_and_refuses_a_tie() {
    let test_env = test_env();
    test_env.write(".agent-os/specs/2025-08-04-old/spec.md", "");
    test_env.write(".agent-os/specs/2025-08-05-login/spec.md", "");
    assert_eq!(peer(&test_env, &["execute-tasks"]).run().code, 0);
    let metadata = document(&test_env, "peer:spec:login:cycle:1").metadata;
    assert_eq!(metadata.instruction, "execute-tasks");
    test_env.write(".agent-os/specs/2025-08-05-dark mode/spec.md", "");
    assert_snapshot!(peer(&test_env, &["execute-tasks"]).run().transcript(), @"
    $ callboard peer execute-tasks --wrapper [SHARED]/agent.sh
    error: 2 specs have the newest date; name one

    hint: `callboard peer execute-tasks --spec 'dark mode'`
    hint: `callboard peer execute-tasks --spec login`
    [exit 2]
    ");
    assert_eq!(peer(&test_env, &["execute-tasks", "--spec", "login"]).run().code, 0);
    document(&test_env, "peer:spec:login:cycle:2");
    // The directory's name is not the spec's name.
    let session = peer(&test_env, &["execute-tasks", "--spec", "2025-08-05-login"]).run();
    assert!(session.stderr.contains("`2025-08-05-login` is the folder of spec `login`"), "{session:?}");
    document(&test_env, "peer:spec:login:cycle:3");
}

#[test]
fn refine_spec_receives_the_newest_real_reviews_recommendations() {
    let test_env = test_env();
    assert_eq!(peer(&test_env, &["create-spec", "--spec", "mail"]).run().code, 0);
    test_env.script_agent(&["plan * failed"]);
    assert_eq!(peer(&test_env, &["create-spec", "--spec", "mail"]).run().code, 1);
    test_env.script_agent(&[]);
    // A rehearsal invents its recommendations, so the next cycle does not get them.
    let review = "phases: {review: [ok: {output: {quality_score: 75, recommendations: [Name the sender]}}]}";
    assert_eq!(rehearsed(&test_env, review, &["create-spec", "--spec", "mail"]).run().code, 0);
    assert_eq!(peer(&test_env, &["refine-spec", "--spec", "mail"]).run().code, 0);
    let (definition, _) = load(&test_env, "peer:spec:mail:cycle:4");
    // The review whose recommendations the cycle got.
    let review = definition.earlier_review.expect("the first cycle was reviewed");
    assert_eq!(review.cycle.to_string(), "peer:spec:mail:cycle:1");
    let prompt = test_env.attempt_dir("peer.spec.mail.cycle.4", "plan", "1.1").join("prompt.md");
    let prompt = std::fs::read_to_string(prompt).unwrap();
    assert!(prompt.contains("What the review of `peer:spec:mail:cycle:1` recommends"), "{prompt}");
    assert!(prompt.contains("Go on like this"), "{prompt}");
}

#[test]
fn a_cycle_without_a_spec_is_about_the_repository() {
    let test_env = test_env();
    for instruction in ["plan-product", "analyze-product", "git-commit"] {
        assert_eq!(peer(&test_env, &[instruction]).run().code, 0);
    }
    assert_eq!(peer(&test_env, &["analyze-product", "--spec", "login"]).run().code, 0);
    let metadata = document(&test_env, "peer:global:cycle:3").metadata;
    assert_eq!((metadata.instruction.as_str(), metadata.spec_name), ("git-commit", None));
    assert!(!document(&test_env, "peer:global:cycle:1").context.spec_aware);
    assert!(document(&test_env, "peer:spec:login:cycle:1").context.spec_aware);
}
