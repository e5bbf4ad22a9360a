//! Opening a store: what is refused, what is created, and what is never created again.

use std::error::Error;
use std::io::{BufRead as _, BufReader, Write as _};
use std::net::TcpListener;
use std::time::Duration;

use store::{
    CommitError, NatsConnectError, NatsSettings, NatsStore, NatsWarning, Position, ReadError, Store as _,
    Timeouts, Unavailable,
};
use testkit::nats::{Server, free_port};

use crate::contract::{entry_commit, run};

/// Returns an error with all its causes.
pub(crate) fn with_causes(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        text = format!("{text}: {error}");
        cause = error.source();
    }
    text
}

pub(crate) fn connect_error(error: &Unavailable) -> Option<&NatsConnectError> {
    error.source()?.downcast_ref()
}

/// Serves as much of the NATS protocol as a client needs to connect.
fn serve(info: &'static str) -> String {
    serve_at("127.0.0.1:0", info)
}

fn serve_at(address: &str, info: &'static str) -> String {
    let listener = TcpListener::bind(address).unwrap();
    let address = listener.local_addr().unwrap().to_string();
    std::thread::spawn(move || {
        for connection in listener.incoming().map_while(Result::ok) {
            let mut writer = connection.try_clone().unwrap();
            let lines = BufReader::new(connection).lines();
            let _closed = write!(writer, "INFO {info}\r\n");
            for line in lines.map_while(Result::ok) {
                if line == "PING" {
                    let _closed = write!(writer, "PONG\r\n");
                }
            }
        }
    });
    address
}

const OLD_SERVER: &str = r#"{"server_id":"a","server_name":"a","version":"2.9.10","go":"go1","host":"h","port":1,"headers":true,"max_payload":1048576,"proto":1,"jetstream":true}"#;

#[tokio::test]
async fn a_server_that_is_too_old_is_refused() {
    let address = serve(OLD_SERVER);
    let error = NatsStore::new(address.parse().unwrap()).open().await.unwrap_err();
    assert!(
        matches!(connect_error(&error), Some(NatsConnectError::TooOld(version)) if version == "2.9.10"),
        "{error}"
    );
    let text = with_causes(&error);
    assert!(text.contains(&address) && text.contains("at least 2.10.25 is needed"), "{text}");
}

/// A cluster may have one server that was not upgraded, and clients reconnect to any of them.
#[tokio::test]
async fn a_reconnect_to_a_server_that_is_too_old_is_refused() {
    let mut server = Server::start();
    let (store, run) = (NatsStore::new(server.settings()), run("r"));
    let first = store.commit(entry_commit(&run, Position::absent(), "1")).await.unwrap();
    server.kill();
    serve_at(&server.address(), OLD_SERVER);
    let error = store.commit(entry_commit(&run, first, "2")).await.unwrap_err();
    // The text and not the variant: if the write was in flight when the first server was killed, it is `OutcomeUnknown`.
    let text = with_causes(&error);
    assert!(text.contains("it runs version 2.9.10; at least 2.10.25 is needed"), "{text}");
}

#[tokio::test]
async fn a_server_without_jetstream_is_refused() {
    let address = serve(
        r#"{"server_id":"a","server_name":"a","version":"2.15.1","go":"go1","host":"h","port":1,"headers":true,"max_payload":1048576,"proto":1}"#,
    );
    let error = NatsStore::new(address.parse().unwrap()).open().await.unwrap_err();
    assert!(matches!(connect_error(&error), Some(NatsConnectError::NoJetStream)), "{error}");
}

#[tokio::test]
async fn a_refused_connection_names_the_server() {
    let address = format!("127.0.0.1:{}", free_port());
    let error = NatsStore::new(address.parse().unwrap()).load(&run("r")).await.unwrap_err();
    let ReadError::Unavailable(error) = error else { panic!("{error}") };
    assert!(matches!(connect_error(&error), Some(NatsConnectError::Other(_))), "{error}");
    assert!(error.to_string().contains(&address), "{error}");
}

#[tokio::test]
async fn a_server_that_does_not_answer_times_out() {
    // The kernel accepts the connection, and no server reads from it.
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let settings: NatsSettings = listener.local_addr().unwrap().to_string().parse().unwrap();
    let timeouts = Timeouts { request: Duration::from_millis(300), ..settings.timeouts };
    let error = NatsStore::new(NatsSettings { timeouts, ..settings }).open().await.unwrap_err();
    assert!(connect_error(&error).is_some(), "{error}");
}

