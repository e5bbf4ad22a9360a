//! Deleted streams: each is named, none is recreated, and `recover` lists what they held as far as it is known.

use testkit::{TestEnv, harness};

use crate::nats::{client, delete_stream, has_stream, test_env};

const WORKFLOW: &str = "
name: notes
steps:
  - { id: collect, agent: scribe, prompt: task.md }
";

/// Runs the workflow `notes` to its end.
fn run_to_success(test_env: &TestEnv) {
    test_env.write("wf.yaml", WORKFLOW);
    let session = test_env.run_named("notes").run();
    assert_eq!(session.code, 0, "{}", session.transcript());
}

#[test]
fn a_deleted_journal_is_not_recreated_and_recover_lists_its_runs() {
    let test_env = test_env();
    run_to_success(&test_env);
    delete_stream(&test_env, "callboard-journal");
    for command in [&["ls"][..], &["show", "notes"], &["resume", "notes"]] {
        let session = test_env.callboard(command).run();
        assert_eq!(session.code, 5, "{}", session.transcript());
        let expected = "error[E024]: the stream `callboard-journal` at the NATS server";
        assert!(session.stderr.starts_with(expected), "{}", session.transcript());
    }
    // Traces of runs in the embedded store and in a store at another server. The store's local directory is `nats/ID` in the
    // embedded store.
    let embedded = test_env.store_dir().join("../..");
    std::fs::create_dir_all(embedded.join("attempts/embedded")).unwrap();
    test_env.write(".agents/runs/embedded/run_state.json", "{}");
    std::fs::create_dir_all(embedded.join("nats/1/attempts/elsewhere")).unwrap();
    std::fs::write(embedded.join("nats/1/server"), "nats://192.0.2.1:4222\n").unwrap();
    let session = test_env.callboard(&["recover"]).run();
    assert_eq!(session.code, 5, "{}", session.transcript());
    for other in ["`embedded`", "`elsewhere`"] {
        assert!(!session.stderr.contains(other), "{}", session.transcript());
    }
    let expected = "the journal of run `notes` is lost; what remains: 1 attempt on this machine, the view `run_state.json` in this repository";
    assert!(session.stderr.contains(expected), "{}", session.transcript());
    assert!(!has_stream(&test_env, "callboard-journal"));
    let doctor = test_env.callboard(&["doctor"]).run();
    assert_eq!(doctor.code, 1, "{}", doctor.transcript());
    assert!(doctor.stdout.contains("`callboard-journal`"), "{}", doctor.transcript());
}

#[test]
fn every_command_reports_deleted_blobs_and_recover_lists_them() {
    let test_env = test_env();
    run_to_success(&test_env);
    // The report is too large for one message, so its entry becomes a blob.
    test_env.script_agent(&["collect * do write_report COMPLETED \"$(printf %0300000d 7)\""]);
    assert_eq!(test_env.run_named("large").run().code, 0);
    let cycle = ["peer", "create-spec", "--spec", "login", "x", "--rehearse"];
    assert_eq!(test_env.callboard(&cycle).run().code, 0);
    delete_stream(&test_env, "OBJ_callboard-blobs");
    for command in [
        &["ls"][..],
        &["show", "notes"],
        &["log", "notes"],
        &["watch", "notes"],
        &["resume", "notes"],
        &["resume", "--all"],
        &["stop", "notes"],
        &["prompt", "notes", "collect"],
        &["export", "notes"],
        &["state", "get", "peer:spec:login:cycle:1"],
        &["run", "wf.yaml", "--run-id", "another", "--rehearse"],
    ] {
        let session = test_env.callboard(command).run();
        assert_eq!(session.code, 5, "{}", session.transcript());
        let expected = "error[E024]: the stream `OBJ_callboard-blobs` at the NATS server";
        assert!(session.stderr.starts_with(expected), "{}", session.transcript());
    }
    for recover in [&["recover", "--dry-run"][..], &["recover"]] {
        let session = test_env.callboard(recover).run();
        assert_eq!(session.code, 5, "{}", session.transcript());
        for expected in [
            "it contained the definition of each run (workflow, prompts, limits) and entries that were too large for a \
             message; everything else is intact",
            "run `notes` has lost its definition; its entries are intact",
            "run `large` has lost its definition and 1 entry of 3: 3",
            "run `peer.spec.login.cycle.1` has lost its definition; its entries are intact",
            "run `callboard import FILE --store DIR` to import an exported run into another store",
            "--write --store DIR` to import the documents of the bucket",
        ] {
            assert!(session.stderr.contains(expected), "{expected}: {}", session.transcript());
        }
        assert!(!session.stderr.contains("is lost"), "{}", session.transcript());
    }
    let doctor = test_env.callboard(&["doctor"]).run();
    assert_eq!(doctor.code, 1, "{}", doctor.transcript());
    assert!(doctor.stdout.contains("`OBJ_callboard-blobs`"), "{}", doctor.transcript());
    assert!(doctor.stdout.contains("$ callboard recover --dry-run"), "{}", doctor.transcript());
    assert!(!has_stream(&test_env, "OBJ_callboard-blobs"));
}

