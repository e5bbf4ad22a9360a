//! Teams: rehearsals, imports, killed engines, merges and the terminal. `three_features` has a run with all roles.
//!
//! `pm` is the project manager; its verdict `BAZINGA` says that the work is complete. A foreign store is a directory
//! `coordination` that the original program has written.

mod three_features;

use serde_json::Value;
use testkit::TestEnv;

use crate::sessions::test_env;

/// Reads a file of the directory `coordination`.
fn coordination_file(test_env: &TestEnv, name: &str) -> Value {
    let text = std::fs::read_to_string(test_env.repo().join("coordination").join(name)).unwrap();
    serde_json::from_str(&text).unwrap()
}

#[test]
fn a_team_is_rehearsed_without_a_script() {
    let test_env = test_env();
    let session = test_env.callboard(&["team", "Try it out", "--run-id", "trial", "--rehearse"]).run();
    assert_eq!(session.code, 0, "{}", session.transcript());
    assert_eq!(
        coordination_file(&test_env, "pm_state.json")["completed_groups"],
        serde_json::json!(["A", "B"])
    );
    for dry_run in [&["--dry-run"][..], &[]] {
        let imported = test_env.callboard(&[&["import", "coordination/"], dry_run].concat()).run();
        assert_eq!(imported.code, 3, "{}", imported.transcript());
        assert!(imported.stderr.contains("the store has run `trial`"), "{}", imported.transcript());
    }
    // A refused start deletes none of the files that the earlier run has left.
    test_env.write("coordination/orchestrator_state.json", "{}");
    let start = ["team", "Try it again", "--run-id", "again", "--rehearse", "--exit-when-waiting"];
    let refused = test_env.callboard(&start).run();
    assert_eq!(refused.code, 3, "{}", refused.transcript());
    assert!(refused.stderr.contains("another program has written or changed it"), "{}", refused.transcript());
    assert_eq!(
        coordination_file(&test_env, "pm_state.json")["completed_groups"],
        serde_json::json!(["A", "B"])
    );
    // A directory in the place of a file is moved aside, too.
    let view = test_env.repo().join("coordination/orchestrator_state.json");
    std::fs::remove_file(&view).unwrap();
    std::fs::create_dir(&view).unwrap();
    let replaced = test_env.callboard(&[&start[..], &["--replace"]].concat()).run();
    assert_eq!(replaced.code, 0, "{}", replaced.transcript());
}

#[test]
fn the_example_of_a_rehearsal_builds_three_features_with_a_merge_conflict() {
    let test_env = test_env();
    test_env.write("notes.txt", "none\n");
    test_env.git(&["add", "--all"]);
    test_env.git(&["commit", "--quiet", "--message=start"]);
    let script =
        concat!("--rehearse=", env!("CARGO_MANIFEST_DIR"), "/../../examples/team-rehearsal.yaml").to_owned();
    let session = test_env.callboard(&["team", "Add three features", "--run-id", "trial", &script]).run();
    assert_eq!(session.code, 0, "{}", session.transcript());
    let groups = coordination_file(&test_env, "group_status.json");
    assert_eq!(groups["B"]["iterations"]["qa"], 3);
    assert_eq!(groups["C"]["blockers"][0]["resolved"], true);
    let feedback = coordination_file(&test_env, "messages/techlead_to_dev.json")["messages"].to_string();
    assert!(feedback.contains("notes.txt"), "the merges conflict: {feedback}");
    assert_eq!(test_env.git(&["log", "--merges", "--format=%s", "callboard/trial"]).lines().count(), 3);
}

/// The original's commands to follow a run, as they are written there, with the file and the JSON pointer that each shows.
const MONITORING: [(&str, &str, &str); 4] = [
    ("cat coordination/pm_state.json | jq .", "pm_state.json", ""),
    ("cat coordination/group_status.json | jq '.A'", "group_status.json", "/A"),
    (
        "watch -n 1 'cat coordination/orchestrator_state.json | jq .current_phase'",
        "orchestrator_state.json",
        "/current_phase",
    ),
    ("cat coordination/pm_state.json | jq .iteration", "pm_state.json", "/iteration"),
];

