//! Running agents and their reports.

use std::fs;
use std::time::Duration;

use supervisor::report::{Collected, Source, collect};
use supervisor::{EndReason, ExitStatus, Shutdown};

use crate::fixture::{Fixture, wait_for_exit, wait_for_report};

const REPORT: &str = r#"cat > report.json <<END
{ "schema": "run_report@v0", "run_id": "f8c1a491", "step_id": "review", "agent": "reviewer", "status": "DONE",
  "started_at": "2026-01-01T00:00:00Z", "ended_at": "2026-01-01T00:00:01Z" }
END
"#;

#[tokio::test]
async fn a_large_output_goes_directly_to_the_log() {
    let fixture = Fixture::command(&["head", "-c", "200000000", "/dev/zero"]);
    let record = fixture.run_to_end().await;
    assert_eq!(record.status, ExitStatus::Exited { code: 0 });
    assert_eq!(fs::metadata(fixture.file("stdout.log")).unwrap().len(), 200_000_000);
    assert_eq!(collect(&fixture.dir, &fixture.expected()), Collected::Missing);
}

#[tokio::test]
async fn an_agent_that_exits_before_reporting_has_no_report() {
    let fixture = Fixture::script("echo all good");
    assert_eq!(fixture.run_to_end().await.status, ExitStatus::Exited { code: 0 });
    assert_eq!(collect(&fixture.dir, &fixture.expected()), Collected::Missing);
}

#[tokio::test]
async fn a_report_counts_although_its_agent_never_exits() {
    let fixture = Fixture::script(&format!("{REPORT} exec sleep 3600"));
    let mut handle = fixture.launch();
    wait_for_report(&mut handle).await;
    let valid = |collected| matches!(collected, Collected::Valid(_, sources) if sources == [Source::File]);
    assert!(valid(collect(&fixture.dir, &fixture.expected())));
    handle.request_stop(Shutdown::Graceful).unwrap();
    assert_eq!(wait_for_exit(&mut handle).await.reason, EndReason::Stopped);
    assert!(valid(collect(&fixture.dir, &fixture.expected())));
}

#[tokio::test]
async fn a_report_that_is_renamed_into_place_or_rewritten_is_an_event() {
    let fixture = Fixture::script(
        "mkfifo one two; echo 1 > new; mv new report.json; read x < one; echo 2 > report.json; read x < two",
    );
    let mut handle = fixture.launch();
    wait_for_report(&mut handle).await;
    assert_eq!(fixture.text("report.json"), "1\n");
    fs::write(fixture.file("one"), "on\n").unwrap();
    wait_for_report(&mut handle).await;
    assert_eq!(fixture.text("report.json"), "2\n");
    fs::write(fixture.file("two"), "on\n").unwrap();
    wait_for_exit(&mut handle).await;
}

#[tokio::test]
async fn orphans_that_end_while_the_agent_runs_are_reaped() {
    // The agent continues only when the orphan is reaped.
    let orphan =
        r#"mkfifo up; sh -c 'sh -c "echo \$\$ > up" &'; read pid < up; while [ -d /proc/$pid ]; do :; done"#;
    let mut fixture = Fixture::script(orphan);
    fixture.launch.timeout = Some(Duration::from_secs(20));
    let record = fixture.run_to_end().await;
    assert_eq!((record.status, record.reason), (ExitStatus::Exited { code: 0 }, EndReason::Finished));
}

#[tokio::test]
async fn one_watcher_serves_several_attempts_each_with_its_own_events() {
    let dir_watcher = linux::DirWatcher::new().unwrap();
    let script = "mkfifo go; echo > report.json; read x < go; echo > submitted.json; exec sleep 3600";
    let fixtures = [Fixture::script(script), Fixture::script(script)];
    let [mut first, mut second] =
        [&fixtures[0], &fixtures[1]].map(|fixture| fixture.launch_with_watcher(&dir_watcher));
    wait_for_report(&mut first).await;
    wait_for_report(&mut second).await;
    // Dropping a second watch on the same directory does not affect the first one.
    drop(
        supervisor::AttemptHandle::attach(&dir_watcher, fixtures[0].dir.clone(), fixtures[0].launch.mark())
            .unwrap(),
    );
    fs::write(fixtures[0].file("go"), "on\n").unwrap();
    wait_for_report(&mut first).await;
    // The first one reads the events for both, so an event for the second would have arrived by now.
    assert!(
        tokio::time::timeout(Duration::ZERO, second.next()).await.is_err(),
        "the event was for the first"
    );
    first.request_stop(Shutdown::Immediate).unwrap();
    second.request_stop(Shutdown::Immediate).unwrap();
    tokio::join!(wait_for_exit(&mut first), wait_for_exit(&mut second));
}
