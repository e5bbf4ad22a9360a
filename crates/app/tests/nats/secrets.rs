//! A server that wants a password, which is nowhere to be seen.

use std::fs;
use std::path::Path;

use testkit::nats::Server;
use testkit::{ProcessHandle, Scene, status};

use crate::{configure, scene_on};

const PASSWORD: &str = "open-sesame-4711";

fn scene() -> Scene {
    scene_on(Server::start_for("ann", PASSWORD))
}

/// Every file below a directory that holds the password.
fn told_in(directory: &Path) -> Vec<String> {
    let mut told = Vec::new();
    for entry in fs::read_dir(directory).into_iter().flatten().flatten() {
        let path = entry.path();
        if entry.file_type().unwrap().is_dir() {
            told.extend(told_in(&path));
        } else if entry.file_type().unwrap().is_file() {
            let bytes = fs::read(&path).unwrap();
            if bytes.windows(PASSWORD.len()).any(|bytes| bytes == PASSWORD.as_bytes()) {
                told.push(path.display().to_string());
            }
        }
    }
    told
}

/// Whoever plans looks at the document and writes into it; whoever executes hands in its report by a command.
const AGENTS: [&str; 2] = [
    "plan * do \"$kit/callboard\" state get --path /sequence >\"$kit/sequence\" 2>\"$kit/refused\"; \
     \"$kit/callboard\" state patch --expect \"$(cat \"$kit/sequence\")\" --set '/phases/plan/output={\"half\": \"from inside\"}' 2>>\"$kit/refused\"; \
     hand_in COMPLETED \"did $STEP_ID\"",
    "execute * do note end \"$CALLBOARD_ATTEMPT\"; echo '{\"summary\": \"executed\"}' >\"$kit/output\"; \
     \"$kit/callboard\" report --status COMPLETED --log submitted --output \"$kit/output\"",
];

const CYCLE: &str = "peer:spec:x:cycle:1";

/// Everything that a cycle and the commands about it say.
fn played_and_looked_at(scene: &Scene) -> String {
    scene.plan(&AGENTS);
    let session = scene.with_agent(&["peer", "create-spec", "--spec", "x"]).run();
    assert_eq!(session.code, 0, "{}", session.transcript());
    let mut said = session.stderr + &session.stdout;
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
        let session = scene.callboard(command).run();
        said.push_str(&session.stdout);
        said.push_str(&session.stderr);
    }
    let logged = scene.callboard(&["ls"]).env("CALLBOARD_LOG", "trace").run();
    assert!(logged.stderr.contains("async_nats"), "the client's own log: {}", logged.stderr);
    said.push_str(&logged.stderr);
    scene.backend().server().kill();
    for command in [&["ls"][..], &["resume", CYCLE], &["doctor"]] {
        let session = scene.callboard(command).env("CALLBOARD_LOG", "trace").run();
        assert_ne!(session.code, 0, "{}", session.transcript());
        said.push_str(&session.stderr);
    }
    assert!(said.contains(&scene.backend().server().address()), "the server is named: {said}");
    said
}

#[test]
fn a_password_in_the_address_is_told_to_nobody() {
    let scene = scene();
    let said = played_and_looked_at(&scene);
    assert!(!said.contains(PASSWORD), "{said}");
    assert_eq!(told_in(scene.repo()), Vec::<String>::new());
    // Agents are not told either. They are told what to do about it.
    let refused = fs::read_to_string(scene.kit().join("refused")).unwrap();
    assert!(
        refused.contains(&scene.backend().server().address()) && !refused.contains(PASSWORD),
        "{refused}"
    );
}

#[test]
fn agents_reach_a_store_whose_password_is_in_the_users_configuration() {
    let scene = scene();
    configure(&scene, &format!("user = \"ann\"\npassword = \"{PASSWORD}\""));
    let said = played_and_looked_at(&scene);
    assert!(said.contains("from inside"), "{}", fs::read_to_string(scene.kit().join("refused")).unwrap());
    assert!(!said.contains(PASSWORD), "{said}");
    assert_eq!(told_in(scene.repo()), Vec::<String>::new());
}