/// Returns the value with every number as a float: `jq` writes 100.0 as 100.
fn with_floats(value: Value) -> Value {
    match value {
        Value::Number(number) => number.as_f64().into(),
        Value::Array(items) => items.into_iter().map(with_floats).collect(),
        Value::Object(fields) => fields.into_iter().map(|(name, value)| (name, with_floats(value))).collect(),
        Value::Null | Value::Bool(_) | Value::String(_) => value,
    }
}

#[test]
fn needs_jq_the_commands_of_the_original_show_how_far_a_run_is() {
    let test_env = test_env();
    let session = test_env.callboard(&["team", "Try it out", "--run-id", "trial", "--rehearse"]).run();
    assert_eq!(session.code, 0, "{}", session.transcript());
    let page = include_str!("../../../../../docs/team.md");
    for (line, name, pointer) in MONITORING {
        assert!(page.contains(line), "{line} should be in the docs");
        // `watch` runs what is quoted.
        let command = line.strip_prefix("watch -n 1 ").map_or(line, |quoted| quoted.trim_matches('\''));
        let output =
            std::process::Command::new("sh").args(["-c", command]).current_dir(test_env.repo()).output();
        let output = output.unwrap();
        let found: Value = serde_json::from_slice(&output.stdout).unwrap();
        let content = coordination_file(&test_env, name);
        assert_eq!(with_floats(found), with_floats(content.pointer(pointer).unwrap().clone()), "{line}");
    }
}

/// The files of the example of a foreign store.
const EXAMPLES: [&str; 6] = [
    "pm_state.json",
    "group_status.json",
    "orchestrator_state.json",
    "messages/dev_to_qa.json",
    "messages/qa_to_techlead.json",
    "messages/techlead_to_dev.json",
];

/// Agents that continue an imported run: tech leads approve the groups that are claimed complete; a developer builds C.
const VERIFYING_AGENTS: &str = r#"
verdict() { extra_fields=", \"verdict\": \"$1\", \"feedback\": \"seen\""; write_report COMPLETED "$1"; }
case $CALLBOARD_ATTEMPT in
C.developer#*) echo "$STEP_ID" >c.txt; verdict READY_FOR_REVIEW ;;
A.tech_lead#*) cp "$PROMPT_PATH" "$shared/prompt"; verdict approved ;;
*.tech_lead#*) verdict approved ;;
pm.check*) verdict BAZINGA ;;
esac
"#;

/// Returns a file of the example of a foreign store.
fn example(name: &str) -> String {
    let fixtures = concat!(env!("CARGO_MANIFEST_DIR"), "/../protocol/tests/fixtures/team");
    let name = std::path::Path::new(name).file_name().unwrap();
    std::fs::read_to_string(std::path::Path::new(fixtures).join(name)).unwrap()
}

