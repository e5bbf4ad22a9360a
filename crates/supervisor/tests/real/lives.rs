//! What agents do while they live, and what becomes of their reports.

use std::fs;
use std::time::Duration;

use supervisor::report::{Collected, Source, collect};
use supervisor::{Because, How, Lookout, Shutdown};

use crate::stage::{Stage, exit, wrote};

const REPORT: &str = r#"cat > report.json <<END
{ "schema": "run_report@v0", "run_id": "f8c1a491", "step_id": "review", "agent": "reviewer", "status": "DONE",
  "started_at": "2026-01-01T00:00:00Z", "ended_at": "2026-01-01T00:00:01Z" }
END
"#;

#[tokio::test]
async fn a_flood_of_output_goes_straight_to_the_log() {
    let stage = Stage::command(&["head", "-c", "200000000", "/dev/zero"]);
    let record = stage.play().await;
    assert_eq!(record.how, How::Exited { code: 0 });
    assert_eq!(fs::metadata(stage.file("stdout.log")).unwrap().len(), 200_000_000);
    assert_eq!(collect(&stage.dir, &stage.expected()), Collected::Missing);
}

#[tokio::test]
async fn an_agent_that_exits_before_reporting_has_no_report() {
    let stage = Stage::script("echo all good");
    assert_eq!(stage.play().await.how, How::Exited { code: 0 });
    assert_eq!(collect(&stage.dir, &stage.expected()), Collected::Missing);
}

#[tokio::test]
async fn a_report_counts_although_its_agent_never_exits() {
    let stage = Stage::script(&format!("{REPORT} exec sleep 3600"));
    let mut attendance = stage.launch();
    wrote(&mut attendance).await;
    let valid = |collected| matches!(collected, Collected::Valid(_, Source::File));
    assert!(valid(collect(&stage.dir, &stage.expected())));
    attendance.order_end(Shutdown::Once).unwrap();
    assert_eq!(exit(&mut attendance).await.because, Because::Ordered);
    assert!(valid(collect(&stage.dir, &stage.expected())));
}

#[tokio::test]
async fn a_report_moved_into_place_or_written_anew_is_news() {
    let stage = Stage::script(
        "mkfifo one two; echo 1 > new; mv new report.json; read x < one; echo 2 > report.json; read x < two",
    );
    let mut attendance = stage.launch();
    wrote(&mut attendance).await;
    assert_eq!(stage.text("report.json"), "1\n");
    fs::write(stage.file("one"), "on\n").unwrap();
    wrote(&mut attendance).await;
    assert_eq!(stage.text("report.json"), "2\n");
    fs::write(stage.file("two"), "on\n").unwrap();
    exit(&mut attendance).await;
}

#[tokio::test]
async fn orphans_that_end_while_the_agent_works_are_reaped() {
    // The agent goes on only when no trace of the orphan is left, not even a zombie.
    let orphan =
        r#"mkfifo up; sh -c 'sh -c "echo \$\$ > up" &'; read pid < up; while [ -d /proc/$pid ]; do :; done"#;
    let mut stage = Stage::script(orphan);
    stage.launch.timeout = Some(Duration::from_secs(20));
    let record = stage.play().await;
    assert_eq!((record.how, record.because), (How::Exited { code: 0 }, Because::Own));
}

#[tokio::test]
async fn one_lookout_serves_many_attempts_each_with_its_own_news() {
    let lookout = Lookout::new().unwrap();
    let script = "mkfifo go; echo > report.json; read x < go; echo > submitted.json; exec sleep 3600";
    let stages = [Stage::script(script), Stage::script(script)];
    let [mut first, mut second] = [&stages[0], &stages[1]].map(|stage| stage.launch_under(&lookout));
    wrote(&mut first).await;
    wrote(&mut second).await;
    // A watch on the same directory comes and goes; the first one stays.
    drop(supervisor::Attendance::adopt(&lookout, stages[0].dir.clone(), stages[0].launch.mark()).unwrap());
    fs::write(stages[0].file("go"), "on\n").unwrap();
    wrote(&mut first).await;
    // Whatever the first one has read for both has been handed out by now.
    assert!(tokio::time::timeout(Duration::ZERO, second.next()).await.is_err(), "that was not its news");
    first.order_end(Shutdown::Twice).unwrap();
    second.order_end(Shutdown::Twice).unwrap();
    tokio::join!(exit(&mut first), exit(&mut second));
}
