//! A run's repository lies at the same path on every host that drives it.

use std::fs;

use crate::hosts::fixture::Fixture;

#[test]
fn a_host_without_the_repository_can_control_the_run_but_not_drive_it() {
    let fixture = Fixture::new();
    fixture.run_and_interrupt(&[]);
    // The other machine has its clone at another path.
    let (repo, away) = (fixture.test_env.repo(), fixture.test_env.repo().with_file_name("away"));
    fs::rename(repo, &away).unwrap();
    let run_in_away = |arguments: &[&str]| fixture.on("b", arguments).current_dir(&away).run();
    let refused = run_in_away(&["resume", "trial"]);
    assert_eq!(refused.code, 2, "{}", refused.transcript());
    let expected = format!(
        "cannot continue run `trial` on `b`: its repository `{}` does not exist here",
        repo.display()
    );
    assert!(refused.stderr.contains(&expected), "{}", refused.stderr);
    assert!(refused.stderr.contains("clone or mount the repository at that path"), "{}", refused.stderr);
    let skipped = run_in_away(&["skip", "trial", "first", "--reason", "not needed"]);
    assert_eq!(skipped.code, 0, "{}", skipped.transcript());
    assert!(!repo.exists(), "nothing is written where no repository is");
    fs::rename(&away, repo).unwrap();
    let session = fixture.on("a", &["show", "trial", "--json"]).run();
    assert_eq!(session.json()["status"], "succeeded");
}

/// An engine in another repository would not see the attempts of this one, and would start them again.
#[test]
fn of_two_repositories_on_one_host_only_the_runs_own_drives_it() {
    let (fixture, agent, mut barrier) = Fixture::with_killed_engine();
    let repo = fixture.test_env.repo().to_str().unwrap();
    fixture.test_env.git(&["clone", "--quiet", ".", "../clone"]);
    let clone = fixture.test_env.repo().with_file_name("clone");
    let run_in_clone = |arguments: &[&str]| fixture.on("a", arguments).current_dir(&clone).run();
    for command in ["resume", "stop"] {
        let refused = run_in_clone(&[command, "trial"]);
        assert_eq!(refused.code, 2, "{}", refused.transcript());
        assert!(
            refused.stderr.contains(&format!("run `trial` belongs to the repository `{repo}`")),
            "{}",
            refused.stderr
        );
        assert!(refused.stderr.contains(&format!("add `--repo {repo}`")), "{}", refused.stderr);
    }
    let all = run_in_clone(&["resume", "--all"]);
    assert_eq!(all.code, 0, "{}", all.transcript());
    assert!(
        all.stderr.contains(&format!("note: run `trial` belongs to the repository `{repo}`")),
        "{}",
        all.stderr
    );
    assert!(!clone.join(".git/callboard").exists(), "a refused command leaves nothing");
    let doctor = run_in_clone(&["doctor"]);
    assert!(
        doctor.stdout.contains(&format!("it belongs to the repository {repo}")),
        "{}",
        doctor.transcript()
    );
    assert!(!doctor.stdout.contains("was not started yet"), "{}", doctor.transcript());
    let address = fixture.test_env.backend().address().unwrap();
    let resume = format!("$ callboard resume trial --repo {repo} --store {address}\n");
    assert!(doctor.stdout.contains(&resume), "{}", doctor.transcript());
    barrier.open();
    let session = run_in_clone(&["resume", "trial", "--repo", repo]);
    assert_eq!(session.code, 0, "{}", session.transcript());
    assert!(session.stderr.contains("first#1.1"), "{}", session.stderr);
    agent.wait();
    let agent_log = fs::read_to_string(fixture.test_env.agent_dir().join("agent_log")).unwrap();
    assert_eq!(agent_log.matches("begin first#").count(), 1, "{agent_log}");
}

#[test]
fn a_run_with_another_working_directory_needs_that_directory_too() {
    let fixture = Fixture::new();
    let workdir = fixture.test_env.repo().with_file_name("desk");
    fs::create_dir(&workdir).unwrap();
    fixture.run_and_interrupt(&["--workdir", workdir.to_str().unwrap()]);
    fs::remove_dir(&workdir).unwrap();
    let refused = fixture.on("b", &["resume", "trial"]).run();
    assert_eq!(refused.code, 2, "{}", refused.transcript());
    assert!(refused.stderr.contains("name another directory with `--workdir DIR`"), "{}", refused.stderr);
    let session = fixture.on("b", &["resume", "trial", "--workdir", "."]).run();
    assert_eq!(session.code, 0, "{}", session.transcript());
}

/// Each host has its own view files. The store keeps what each host wrote, so an old view is not taken for an edit.
#[test]
fn a_view_written_before_another_host_took_over_is_recognised() {
    let (fixture, agent, mut barrier) = Fixture::with_killed_engine();
    let view = fixture.test_env.view_path("trial");
    let view_of_a = fs::read(&view).unwrap();
    assert_eq!(fixture.on("b", &["resume", "trial"]).run().code, 4);
    assert_ne!(fs::read(&view).unwrap(), view_of_a);
    fs::write(&view, view_of_a).unwrap();
    barrier.open();
    let session = fixture.on("a", &["resume", "trial"]).run();
    assert_eq!(session.code, 0, "{}", session.transcript());
    assert!(!session.stderr.contains("another program changed"), "{}", session.stderr);
    agent.wait();
}