#[test]
fn a_foreign_store_is_imported_once_comes_back_equal_and_is_continued() {
    let test_env = test_env();
    for name in EXAMPLES {
        test_env.write(format!("coordination/{name}"), &example(name));
    }
    test_env.git(&["checkout", "--quiet", "-b", "feature/group-A-jwt-auth"]);
    test_env.write("outside.txt", "not in the plan\n");
    test_env.git(&["add", "outside.txt"]);
    test_env.git(&["commit", "--quiet", "-m", "add tokens"]);
    test_env.git(&["checkout", "--quiet", "main"]);
    let report = test_env.callboard(&["import", "coordination/", "--dry-run"]).run();
    assert_eq!(report.code, 0, "{}", report.transcript());
    assert!(
        report.stderr.contains("group A: claimed complete, the tech lead verifies it"),
        "{}",
        report.transcript()
    );
    assert_eq!(test_env.callboard(&["ls", "--json"]).run().stdout.trim(), "[]", "nothing was imported");
    let run = "v4_20250106_100000";
    for what in ["imported `coordination/`", "is imported already"] {
        let imported = test_env.callboard(&["import", "coordination/"]).run();
        assert_eq!((imported.code, imported.stdout.trim()), (0, run), "{}", imported.transcript());
        assert!(imported.stderr.contains(what), "{}", imported.transcript());
    }
    let exported = test_env.callboard(&["export", run, "--documents", "out"]).run();
    assert_eq!(exported.code, 0, "{}", exported.transcript());
    for name in EXAMPLES {
        let text = std::fs::read_to_string(test_env.repo().join("out/coordination").join(name)).unwrap();
        let (found, wanted): (Value, Value) =
            (serde_json::from_str(&text).unwrap(), serde_json::from_str(&example(name)).unwrap());
        assert_eq!(found, wanted, "{name}");
    }
    test_env.write("coordination/pm_state.json", "{}");
    let other = test_env.callboard(&["import", "coordination/"]).run();
    assert_eq!(other.code, 3, "{}", other.transcript());
    std::fs::write(test_env.agent_dir().join("team.sh"), VERIFYING_AGENTS).unwrap();
    test_env.script_agent(&[r#"* * do . "$shared/team.sh""#]);
    let resumed = test_env.with_agent(&["resume", run]).run();
    assert_eq!(resumed.code, 0, "{}", resumed.transcript());
    assert_eq!(coordination_file(&test_env, "pm_state.json")["completion_percentage"], 100.0);
    let groups = coordination_file(&test_env, "group_status.json");
    assert_eq!(groups["A"]["iterations"], serde_json::json!({ "developer": 2, "qa": 1, "tech_lead": 2 }));
    assert_eq!(test_env.git(&["show", "main:c.txt"]), "C.developer\n", "the open group was built");
    assert_eq!(groups["A"]["files_modified"], serde_json::json!(["outside.txt"]), "as git has it");
    let prompt = test_env.wait_for_lines("prompt");
    assert!(prompt.contains("These files were changed outside of the plan: outside.txt."), "{prompt}");
}

#[test]
fn the_readable_part_of_a_damaged_store_is_imported_and_the_loss_is_named() {
    let test_env = test_env();
    test_env.write("old/coordination/pm_state.json", &example("pm_state.json")[..2000]);
    test_env.write("old/coordination/group_status.json", &example("group_status.json"));
    let imported = test_env.callboard(&["import", "old"]).run();
    assert_eq!(imported.code, 1, "{}", imported.transcript());
    for lost in ["lost: `pm_state.json` is damaged in line", "lost: `orchestrator_state.json` is missing"] {
        assert!(imported.stderr.contains(lost), "{}", imported.transcript());
    }
    let pm = coordination_file(&test_env, "pm_state.json");
    assert_eq!(
        pm["original_requirements"],
        "Implement JWT authentication, user registration, and password reset functionality"
    );
    test_env.write("bad/coordination/pm_state.json", "no JSON");
    let refused = test_env.callboard(&["import", "bad"]).run();
    assert_eq!(refused.code, 2, "{}", refused.transcript());
    let several = test_env.callboard(&["import", "."]).run();
    assert_eq!(several.code, 2, "{}", several.transcript());
    assert!(several.stderr.contains("contains several stores"), "{}", several.transcript());
}

#[test]
fn needs_script_a_terminal_shows_groups_as_rows_and_roles_as_columns() {
    let test_env = test_env();
    let team = ["team", "Try it out", "--run-id", "trial", "--rehearse"];
    let run = test_env.callboard(&team).on_terminal();
    let session = run.start().wait();
    assert_eq!(session.code, 0, "{}", session.stdout);
    let plain = anstream::adapter::strip_str(&session.stdout).to_string();
    assert!(plain.contains("     developer  qa "), "{plain:?}");
    assert!(plain.contains("A  ▸ running"), "{plain:?}");
}

/// Two groups; the second depends on the first.
const CHAINED_AGENTS: &str = r#"
verdict() { extra_fields=", \"verdict\": \"$1\", \"summary\": \"s\", \"feedback\": \"seen\"$2"; write_report COMPLETED "$1"; }
case $CALLBOARD_ATTEMPT in
pm.plan*) verdict PLANNING_COMPLETE ', "mode": "parallel", "all_tasks": [{"id": "T1", "description": "a"}, {"id": "T2", "description": "b"}],
  "task_groups": [
    {"id": "A", "name": "First", "tasks": ["T1"], "files_affected": ["a.txt"]},
    {"id": "B", "name": "Second", "tasks": ["T2"], "files_affected": ["b.txt"], "depends_on": ["A"]}]' ;;
*.developer*) echo "$STEP_ID" >"$STEP_ID.txt"; verdict READY_FOR_QA ;;
*.qa*) verdict PASS ;;
*.tech_lead*) verdict approved ;;
pm.check*) verdict BAZINGA ;;
esac
"#;

