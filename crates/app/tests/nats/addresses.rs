//! Errors about a server that cannot be used as named, and their hints.

use testkit::nats::Server;

use crate::nats::{test_env, test_env_on};

#[test]
fn a_server_without_tls_is_named_as_such() {
    let test_env = test_env();
    let address = format!("tls://{}", test_env.backend().server().address());
    let session = test_env.callboard(&["ls", "--store", &address]).run();
    assert_eq!(session.code, 5, "{}", session.transcript());
    let expected = format!(
        "error[E023]: could not connect to the NATS server `{address}`\n  caused by: the server does not speak TLS\n"
    );
    assert!(session.stderr.starts_with(&expected), "{}", session.stderr);
    let hint = "hint: write `nats://` instead of `tls://`, or give the server a certificate\n";
    assert!(session.stderr.ends_with(hint), "{}", session.stderr);
}

#[test]
fn a_refused_login_is_reported_once_with_the_servers_words() {
    let test_env = test_env_on(Server::start_for("ann", "open-sesame"));
    let address = test_env.backend().server().address();
    for (credentials, reason) in [
        ("", "the server requires credentials, and none are configured"),
        ("ann:wrong-word@", "the server rejected user `ann` with this password"),
        ("wrong-word@", "the server rejected this token"),
    ] {
        let session = test_env.callboard(&["ls", "--store", &format!("nats://{credentials}{address}")]).run();
        assert_eq!(session.code, 5, "{}", session.transcript());
        let causes: Vec<_> = session.stderr.lines().filter(|line| line.contains("caused by:")).collect();
        assert_eq!(causes, [format!("  caused by: authorization failed: {reason}")], "{}", session.stderr);
        assert!(session.stderr.contains("hint: set NATS_USER and NATS_PASSWORD"), "{}", session.stderr);
        assert!(!session.stderr.contains("wrong-word"), "{}", session.stderr);
    }
}

#[test]
fn an_invalid_address_is_refused_with_an_example() {
    let test_env = test_env();
    for address in ["http://h:4222", "nats://", "nats://h:port"] {
        let session = test_env.callboard(&["ls", "--store", address]).run();
        assert_eq!(session.code, 2, "{}", session.transcript());
        let hint = "    hint: write `nats://127.0.0.1:4222` or `tls://host:4222`; separate several servers by commas\n";
        assert!(session.stderr.contains(hint), "{}", session.stderr);
    }
}

#[test]
fn a_password_without_a_user_is_refused() {
    let test_env = test_env();
    let session = test_env.callboard(&["ls"]).env("NATS_PASSWORD", "open-sesame").run();
    assert_eq!(session.code, 2, "{}", session.transcript());
    let expected = "environment variable `NATS_PASSWORD`: there is a password but no user";
    assert!(session.stderr.contains(expected), "{}", session.stderr);
    assert!(!session.stderr.contains("open-sesame"), "{}", session.stderr);
    // With a user it is valid, and without a NATS store it does not matter.
    let session =
        test_env.callboard(&["ls"]).env("NATS_PASSWORD", "open-sesame").env("NATS_USER", "ann").run();
    assert_eq!(session.code, 0, "{}", session.transcript());
    let embedded = test_env.agent_dir().join("embedded");
    let embedded = ["ls", "--store", embedded.to_str().unwrap()];
    let session = test_env.callboard(&embedded).env("NATS_PASSWORD", "open-sesame").run();
    assert_eq!(session.code, 0, "{}", session.transcript());
}

#[test]
fn a_certificate_without_its_key_is_refused() {
    let test_env = test_env();
    for variable in ["NATS_CERT", "NATS_KEY"] {
        let session = test_env.callboard(&["ls"]).env(variable, "mine.pem").run();
        assert_eq!(session.code, 2, "{}", session.transcript());
        let expected = format!(
            "environment variable `{variable}`: a client certificate needs both a certificate and a key; one is missing"
        );
        assert!(session.stderr.contains(&expected), "{}", session.stderr);
    }
}

