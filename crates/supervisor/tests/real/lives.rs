//! What agents do while they live, and what becomes of their reports.

use std::fs;
use std::time::Duration;

use supervisor::report::{Collected, Source, collect};
use supervisor::{DirWatcher, EndReason, ExitStatus, Shutdown};

use crate::fixture::{Fixture, exit, wrote};

const REPORT: &str = r#"cat > report.json <<END
{ "schema": "run_report@v0", "run_id": "f8c1a491", "step_id": "review", "agent": "reviewer", "status": "DONE",
  "started_at": "2026-01-01T00:00:00Z", "ended_at": "2026-01-01T00:00:01Z" }
END
"#;

#[tokio::test]
async fn a_flood_of_output_goes_straight_to_the_log() {
    let fixture = Fixture::command(&["head", "-c", "200000000", "/dev/zero"]);
    let record = fixture.play().await;
    assert_eq!(record.status, ExitStatus::Exited { code: 0 });
    assert_eq!(fs::metadata(fixture.file("stdout.log")).unwrap().len(), 200_000_000);
    assert_eq!(collect(&fixture.dir, &fixture.expected()), Collected::Missing);
}

#[tokio::test]
async fn an_agent_that_exits_before_reporting_has_no_report() {
    let fixture = Fixture::script("echo all good");
    assert_eq!(fixture.play().await.status, ExitStatus::Exited { code: 0 });
    assert_eq!(collect(&fixture.dir, &fixture.expected()), Collected::Missing);
}

#[tokio::test]
async fn a_report_counts_although_its_agent_never_exits() {
    let fixture = Fixture::script(&format!("{REPORT} exec sleep 3600"));
    let mut handle = fixture.launch();
    wrote(&mut handle).await;
    let valid = |collected| matches!(collected, Collected::Valid(_, Source::File));
    assert!(valid(collect(&fixture.dir, &fixture.expected())));
    handle.request_stop(Shutdown::Once).unwrap();
    assert_eq!(exit(&mut handle).await.reason, EndReason::Stopped);
    assert!(valid(collect(&fixture.dir, &fixture.expected())));
}

#[tokio::test]
async fn a_report_moved_into_place_or_written_anew_is_news() {
    let fixture = Fixture::script(
        "mkfifo one two; echo 1 > new; mv new report.json; read x < one; echo 2 > report.json; read x < two",
    );
    let mut handle = fixture.launch();
    wrote(&mut handle).await;
    assert_eq!(fixture.text("report.json"), "1\n");
    fs::write(fixture.file("one"), "on\n").unwrap();
    wrote(&mut handle).await;
    assert_eq!(fixture.text("report.json"), "2\n");
    fs::write(fixture.file("two"), "on\n").unwrap();
    exit(&mut handle).await;
}

#[tokio::test]
async fn orphans_that_end_while_the_agent_works_are_reaped() {
    // The agent goes on only when no trace of the orphan is left, not even a zombie.
    let orphan =
        r#"mkfifo up; sh -c 'sh -c "echo \$\$ > up" &'; read pid < up; while [ -d /proc/$pid ]; do :; done"#;
    let mut fixture = Fixture::script(orphan);
    fixture.launch.timeout = Some(Duration::from_secs(20));
    let record = fixture.play().await;
    assert_eq!((record.status, record.reason), (ExitStatus::Exited { code: 0 }, EndReason::Finished));
}

#[tokio::test]
async fn one_lookout_serves_many_attempts_each_with_its_own_news() {
    let dir_watcher = DirWatcher::new().unwrap();
    let script = "mkfifo go; echo > report.json; read x < go; echo > submitted.json; exec sleep 3600";
    let stages = [Fixture::script(script), Fixture::script(script)];
    let [mut first, mut second] = [&stages[0], &stages[1]].map(|fixture| fixture.launch_under(&dir_watcher));
    wrote(&mut first).await;
    wrote(&mut second).await;
    // A watch on the same directory comes and goes; the first one stays.
    drop(
        supervisor::AttemptHandle::adopt(&dir_watcher, stages[0].dir.clone(), stages[0].launch.mark())
            .unwrap(),
    );
    fs::write(stages[0].file("go"), "on\n").unwrap();
    wrote(&mut first).await;
    // Whatever the first one has read for both has been handed out by now.
    assert!(tokio::time::timeout(Duration::ZERO, second.next()).await.is_err(), "that was not its news");
    first.request_stop(Shutdown::Twice).unwrap();
    second.request_stop(Shutdown::Twice).unwrap();
    tokio::join!(exit(&mut first), exit(&mut second));
}
