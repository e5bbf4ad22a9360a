//! From an address to a store: what is refused, what is made, and what is never made again.

use std::error::Error;
use std::io::{BufRead as _, BufReader, Write as _};
use std::net::TcpListener;
use std::time::Duration;

use store::{
    CommitError, NatsConnectError, NatsSettings, NatsStore, NatsWarning, Position, ReadError, Store as _,
    Timeouts, Unavailable,
};
use testkit::nats::{Server, free_port};

use crate::contract::{change, run};

/// An error with all its causes, as a person sees it.
pub(crate) fn whole(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        text = format!("{text}: {error}");
        cause = error.source();
    }
    text
}

pub(crate) fn fault(error: &Unavailable) -> Option<&NatsConnectError> {
    error.source()?.downcast_ref()
}

/// Speaks as much of the protocol as a client needs to hear who is there.
fn pretend(information: &'static str) -> String {
    pretend_at("127.0.0.1:0", information)
}

fn pretend_at(address: &str, information: &'static str) -> String {
    let listener = TcpListener::bind(address).unwrap();
    let address = listener.local_addr().unwrap().to_string();
    std::thread::spawn(move || {
        for connection in listener.incoming().map_while(Result::ok) {
            let mut writer = connection.try_clone().unwrap();
            let lines = BufReader::new(connection).lines();
            let _gone = write!(writer, "INFO {information}\r\n");
            for line in lines.map_while(Result::ok) {
                if line == "PING" {
                    let _gone = write!(writer, "PONG\r\n");
                }
            }
        }
    });
    address
}

const OLD: &str = r#"{"server_id":"a","server_name":"a","version":"2.9.10","go":"go1","host":"h","port":1,"headers":true,"max_payload":1048576,"proto":1,"jetstream":true}"#;

#[tokio::test]
async fn a_server_that_is_too_old_is_refused_with_the_reason() {
    let address = pretend(OLD);
    let error = NatsStore::new(address.parse().unwrap()).open().await.unwrap_err();
    assert!(
        matches!(fault(&error), Some(NatsConnectError::TooOld(version)) if version == "2.9.10"),
        "{error}"
    );
    let text = whole(&error);
    assert!(text.contains(&address) && text.contains("at least 2.10.25 is needed"), "{text}");
}

/// As in a cluster of which one server has not been renewed: a client goes on with whichever answers.
#[tokio::test]
async fn a_server_that_is_too_old_is_refused_by_whoever_was_connected_to_a_newer_one() {
    let mut server = Server::start();
    let (store, run) = (NatsStore::new(server.settings()), run("r"));
    let first = store.commit(change(&run, Position::absent(), "1")).await.unwrap();
    server.kill();
    pretend_at(&server.address(), OLD);
    let error = store.commit(change(&run, first, "2")).await.unwrap_err();
    // Something may have been on its way when the newer one was killed; then it is not known whether that landed.
    let text = whole(&error);
    assert!(text.contains("it runs version 2.9.10; at least 2.10.25 is needed"), "{text}");
}

#[tokio::test]
async fn a_server_without_jetstream_is_refused() {
    let address = pretend(
        r#"{"server_id":"a","server_name":"a","version":"2.15.1","go":"go1","host":"h","port":1,"headers":true,"max_payload":1048576,"proto":1}"#,
    );
    let error = NatsStore::new(address.parse().unwrap()).open().await.unwrap_err();
    assert!(matches!(fault(&error), Some(NatsConnectError::NoJetStream)), "{error}");
}

#[tokio::test]
async fn where_nobody_listens_the_error_names_the_server() {
    let address = format!("127.0.0.1:{}", free_port());
    let error = NatsStore::new(address.parse().unwrap()).load(&run("r")).await.unwrap_err();
    let ReadError::Unavailable(error) = error else { panic!("{error}") };
    assert!(matches!(fault(&error), Some(NatsConnectError::Other(_))), "{error}");
    assert!(error.to_string().contains(&address), "{error}");
}

#[tokio::test]
async fn where_nobody_answers_the_wait_has_an_end() {
    // It is connected by the kernel, and nobody says a word.
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let settings: NatsSettings = listener.local_addr().unwrap().to_string().parse().unwrap();
    let timeouts = Timeouts { request: Duration::from_millis(300), ..settings.timeouts };
    let error = NatsStore::new(NatsSettings { timeouts, ..settings }).open().await.unwrap_err();
    assert!(fault(&error).is_some(), "{error}");
}

