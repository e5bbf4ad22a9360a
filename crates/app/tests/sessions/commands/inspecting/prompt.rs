//! `prompt`: what an attempt received, or would receive.

use std::fs;

use insta::assert_snapshot;

use crate::sessions::test_env;

#[test]
fn the_prompt_shown_before_a_step_is_the_one_it_receives() {
    let test_env = test_env();
    test_env.workflow(&["a", "b: a"]);
    test_env.script_agent(&["a * wait barrier"]);
    let mut barrier = test_env.barrier("barrier");
    let running = test_env.run(&[]).start();
    test_env.agent_log().wait_for_start("a#1.1");
    assert_eq!(test_env.callboard(&["pause", "trial"]).run().code, 0);
    let early = test_env.callboard(&["prompt", "trial", "b"]).run();
    assert_snapshot!(early.stderr, @"
    note: `b` has no attempt yet; this is the prompt it would get now
    note: the prompt lacks the results of steps that have not succeeded yet: `a`
    ");
    barrier.open();
    running.wait_for_stderr("a#1.1 finished");
    let prompt = test_env.callboard(&["prompt", "trial", "b"]).run();
    assert_snapshot!(prompt.stderr, @"note: `b` has no attempt yet; this is the prompt it would get now");
    let context = test_env.callboard(&["prompt", "trial", "b", "--context"]).run();
    assert_eq!(context.json()["upstream"][0]["step"], "a");
    assert_eq!(test_env.callboard(&["resume", "trial"]).run().code, 0);
    assert_eq!(running.wait().code, 0);
    let dir = test_env.attempt_dir("trial", "b", "1.1");
    assert_eq!(fs::read_to_string(dir.join("prompt.md")).unwrap(), prompt.stdout);
    assert_eq!(fs::read_to_string(dir.join("context.json")).unwrap(), context.stdout);
    assert!(early.stdout != prompt.stdout, "what `a` handed over was not there yet");
}

#[test]
fn the_prompt_shown_before_a_retry_is_the_one_it_receives() {
    let test_env = test_env();
    test_env.workflow(&["a"]);
    test_env.script_agent(&["a 1 wait-and-fail barrier"]);
    let mut barrier = test_env.barrier("barrier");
    let running = test_env.run(&[]).start();
    test_env.agent_log().wait_for_start("a#1.1");
    assert_eq!(test_env.callboard(&["pause", "trial"]).run().code, 0);
    barrier.open();
    running.wait_for_stderr("a#1.1 failed");
    let next = test_env.callboard(&["prompt", "trial", "a", "--next"]).run();
    assert!(next.stdout.contains("This is attempt 2 of 2. The previous one failed:\n"), "{}", next.stdout);
    let newest = test_env.callboard(&["prompt", "trial", "a"]).run();
    assert!(!newest.stdout.contains("This is attempt"), "{}", newest.stdout);
    assert_eq!(test_env.callboard(&["resume", "trial"]).run().code, 0);
    assert_eq!(running.wait().code, 0);
    let given = fs::read_to_string(test_env.attempt_dir("trial", "a", "1.2").join("prompt.md")).unwrap();
    assert_eq!(given, next.stdout);
}

#[test]
fn any_attempt_can_be_named() {
    let test_env = test_env();
    test_env.workflow(&["a", "b: a"]);
    test_env.script_agent(&["a 1 exit 3", "b * exit 3"]);
    assert_eq!(test_env.run(&[]).run().code, 1);
    let prompt = |number: &str| {
        let shown = test_env.callboard(&["prompt", "trial", "a", "--attempt", number]).run();
        assert_eq!(shown.code, 0, "{}", shown.stderr);
        shown.stdout
    };
    assert_eq!(
        prompt("1.1"),
        fs::read_to_string(test_env.attempt_dir("trial", "a", "1.1").join("prompt.md")).unwrap()
    );
    assert_eq!(
        prompt("a#1.2"),
        fs::read_to_string(test_env.attempt_dir("trial", "a", "1.2").join("prompt.md")).unwrap()
    );
    assert_snapshot!(test_env.callboard(&["prompt", "trial", "a", "--attempt", "2.1"]).run().transcript(), @"
    $ callboard prompt trial a --attempt 2.1
    error: run `trial` has no attempt `a#2.1`

    hint: choose one of its 2 attempts with a prompt, from `a#1.1` to `a#1.2`
    [exit 2]
    ");
    assert_eq!(test_env.callboard(&["prompt", "trial", "a", "--attempt", "two"]).run().code, 2);
    assert_snapshot!(test_env.callboard(&["prompt", "trial", "a", "--attempt", "b#1.1"]).run().transcript(), @"
    $ callboard prompt trial a --attempt b#1.1
    error: `b#1.1` is no attempt of step `a`

    hint: run `callboard prompt trial b --attempt 1.1` to see its prompt
    [exit 2]
    ");
    assert_snapshot!(test_env.callboard(&["prompt", "trial", "bb"]).run().transcript(), @"
    $ callboard prompt trial bb
    error: run `trial` has no step `bb`

    hint: run `callboard show trial` to list its steps
    [exit 2]
    ");
    fs::remove_dir_all(test_env.attempt_dir("trial", "a", "1.2")).unwrap();
    assert_snapshot!(test_env.callboard(&["prompt", "trial", "a"]).run().transcript(), @"
    $ callboard prompt trial a
    error: cannot read `[STORE]/attempts/trial/a/1.2/prompt.md` of attempt `a#1.2`: the directory of the attempt is gone

    hint: run `callboard prompt trial a --next` to see the prompt it would get now
    [exit 5]
    ");
    let context = test_env.callboard(&["prompt", "trial", "a", "--context"]).run();
    let hint = "hint: run `callboard prompt trial a --next --context` to see the context it would get now\n";
    assert!(context.stderr.ends_with(hint), "{}", context.stderr);
}
