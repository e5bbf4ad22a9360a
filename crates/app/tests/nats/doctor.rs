//! What `doctor` finds about servers and streams.

use std::time::Duration;

use serde_json::Value;
use store::{NatsSettings, NatsStore};
use testkit::nats::Server;
use testkit::{CallOutput, harness};

use crate::nats::outages::start_run_up_to_second_step;
use crate::nats::{client, start_cluster_of_three, test_env, test_env_on};

/// Returns the finding of the check `store` whose message starts with `prefix`, or null.
#[track_caller]
fn store_finding(session: &CallOutput, prefix: &str) -> Value {
    let findings = session.json()["findings"].clone();
    let matches = |finding: &&Value| {
        finding["check"] == "store" && finding["message"].as_str().unwrap().starts_with(prefix)
    };
    findings.as_array().unwrap().iter().find(matches).cloned().unwrap_or_default()
}

#[test]
fn doctor_notes_a_lease_length_that_differs_from_the_configured_one() {
    let server = Server::start();
    let store = NatsStore::new(NatsSettings { lease: Duration::from_secs(45), ..server.settings() });
    harness::block_on(store.open()).unwrap();
    let test_env = test_env_on(server);
    let doctor = || store_finding(&test_env.callboard(&["doctor", "--json"]).run(), "leases last");
    let finding = doctor();
    let message = "leases last 45 s, as set in stream `callboard-leases`, not 20 s as configured";
    assert_eq!((finding["message"].as_str(), finding["level"].as_str()), (Some(message), Some("note")));
    assert!(finding["details"][0].as_str().unwrap().starts_with("45s applies on every host"), "{finding:#}");
    assert_eq!(finding["commands"], serde_json::json!(["nats stream edit callboard-leases --max-age 20s"]));
    // Each of the two suggested changes removes the finding: of the configuration, and of the stream.
    test_env.write("../home/.config/callboard/config.toml", "[store]\nreplicas = 1\nlease = '45s'\n");
    assert_eq!(doctor(), Value::Null);
    test_env.write("../home/.config/callboard/config.toml", "[store]\nreplicas = 1\n");
    let client = client(&test_env);
    harness::block_on(async {
        let leases = client.get_stream("callboard-leases").await.unwrap();
        let mut config = leases.cached_info().config.clone();
        config.max_age = Duration::from_secs(20);
        client.update_stream(config).await.unwrap();
    });
    assert_eq!(doctor(), Value::Null);
}

#[test]
fn doctor_suggests_no_replicas_to_a_single_server() {
    let test_env = test_env();
    test_env.write("../home/.config/callboard/config.toml", "");
    let session = test_env.callboard(&["doctor", "--json"]).run();
    let finding = store_finding(&session, "3 streams have 1 of 3 replicas");
    assert_eq!(finding["level"], "note", "{}", session.stdout);
    assert_eq!(finding.get("commands"), None, "nothing can be typed: {finding:#}");
    let details = finding["details"].to_string();
    for expected in ["this server is not in a cluster", "`replicas = 1` in `[store]`"] {
        assert!(details.contains(expected), "{finding:#}");
    }
}

/// Three servers, but five replicas in the configuration. The bucket is created after the streams, which have three.
#[test]
fn a_bucket_with_fewer_replicas_than_configured_is_reported_at_creation_and_by_doctor() {
    let ([first, _second, _third], _) = start_cluster_of_three();
    let test_env = test_env_on(first);
    test_env.write("../home/.config/callboard/config.toml", "[store]\nreplicas = 5\n");
    let warning =
        "stream `KV_agent-os-peer-state` has 1 of 5 replicas: it does not survive the loss of a server";
    for (spec, is_reported) in [("x", true), ("y", false)] {
        let session = test_env.callboard(&["peer", "create-spec", "--spec", spec, "--rehearse"]).run();
        assert_eq!(session.code, 0, "{}", session.transcript());
        assert_eq!(session.stderr.contains(warning), is_reported, "{}", session.stderr);
    }
    let session = test_env.callboard(&["doctor", "--json"]).run();
    let bucket = store_finding(&session, "1 stream has 1 of 5 replicas: what it holds does not survive");
    assert_eq!(bucket["details"], serde_json::json!(["`KV_agent-os-peer-state`"]), "{}", session.stdout);
    let others =
        store_finding(&session, "3 streams have 3 of 5 replicas: what they hold survives the loss of one");
    assert_eq!(others["commands"].as_array().map(Vec::len), Some(3), "{}", session.stdout);
}

/// Only the server knows which engine holds a run and which attempts have ended.
#[test]
fn without_its_server_doctor_lists_no_engines_and_no_orphans() {
    let test_env = test_env();
    let mut barrier = test_env.barrier("barrier");
    let (engine, _agent) = start_run_up_to_second_step(&test_env);
    test_env.backend().server().kill();
    let session = test_env.callboard(&["doctor", "--json"]).run();
    assert_eq!(session.code, 1, "{}", session.transcript());
    let findings = session.json()["findings"].clone();
    let messages_of = |check: &str| {
        let findings = findings.as_array().unwrap().iter().filter(|finding| finding["check"] == check);
        let messages = findings.map(|finding| format!("{}: {}", finding["level"], finding["message"]));
        // Tests that run at the same time may have processes of other stores.
        messages.filter(|message| !message.contains("another store")).collect::<Vec<_>>()
    };
    assert_eq!(
        messages_of("locks"),
        [r#""note": "cannot list running engines: the store cannot be read""#],
        "{}",
        session.stdout
    );
    assert!(
        messages_of("orphans").iter().all(|message| message.contains("of attempts of this store")),
        "{}",
        session.stdout
    );
    assert_eq!(messages_of("orphans").len(), 1, "{}", session.stdout);
    assert!(!session.stdout.contains("kill "), "{}", session.stdout);
    test_env.backend().server().restart();
    barrier.open();
    assert_eq!(engine.wait().code, 0);
}

/// `doctor` is often the first command. If it created the new store silently, no later command would report that.
#[test]
fn doctor_reports_an_empty_store_where_another_one_was() {
    let test_env = test_env();
    test_env.workflow(&["a"]);
    assert_eq!(test_env.run(&[]).run().code, 0);
    test_env.backend().server().kill();
    let old_directory = test_env.backend().server().restart_empty();
    let address = test_env.backend().address().unwrap();
    let doctor = || test_env.callboard(&["doctor", "--json"]).run();
    // Only the first `doctor` creates the new store, and says so.
    for is_new in [true, false] {
        let session = doctor();
        assert_eq!(session.code, 1, "{}", session.transcript());
        let created = store_finding(&session, "the servers had no store; a new one was created now");
        assert_eq!(created["level"] == "note", is_new, "{}", session.stdout);
        let finding = store_finding(
            &session,
            &format!("{address} has no runs, and this machine used another store there before"),
        );
        assert_eq!(finding["level"], "problem", "{}", session.stdout);
        let expected = format!("attempts of that store are in {}", test_env.store_dir().display());
        assert_eq!(finding["details"][1], expected, "{finding:#}");
    }
    test_env.backend().server().kill();
    let _empty = test_env.backend().server().restart_in(old_directory);
    let session = doctor();
    assert_eq!(session.code, 0, "{}", session.transcript());
    assert!(!session.stdout.contains("used another store"), "{}", session.stdout);
}
