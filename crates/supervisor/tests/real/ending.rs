//! How agents end, and that nothing of them is left.

use std::time::Duration;

use supervisor::{AttemptEnd, EndReason, ExitStatus, Shutdown, kill_marked, kill_marked_unclaimed};

use crate::fixture::{Fixture, LONG, exit, over, wrote};

const SHORT: Duration = Duration::from_millis(50);

/// Starts `$1` in a session of its own and goes on once it runs, with its number in the file `grandchild`.
const GRANDCHILD: &str =
    r#"mkfifo up go; $CLEAN setsid sh -c "$1" & read pid < up; echo $pid > grandchild; "#;

fn with_grandchild(grandchild: &str, agent: &str) -> Fixture {
    Fixture::command(&["sh", "-c", &format!("{GRANDCHILD}{agent}"), "sh", grandchild])
}

#[tokio::test]
async fn an_agent_that_obeys_ends_by_term() {
    let fixture =
        Fixture::script("trap 'exit 3' TERM; echo > report.json; while :; do sleep 3600 & wait $!; done");
    let mut handle = fixture.launch();
    wrote(&mut handle).await;
    handle.request_stop(Shutdown::Once).unwrap();
    let record = exit(&mut handle).await;
    assert_eq!((record.status, record.reason), (ExitStatus::Exited { code: 3 }, EndReason::Stopped));
}

#[tokio::test]
async fn an_agent_that_ignores_term_is_killed_after_its_grace() {
    let mut fixture =
        Fixture::script("trap '' TERM; echo $$ > pid; echo > report.json; while :; do sleep 3600; done");
    fixture.launch.grace = SHORT;
    let mut handle = fixture.launch();
    wrote(&mut handle).await;
    let agent = fixture.process("pid");
    handle.request_stop(Shutdown::Once).unwrap();
    let record = exit(&mut handle).await;
    assert_eq!((record.status, record.reason), (ExitStatus::Signalled { signal: 9 }, EndReason::Stopped));
    assert!(agent.has_ended());
}

#[tokio::test]
async fn a_second_order_ends_it_at_once() {
    let fixture = Fixture::script("trap '' TERM; echo > report.json; while :; do sleep 3600; done");
    assert_eq!(fixture.launch.grace, LONG);
    let mut handle = fixture.launch();
    wrote(&mut handle).await;
    handle.request_stop(Shutdown::Once).unwrap();
    handle.request_stop(Shutdown::Twice).unwrap();
    let record = exit(&mut handle).await;
    assert_eq!((record.status, record.reason), (ExitStatus::Signalled { signal: 9 }, EndReason::Stopped));
}

#[tokio::test]
async fn a_grandchild_in_a_new_session_does_not_outlive_the_agent() {
    let fixture = with_grandchild("echo $$ > up; exec sleep 3600", "echo > report.json; read x < go; exit 0");
    let mut handle = fixture.launch();
    wrote(&mut handle).await;
    let grandchild = fixture.process("grandchild");
    std::fs::write(fixture.file("go"), "on\n").unwrap();
    let record = exit(&mut handle).await;
    assert_eq!(
        (record.status, record.reason, record.leftover_processes),
        (ExitStatus::Exited { code: 0 }, EndReason::Finished, 1)
    );
    assert!(grandchild.has_ended());
}

#[tokio::test]
async fn a_grandchild_that_ignores_term_and_shed_its_mark_is_killed() {
    let stubborn = "trap '' TERM; echo $$ > up; while :; do sleep 3600; done";
    let mut fixture = with_grandchild(stubborn, "echo > report.json; exec sleep 3600");
    fixture.launch.env.push(("CLEAN".into(), "env -i".into()));
    fixture.launch.grace = SHORT;
    let mut handle = fixture.launch();
    wrote(&mut handle).await;
    let grandchild = fixture.process("grandchild");
    handle.request_stop(Shutdown::Once).unwrap();
    let record = exit(&mut handle).await;
    assert_eq!((record.status, record.reason), (ExitStatus::Signalled { signal: 15 }, EndReason::Stopped));
    assert!(record.leftover_processes >= 1 && grandchild.has_ended());
}