#[test]
fn an_engine_stops_and_names_the_deleted_blobs_it_needs() {
    let test_env = test_env();
    test_env.workflow(&["a"]);
    test_env.script_agent(&[
        "a * do read -r _ <\"$shared/barrier\"; write_report COMPLETED \"$(printf %0300000d 7)\"",
    ]);
    let mut barrier = test_env.barrier("barrier");
    let engine = test_env.run(&[]).start();
    test_env.agent_log().wait_for_start("a#1.1");
    delete_stream(&test_env, "OBJ_callboard-blobs");
    barrier.open();
    let session = engine.wait();
    assert_eq!(session.code, 5, "{}", session.transcript());
    let expected = "error[E024]: the stream `OBJ_callboard-blobs` at the NATS server";
    assert!(session.stderr.contains(expected), "{}", session.transcript());
    assert!(!has_stream(&test_env, "OBJ_callboard-blobs"));
}

#[test]
fn a_deleted_bucket_stops_its_peer_cycles_and_recover_writes_every_document() {
    let test_env = test_env();
    run_to_success(&test_env);
    let cycle = "peer:spec:login:cycle:1";
    let peer = test_env.callboard(&["peer", "create-spec", "--spec", "login", "x", "--rehearse"]).run();
    assert_eq!(peer.code, 0, "{}", peer.transcript());
    let phases = test_env.callboard(&["state", "get", cycle, "--path", "/phases"]).run().stdout;
    delete_stream(&test_env, "KV_agent-os-peer-state");
    let resumed = test_env.callboard(&["resume", cycle]).run();
    assert_eq!(resumed.code, 5, "{}", resumed.transcript());
    assert!(resumed.stderr.contains("`KV_agent-os-peer-state`"), "{}", resumed.transcript());
    assert_eq!(test_env.callboard(&["show", "notes"]).run().code, 0, "other runs go on");
    assert!(!has_stream(&test_env, "KV_agent-os-peer-state"));
    let doctor = test_env.callboard(&["doctor"]).run();
    assert!(doctor.stdout.contains("KV_agent-os-peer-state"), "{}", doctor.transcript());
    let dry = test_env.callboard(&["recover", "--dry-run"]).run();
    assert!(dry.stdout.contains("`KV_agent-os-peer-state` was deleted"), "{}", dry.transcript());
    assert!(!dry.stdout.contains("its runs would be recovered like this"), "{}", dry.transcript());
    assert!(!dry.stderr.contains("it makes a backup first"), "{}", dry.transcript());
    assert!(!has_stream(&test_env, "KV_agent-os-peer-state"));
    let recovered = test_env.callboard(&["recover"]).run();
    assert_eq!(recovered.code, 0, "{}", recovered.transcript());
    assert!(
        recovered.stderr.contains("1 document was written from the journal"),
        "{}",
        recovered.transcript()
    );
    let client = client(&test_env);
    let document = harness::block_on(async {
        let bucket = client.get_stream("KV_agent-os-peer-state").await.unwrap();
        let subject = "$KV.agent-os-peer-state.peer.spec.login.cycle.1";
        bucket.get_last_raw_message_by_subject(subject).await.unwrap().payload
    });
    let document: serde_json::Value = serde_json::from_slice(&document).unwrap();
    assert_eq!(document["phases"], serde_json::from_str::<serde_json::Value>(&phases).unwrap());
    assert_eq!(document["history"].as_array().unwrap().last().unwrap()["event"], "recovered");
    assert_eq!(test_env.callboard(&["recover"]).run().code, 0);
}

