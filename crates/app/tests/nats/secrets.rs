//! The password of a server is in no output and in no file of the repository.

use std::fs;
use std::path::Path;

use testkit::nats::Server;
use testkit::{ProcessHandle, TestEnv, status};

use crate::nats::{configure, test_env_on};

const PASSWORD: &str = "open-sesame-4711";

fn test_env() -> TestEnv {
    test_env_on(Server::start_for("ann", PASSWORD))
}

/// Lists the files below a directory that contain the password.
fn files_with_password(directory: &Path) -> Vec<String> {
    let mut found = Vec::new();
    for entry in fs::read_dir(directory).into_iter().flatten().flatten() {
        let path = entry.path();
        if entry.file_type().unwrap().is_dir() {
            found.extend(files_with_password(&path));
        } else if entry.file_type().unwrap().is_file() {
            let bytes = fs::read(&path).unwrap();
            if bytes.windows(PASSWORD.len()).any(|bytes| bytes == PASSWORD.as_bytes()) {
                found.push(path.display().to_string());
            }
        }
    }
    found
}

/// The agent of `plan` reads and patches the document; the agent of `execute` reports with `callboard report`.
const AGENTS: [&str; 2] = [
    "plan * do \"$shared/callboard\" state get --path /sequence >\"$shared/sequence\" 2>\"$shared/agent_stderr\"; \
     \"$shared/callboard\" state patch --expect \"$(cat \"$shared/sequence\")\" --set '/phases/plan/output={\"half\": \"from inside\"}' 2>>\"$shared/agent_stderr\"; \
     write_report COMPLETED \"did $STEP_ID\"",
    "execute * do log_event end \"$CALLBOARD_ATTEMPT\"; echo '{\"summary\": \"executed\"}' >\"$shared/output\"; \
     \"$shared/callboard\" report --status COMPLETED --log submitted --output \"$shared/output\"",
];

const CYCLE: &str = "peer:spec:x:cycle:1";

/// Runs a peer cycle and every command about it, and returns all output.
fn output_of_a_peer_cycle_and_its_commands(test_env: &TestEnv) -> String {
    test_env.script_agent(&AGENTS);
    let session = test_env.with_agent(&["peer", "create-spec", "--spec", "x"]).run();
    assert_eq!(session.code, 0, "{}", session.transcript());
    let mut output = session.stderr + &session.stdout;
    for command in [
        &["config"][..],
        &["config", "--json"],
        &["doctor"],
        &["doctor", "--json"],
        &["ls", "--json"],
        &["show", CYCLE, "--json"],
        &["log", CYCLE, "--json"],
        &["state", "get", CYCLE],
        &["prompt", CYCLE, "plan"],
        &["show", "nobody"],
        &["resume", CYCLE],
    ] {
        let session = test_env.callboard(command).run();
        output.push_str(&session.stdout);
        output.push_str(&session.stderr);
    }
    let logged = test_env.callboard(&["ls"]).env("CALLBOARD_LOG", "trace").run();
    assert!(logged.stderr.contains("async_nats"), "the client's own log: {}", logged.stderr);
    output.push_str(&logged.stderr);
    test_env.backend().server().kill();
    for command in [&["ls"][..], &["resume", CYCLE], &["doctor"]] {
        let session = test_env.callboard(command).env("CALLBOARD_LOG", "trace").run();
        assert_ne!(session.code, 0, "{}", session.transcript());
        output.push_str(&session.stderr);
    }
    assert!(output.contains(&test_env.backend().server().address()), "the server is named: {output}");
    output
}

#[test]
fn a_password_in_the_address_is_never_printed() {
    let test_env = test_env();
    let output = output_of_a_peer_cycle_and_its_commands(&test_env);
    assert!(!output.contains(PASSWORD), "{output}");
    assert_eq!(files_with_password(test_env.repo()), Vec::<String>::new());
    // Agents do not get the password either; their commands fail and name the server without it.
    let agent_stderr = fs::read_to_string(test_env.agent_dir().join("agent_stderr")).unwrap();
    assert!(
        agent_stderr.contains(&test_env.backend().server().address()) && !agent_stderr.contains(PASSWORD),
        "{agent_stderr}"
    );
}

