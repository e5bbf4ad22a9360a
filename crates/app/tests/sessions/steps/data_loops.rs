//! `loop`: a step for each item of a list. `code.2` is item 2 of step `code`.

use serde_json::json;
use testkit::TestEnv;

use crate::sessions::{last_error, status, test_env};

fn with_steps(steps: &[&str]) -> TestEnv {
    let test_env = test_env();
    test_env.workflow_yaml(steps);
    test_env
}

/// A scenario in which the original tool failed: items two and three ran at once, after the next step had started.
#[test]
fn three_item_data_loop_strictly_one_by_one() {
    let test_env = with_steps(&[
        "id: plan",
        "id: code, needs: [plan], loop: {items_from_step: plan, item_var: story, index_var: story_index}",
        "id: ship, needs: [code]",
    ]);
    test_env.script_agent(&[
        "plan * do mkdir -p made; echo '{\"items\": [\"x\", {\"name\": \"y\"}, 3]}' >made/plan.txt; write_report COMPLETED planned",
        "code.1 * do echo \"$LOOP_STORY_INDEX=$LOOP_STORY\" >>\"$shared/items\"; write_report COMPLETED one",
        "code.2 * do echo \"$LOOP_STORY_INDEX=$LOOP_STORY\" >>\"$shared/items\"; write_report COMPLETED two",
        "code.3 * do echo \"$LOOP_STORY_INDEX=$LOOP_STORY\" >>\"$shared/items\"; write_report COMPLETED three",
    ]);
    let session = test_env.run(&[]).run();
    assert_eq!(session.code, 0, "{}", session.transcript());
    assert_eq!(
        test_env.agent_log().started(),
        ["plan#1.1", "code.1#1.1", "code.2#1.1", "code.3#1.1", "ship#1.1"]
    );
    let items = std::fs::read_to_string(test_env.agent_dir().join("items")).unwrap();
    assert_eq!(items, "0=\"x\"\n1={\"name\":\"y\"}\n2=3\n");
    let view = test_env.document("trial");
    assert_eq!(view["steps"].as_object().unwrap().len(), 3, "the file shows the step: {view:#}");
    assert_eq!(status(&view, "code"), "COMPLETED");
    assert_eq!(view["steps"]["code"]["logs"], json!(["one", "two", "three"]));
    assert_eq!(
        view["steps"]["code"]["artifacts"],
        json!(["made/code.1.txt", "made/code.2.txt", "made/code.3.txt"])
    );
    let reports = test_env.repo().join(".agents/runs/trial/reports");
    for item in 1..=3 {
        assert!(reports.join(format!("trial__code.{item}.json")).exists(), "each item has its report");
    }
    let prompt = test_env.callboard(&["prompt", "trial", "code.2"]).run();
    assert!(prompt.stdout.contains("## Item 2 of 3"), "{}", prompt.transcript());
}

/// The items are read from an artifact, so the artifact of the built-in scripted agent must be JSON.
#[test]
fn a_rehearsal_without_a_script_runs_a_data_loop() {
    let test_env = with_steps(&["id: plan", "id: code, needs: [plan], loop: {items_from_step: plan}"]);
    let session = test_env.callboard(&["run", "wf.yaml", "--run-id", "trial", "--rehearse"]).run();
    assert_eq!(session.code, 0, "{}", session.transcript());
    let shown = test_env.callboard(&["ls"]).run();
    assert!(shown.stdout.contains("trial (rehearsal)"), "{}", shown.transcript());
}

#[test]
fn an_empty_list_completes_the_step_and_an_unusable_source_fails_it() {
    let test_env = with_steps(&["id: code, loop: {items: []}", "id: ship, needs: [code]"]);
    let session = test_env.run(&[]).run();
    assert_eq!(session.code, 0, "{}", session.transcript());
    assert_eq!(test_env.agent_log().started(), ["ship#1.1"]);
    let test_env = with_steps(&["id: code, loop: {items_from_artifact: list.json}"]);
    test_env.write("list.json", "{\"stories\": []}");
    let session = test_env.run(&[]).run();
    assert_eq!(session.code, 1, "{}", session.transcript());
    let view = test_env.document("trial");
    assert!(last_error(&view, "code").contains("it is an object without `items`"), "{view:#}");
}

#[test]
fn paired_loops_go_item_by_item_and_a_loop_back_returns_to_its_item() {
    let test_env = with_steps(&[
        "id: code, loop: {items: [a, b]}",
        "id: review, needs: [code], loop_back_to: code, loop: {with: code}",
        "id: ship, needs: [review]",
    ]);
    test_env.script_agent(&[
        "review.2 * do if [ $STEP_ITERATION = 1 ]; then gate_failure=true; fi; write_report COMPLETED reviewed",
    ]);
    let session = test_env.run(&[]).run();
    assert_eq!(session.code, 0, "{}", session.transcript());
    assert_eq!(
        test_env.agent_log().started(),
        [
            "code.1#1.1",
            "review.1#1.1",
            "code.2#1.1",
            "review.2#1.1",
            "code.2#2.1",
            "review.2#2.1",
            "ship#1.1"
        ]
    );
}

#[test]
fn parallel_works_on_several_items_at_once_and_max_iterations_cuts_the_list() {
    let test_env = with_steps(&["id: code, loop: {items: [a, b, c, d], parallel: 2, max_iterations: 3}"]);
    let mut barrier = test_env.barrier("barrier");
    test_env.script_agent(&["code.1 * wait barrier"]);
    let running = test_env.run(&["--jobs", "4"]).start();
    test_env.agent_log().wait_for_end("code.3#1.1");
    let view = test_env.wait_for_view("trial", "it runs", |view| status(view, "code") == "RUNNING");
    assert_eq!(view["steps"]["code"]["ended_at"], json!(null));
    barrier.open();
    assert_eq!(running.wait().code, 0);
    let started = test_env.agent_log().started();
    assert_eq!(started.len(), 3, "{started:?}");
}

/// Only `with` pairs two loops. Items of other loops must not be matched by their number.
#[test]
fn an_item_gets_the_same_item_of_a_paired_loop_and_all_of_another() {
    let test_env = with_steps(&[
        "id: code, loop: {items: [a, b]}",
        "id: review, needs: [code], loop: {with: code}",
        "id: other, needs: [code], loop: {items: [x, y]}",
    ]);
    let saves_dependencies =
        "do env | grep '^DEP_.*ARTIFACTS=' >\"$shared/$STEP_ID\"; write_report COMPLETED did";
    test_env.script_agent(&[
        &format!("review.2 * {saves_dependencies}"),
        &format!("other.2 * {saves_dependencies}"),
    ]);
    let session = test_env.run(&[]).run();
    assert_eq!(session.code, 0, "{}", session.transcript());
    let dependencies = |item: &str| {
        let text = std::fs::read_to_string(test_env.agent_dir().join(item)).unwrap();
        text.replace(&format!("{}/", test_env.repo().display()), "")
    };
    assert_eq!(dependencies("review.2"), "DEP_CODE_2_ARTIFACTS=made/code.2.txt\n");
    assert_eq!(dependencies("other.2"), "DEP_CODE_ARTIFACTS=made/code.1.txt,made/code.2.txt\n");
}