#[test]
fn hints_repeat_the_store_from_the_command_line() {
    let test_env = test_env_on(Server::start_for("ann", "open-sesame"));
    test_env.write("wf.yaml", "name: notes\nsteps:\n  - { id: collect, agent: scribe, prompt: task.md }\n");
    let address = test_env.backend().server().address();
    let store_with_password = format!("nats://ann:open-sesame@{address}");
    let store_flag = format!("--store nats://{address}");
    let detached =
        ["run", "wf.yaml", "--run-id", "notes", "--rehearse", "--detach", "--store", &store_with_password];
    let session = test_env.callboard(&detached).run();
    assert_eq!(session.code, 0, "{}", session.transcript());
    let expected = format!(
        "run `callboard watch notes {store_flag}` to follow it, `callboard stop notes {store_flag}` to stop it\n"
    );
    assert!(session.stderr.ends_with(&expected), "{}", session.stderr);
    // The hint works as printed, with user and password in the environment.
    let watch = test_env.callboard(&["watch", "notes", "--store", &format!("nats://{address}")]);
    let watch =
        watch.env("CALLBOARD_STORE", "").env("NATS_USER", "ann").env("NATS_PASSWORD", "open-sesame").run();
    assert_eq!(watch.code, 0, "{}", watch.transcript());
    let session = test_env.callboard(&["show", "missing", "--store", &store_with_password]).run();
    let hint = format!("hint: run `callboard ls {store_flag}` to list the runs of this repository\n");
    assert!(session.stderr.ends_with(&hint), "{}", session.stderr);
    let failing = ["run", "wf.yaml", "--run-id", "bad", "--wrapper", "/bin/false", "--max-attempts", "1"];
    let session = test_env.callboard(&[&failing[..], &["--store", &store_with_password]].concat()).run();
    assert_eq!(session.code, 1, "{}", session.transcript());
    let shown = test_env.callboard(&["show", "bad", "--store", &store_with_password]).run();
    for output in [&session.stderr, &shown.stdout] {
        assert!(output.contains(&format!("`callboard retry bad {store_flag}`")), "{output}");
    }
    // A store named by a variable is not repeated.
    let session = test_env.callboard(&["show", "missing"]).run();
    assert!(session.stderr.ends_with("hint: run `callboard ls` to list the runs of this repository\n"));
}

/// Otherwise a directory of that name would be created, and the runs would be in it instead of on the server.
#[test]
fn an_address_without_its_scheme_is_not_taken_for_a_directory() {
    let test_env = test_env();
    let without_scheme = test_env.backend().server().address();
    for address in [without_scheme.as_str(), "nats:127.0.0.1", "ann:open-sesame@host:4222"] {
        let session = test_env.callboard(&["ls", "--store", address]).run();
        assert_eq!(session.code, 2, "{}", session.transcript());
        let expected = "it looks like the address of a server without nats:// or tls://";
        assert!(session.stderr.contains(expected), "{}", session.stderr);
        assert!(!session.stderr.contains("open-sesame"), "{}", session.stderr);
    }
    let session = test_env.callboard(&["ls", "--store", "./host:4222"]).run();
    assert_eq!(session.code, 0, "a directory can be called so: {}", session.transcript());
}

#[test]
fn an_unknown_host_a_silent_server_and_a_closed_port_have_different_hints() {
    let test_env = test_env();
    let stderr_of_ls = |address: &str| {
        let session = test_env.callboard(&["ls", "--store", address]).run();
        assert_eq!(session.code, 5, "{}", session.transcript());
        session.stderr
    };
    // A label of a DNS name has at most 63 characters.
    let name = "a".repeat(64);
    let stderr = stderr_of_ls(&format!("nats://{name}:4222"));
    assert!(stderr.contains("caused by: its host name cannot be resolved\n"), "{stderr}");
    assert!(stderr.contains("hint: check the host name; run `callboard config"), "{stderr}");
    let address = test_env.backend().address().unwrap();
    test_env.backend().server().suspend();
    let stderr = stderr_of_ls(&address);
    assert!(stderr.contains("hint: check that the server runs and that no firewall blocks it"), "{stderr}");
    test_env.backend().server().resume();
    test_env.backend().server().kill();
    let stderr = stderr_of_ls(&address);
    assert!(
        stderr.contains("hint: start the server with its data directory (`nats-server -js -sd DIR`)"),
        "{stderr}"
    );
}