#[test]
fn agents_reach_a_store_whose_password_is_in_the_users_configuration() {
    let test_env = test_env();
    configure(&test_env, &format!("user = \"ann\"\npassword = \"{PASSWORD}\""));
    let output = output_of_a_peer_cycle_and_its_commands(&test_env);
    assert!(
        output.contains("from inside"),
        "{}",
        fs::read_to_string(test_env.agent_dir().join("agent_stderr")).unwrap()
    );
    assert!(!output.contains(PASSWORD), "{output}");
    assert_eq!(files_with_password(test_env.repo()), Vec::<String>::new());
}

/// The user's configuration has the address with its password; `CALLBOARD_STORE` has it without.
#[test]
fn a_detached_engine_logs_in_without_a_secret_in_any_variable() {
    let test_env = test_env();
    let address = test_env.backend().address().unwrap();
    configure(&test_env, &format!("address = \"{address}\""));
    test_env.workflow(&["a", "b: a"]);
    test_env.script_agent(&[
        "a * do env >\"$shared/environment\"; read -r _ <\"$shared/barrier\"; write_report COMPLETED did",
    ]);
    let mut barrier = test_env.barrier("barrier");
    let session = test_env.run(&["--detach"]).env("CALLBOARD_STORE", "").run();
    assert_eq!(session.code, 0, "{}", session.transcript());
    test_env.agent_log().wait_for_start("a#1.1");
    let engine = ProcessHandle::of(test_env.engine("trial").unwrap()).expect("it waits for its agent");
    let contains_password =
        |bytes: &[u8]| bytes.windows(PASSWORD.len()).any(|bytes| bytes == PASSWORD.as_bytes());
    for file in ["environ", "cmdline"] {
        let seen = fs::read(format!("/proc/{}/{file}", engine.pid())).unwrap();
        assert!(!seen.is_empty() && !contains_password(&seen), "{}", String::from_utf8_lossy(&seen));
    }
    barrier.open();
    engine.wait();
    let environment = fs::read_to_string(test_env.agent_dir().join("environment")).unwrap();
    assert!(environment.contains("CALLBOARD_STORE=") && !environment.contains(PASSWORD), "{environment}");
    assert_eq!(files_with_password(test_env.repo()), Vec::<String>::new());
    assert_eq!(test_env.agent_log().started(), ["a#1.1", "b#1.1"]);
    assert_eq!(status(&test_env.document("trial"), "b"), "COMPLETED");
}

/// Agents of `--wrapper` get the whole environment, those of `callboard.toml` an allow-list. `save-input` writes it to a file.
#[test]
fn exported_credentials_reach_agents_that_see_the_whole_environment() {
    let test_env = test_env();
    let address = format!("nats://{}", test_env.backend().server().address());
    test_env.workflow(&["a"]);
    test_env.script_agent(&["a * save-input"]);
    let run = test_env.run(&["--detach"]).env("CALLBOARD_STORE", address);
    let session = run.env("NATS_USER", "ann").env("NATS_PASSWORD", PASSWORD).run();
    assert_eq!(session.code, 0, "{}", session.transcript());
    test_env.wait_for_engine_exit("trial");
    let environment = fs::read_to_string(test_env.agent_dir().join("environment")).unwrap();
    assert!(environment.contains(&format!("NATS_PASSWORD={PASSWORD}")), "{environment}");
}

#[test]
fn a_wrong_password_is_refused_and_not_printed() {
    let test_env = test_env();
    let address = test_env.backend().server().address();
    let wrong = format!("nats://ann:another-word@{address}");
    let session = test_env.callboard(&["ls", "--store", &wrong]).run();
    assert_eq!(session.code, 5, "{}", session.transcript());
    assert!(
        session.stderr.contains(&address) && !session.stderr.contains("another-word"),
        "{}",
        session.stderr
    );
}

/// The commands know the address from the command line even if the configuration or the address cannot be parsed, and could
/// print it.
#[test]
fn a_password_on_the_command_line_is_not_printed_when_the_configuration_is_broken() {
    let test_env = test_env();
    let address = test_env.backend().address().unwrap();
    let without_host = format!("nats://ann:{PASSWORD}@");
    for (configuration, address) in [("nonsense = 1\n", &address), ("]", &address), ("", &without_host)] {
        test_env.write("callboard.toml", configuration);
        for command in [&["doctor"][..], &["doctor", "--json"], &["doctor", "--unit"], &["ls"], &["config"]] {
            let session = test_env.callboard(&[command, &["--store", address]].concat()).run();
            assert_ne!(session.code, 0, "{}", session.transcript());
            let output = session.stdout + &session.stderr;
            assert!(!output.contains(PASSWORD), "{command:?} with {configuration:?}: {output}");
        }
    }
}
