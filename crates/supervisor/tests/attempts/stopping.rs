//! Stopping agents, and that no process of them is left.

use std::time::Duration;

use supervisor::{
    AttemptEnd, EndReason, ExitStatus, Shutdown, StopOutcome, kill_marked, kill_marked_unclaimed,
};

use crate::fixture::{Fixture, LONG, wait_for_end, wait_for_exit, wait_for_report};

const SHORT: Duration = Duration::from_millis(50);

/// Starts `$1` in a session of its own. `$1` writes its pid to the pipe `up`; then this script puts the pid into the file
/// `grandchild` and continues. The pipe `go` is for the test. `$CLEAN` is empty, or `env -i`, which removes the mark.
const GRANDCHILD: &str =
    r#"mkfifo up go; $CLEAN setsid sh -c "$1" & read pid < up; echo $pid > grandchild; "#;

fn with_grandchild(grandchild: &str, agent: &str) -> Fixture {
    Fixture::command(&["sh", "-c", &format!("{GRANDCHILD}{agent}"), "sh", grandchild])
}

#[tokio::test]
async fn an_agent_that_handles_term_ends_by_itself() {
    let fixture =
        Fixture::script("trap 'exit 3' TERM; echo > report.json; while :; do sleep 3600 & wait $!; done");
    let mut handle = fixture.launch();
    wait_for_report(&mut handle).await;
    handle.request_stop(Shutdown::Graceful).unwrap();
    let record = wait_for_exit(&mut handle).await;
    assert_eq!((record.status, record.reason), (ExitStatus::Exited { code: 3 }, EndReason::Stopped));
}

#[tokio::test]
async fn an_agent_that_ignores_term_is_killed_after_its_grace_period() {
    let mut fixture =
        Fixture::script("trap '' TERM; echo $$ > pid; echo > report.json; while :; do sleep 3600; done");
    fixture.launch.grace = SHORT;
    let mut handle = fixture.launch();
    wait_for_report(&mut handle).await;
    let agent = fixture.process("pid");
    handle.request_stop(Shutdown::Graceful).unwrap();
    let record = wait_for_exit(&mut handle).await;
    assert_eq!((record.status, record.reason), (ExitStatus::Signalled { signal: 9 }, EndReason::Stopped));
    assert!(agent.has_ended());
}

#[tokio::test]
async fn a_second_stop_kills_at_once() {
    let fixture = Fixture::script("trap '' TERM; echo > report.json; while :; do sleep 3600; done");
    assert_eq!(fixture.launch.grace, LONG);
    let mut handle = fixture.launch();
    wait_for_report(&mut handle).await;
    handle.request_stop(Shutdown::Graceful).unwrap();
    handle.request_stop(Shutdown::Immediate).unwrap();
    let record = wait_for_exit(&mut handle).await;
    assert_eq!((record.status, record.reason), (ExitStatus::Signalled { signal: 9 }, EndReason::Stopped));
}

#[tokio::test]
async fn a_grandchild_in_a_new_session_does_not_outlive_the_agent() {
    let fixture = with_grandchild("echo $$ > up; exec sleep 3600", "echo > report.json; read x < go; exit 0");
    let mut handle = fixture.launch();
    wait_for_report(&mut handle).await;
    let grandchild = fixture.process("grandchild");
    std::fs::write(fixture.file("go"), "on\n").unwrap();
    let record = wait_for_exit(&mut handle).await;
    assert_eq!(
        (record.status, record.reason, record.leftover_processes),
        (ExitStatus::Exited { code: 0 }, EndReason::Finished, 1)
    );
    assert!(grandchild.has_ended());
}

#[tokio::test]
async fn a_grandchild_that_ignores_term_and_has_no_mark_is_killed() {
    let stubborn = "trap '' TERM; echo $$ > up; while :; do sleep 3600; done";
    let mut fixture = with_grandchild(stubborn, "echo > report.json; exec sleep 3600");
    fixture.launch.env.push(("CLEAN".into(), "env -i".into()));
    fixture.launch.grace = SHORT;
    let mut handle = fixture.launch();
    wait_for_report(&mut handle).await;
    let grandchild = fixture.process("grandchild");
    handle.request_stop(Shutdown::Graceful).unwrap();
    let record = wait_for_exit(&mut handle).await;
    assert_eq!((record.status, record.reason), (ExitStatus::Signalled { signal: 15 }, EndReason::Stopped));
    assert!(record.leftover_processes >= 1 && grandchild.has_ended());
}

