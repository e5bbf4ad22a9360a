//! Starting agents: what they get, and when they are not started.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use supervisor::adapter::CommandLine;
use supervisor::{AttemptEnd, EndReason, ExitStatus, HandleEvent, Shutdown, StopOutcome, VoidOutcome, void};

use crate::fixture::{Fixture, wait_for_end, wait_for_report};

#[tokio::test]
async fn an_agent_writes_its_own_logs_and_its_exit_code_is_recorded() {
    let fixture = Fixture::script("cat; echo out; echo err >&2; exit 7");
    let record = fixture.run_to_end().await;
    assert_eq!(
        (&record.status, record.reason, record.leftover_processes),
        (&ExitStatus::Exited { code: 7 }, EndReason::Finished, 0)
    );
    assert_eq!(record.attempt, fixture.launch.attempt);
    assert_eq!(
        (fixture.text("stdout.log").as_str(), fixture.text("stderr.log").as_str()),
        ("out\n", "err\n")
    );
    for private in ["launch.json", "exit.json", "claim", "stdout.log"] {
        assert_eq!(
            fs::metadata(fixture.file(private)).unwrap().permissions().mode() & 0o777,
            0o600,
            "{private}"
        );
    }
    // No temporary file is left: their names begin with a dot.
    assert!(
        !fs::read_dir(fixture.dir.path())
            .unwrap()
            .any(|f| f.unwrap().file_name().as_encoded_bytes()[0] == b'.')
    );
}

#[tokio::test]
async fn the_agent_gets_the_given_environment_and_the_mark_and_nothing_else() {
    let mut fixture = Fixture::command(&["env"]);
    fixture.launch.env.push(("GREETING".into(), "good day".into()));
    fixture.launch.env.push(("CALLBOARD_ATTEMPT".into(), "forged#1.1".into()));
    fixture.run_to_end().await;
    let text = fixture.text("stdout.log");
    let mut names: Vec<_> = text.lines().map(|line| line.split_once('=').unwrap().0).collect();
    names.sort_unstable();
    assert_eq!(names, ["CALLBOARD_ATTEMPT", "CALLBOARD_RUN", "CALLBOARD_STORE", "GREETING", "PATH"]);
    assert!(text.contains("GREETING=good day\n") && text.contains("CALLBOARD_ATTEMPT=review#2.1\n"));
}

#[tokio::test]
async fn arguments_with_spaces_and_quotes_are_not_changed() {
    let line =
        CommandLine::parse(r#"sh -c 'for a; do echo "[$a]"; done' sh "it's" 'a "b"  c' '' '$HOME' '{{}}'"#);
    let mut fixture = Fixture::script("");
    fixture.launch.argv = line.unwrap().into();
    fixture.launch.argv.iter_mut().for_each(|argument| *argument = argument.replace("{{}}", "{}\n"));
    fixture.run_to_end().await;
    assert_eq!(fixture.text("stdout.log"), "[it's]\n[a \"b\"  c]\n[]\n[$HOME]\n[{}\n]\n");
}

#[tokio::test]
async fn a_program_that_cannot_be_started_is_recorded_with_the_reason() {
    let fixture = Fixture::command(&["no-such-agent", "--help"]);
    let record = fixture.run_to_end().await;
    let error = "program `no-such-agent`: No such file or directory (os error 2)".to_owned();
    assert_eq!((record.status, record.reason), (ExitStatus::NotStarted { error }, EndReason::Finished));

    let fixture = Fixture::command(&["./agent.sh"]);
    fs::write(fixture.file("agent.sh"), "#!/bin/sh\n").unwrap();
    let ExitStatus::NotStarted { error } = fixture.run_to_end().await.status else {
        panic!("started without execute permission")
    };
    assert!(error.contains("Permission denied"), "{error}");

    let mut fixture = Fixture::script("");
    fixture.launch.cwd = fixture.file("nowhere");
    let ExitStatus::NotStarted { error } = fixture.run_to_end().await.status else {
        panic!("started without its directory")
    };
    assert!(error.starts_with("working directory `") && error.contains("nowhere"), "{error}");
}

#[tokio::test]
async fn a_shim_of_a_void_attempt_starts_nothing() {
    let fixture = Fixture::script("echo ran > ran");
    assert_eq!(void(&fixture.dir).unwrap(), VoidOutcome::Now);
    assert_eq!(wait_for_end(&mut fixture.launch()).await, AttemptEnd::Voided);
    assert!(
        !fixture.file("ran").exists()
            && !fixture.file("stdout.log").exists()
            && !fixture.file("exit.json").exists()
    );
    // An error of the shim begins with `shim in DIRECTORY`.
    assert!(!fixture.text("shim.log").contains("shim in"), "losing the claim is not an error");
}

#[tokio::test]
async fn exactly_one_of_two_shims_runs_the_agent() {
    for _ in 0..10 {
        let fixture = Fixture::script("echo ran >> ran");
        let (mut one, mut two) = (fixture.launch(), fixture.launch());
        let (one, two) = tokio::join!(wait_for_end(&mut one), wait_for_end(&mut two));
        assert_eq!(one, two);
        assert_eq!(fixture.text("ran"), "ran\n");
    }
}

#[tokio::test]
async fn an_unclaimed_attempt_can_be_voided() {
    let fixture = Fixture::script("exit 0");
    let mut handle = fixture.adopt();
    assert_eq!(handle.next().await.unwrap(), HandleEvent::NotStarted);
    assert_eq!(handle.request_stop(Shutdown::Graceful).unwrap(), StopOutcome::Voided);
    assert_eq!(handle.next().await.unwrap(), HandleEvent::Ended(AttemptEnd::Voided));
    assert_eq!(wait_for_end(&mut fixture.launch()).await, AttemptEnd::Voided);
}

#[tokio::test]
async fn a_shim_that_dies_before_its_claim_has_started_nothing() {
    let fixture = Fixture::script("exit 0");
    let program = supervisor::ShimProgram { program: "/bin/false".into(), args: Vec::new() };
    let dir_watcher = linux::DirWatcher::new().unwrap();
    let mark = fixture.launch.mark();
    let mut handle = supervisor::AttemptHandle::attach(&dir_watcher, fixture.dir.clone(), mark).unwrap();
    handle.start(&program, &fixture.launch).unwrap();
    assert_eq!(handle.next().await.unwrap(), HandleEvent::NotStarted);
    assert!(
        matches!(wait_for_end(&mut fixture.launch()).await, AttemptEnd::Exit(_)),
        "it can be launched again"
    );
}

#[tokio::test]
async fn a_launched_attempt_can_be_adopted() {
    let fixture = Fixture::script("echo 1 > report.json; exec sleep 3600");
    let mut first = fixture.launch();
    wait_for_report(&mut first).await;
    drop(first);
    let mut second = fixture.adopt();
    wait_for_report(&mut second).await;
    // Cancelling `next` loses no event.
    assert!(tokio::time::timeout(std::time::Duration::ZERO, second.next()).await.is_err());
    assert_eq!(second.request_stop(Shutdown::Graceful).unwrap(), StopOutcome::Signalled);
    let AttemptEnd::Exit(record) = wait_for_end(&mut second).await else { panic!("no record") };
    assert_eq!((record.status, record.reason), (ExitStatus::Signalled { signal: 15 }, EndReason::Stopped));
    assert_eq!(second.request_stop(Shutdown::Graceful).unwrap(), StopOutcome::Ended);
    // It can also be adopted after its end.
    assert!(matches!(wait_for_end(&mut fixture.adopt()).await, AttemptEnd::Exit(_)));
}
