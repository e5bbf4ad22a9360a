//! A team builds a small program with real processes, real git and real checks, while its engine is killed.

use std::collections::BTreeSet;

use protocol::{PROTOCOLS, Revision, RunId};
use runner::RunAtRevision;
use testkit::{Running, TeamSchemas, TestEnv, harness};

use super::coordination_file;
use crate::sessions::test_env;

/// What the agents do, by attempt. A and C both add themselves to `features`, which is in the `files_affected` of
/// neither, so they run at once and the second merge conflicts. B changes the file of A and depends on C; its first two
/// versions are wrong. The last attempt, `pm.check`, waits until the test has killed the engine ten times. Its verdict
/// `BAZINGA` says that the work is complete.
const AGENTS: &str = r#"
verdict() { extra_fields=", \"verdict\": \"$1\", \"summary\": \"$STEP_ID did it\", \"feedback\": \"seen\"$2"; write_report COMPLETED "$1"; }
counts='{"total": 1, "passed": 1, "failed": 0}'
name=$(echo "${STEP_ID%%.*}" | tr ABC abc)
feature() { echo "$name() { echo \"$name $1\"; }" >"$name.sh"; }
commit() { git add --all; git commit --quiet --message="$STEP_ID: $1"; }
case $CALLBOARD_ATTEMPT in
pm.plan*) verdict PLANNING_COMPLETE ', "mode": "parallel", "mode_reasoning": "three features",
  "all_tasks": [{"id": "T1", "description": "a"}, {"id": "T2", "description": "b"}, {"id": "T3", "description": "c"}],
  "task_groups": [
    {"id": "A", "name": "First", "tasks": ["T1"], "files_affected": ["a.sh"]},
    {"id": "B", "name": "Second", "tasks": ["T2"], "files_affected": ["a.sh", "b.sh"], "depends_on": ["C"]},
    {"id": "C", "name": "Third", "tasks": ["T3"], "files_affected": ["c.sh"]}],
  "execution_phases": [{"phase_number": 1, "group_ids": ["A", "B", "C"]}],
  "success_criteria": [{"id": "C1", "text": "all features work", "tasks": ["T1", "T2", "T3"], "command": "sh test.sh a b c"}]' ;;
A.developer#1.*) read -r _ <"$shared/begun"; feature works; commit a.sh; echo a >>features; commit features
  verdict READY_FOR_QA ", \"unit_tests\": $counts" ;;
C.developer#1.*) echo >"$shared/begun"; verdict BLOCKED ', "blocker": "no key"' ;;
C.developer#2.*) feature works; echo c >>features; commit c.sh; verdict READY_FOR_REVIEW ;;
B.developer#[12].*) feature "fails $STEP_ITERATION"; commit b.sh; verdict READY_FOR_QA ;;
B.developer#3.*) feature works; echo '. ./b.sh' >>a.sh; commit b.sh; verdict READY_FOR_QA ;;
*.developer#*) git merge --quiet callboard/trial >/dev/null 2>&1 || printf 'a\nc\n' >features; verdict READY_FOR_REVIEW ;;
*.qa#*) if sh build.sh && . ./"$name.sh" && found=$("$name") && [ "$found" = "$name works" ]
  then verdict PASS ", \"integration_tests\": $counts, \"contract_tests\": $counts, \"e2e_tests\": $counts"
  else verdict FAIL ", \"findings\": [\"it says: $found\"]"; fi ;;
C.tech_lead#1.*) verdict unblocked ;;
*.tech_lead#*) verdict approved ', "code_quality_score": 8, "security_issues_count": 0' ;;
pm.check*) read -r _ <"$shared/killed"; verdict BAZINGA ;;
esac
"#;

/// How many lines the agents log before the last attempt, `pm.check`, ends: start and end of 17 attempts, its start.
const LINES_BEFORE_THE_LAST_CHECK: usize = 35;

/// Builds the program `app` from the features. Fails if one is missing.
const BUILD: &str = r#"for name in $(cat features); do cat "$name.sh" || exit 1; done >app && echo '"$@"' >>app && sh -n app"#;

/// Builds the program, and calls each feature or the named ones.
const TEST: &str = r#"sh build.sh || exit 1
for name in ${@:-$(cat features)}; do
  [ "$(sh app "$name")" = "$name works" ] || { echo "$name fails"; exit 1; }
done
"#;