#[tokio::test]
async fn an_agent_that_runs_too_long_is_ended() {
    let mut fixture = Fixture::script("exec sleep 3600");
    fixture.launch.timeout = Some(SHORT);
    let record = fixture.play().await;
    assert_eq!((record.status, record.reason), (ExitStatus::Signalled { signal: 15 }, EndReason::TimedOut));
    assert!(u128::from(record.duration_ms) >= SHORT.as_millis());
}

#[tokio::test]
async fn an_agent_that_falls_silent_is_ended() {
    let mut fixture = Fixture::script("echo hello; exec sleep 3600");
    fixture.launch.silence = Some(SHORT);
    let record = fixture.play().await;
    assert_eq!((record.status, record.reason), (ExitStatus::Signalled { signal: 15 }, EndReason::Silent));
}

#[tokio::test]
async fn an_agent_dies_with_its_shim_and_the_sweep_finds_the_rest() {
    let agent = "echo $$ > agent; echo > report.json; exec sleep 3600";
    let fixture = with_grandchild("echo $$ > up; exec sleep 3600", agent);
    let mut handle = fixture.launch();
    wrote(&mut handle).await;
    let (shim, agent, grandchild) = (fixture.shim(), fixture.process("agent"), fixture.process("grandchild"));
    shim.kill();
    // The kernel's doing: nobody has swept yet.
    agent.wait();
    assert!(!grandchild.has_ended());
    assert_eq!(over(&mut handle).await, AttemptEnd::Vanished);
    assert!(grandchild.has_ended());
    assert_eq!(kill_marked(&fixture.launch.mark()).unwrap(), 0);
    assert_eq!(over(&mut fixture.adopt()).await, AttemptEnd::Vanished, "whoever asks later hears the same");
}

#[tokio::test]
async fn a_sweep_spares_the_attempts_of_others() {
    let (ours, theirs) = (
        Fixture::script("echo > report.json; exec sleep 3600"),
        Fixture::script("echo $$ > pid; echo > report.json; exec sleep 3600"),
    );
    let (mut our, mut their) = (ours.launch(), theirs.launch());
    wrote(&mut our).await;
    wrote(&mut their).await;
    // The same run and attempt, in another store.
    assert_eq!((&ours.launch.run, &ours.launch.attempt), (&theirs.launch.run, &theirs.launch.attempt));
    assert_eq!(kill_marked(&ours.launch.mark()).unwrap(), 1);
    assert_eq!(exit(&mut our).await.status, ExitStatus::Signalled { signal: 9 });
    assert!(!theirs.process("pid").has_ended());
    their.request_stop(Shutdown::Twice).unwrap();
    exit(&mut their).await;
}

#[tokio::test]
async fn an_attempt_that_a_slow_shim_has_claimed_is_not_swept_as_unclaimed() {
    let fixture = Fixture::script("echo $$ > pid; echo > report.json; exec sleep 3600");
    let mut handle = fixture.launch();
    wrote(&mut handle).await;
    let mark = fixture.launch.mark();
    assert_eq!(kill_marked_unclaimed(&fixture.dir, &mark).unwrap(), 0);
    assert!(!fixture.process("pid").has_ended());
    // Only when its claim is gone is it nobody's.
    std::fs::remove_file(fixture.dir.claim()).unwrap();
    assert_eq!(kill_marked_unclaimed(&fixture.dir, &mark).unwrap(), 1);
    exit(&mut handle).await;
}

#[tokio::test]
async fn an_ended_shim_is_reaped() {
    let fixture = Fixture::script("echo > report.json; exec sleep 3600");
    let mut handle = fixture.launch();
    wrote(&mut handle).await;
    let shim = fixture.shim();
    handle.request_stop(Shutdown::Once).unwrap();
    exit(&mut handle).await;
    assert!(!std::path::Path::new(&format!("/proc/{}", shim.pid.as_raw_pid())).exists(), "a zombie is left");
}