#[tokio::test]
async fn a_single_server_keeps_everything_once_and_says_so() {
    let server = Server::start();
    let store = NatsStore::new(NatsSettings { replicas: 3, ..server.settings() });
    let notes = store.open().await.unwrap();
    let stream = "callboard-journal".to_owned();
    let journal = NatsWarning::FewerReplicas { stream, wanted: 3, found: 1, single_server: true };
    assert!(notes.contains(&journal), "{notes:?}");
    // Whoever comes later is told as well.
    let later = NatsStore::new(NatsSettings { replicas: 3, ..server.settings() });
    assert!(later.open().await.unwrap().contains(&journal));
}

/// A journal that forgets, or that is full one day, is used: whoever made it so may have a reason. But it is told.
#[tokio::test]
async fn streams_with_limits_that_somebody_else_has_set_are_used_and_each_limit_is_noted() {
    let server = Server::start();
    let streams = async_nats::jetstream::new(async_nats::connect(server.address()).await.unwrap());
    let config = async_nats::jetstream::stream::Config {
        name: "callboard-journal".to_owned(),
        subjects: vec!["callboard.run.*".to_owned()],
        discard: async_nats::jetstream::stream::DiscardPolicy::New,
        max_messages_per_subject: 7,
        max_messages: 1000,
        max_bytes: 1 << 20,
        max_message_size: 9000,
        ..Default::default()
    };
    streams.create_stream(config).await.unwrap();
    let store = NatsStore::new(server.settings());
    store.commit(change(&run("r"), Position::absent(), "1")).await.unwrap();
    let noted = |note: &NatsWarning| match note {
        NatsWarning::ConfigDiffers { stream, setting, found } if stream == "callboard-journal" => {
            format!("{setting} {found}")
        }
        other => panic!("{other:?}"),
    };
    let notes: Vec<_> = store.open().await.unwrap().iter().map(noted).collect();
    let limits = ["history 7", "number of messages 1000", "size 1048576 bytes", "largest message 9000 bytes"];
    assert_eq!(notes, limits);
    // What the server would not take goes into a blob, as what no server takes does.
    let (large, first) = (run("large"), Position::absent());
    store.commit(change(&large, first, &"x".repeat(20_000))).await.unwrap();
    let shown = store::Commit {
        document: Some("{}".to_owned()),
        ..change(&run("shown"), first, &"x".repeat(20_000))
    };
    store.commit(shown).await.unwrap();
}

#[tokio::test]
async fn sixteen_that_open_at_the_same_time_make_one_store() {
    let server = Server::start();
    let mut opening = tokio::task::JoinSet::new();
    for number in 0..16 {
        let store = NatsStore::new(server.settings());
        let commit = change(&run(&format!("r{number}")), Position::absent(), "1");
        opening.spawn(async move { store.commit(commit).await.map(|position| position.revision.0) });
    }
    for opened in opening.join_all().await {
        assert_eq!(opened.unwrap(), 1);
    }
    assert_eq!(NatsStore::new(server.settings()).runs().await.unwrap().len(), 16);
}

#[tokio::test]
async fn a_stream_that_was_deleted_is_missed_and_not_made_again() {
    for stream in ["callboard-journal", "OBJ_callboard-blobs"] {
        let server = Server::start();
        let store = NatsStore::new(server.settings());
        let first = store.commit(change(&run("r"), Position::absent(), "1")).await.unwrap();
        let client = async_nats::connect(server.address()).await.unwrap();
        async_nats::jetstream::new(client).delete_stream(stream).await.unwrap();
        // Large enough that both streams are needed.
        let error = store.commit(change(&run("r"), first, &"x".repeat(300_000))).await.unwrap_err();
        let CommitError::Unavailable(Unavailable::NoStream { stream: missing, .. }) = &error else {
            panic!("{error:?}")
        };
        assert_eq!(missing, stream);
        let error = NatsStore::new(server.settings()).open().await.unwrap_err();
        assert!(
            matches!(&error, Unavailable::NoStream { stream: missing, .. } if missing == stream),
            "{error}"
        );
    }
}

/// To begin afresh one deletes all of it.
#[tokio::test]
async fn whoever_deleted_journal_and_blobs_has_left_the_leases_to_tell() {
    let server = Server::start();
    NatsStore::new(server.settings()).commit(change(&run("r"), Position::absent(), "1")).await.unwrap();
    let streams = async_nats::jetstream::new(async_nats::connect(server.address()).await.unwrap());
    for stream in ["callboard-journal", "OBJ_callboard-blobs"] {
        streams.delete_stream(stream).await.unwrap();
    }
    let error = NatsStore::new(server.settings()).open().await.unwrap_err();
    assert!(
        matches!(&error, Unavailable::NoStream { stream, .. } if stream == "callboard-journal"),
        "{error}"
    );
    streams.delete_stream("callboard-leases").await.unwrap();
    assert!(NatsStore::new(server.settings()).is_new().await.unwrap());
}