fn prepare_repository() -> TestEnv {
    let test_env = test_env();
    for (name, text) in [
        ("build.sh", BUILD),
        ("test.sh", TEST),
        ("features", ""),
        (".gitignore", "app\n"),
        ("callboard.toml", "[checks]\ntest = [\"sh\", \"test.sh\"]\n"),
    ] {
        test_env.write(name, text);
    }
    test_env.git(&["add", "--all"]);
    test_env.git(&["commit", "--quiet", "--message=start"]);
    std::fs::write(test_env.agent_dir().join("team.sh"), AGENTS).unwrap();
    test_env.script_agent(&[r#"* * do . "$shared/team.sh""#]);
    test_env.barrier("begun");
    test_env
}

/// Kills the engine when the agents have logged one of ten random numbers of lines, and resumes the run each time.
fn kill_ten_times<'s>(
    test_env: &'s TestEnv,
    mut engine: Running<'s>,
    random: &mut fastrand::Rng,
) -> Running<'s> {
    let mut line_counts: Vec<usize> = (1..=LINES_BEFORE_THE_LAST_CHECK).collect();
    random.shuffle(&mut line_counts);
    line_counts.truncate(10);
    line_counts.sort_unstable();
    for line_count in line_counts {
        engine.wait_for_stderr("run trial in");
        testkit::wait_until(&test_env.agent_dir(), &format!("line {line_count}"), || {
            (test_env.agent_log().lines().len() >= line_count).then_some(())
        });
        engine.kill();
        let killed = engine.wait();
        assert_eq!(killed.code, -1, "a barrier holds the last check: {}", killed.transcript());
        engine = test_env.callboard(&["resume", "trial", "--jobs", "4"]).start();
    }
    engine
}

/// Checks that the files of every revision fit the schemas, and that every property is filled in at least one revision.
fn expect_files_fit_schemas(test_env: &TestEnv) {
    let schemas = TeamSchemas::new();
    let (store, run) = (test_env.open_store(), RunId::new("trial").unwrap());
    let at = |revision| {
        harness::block_on(RunAtRevision::load(store.as_ref(), PROTOCOLS, &run, revision)).unwrap().unwrap()
    };
    let mut filled = BTreeSet::new();
    for revision in 1..=at(None).newest.0 {
        let views = at(Some(Revision(revision))).machine().document().views();
        assert_eq!(schemas.violations(&views), Vec::<String>::new(), "revision {revision}");
        filled.extend(schemas.filled(&views));
    }
    let properties = schemas.properties();
    let empty: Vec<_> = properties.difference(&filled).collect();
    assert!(properties.len() > 100 && empty.is_empty(), "never filled: {empty:?}");
}

#[test]
fn a_team_builds_three_features_while_its_engine_is_killed_ten_times() {
    let seed = std::env::var("CALLBOARD_SEED").ok().and_then(|seed| seed.parse().ok());
    let seed = seed.unwrap_or_else(|| fastrand::u64(..));
    eprintln!("run again with CALLBOARD_SEED={seed}");
    let test_env = prepare_repository();
    let mut killed = test_env.barrier("killed");
    let team = ["team", "Add three features", "--run-id", "trial", "--jobs", "4"];
    let engine = test_env.with_agent(&team).start();
    let engine = kill_ten_times(&test_env, engine, &mut fastrand::Rng::with_seed(seed));
    killed.open();
    let session = engine.wait();
    assert_eq!(session.code, 0, "{}", session.transcript());

    let started = test_env.agent_log().started();
    let distinct: BTreeSet<_> = started.iter().collect();
    assert_eq!((started.len(), distinct.len()), (18, 18), "an attempt ran twice: {started:?}");
    assert!(started.iter().all(|attempt| attempt.ends_with(".1")), "an attempt was repeated: {started:?}");
    assert_eq!(test_env.agent_log().lines().len(), LINES_BEFORE_THE_LAST_CHECK + 1);

    assert_eq!(coordination_file(&test_env, "orchestrator_state.json")["status"], "completed");
    assert_eq!(coordination_file(&test_env, "pm_state.json")["completion_percentage"], 100.0);
    let groups = coordination_file(&test_env, "group_status.json");
    assert_eq!(groups["B"]["iterations"]["qa"], 3, "QA failed twice");
    assert_eq!(groups["C"]["blockers"][0]["resolved"], true);
    assert_eq!(groups["B"]["files_modified"], serde_json::json!(["a.sh", "b.sh"]));
    assert!(groups["A"]["commits"][0].as_str().unwrap().ends_with("A.developer: a.sh"), "{groups:#}");
    let messages = coordination_file(&test_env, "messages/techlead_to_dev.json");
    let requests_changes = |message: &&serde_json::Value| message["decision"] == "changes_requested";
    let conflicts: Vec<_> =
        messages["messages"].as_array().unwrap().iter().filter(requests_changes).collect();
    assert_eq!(conflicts.len(), 1, "{messages:#}");
    assert!(conflicts[0]["feedback"].as_str().unwrap().contains("features"), "{messages:#}");

    let merges = test_env.git(&["log", "--merges", "--format=%s", "main"]);
    assert_eq!(merges.lines().filter(|line| line.starts_with("Merge `")).count(), 3, "{merges}");
    let mut test = std::process::Command::new("sh");
    let tested = test.args(["test.sh", "a", "b", "c"]).current_dir(test_env.repo()).status().unwrap();
    assert!(tested.success(), "the final branch is built and its tests pass");
    let shown = test_env.callboard(&["show", "trial"]).run();
    assert!(shown.stdout.contains("3 of 3 groups merged"), "{}", shown.transcript());
    expect_files_fit_schemas(&test_env);
    test_env.expect_no_orphans();
}
