//! An agent that has reported and does not exit.

use std::time::Duration;

use protocol::Outcome;
use runner::{Clock, EngineExit, Notice};
use testkit::ProcessHandle;

use crate::faults::in_process_run::InProcessRun;
use crate::faults::test_env;

#[tokio::test]
async fn an_agent_that_reported_and_does_not_exit_is_killed_and_its_report_counts() {
    let test_env = test_env();
    // Every attempt of step `a`.
    test_env.script_agent(&["a * report-then-hang"]);
    let mut run = InProcessRun::open(&test_env, Clock::system()).await;
    run.engine_config.linger_timeout = Duration::from_millis(50);
    let (mut lingered, mut agent) = (0, None);
    let exit = run.drive(|notice| {
        if let Notice::Lingering { attempt, .. } = notice {
            lingered += 1;
            agent = ProcessHandle::of(test_env.agent_log().wait_for_start(&attempt.to_string()));
        }
    });
    assert_eq!(exit.await.unwrap(), EngineExit::Finished(Outcome::Succeeded));
    assert_eq!(lingered, 1);
    // It may have ended before the test could open its pidfd.
    assert!(agent.is_none_or(|agent| agent.has_ended()));
    // The scripted agent logs its end before it reports.
    assert_eq!(test_env.agent_log().starts_and_ends(), ["begin a#1.1", "end a#1.1"]);
    assert_eq!(test_env.document("trial")["steps"]["a"]["attempts"], 1);
    test_env.expect_no_orphans();
}
