//! A machine with too few file descriptors.

use testkit::TestEnv;

use crate::sessions::{status, test_env};

const STEPS: usize = 40;

/// Prepares a workflow of steps that may all run at once. Returns their ids, too.
fn independent_steps() -> (TestEnv, Vec<String>) {
    let test_env = test_env();
    let steps: Vec<_> = (0..STEPS).map(|number| format!("s{number}")).collect();
    test_env.workflow(&steps.iter().map(String::as_str).collect::<Vec<_>>());
    (test_env, steps)
}

#[test]
fn too_few_descriptors_end_the_engine_with_an_error_and_cost_no_attempt() {
    let (test_env, steps) = independent_steps();
    test_env.script_agent(&["* * wait barrier"]);
    let mut barrier = test_env.barrier("barrier");
    let session = test_env.run(&["--jobs", "40"]).in_shell(r#"ulimit -n 40; exec "$@""#).run();
    assert_eq!(session.code, 5, "{}", session.transcript());
    assert!(session.stderr.contains("error[E016]:"), "{}", session.stderr);
    barrier.open();
    let resumed = test_env.callboard(&["resume", "--jobs", "2"]).run();
    assert_eq!(resumed.code, 0, "{}", resumed.transcript());
    let document = test_env.document("trial");
    for step in &steps {
        let shown = (status(&document, step), &document["steps"][step]["attempts"]);
        assert_eq!(shown, ("COMPLETED", &1.into()), "{step}");
    }
    test_env.expect_no_orphans();
}

#[test]
fn a_low_soft_limit_is_raised_for_the_engine_and_kept_for_agents() {
    for flags in [&["--jobs", "40"][..], &["--jobs", "40", "--detach"]] {
        let (test_env, steps) = independent_steps();
        test_env.script_agent(&[
            r#"s0 * do ulimit -Sn >"$shared/soft"; write_report COMPLETED "did it""#,
            "* * wait barrier",
        ]);
        let mut barrier = test_env.barrier("barrier");
        let running = test_env.run(flags).in_shell(r#"ulimit -Sn 40; exec "$@""#).start();
        for step in &steps[1..] {
            test_env.agent_log().wait_for_start(&format!("{step}#1.1"));
        }
        barrier.open();
        let session = running.wait();
        assert_eq!(session.code, 0, "{}", session.transcript());
        test_env.wait_for_engine_exit("trial");
        assert_eq!(test_env.wait_for_lines("soft").trim(), "40", "{flags:?}");
    }
}
