//! What people are told when a server cannot be used as it was named, and what they are told to type.

use testkit::nats::Server;

use crate::{scene, scene_on};

#[test]
fn tls_at_a_server_that_does_not_speak_it_is_called_that() {
    let scene = scene();
    let address = format!("tls://{}", scene.backend().server().address());
    let session = scene.callboard(&["ls", "--store", &address]).run();
    assert_eq!(session.code, 5, "{}", session.transcript());
    let told = format!(
        "error[E023]: could not connect to the NATS server `{address}`\n  caused by: it does not speak TLS\n"
    );
    assert!(session.stderr.starts_with(&told), "{}", session.stderr);
    let hint = "hint: write `nats://` instead of `tls://`, or give the server a certificate\n";
    assert!(session.stderr.ends_with(hint), "{}", session.stderr);
}

#[test]
fn a_refused_login_is_told_once_with_what_was_said() {
    let scene = scene_on(Server::start_for("ann", "open-sesame"));
    let address = scene.backend().server().address();
    for (access, told) in [
        ("", "it wants to know who we are, and nothing says so"),
        ("ann:wrong-word@", "it does not know user `ann` with this password"),
        ("wrong-word@", "it does not know this token"),
    ] {
        let session = scene.callboard(&["ls", "--store", &format!("nats://{access}{address}")]).run();
        assert_eq!(session.code, 5, "{}", session.transcript());
        let causes: Vec<_> = session.stderr.lines().filter(|line| line.contains("caused by:")).collect();
        assert_eq!(causes, [format!("  caused by: it does not let us in: {told}")], "{}", session.stderr);
        assert!(session.stderr.contains("hint: NATS_USER and NATS_PASSWORD"), "{}", session.stderr);
        assert!(!session.stderr.contains("wrong-word"), "{}", session.stderr);
    }
}

#[test]
fn an_address_that_is_none_is_refused_with_how_to_write_one() {
    let scene = scene();
    for address in ["http://h:4222", "nats://", "nats://h:port"] {
        let session = scene.callboard(&["ls", "--store", address]).run();
        assert_eq!(session.code, 2, "{}", session.transcript());
        let hint =
            "    hint: write nats://127.0.0.1:4222, or tls://host:4222; several are separated by commas\n";
        assert!(session.stderr.contains(hint), "{}", session.stderr);
    }
}

#[test]
fn a_password_without_a_user_is_not_passed_over() {
    let scene = scene();
    let session = scene.callboard(&["ls"]).env("NATS_PASSWORD", "open-sesame").run();
    assert_eq!(session.code, 2, "{}", session.transcript());
    let told = "environment variable `NATS_PASSWORD`: it has a password, and no user is named";
    assert!(session.stderr.contains(told), "{}", session.stderr);
    assert!(!session.stderr.contains("open-sesame"), "{}", session.stderr);
    // With a user it is one, and who has no store on NATS need not care.
    let session = scene.callboard(&["ls"]).env("NATS_PASSWORD", "open-sesame").env("NATS_USER", "ann").run();
    assert_eq!(session.code, 0, "{}", session.transcript());
    let embedded = scene.kit().join("embedded");
    let embedded = ["ls", "--store", embedded.to_str().unwrap()];
    let session = scene.callboard(&embedded).env("NATS_PASSWORD", "open-sesame").run();
    assert_eq!(session.code, 0, "{}", session.transcript());
}

#[test]
fn a_certificate_without_its_key_is_not_passed_over() {
    let scene = scene();
    for alone in ["NATS_CERT", "NATS_KEY"] {
        let session = scene.callboard(&["ls"]).env(alone, "mine.pem").run();
        assert_eq!(session.code, 2, "{}", session.transcript());
        let told = format!("environment variable `{alone}`: a certificate and its key belong together");
        assert!(session.stderr.contains(&told), "{}", session.stderr);
    }
}

