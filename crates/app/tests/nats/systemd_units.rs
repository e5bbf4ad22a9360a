//! The systemd unit that `doctor --unit` prints for a store on NATS, executed as systemd would.

use std::path::Path;
use std::process::Command;

use testkit::TestEnv;
use testkit::nats::Server;

use crate::nats::{test_env, test_env_on};

const PASSWORD: &str = "open-sesame-4711";

/// Returns the unit that `doctor --unit` prints.
fn unit(test_env: &TestEnv) -> String {
    let session = test_env.callboard(&["doctor", "--unit"]).run();
    assert_eq!(session.code, 0, "{}", session.transcript());
    session.stdout
}

/// Returns the values of a key, in order.
fn values<'u>(unit: &'u str, key: &str) -> Vec<&'u str> {
    unit.lines().filter_map(|line| line.strip_prefix(key)?.strip_prefix('=')).collect()
}

/// Executes one command of the unit with `HOME` and the variables that the unit sets, and no others.
fn execute(test_env: &TestEnv, unit: &str, line: &str) -> i32 {
    let line = line.trim_start_matches('-');
    let words: Vec<_> = line.split(' ').collect();
    let mut command = Command::new(words[0]);
    command.args(&words[1..]).current_dir(values(unit, "WorkingDirectory")[0]);
    command.env_clear().env("HOME", test_env.home());
    let mut set = |line: &str| {
        let (name, value) = line.split_once('=').unwrap();
        command.env(name, value);
    };
    values(unit, "Environment").iter().for_each(|variable| set(variable.trim_matches('"')));
    for file in values(unit, "EnvironmentFile") {
        std::fs::read_to_string(file).unwrap().lines().for_each(&mut set);
    }
    command.output().unwrap().status.code().unwrap()
}

#[test]
fn a_unit_waits_for_the_server_before_it_starts_anything() {
    let test_env = test_env();
    let unit = unit(&test_env);
    let store = format!("--store {}", test_env.backend().address().unwrap());
    let (pre_start, start) = (values(&unit, "ExecStartPre"), values(&unit, "ExecStart"));
    assert!(pre_start[0].ends_with(&format!("callboard ls --unfinished {store}")), "{unit}");
    assert!(start[0].starts_with('-') && start[0].ends_with(&format!("resume --all {store}")), "{unit}");
    assert_eq!(
        (values(&unit, "Restart"), values(&unit, "StartLimitIntervalSec")),
        (vec!["on-failure"], vec!["0"])
    );
    assert_eq!(values(&unit, "EnvironmentFile"), Vec::<&str>::new(), "the server needs no login: {unit}");
    test_env.backend().server().kill();
    assert_eq!(execute(&test_env, &unit, pre_start[0]), 5);
    test_env.backend().server().restart();
    assert_eq!((execute(&test_env, &unit, pre_start[0]), execute(&test_env, &unit, start[0])), (0, 0));
}

#[test]
fn a_unit_holds_no_secret_and_names_the_file_for_it() {
    let test_env = test_env_on(Server::start_for("ann", PASSWORD));
    let unit = unit(&test_env);
    assert!(!unit.contains(PASSWORD), "{unit}");
    let file = values(&unit, "EnvironmentFile")[0];
    assert!(Path::new(file).starts_with(test_env.home()), "{unit}");
    for line in [format!("# install -D -m 600 /dev/null {file} "), "#   NATS_USER=ann\n".to_owned()] {
        assert!(unit.contains(&line), "{line}: {unit}");
    }
    assert!(unit.contains("#   NATS_PASSWORD=…\n"), "{unit}");
    test_env.write(file, &format!("NATS_USER=ann\nNATS_PASSWORD={PASSWORD}\n"));
    for line in [values(&unit, "ExecStartPre")[0], values(&unit, "ExecStart")[0]] {
        assert_eq!(execute(&test_env, &unit, line), 0, "{line}");
    }
}

#[test]
fn a_unit_does_not_repeat_the_configuration() {
    let test_env = test_env_on(Server::start_for("ann", PASSWORD));
    let address = test_env.backend().server().address();
    let store = format!("[store]\naddress = 'nats://ann:{PASSWORD}@{address}'\nreplicas = 1\n");
    test_env.write("../home/.config/callboard/config.toml", &store);
    let session = test_env.callboard(&["doctor", "--unit"]).env("CALLBOARD_STORE", "").run();
    let unit = session.stdout;
    assert!(
        !unit.contains("EnvironmentFile") && !unit.contains("--store") && !unit.contains(PASSWORD),
        "{unit}"
    );
    assert_eq!(execute(&test_env, &unit, values(&unit, "ExecStartPre")[0]), 0, "{unit}");
}

#[test]
fn a_unit_carries_the_host_name_and_files_that_are_not_secret() {
    let test_env = test_env();
    let session = test_env
        .callboard(&["doctor", "--unit"])
        .env("CALLBOARD_HOST", "build-2")
        .env("NATS_CREDS", "me.creds");
    let unit = session.run().stdout;
    let variables = values(&unit, "Environment");
    let creds = format!("\"NATS_CREDS={}\"", test_env.repo().join("me.creds").display());
    assert!(
        variables.contains(&"\"CALLBOARD_HOST=build-2\"") && variables.contains(&creds.as_str()),
        "{unit}"
    );
}

/// The command in the first line prints the same unit again.
#[test]
fn the_units_comment_repeats_the_store_from_the_command_line() {
    let test_env = test_env();
    let address = test_env.backend().address().unwrap();
    let session = test_env.callboard(&["doctor", "--unit", "--store", &address]).run();
    let first = format!("# callboard doctor --unit --store {address} > ");
    assert!(session.stdout.starts_with(&first), "{}", session.stdout);
}