/// The address is in a file of the user's; nothing of it is in any variable that we did not make.
#[test]
fn an_engine_in_the_background_is_let_in_and_no_variable_of_its_own_or_of_its_agents_says_how() {
    let scene = scene();
    let address = scene.backend().address().unwrap();
    configure(&scene, &format!("address = \"{address}\""));
    scene.workflow(&["a", "b: a"]);
    scene.plan(&["a * do env >\"$kit/environment\"; read -r _ <\"$kit/gate\"; hand_in COMPLETED did"]);
    let mut gate = scene.gate("gate");
    let session = scene.run(&["--detach"]).env("CALLBOARD_STORE", "").run();
    assert_eq!(session.code, 0, "{}", session.transcript());
    scene.agent_log().wait_for_start("a#1.1");
    let engine = ProcessHandle::of(scene.engine("trial").unwrap()).expect("it waits for its agent");
    let tells = |bytes: &[u8]| bytes.windows(PASSWORD.len()).any(|bytes| bytes == PASSWORD.as_bytes());
    for file in ["environ", "cmdline"] {
        let seen = fs::read(format!("/proc/{}/{file}", engine.pid())).unwrap();
        assert!(!seen.is_empty() && !tells(&seen), "{}", String::from_utf8_lossy(&seen));
    }
    gate.open();
    engine.wait();
    let told = fs::read_to_string(scene.kit().join("environment")).unwrap();
    assert!(told.contains("CALLBOARD_STORE=") && !told.contains(PASSWORD), "{told}");
    assert_eq!(told_in(scene.repo()), Vec::<String>::new());
    assert_eq!(scene.agent_log().started(), ["a#1.1", "b#1.1"]);
    assert_eq!(status(&scene.document("trial"), "b"), "COMPLETED");
}

#[test]
fn what_a_person_has_exported_is_passed_on_where_everything_is() {
    let scene = scene();
    let address = format!("nats://{}", scene.backend().server().address());
    scene.workflow(&["a"]);
    scene.plan(&["a * tell"]);
    let run = scene.run(&["--detach"]).env("CALLBOARD_STORE", address);
    let session = run.env("NATS_USER", "ann").env("NATS_PASSWORD", PASSWORD).run();
    assert_eq!(session.code, 0, "{}", session.transcript());
    scene.wait_for_engine("trial");
    let told = fs::read_to_string(scene.kit().join("environment")).unwrap();
    assert!(told.contains(&format!("NATS_PASSWORD={PASSWORD}")), "{told}");
}

#[test]
fn a_wrong_password_is_refused_without_being_repeated() {
    let scene = scene();
    let address = scene.backend().server().address();
    let wrong = format!("nats://ann:another-word@{address}");
    let session = scene.callboard(&["ls", "--store", &wrong]).run();
    assert_eq!(session.code, 5, "{}", session.transcript());
    assert!(
        session.stderr.contains(&address) && !session.stderr.contains("another-word"),
        "{}",
        session.stderr
    );
}

/// With a file that cannot be read nobody knows what else was set; what was typed is known.
#[test]
fn a_password_that_was_typed_is_not_repeated_where_the_configuration_cannot_be_used() {
    let scene = scene();
    let address = scene.backend().address().unwrap();
    let nowhere = format!("nats://ann:{PASSWORD}@");
    for (wrong, address) in [("nonsense = 1\n", &address), ("]", &address), ("", &nowhere)] {
        scene.write("callboard.toml", wrong);
        for command in [&["doctor"][..], &["doctor", "--json"], &["doctor", "--unit"], &["ls"], &["config"]] {
            let session = scene.callboard(&[command, &["--store", address]].concat()).run();
            assert_ne!(session.code, 0, "{}", session.transcript());
            let said = session.stdout + &session.stderr;
            assert!(!said.contains(PASSWORD), "{command:?} with {wrong:?}: {said}");
        }
    }
}