#[tokio::test]
async fn an_agent_that_exceeds_its_timeout_is_stopped() {
    let mut fixture = Fixture::script("exec sleep 3600");
    fixture.launch.timeout = Some(SHORT);
    let record = fixture.run_to_end().await;
    assert_eq!((record.status, record.reason), (ExitStatus::Signalled { signal: 15 }, EndReason::TimedOut));
    assert!(u128::from(record.duration_ms) >= SHORT.as_millis());
}

#[tokio::test]
async fn a_silent_agent_is_stopped() {
    let mut fixture = Fixture::script("echo hello; exec sleep 3600");
    fixture.launch.silence = Some(SHORT);
    let record = fixture.run_to_end().await;
    assert_eq!((record.status, record.reason), (ExitStatus::Signalled { signal: 15 }, EndReason::Silent));
}

#[tokio::test]
async fn an_agent_dies_with_its_shim_and_its_descendants_are_killed() {
    let agent = "echo $$ > agent; echo > report.json; exec sleep 3600";
    let fixture = with_grandchild("echo $$ > up; exec sleep 3600", agent);
    let mut handle = fixture.launch();
    wait_for_report(&mut handle).await;
    let (shim, agent, grandchild) = (fixture.shim(), fixture.process("agent"), fixture.process("grandchild"));
    shim.kill();
    // The kernel kills the agent; the engine has not done anything yet.
    agent.wait();
    assert!(!grandchild.has_ended());
    assert_eq!(wait_for_end(&mut handle).await, AttemptEnd::Vanished);
    assert!(grandchild.has_ended());
    assert_eq!(kill_marked(&fixture.launch.mark()).unwrap(), 0);
    assert_eq!(
        wait_for_end(&mut fixture.adopt()).await,
        AttemptEnd::Vanished,
        "a later engine gets the same end"
    );
}

#[tokio::test]
async fn kill_marked_spares_attempts_of_other_stores() {
    let (ours, theirs) = (
        Fixture::script("echo > report.json; exec sleep 3600"),
        Fixture::script("echo $$ > pid; echo > report.json; exec sleep 3600"),
    );
    let (mut our, mut their) = (ours.launch(), theirs.launch());
    wait_for_report(&mut our).await;
    wait_for_report(&mut their).await;
    // The same run and attempt, in another store.
    assert_eq!((&ours.launch.run, &ours.launch.attempt), (&theirs.launch.run, &theirs.launch.attempt));
    assert_eq!(kill_marked(&ours.launch.mark()).unwrap(), 1);
    assert_eq!(wait_for_exit(&mut our).await.status, ExitStatus::Signalled { signal: 9 });
    assert!(!theirs.process("pid").has_ended());
    their.request_stop(Shutdown::Immediate).unwrap();
    wait_for_exit(&mut their).await;
}

#[tokio::test]
async fn kill_marked_unclaimed_spares_a_claimed_attempt() {
    let fixture = Fixture::script("echo $$ > pid; echo > report.json; exec sleep 3600");
    let mut handle = fixture.launch();
    wait_for_report(&mut handle).await;
    let mark = fixture.launch.mark();
    assert_eq!(kill_marked_unclaimed(&fixture.dir, &mark).unwrap(), 0);
    assert!(!fixture.process("pid").has_ended());
    // Without its claim it is killed.
    std::fs::remove_file(fixture.dir.claim()).unwrap();
    assert_eq!(kill_marked_unclaimed(&fixture.dir, &mark).unwrap(), 1);
    wait_for_exit(&mut handle).await;
}

/// A stop voids an attempt without a claim. An engine that then finds processes with the mark of a void attempt kills them.
#[tokio::test]
async fn stopping_an_attempt_whose_claim_was_deleted_kills_its_agent() {
    let fixture = Fixture::script("echo $$ > pid; echo > report.json; exec sleep 3600");
    let mut first = fixture.launch();
    wait_for_report(&mut first).await;
    let agent = fixture.process("pid");
    drop(first);
    std::fs::remove_file(fixture.dir.claim()).unwrap();
    let mut second = fixture.adopt();
    assert_eq!(second.request_stop(Shutdown::Graceful).unwrap(), StopOutcome::Voided);
    assert_eq!(wait_for_end(&mut second).await, AttemptEnd::Vanished);
    assert!(agent.has_ended());
}

#[tokio::test]
async fn an_ended_shim_is_reaped() {
    let fixture = Fixture::script("echo > report.json; exec sleep 3600");
    let mut handle = fixture.launch();
    wait_for_report(&mut handle).await;
    let shim = fixture.shim();
    handle.request_stop(Shutdown::Graceful).unwrap();
    wait_for_exit(&mut handle).await;
    assert!(!std::path::Path::new(&format!("/proc/{}", shim.pid.as_raw_pid())).exists(), "a zombie is left");
}