#[test]
fn what_is_to_be_typed_next_names_the_store_that_was_typed() {
    let scene = scene_on(Server::start_for("ann", "open-sesame"));
    scene.write("wf.yaml", "name: notes\nsteps:\n  - { id: collect, agent: scribe, prompt: task.md }\n");
    let address = scene.backend().server().address();
    let typed = format!("nats://ann:open-sesame@{address}");
    let store = format!("--store nats://{address}");
    let detached = ["run", "wf.yaml", "--run-id", "notes", "--rehearse", "--detach", "--store", &typed];
    let session = scene.callboard(&detached).run();
    assert_eq!(session.code, 0, "{}", session.transcript());
    let told =
        format!("`callboard watch notes {store}` follows it, `callboard stop notes {store}` stops it\n");
    assert!(session.stderr.ends_with(&told), "{}", session.stderr);
    // As it stands, by somebody who has no other word of the store than who they are.
    let watch = scene.callboard(&["watch", "notes", "--store", &format!("nats://{address}")]);
    let watch =
        watch.env("CALLBOARD_STORE", "").env("NATS_USER", "ann").env("NATS_PASSWORD", "open-sesame").run();
    assert_eq!(watch.code, 0, "{}", watch.transcript());
    let session = scene.callboard(&["show", "nobody", "--store", &typed]).run();
    let hint = format!("hint: `callboard ls {store}` lists the runs of this repository\n");
    assert!(session.stderr.ends_with(&hint), "{}", session.stderr);
    let failing = ["run", "wf.yaml", "--run-id", "bad", "--wrapper", "/bin/false", "--max-attempts", "1"];
    let session = scene.callboard(&[&failing[..], &["--store", &typed]].concat()).run();
    assert_eq!(session.code, 1, "{}", session.transcript());
    let shown = scene.callboard(&["show", "bad", "--store", &typed]).run();
    for told in [&session.stderr, &shown.stdout] {
        assert!(told.contains(&format!("`callboard retry bad {store}`")), "{told}");
    }
    // Whoever has it in a variable need not say it again.
    let session = scene.callboard(&["show", "nobody"]).run();
    assert!(session.stderr.ends_with("hint: `callboard ls` lists the runs of this repository\n"));
}

/// As a directory it would be made there, and the runs in it would be nowhere else.
#[test]
fn an_address_without_its_beginning_is_not_taken_for_a_directory() {
    let scene = scene();
    let bare = scene.backend().server().address();
    for address in [bare.as_str(), "nats:127.0.0.1", "ann:open-sesame@host:4222"] {
        let session = scene.callboard(&["ls", "--store", address]).run();
        assert_eq!(session.code, 2, "{}", session.transcript());
        let told = "it looks like the address of a server, and does not begin with nats:// or tls://";
        assert!(session.stderr.contains(told), "{}", session.stderr);
        assert!(!session.stderr.contains("open-sesame"), "{}", session.stderr);
    }
    let session = scene.callboard(&["ls", "--store", "./host:4222"]).run();
    assert_eq!(session.code, 0, "a directory can be called so: {}", session.transcript());
}

#[test]
fn a_name_that_nobody_knows_and_a_server_that_is_silent_are_told_apart_from_one_that_is_not_running() {
    let scene = scene();
    let failed = |address: &str| {
        let session = scene.callboard(&["ls", "--store", address]).run();
        assert_eq!(session.code, 5, "{}", session.transcript());
        session.stderr
    };
    // So long that nobody is asked about it.
    let name = "a".repeat(64);
    let told = failed(&format!("nats://{name}:4222"));
    assert!(told.contains("caused by: nobody knows its name\n"), "{told}");
    assert!(told.contains("hint: is it spelt as its machine is called?"), "{told}");
    let address = scene.backend().address().unwrap();
    scene.backend().server().hold();
    let told = failed(&address);
    assert!(told.contains("hint: it is stopped, overloaded or behind a wall"), "{told}");
    scene.backend().server().release();
    scene.backend().server().kill();
    let told = failed(&address);
    assert!(told.contains("hint: `nats-server -js -sd DIR` starts one"), "{told}");
}