#[test]
fn killed_before_and_after_each_merge_a_team_merges_each_group_once() {
    // The example `crashing` is `callboard` that is killed before or after the effect that `CRASH` names.
    let test_env = TestEnv::new(crate::example("crashing"));
    test_env.write("file", "content\n");
    test_env.git(&["add", "--all"]);
    test_env.git(&["commit", "--quiet", "--message=start"]);
    std::fs::write(test_env.agent_dir().join("team.sh"), CHAINED_AGENTS).unwrap();
    test_env.script_agent(&[r#"* * do . "$shared/team.sh""#]);
    let points = [
        "before-merge",
        "after-merge",
        "before-merge",
        "after-merge",
        "before-fast-forward",
        "after-fast-forward",
    ];
    for (number, point) in points.into_iter().enumerate() {
        let command = match number {
            0 => test_env.with_agent(&["team", "Two parts", "--run-id", "trial"]),
            _ => test_env.callboard(&["resume", "trial"]),
        };
        let killed = command.env("CRASH", point).run();
        assert!(![0, 1, 2, 3].contains(&killed.code), "{point} was not reached: {}", killed.transcript());
    }
    let session = test_env.callboard(&["resume", "trial"]).run();
    assert_eq!(session.code, 0, "{}", session.transcript());
    let merges = test_env.git(&["log", "--merges", "--format=%s", "main"]);
    assert_eq!(merges.lines().count(), 2, "{merges}");
    let started = test_env.agent_log().started();
    let distinct: std::collections::BTreeSet<_> = started.iter().collect();
    assert_eq!((started.len(), distinct.len()), (8, 8), "no attempt ran twice: {started:?}");
    for (mailbox, sent) in [("dev_to_qa", 2), ("qa_to_techlead", 2), ("techlead_to_dev", 2), ("to_pm", 2)] {
        let messages = coordination_file(&test_env, &format!("messages/{mailbox}.json"));
        assert_eq!(messages["messages"].as_array().unwrap().len(), sent, "{mailbox}");
    }
}

/// The checks pass for each group alone. They fail for both together, because both use port 80, until the developer of
/// the group that is merged second takes port 81.
const COLLIDING_AGENTS: &str = r#"
verdict() { extra_fields=", \"verdict\": \"$1\", \"summary\": \"s\", \"feedback\": \"seen\"$2"; write_report COMPLETED "$1"; }
case $CALLBOARD_ATTEMPT in
pm.plan*) verdict PLANNING_COMPLETE ', "mode": "parallel", "all_tasks": [{"id": "T1", "description": "a"}, {"id": "T2", "description": "b"}],
  "task_groups": [
    {"id": "A", "name": "First", "tasks": ["T1"], "files_affected": ["a.port"]},
    {"id": "B", "name": "Second", "tasks": ["T2"], "files_affected": ["b.port"]}]' ;;
A.developer#1.*) echo 80 >a.port; verdict READY_FOR_REVIEW ;;
B.developer#1.*) echo 80 >b.port; verdict READY_FOR_REVIEW ;;
*.developer*) grep -q ports "$PROMPT_PATH" || exit 1; echo 81 >"$(echo "${STEP_ID%%.*}" | tr AB ab).port"; verdict READY_FOR_REVIEW ;;
*.tech_lead*) verdict approved ;;
pm.check*) verdict BAZINGA ;;
esac
"#;

