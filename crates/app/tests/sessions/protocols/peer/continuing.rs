//! `callboard peer --continue`.

use insta::assert_snapshot;
use protocol::peer::{PeerCycleStatus, Phase};

use super::{SUCCESS_TRANSITIONS, document, load, peer, rehearsed, transitions};

use crate::sessions::test_env;

#[test]
fn a_failed_cycle_is_continued_by_the_next_which_reuses_completed_phases() {
    let test_env = test_env();
    test_env.script_agent(&["express * failed"]);
    let session = peer(&test_env, &["create-spec", "--spec", "x", "dark mode", "--env", "A=1"]).run();
    assert_eq!(session.code, 1, "{}", session.transcript());
    test_env.script_agent(&[]);
    // Without a flag the adapters of the first cycle are used.
    let session = test_env.callboard(&["peer", "--continue"]).run();
    assert_snapshot!(session.transcript(), @"
    $ callboard peer --continue
    cycle peer:spec:x:cycle:2 is run peer.spec.x.cycle.2: create-spec, continues peer:spec:x:cycle:1
    run peer.spec.x.cycle.2 in [REPO]
    » plan reused from the previous cycle
    » execute reused from the previous cycle
    ▸ express#1.1 started
    ✓ express#1.1 finished [TIME]
    ▸ review#1.1 started
    ✓ review#1.1 finished [TIME]
    ✓ the review is successful
    the cycle is completed

    run `peer.spec.x.cycle.2` succeeded: 4 of 4 phases done, [TIME]
    review: successful, score 90, high
    [exit 0]
    ");
    let document = document(&test_env, "peer:spec:x:cycle:2");
    assert_eq!(transitions(&document), SUCCESS_TRANSITIONS);
    let first = "peer:spec:x:cycle:1".parse().unwrap();
    assert_eq!(document.context.continues.as_ref(), Some(&first));
    let reused: Vec<_> = Phase::ALL
        .into_iter()
        .filter(|phase| document.phases[*phase].reused_from.as_ref() == Some(&first))
        .collect();
    assert_eq!(reused, [Phase::Plan, Phase::Execute]);
    let (definition, before) = load(&test_env, "peer:spec:x:cycle:1");
    assert_eq!(document.phases.plan.output, before.phases.plan.output);
    assert_eq!(document.context.user_requirements, definition.user_requirements);
    let started = test_env.agent_log().started();
    assert_eq!(
        started,
        ["plan#1.1", "execute#1.1", "express#1.1", "express#1.2", "express#1.1", "review#1.1"]
    );
    // The failed cycle has been continued, and its successor is completed.
    assert_snapshot!(test_env.callboard(&["peer", "--continue", "--spec", "x"]).run().transcript(), @"
    $ callboard peer --continue --spec x
    error: there is no incomplete cycle of `peer:spec:x` to continue

    hint: run `callboard peer INSTRUCTION` to start one; `callboard peer --help` lists the instructions
    [exit 2]
    ");
}

#[test]
fn an_interrupted_cycle_continues_in_its_phase() {
    let test_env = test_env();
    test_env.script_agent(&["execute 1 wait barrier"]);
    let barrier = test_env.barrier("barrier");
    let running = peer(&test_env, &["create-spec", "--spec", "x"]).start();
    test_env.agent_log().wait_for_start("execute#1.1");
    running.interrupt();
    let session = running.wait();
    assert_eq!(session.code, 130, "{}", session.transcript());
    assert_eq!(document(&test_env, "peer:spec:x:cycle:1").metadata.current_phase, Phase::Execute);
    test_env.script_agent(&[]);
    let session = test_env.callboard(&["peer", "--continue", "--spec", "x"]).run();
    assert_snapshot!(session.transcript(), @"
    $ callboard peer --continue --spec x
    cycle peer:spec:x:cycle:1 is run peer.spec.x.cycle.1: create-spec
    run peer.spec.x.cycle.1 in [REPO]
    ▸ execute#1.2 started
    ✓ execute#1.2 finished [TIME]
    ▸ express#1.1 started
    ✓ express#1.1 finished [TIME]
    ▸ review#1.1 started
    ✓ review#1.1 finished [TIME]
    ✓ the review is successful
    the cycle is completed

    run `peer.spec.x.cycle.1` succeeded: 4 of 4 phases done, [TIME]
    review: successful, score 90, high
    [exit 0]
    ");
    assert_eq!(transitions(&document(&test_env, "peer:spec:x:cycle:1")), SUCCESS_TRANSITIONS);
    let started = test_env.agent_log().started();
    assert_eq!(started, ["plan#1.1", "execute#1.1", "execute#1.2", "express#1.1", "review#1.1"]);
    drop(barrier);
}

#[test]
fn a_retried_phase_is_shown_its_partial_output() {
    let test_env = test_env();
    let report_half = r#"execute * do echo '{"progress": "half of it"}' | "$shared/callboard" report --partial; log_event end x; hang"#;
    test_env.script_agent(&[report_half]);
    let running = peer(&test_env, &["create-spec", "--spec", "x"]).start();
    test_env.agent_log().wait_for_end("x");
    running.interrupt();
    assert_eq!(running.wait().code, 130);
    let partial_output = serde_json::json!({"progress": "half of it"});
    assert_eq!(document(&test_env, "peer:spec:x:cycle:1").phases.execute.output, Some(partial_output));
    test_env.script_agent(&["execute * save-input"]);
    assert_eq!(test_env.callboard(&["resume"]).run().code, 0);
    let prompt = test_env.wait_for_lines("prompt");
    assert!(prompt.contains("Your own work so far") && prompt.contains("half of it"), "{prompt}");
    assert_eq!(transitions(&document(&test_env, "peer:spec:x:cycle:1")), SUCCESS_TRANSITIONS);
}

#[test]
fn a_stopped_cycle_has_failed_as_cancelled_and_is_continued_by_the_next() {
    let test_env = test_env();
    test_env.script_agent(&["execute * hang"]);
    let running = peer(&test_env, &["create-spec", "--spec", "x"]).start();
    test_env.agent_log().wait_for_start("execute#1.1");
    let stopped = test_env.callboard(&["stop", "peer:spec:x:cycle:1", "--reason", "enough"]).run();
    assert_eq!(stopped.code, 0, "{}", stopped.transcript());
    assert_eq!(running.wait().code, 1);
    let failed = document(&test_env, "peer:spec:x:cycle:1");
    let error = &failed.phases.execute.errors()[0];
    assert_eq!((error.kind.as_str(), error.message.as_str()), ("cancelled", "Stopped by tester: enough"));
    assert_eq!(failed.metadata.status, PeerCycleStatus::Failed);
    test_env.expect_no_orphans();
    test_env.script_agent(&[]);
    assert_eq!(test_env.callboard(&["peer", "--continue"]).run().code, 0);
    let started = test_env.agent_log().started();
    assert_eq!(
        started,
        ["plan#1.1", "execute#1.1", "execute#1.1", "express#1.1", "review#1.1"],
        "one plan for both"
    );
    let next = document(&test_env, "peer:spec:x:cycle:2");
    assert_eq!(
        (transitions(&next), next.context.continues),
        (SUCCESS_TRANSITIONS.map(str::to_owned).to_vec(), Some(failed.cycle_id))
    );
}

#[test]
fn without_a_spec_continue_takes_the_newest_cycle() {
    let test_env = test_env();
    let failing = "phases: {plan: [fail]}";
    for arguments in
        [["create-spec", "--spec=old"], ["create-spec", "--spec=new"], ["plan-product", "--json"]]
    {
        assert_eq!(rehearsed(&test_env, failing, &arguments).run().code, 1);
    }
    assert_eq!(rehearsed(&test_env, "phases: {plan: [ok]}", &["--continue"]).run().code, 0);
    assert_eq!(document(&test_env, "peer:global:cycle:2").metadata.instruction, "plan-product");
    assert_eq!(rehearsed(&test_env, "phases: {plan: [ok]}", &["--continue"]).run().code, 0);
    assert_eq!(document(&test_env, "peer:spec:new:cycle:2").metadata.status, PeerCycleStatus::Completed);
    // The failed cycle's script is used unless another is given.
    assert_eq!(test_env.callboard(&["peer", "--continue", "--spec", "old"]).run().code, 1);
    assert_eq!(document(&test_env, "peer:spec:old:cycle:2").metadata.status, PeerCycleStatus::Failed);
}

#[test]
fn concurrent_continues_do_the_work_once() {
    let test_env = test_env();
    test_env.script_agent(&["execute * failed"]);
    assert_eq!(peer(&test_env, &["create-spec", "--spec", "x", "--max-attempts", "1"]).run().code, 1);
    test_env.script_agent(&[]);
    let running: Vec<_> = (0..6).map(|_| test_env.callboard(&["peer", "--continue"]).start()).collect();
    let sessions: Vec<_> = running.into_iter().map(testkit::Running::wait).collect();
    let transcripts: Vec<_> = sessions.iter().map(testkit::CallOutput::transcript).collect();
    assert_eq!(
        sessions.iter().filter(|session| session.code == 0).count(),
        1,
        "one process drives it: {transcripts:#?}"
    );
    // Another process is its engine, or it is completed by now.
    assert!(sessions.iter().all(|session| [0, 2, 3, 5].contains(&session.code)), "{transcripts:#?}");
    let started = test_env.agent_log().started();
    assert_eq!(
        started,
        ["plan#1.1", "execute#1.1", "execute#1.1", "express#1.1", "review#1.1"],
        "{transcripts:#?}"
    );
    assert_eq!(transitions(&document(&test_env, "peer:spec:x:cycle:2")), SUCCESS_TRANSITIONS);
}

#[test]
fn a_rehearsal_is_continued_only_as_a_rehearsal() {
    let test_env = test_env();
    assert_eq!(rehearsed(&test_env, "phases: {plan: [fail]}", &["create-spec", "--spec", "x"]).run().code, 1);
    let real = peer(&test_env, &["--continue"]).run();
    assert_eq!(real.code, 3, "{}", real.transcript());
    test_env.script_agent(&["plan * failed"]);
    assert_eq!(peer(&test_env, &["create-spec", "--spec", "y"]).run().code, 1);
    let rehearsal = test_env.callboard(&["peer", "--continue", "--spec", "y", "--rehearse"]).run();
    assert_eq!(rehearsal.code, 3, "{}", rehearsal.transcript());
}

#[test]
fn agents_do_not_continue_cycles() {
    let test_env = test_env();
    test_env.script_agent(&["plan * failed"]);
    assert_eq!(peer(&test_env, &["create-spec", "--spec", "x"]).run().code, 1);
    test_env.script_agent(&[r#"plan * do "$shared/callboard" peer --continue --spec x >"$shared/said" 2>&1; echo $? >"$shared/code"; write_report COMPLETED x"#]);
    assert_eq!(peer(&test_env, &["create-spec", "--spec", "y"]).run().code, 0);
    assert_eq!(test_env.wait_for_lines("code"), "3\n", "{}", test_env.wait_for_lines("said"));
}

#[test]
fn imported_cycles_are_continued_like_any_other() {
    let test_env = test_env();
    let dump = test_env.agent_dir().join("dump.jsonl");
    // One cycle is marked as completed although it never executed anything; one was interrupted.
    let never_executed = include_str!("../../../../../protocol/tests/fixtures/peer/old/never-executed.jsonl");
    let interrupted = include_str!("../../../../../protocol/tests/fixtures/peer/old/g3.jsonl");
    std::fs::write(&dump, format!("{never_executed}{interrupted}")).unwrap();
    let imported = test_env.callboard(&["import", "--peer", dump.to_str().unwrap(), "--write"]).run();
    assert_eq!(imported.code, 0, "{}", imported.transcript());
    let session = peer(&test_env, &["--continue", "--spec", "committer"]).run();
    assert_eq!(session.code, 0, "{}", session.transcript());
    let next = document(&test_env, "peer:spec:committer:cycle:2");
    assert_eq!(transitions(&next), SUCCESS_TRANSITIONS);
    assert_eq!(next.context.continues.as_ref().unwrap().to_string(), "peer:spec:committer:cycle:1");
    assert_eq!(
        test_env.agent_log().started(),
        ["execute#1.1", "express#1.1", "review#1.1"],
        "the plan is taken over"
    );
    let (_, before) = load(&test_env, "peer:spec:user-auth:cycle:3");
    assert_eq!(before.metadata.status, PeerCycleStatus::InProgress);
    let session = peer(&test_env, &["--continue", "--spec", "user-auth"]).run();
    assert_eq!(session.code, 0, "{}", session.transcript());
    let continued = document(&test_env, "peer:spec:user-auth:cycle:3");
    assert_eq!(continued.metadata.status, PeerCycleStatus::Completed);
    // The counter continues.
    assert_eq!(peer(&test_env, &["create-spec", "--spec", "user-auth"]).run().code, 0);
    document(&test_env, "peer:spec:user-auth:cycle:4");
}

#[test]
fn the_instruction_of_an_imported_cycle_cannot_send_escape_sequences() {
    let test_env = test_env();
    let dump = test_env.agent_dir().join("dump.jsonl");
    let cycles = include_str!("../../../../../protocol/tests/fixtures/peer/old/never-executed.jsonl");
    std::fs::write(&dump, cycles.replace("\"create-spec\"", r#""create\nspec\u001b[2J""#)).unwrap();
    let imported = test_env.callboard(&["import", "--peer", dump.to_str().unwrap(), "--write"]).run();
    assert_eq!(imported.code, 0, "{}", imported.transcript());
    let session = peer(&test_env, &["--continue"]).run();
    assert_eq!(
        session.stderr.lines().next(),
        Some(
            "cycle peer:spec:committer:cycle:2 is run peer.spec.committer.cycle.2: create spec [2J, continues peer:spec:committer:cycle:1"
        )
    );
}

#[test]
fn embedded_an_unreadable_cycle_does_not_block_others() {
    let test_env = test_env();
    let run_cycle = |spec: &str, instruction| {
        let session = peer(&test_env, &[instruction, "--spec", spec]).run();
        (session.code, session.transcript().to_owned())
    };
    test_env.script_agent(&["execute * failed"]);
    assert_eq!(run_cycle("x", "create-spec").0, 1);
    test_env.script_agent(&[]);
    assert_eq!(run_cycle("y", "create-spec").0, 0);
    let database = rusqlite::Connection::open(test_env.store_dir().join("callboard.db")).unwrap();
    let damage = "UPDATE entries SET body = '{' WHERE revision = 5
                 AND run = (SELECT id FROM runs WHERE name = 'peer.spec.y.cycle.1')";
    assert_eq!(database.execute(damage, []).unwrap(), 1);
    // A new cycle of the same spec starts without the recommendations of the unreadable one.
    let (code, transcript) = run_cycle("y", "refine-spec");
    assert_eq!(code, 0, "{transcript}");
    assert!(
        transcript.contains("cannot read the recommendations of cycle `peer:spec:y:cycle:1`"),
        "{transcript}"
    );
    let session = test_env.callboard(&["peer", "--continue"]).run();
    assert_eq!(session.code, 0, "{}", session.transcript());
    assert!(session.transcript().contains("continues peer:spec:x:cycle:1"), "{}", session.transcript());
    // The damaged cycle 2 may have continued cycle 1, so cycle 1 is not continued again.
    let damage = damage.replace("spec.y.cycle.1", "spec.x.cycle.2");
    assert_eq!(database.execute(&damage, []).unwrap(), 1);
    let session = test_env.callboard(&["peer", "--continue", "--spec", "x"]).run();
    assert_eq!(session.code, 5, "{}", session.transcript());
}

#[test]
fn embedded_a_damaged_cycle_with_nothing_to_continue_does_not_stop_continue() {
    let test_env = test_env();
    test_env.script_agent(&["execute * failed"]);
    assert_eq!(peer(&test_env, &["create-spec", "--spec", "x"]).run().code, 1);
    assert_eq!(peer(&test_env, &["create-spec", "--spec", "continued"]).run().code, 1);
    test_env.script_agent(&[]);
    assert_eq!(test_env.callboard(&["peer", "--continue", "--spec", "continued"]).run().code, 0);
    let unsuccessful = "phases: {review: [ok: {score: 40}]}";
    assert_eq!(rehearsed(&test_env, unsuccessful, &["create-spec", "--spec", "reviewed"]).run().code, 1);
    let database = rusqlite::Connection::open(test_env.store_dir().join("callboard.db")).unwrap();
    let damage = "UPDATE entries SET body = '{' WHERE revision = 5 AND run IN (SELECT id FROM runs
                 WHERE name IN ('peer.spec.continued.cycle.1', 'peer.spec.reviewed.cycle.1'))";
    assert_eq!(database.execute(damage, []).unwrap(), 2);
    let session = test_env.callboard(&["peer", "--continue"]).run();
    assert_eq!(session.code, 0, "{}", session.transcript());
    assert!(session.transcript().contains("continues peer:spec:x:cycle:1"), "{}", session.transcript());
}

#[test]
fn embedded_agents_do_not_restore_documents() {
    let test_env = test_env();
    test_env.script_agent(&["plan * failed"]);
    assert_eq!(peer(&test_env, &["create-spec", "--spec", "x"]).run().code, 1);
    let database = rusqlite::Connection::open(test_env.store_dir().join("callboard.db")).unwrap();
    let damage = "UPDATE parts SET body = '{' WHERE path = 'head' AND run = (SELECT id FROM runs WHERE name = 'peer.spec.x.cycle.1')";
    assert!(database.execute(damage, []).unwrap() > 0);
    test_env.script_agent(&[r#"plan * do "$shared/callboard" resume peer.spec.x.cycle.1 --recover >"$shared/said" 2>&1; echo $? >"$shared/code"; write_report COMPLETED x"#]);
    assert_eq!(peer(&test_env, &["create-spec", "--spec", "y"]).run().code, 0);
    assert_eq!(test_env.wait_for_lines("code"), "3\n", "{}", test_env.wait_for_lines("said"));
    assert!(!test_env.store_dir().join("quarantine").exists(), "nothing was touched");
}

#[test]
fn continue_global_takes_the_global_cycle_although_a_spec_has_a_newer_one() {
    let test_env = test_env();
    test_env.script_agent(&["plan * failed"]);
    let failed = peer(&test_env, &["plan-product", "a product"]).run();
    assert_eq!(failed.code, 1, "{}", failed.transcript());
    assert!(failed.stderr.contains("callboard peer --continue --global"), "{}", failed.stderr);
    assert_eq!(peer(&test_env, &["create-spec", "--spec", "x"]).run().code, 1);
    test_env.script_agent(&[]);
    let session = test_env.callboard(&["peer", "--continue", "--global"]).run();
    assert_eq!(session.code, 0, "{}", session.transcript());
    let continued = document(&test_env, "peer:global:cycle:2").context.continues;
    assert_eq!(continued, Some("peer:global:cycle:1".parse().unwrap()));
}