#[tokio::test]
async fn a_single_server_has_one_replica_and_a_warning_says_so() {
    let server = Server::start();
    let store = NatsStore::new(NatsSettings { replicas: 3, ..server.settings() });
    let warnings = store.open().await.unwrap();
    let stream = "callboard-journal".to_owned();
    let journal = NatsWarning::FewerReplicas { stream, wanted: 3, found: 1, single_server: true };
    assert!(warnings.contains(&journal), "{warnings:?}");
    // A later connection reports it as well.
    let later = NatsStore::new(NatsSettings { replicas: 3, ..server.settings() });
    assert!(later.open().await.unwrap().contains(&journal));
}

/// The operator may have a reason for the limits.
#[tokio::test]
async fn existing_streams_with_limits_are_used_and_each_limit_is_a_warning() {
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
    store.commit(entry_commit(&run("r"), Position::absent(), "1")).await.unwrap();
    let setting = |warning: &NatsWarning| match warning {
        NatsWarning::ConfigDiffers { stream, setting, found } if stream == "callboard-journal" => {
            format!("{setting} {found}")
        }
        other => panic!("{other:?}"),
    };
    let warnings: Vec<_> = store.open().await.unwrap().iter().map(setting).collect();
    let limits = ["history 7", "number of messages 1000", "size 1048576 bytes", "largest message 9000 bytes"];
    assert_eq!(warnings, limits);
    // A message that the stream does not accept goes into a blob.
    let (large, first) = (run("large"), Position::absent());
    store.commit(entry_commit(&large, first, &"x".repeat(20_000))).await.unwrap();
    let with_document = store::Commit {
        document: Some("{}".to_owned()),
        ..entry_commit(&run("with-document"), first, &"x".repeat(20_000))
    };
    store.commit(with_document).await.unwrap();
}

#[tokio::test]
async fn sixteen_concurrent_opens_create_one_store() {
    let server = Server::start();
    let mut opening = tokio::task::JoinSet::new();
    for number in 0..16 {
        let store = NatsStore::new(server.settings());
        let commit = entry_commit(&run(&format!("r{number}")), Position::absent(), "1");
        opening.spawn(async move { store.commit(commit).await.map(|position| position.revision.0) });
    }
    for opened in opening.join_all().await {
        assert_eq!(opened.unwrap(), 1);
    }
    assert_eq!(NatsStore::new(server.settings()).runs().await.unwrap().len(), 16);
}

#[tokio::test]
async fn a_deleted_stream_is_an_error_and_not_created_again() {
    for stream in ["callboard-journal", "OBJ_callboard-blobs"] {
        let server = Server::start();
        let store = NatsStore::new(server.settings());
        let first = store.commit(entry_commit(&run("r"), Position::absent(), "1")).await.unwrap();
        let client = async_nats::connect(server.address()).await.unwrap();
        async_nats::jetstream::new(client).delete_stream(stream).await.unwrap();
        // Large enough to need both streams.
        let error = store.commit(entry_commit(&run("r"), first, &"x".repeat(300_000))).await.unwrap_err();
        let CommitError::Unavailable(Unavailable::StreamDeleted { stream: missing, .. }) = &error else {
            panic!("{error:?}")
        };
        assert_eq!(missing, stream);
        let error = NatsStore::new(server.settings()).open().await.unwrap_err();
        assert!(
            matches!(&error, Unavailable::StreamDeleted { stream: missing, .. } if missing == stream),
            "{error}"
        );
    }
}

/// A new store is created only if all streams were deleted.
#[tokio::test]
async fn leases_without_a_journal_show_that_it_was_deleted() {
    let server = Server::start();
    NatsStore::new(server.settings()).commit(entry_commit(&run("r"), Position::absent(), "1")).await.unwrap();
    let streams = async_nats::jetstream::new(async_nats::connect(server.address()).await.unwrap());
    for stream in ["callboard-journal", "OBJ_callboard-blobs"] {
        streams.delete_stream(stream).await.unwrap();
    }
    let error = NatsStore::new(server.settings()).open().await.unwrap_err();
    assert!(
        matches!(&error, Unavailable::StreamDeleted { stream, .. } if stream == "callboard-journal"),
        "{error}"
    );
    streams.delete_stream("callboard-leases").await.unwrap();
    assert!(NatsStore::new(server.settings()).is_new().await.unwrap());
}