#[test]
fn approved_groups_are_merged_one_by_one_and_the_second_is_tested_on_the_new_base() {
    let test_env = test_env();
    test_env.write(
        "ports.sh",
        "[ -z \"$(cat *.port | sort | uniq -d)\" ] || { echo two ports are the same; exit 1; }\n",
    );
    test_env.write("callboard.toml", "[checks]\nports = [\"sh\", \"ports.sh\"]\n");
    test_env.git(&["add", "--all"]);
    test_env.git(&["commit", "--quiet", "--message=start"]);
    // The branch of another program: it is neither continued nor deleted.
    test_env.git(&["branch", "feature/group-A-first"]);
    std::fs::write(test_env.agent_dir().join("team.sh"), COLLIDING_AGENTS).unwrap();
    test_env.script_agent(&[r#"* * do . "$shared/team.sh""#]);
    let session = test_env.with_agent(&["team", "Two servers", "--run-id", "trial", "--jobs", "4"]).run();
    assert_eq!(session.code, 0, "{}", session.transcript());
    let groups = coordination_file(&test_env, "group_status.json");
    let mut turns: Vec<_> =
        ["A", "B"].iter().map(|id| groups[id]["iterations"]["developer"].as_u64()).collect();
    turns.sort_unstable();
    assert_eq!(turns, [Some(1), Some(2)], "only the second merge was refused");
    let messages = coordination_file(&test_env, "messages/techlead_to_dev.json");
    let change_requests = messages["messages"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|message| message["decision"] == "changes_requested");
    let change_requests: Vec<_> = change_requests.collect();
    assert_eq!(change_requests.len(), 1, "{messages}");
    assert!(
        change_requests[0]["feedback"].as_str().unwrap().contains("two ports are the same"),
        "{messages}"
    );
    let ports = [test_env.git(&["show", "main:a.port"]), test_env.git(&["show", "main:b.port"])];
    assert_ne!(ports[0], ports[1]);
    let branches = test_env.git(&["branch", "--list", "feature/*", "--format=%(refname:short)"]);
    assert_eq!(branches.trim(), "feature/group-A-first");
    assert_eq!(groups["A"]["branch_name"], "feature/group-A-first-2");
}

/// The developer of A commits on another branch; the developer of B changes nothing in the first turn. The agents of the
/// project manager and the tech leads leave files, although their steps may only read.
const AGENTS_WITH_STRAY_CHANGES: &str = r#"
verdict() { extra_fields=", \"verdict\": \"$1\", \"summary\": \"s\", \"feedback\": \"seen\"$2"; write_report COMPLETED "$1"; }
case $CALLBOARD_ATTEMPT in
pm.plan*) echo x >left-by-plan.txt; verdict PLANNING_COMPLETE ', "mode": "parallel", "all_tasks": [{"id": "T1", "description": "a"}, {"id": "T2", "description": "b"}],
  "task_groups": [
    {"id": "A", "name": "First", "tasks": ["T1"], "files_affected": ["a.txt"]},
    {"id": "B", "name": "Second", "tasks": ["T2"], "files_affected": ["b.txt"]}]' ;;
A.developer*) git checkout -q -b other; echo a >a.txt; git add a.txt; git commit -q -m a; verdict READY_FOR_REVIEW ;;
B.developer#1.*) verdict READY_FOR_REVIEW ;;
B.developer*) grep -q 'has no commits' "$PROMPT_PATH" || exit 1; echo b >b.txt; verdict READY_FOR_REVIEW ;;
*.tech_lead*) echo x >left-by-lead.txt; git add left-by-lead.txt; git commit -q -m lead; verdict approved ;;
pm.check*) echo x >left-by-check.txt; verdict BAZINGA ;;
esac
"#;