/// A `recover` that is killed after it has created the bucket leaves it without documents.
#[test]
fn recover_writes_documents_that_an_earlier_one_has_left_out() {
    const BUCKET: &str = "KV_agent-os-peer-state";
    let test_env = test_env();
    let peer = test_env.callboard(&["peer", "create-spec", "--spec", "login", "x", "--rehearse"]).run();
    assert_eq!(peer.code, 0, "{}", peer.transcript());
    let client = client(&test_env);
    let set_max_message_size = |size: i32| {
        harness::block_on(async {
            let mut config = client.get_stream(BUCKET).await.unwrap().cached_info().config.clone();
            config.max_message_size = size;
            client.update_stream(config).await.unwrap();
        });
    };
    harness::block_on(async { client.get_stream(BUCKET).await.unwrap().purge().await.unwrap() });
    // Too small for any document, so that it cannot be written.
    set_max_message_size(16);
    let failed = test_env.callboard(&["recover"]).run();
    assert_eq!(failed.code, 1, "{}", failed.transcript());
    let expected = "cannot rebuild the document of run `peer.spec.login.cycle.1`";
    assert!(failed.stdout.contains(expected), "{}", failed.transcript());
    set_max_message_size(-1);
    let recovered = test_env.callboard(&["recover"]).run();
    assert_eq!(recovered.code, 0, "{}", recovered.transcript());
    let expected = "the bucket `agent-os-peer-state` had no document of run `peer.spec.login.cycle.1`";
    assert!(recovered.stdout.contains(expected), "{}", recovered.transcript());
    assert!(
        recovered.stderr.contains("1 document was written from the journal"),
        "{}",
        recovered.transcript()
    );
    let intact = test_env.callboard(&["recover"]).run();
    assert_eq!(intact.code, 0, "{}", intact.transcript());
    assert!(intact.stdout.contains("is intact"), "{}", intact.transcript());
}

/// The engine notices the deletion through its watch of the bucket, or at its next write.
#[test]
fn a_bucket_deleted_under_an_engine_ends_it_and_is_not_recreated() {
    let test_env = test_env();
    let started_file = test_env.agent_dir().join("planning");
    let agent = format!(
        "#!/bin/sh\necho > '{}'\nread -r _ < '{}'\n",
        started_file.display(),
        barrier_path(&test_env)
    );
    let agent = test_env.write_program(test_env.agent_dir().join("agent.sh"), &agent);
    let mut barrier = test_env.barrier("barrier");
    let cycle = ["peer", "create-spec", "--spec", "login", "x", "--wrapper", agent.to_str().unwrap()];
    let engine = test_env.callboard(&cycle).start();
    test_env.wait_for_file("planning");
    delete_stream(&test_env, "KV_agent-os-peer-state");
    barrier.open();
    let session = engine.wait();
    assert_eq!(session.code, 5, "{}", session.transcript());
    let expected = "error[E024]: the stream `KV_agent-os-peer-state` at the NATS server";
    assert!(session.stderr.contains(expected), "{}", session.transcript());
    for command in [
        &["resume", "peer:spec:login:cycle:1"][..],
        &["peer", "create-spec", "--spec", "y", "y", "--rehearse"],
    ] {
        let session = test_env.callboard(command).run();
        assert_eq!(session.code, 5, "{}", session.transcript());
        assert!(session.stderr.contains(expected), "{}", session.transcript());
    }
    // To take the lease of the branch, the engine reads every unfinished run, but not its document.
    test_env.write("wf.yaml", WORKFLOW);
    test_env.git(&["add", "."]);
    test_env.git(&["commit", "--quiet", "--message=workflow"]);
    let other = ["run", "wf.yaml", "--rehearse", "--git-worktree", "--git-worktree-branch", "feature"];
    let other = test_env.callboard(&other).run();
    assert_eq!(other.code, 0, "{}", other.transcript());
    assert!(!has_stream(&test_env, "KV_agent-os-peer-state"));
}

fn barrier_path(test_env: &TestEnv) -> String {
    test_env.agent_dir().join("barrier").display().to_string()
}

/// A server that was started without its data directory has no streams, like a new one.
#[test]
fn a_new_store_in_the_place_of_another_is_reported() {
    let test_env = test_env();
    run_to_success(&test_env);
    for stream in ["callboard-journal", "OBJ_callboard-blobs", "callboard-leases"] {
        delete_stream(&test_env, stream);
    }
    let session = test_env.callboard(&["ls"]).run();
    assert_eq!(session.code, 0, "{}", session.transcript());
    let expected = format!(
        "note: this machine used another store there before (its attempts are in `{}`); check that the server was \
         started with its data directory",
        test_env.store_dir().display()
    );
    assert!(session.stderr.contains(&expected), "{}", session.transcript());
    let session = test_env.callboard(&["ls"]).run();
    assert!(
        !session.stderr.contains("used another store there before"),
        "it is said once: {}",
        session.stderr
    );
}