#[test]
fn only_changes_of_the_developers_are_merged() {
    let test_env = test_env();
    std::fs::write(test_env.agent_dir().join("team.sh"), AGENTS_WITH_STRAY_CHANGES).unwrap();
    test_env.script_agent(&[r#"* * do . "$shared/team.sh""#]);
    let session = test_env.with_agent(&["team", "Two files", "--run-id", "trial"]).run();
    assert_eq!(session.code, 0, "{}", session.transcript());
    let files = [test_env.git(&["show", "main:a.txt"]), test_env.git(&["show", "main:b.txt"])];
    assert_eq!(files, ["a\n", "b\n"]);
    assert_eq!(coordination_file(&test_env, "group_status.json")["B"]["iterations"]["developer"], 2);
    let merged = test_env.git(&["ls-tree", "--name-only", "main"]);
    assert!(!merged.contains("left-by"), "{merged}");
    let log = test_env.callboard(&["log", "trial"]).run().stdout;
    assert!(log.contains("its step only reads; what it left was removed: left-by-lead.txt"), "{log}");
    assert!(log.contains("is checked out again instead of branch `other`"), "{log}");
}

/// Four developers rewrite `group_status.json` a hundred times each, at the same time. The tech lead never answers.
const WRITING_AGENTS: &str = r#"
verdict() { extra_fields=", \"verdict\": \"$1\"$2"; write_report COMPLETED "$1"; }
group=${STEP_ID%%.*}
case $CALLBOARD_ATTEMPT in
pm.plan*) verdict PLANNING_COMPLETE ', "mode": "parallel",
  "all_tasks": [{"id": "T1", "description": "a"}, {"id": "T2", "description": "b"}, {"id": "T3", "description": "c"},
    {"id": "T4", "description": "d"}],
  "task_groups": [
    {"id": "A", "name": "First", "tasks": ["T1"]}, {"id": "B", "name": "Second", "tasks": ["T2"]},
    {"id": "C", "name": "Third", "tasks": ["T3"]}, {"id": "D", "name": "Fourth", "tasks": ["T4"]}]' ;;
*.developer*) read -r _ <"$shared/together"
  file=coordination/group_status.json
  sed -i "s/\"blockers\": \[\]/\"blockers\": [{\"description\": \"$group 1\"}]/" "$file"
  for number in $(seq 2 100); do
    sed -i "s/\"blockers\": \[/&{\"description\": \"$group $number\"}, /" "$file"
  done
  sed -i 's/"dev_working"/"dev_blocked"/' "$file" ;;
*) hang ;;
esac
"#;

#[test]
fn four_processes_with_a_hundred_updates_each_lose_none() {
    let test_env = test_env();
    std::fs::write(test_env.agent_dir().join("team.sh"), WRITING_AGENTS).unwrap();
    test_env.script_agent(&[r#"* * do . "$shared/team.sh""#]);
    let mut barrier = test_env.barrier("together");
    let team = ["team", "Four parts", "--run-id", "trial", "--jobs", "4"];
    let engine = test_env.with_agent(&team).start();
    for group in ["A", "B", "C", "D"] {
        test_env.agent_log().wait_for_start(&format!("{group}.developer#1.1"));
    }
    barrier.open();
    for group in ["A", "B", "C", "D"] {
        test_env.agent_log().wait_for_start(&format!("{group}.tech_lead#1.1"));
    }
    engine.interrupt();
    engine.wait();
    let groups = coordination_file(&test_env, "group_status.json");
    let blockers = |group| groups[group]["blockers"].as_array().unwrap().iter();
    let found: std::collections::BTreeSet<_> = ["A", "B", "C", "D"]
        .into_iter()
        .flat_map(blockers)
        .map(|blocker| blocker["description"].as_str())
        .collect();
    assert_eq!(found.len(), 400, "{groups:#}");
}
