//! What is in our streams and is not as we write it: it stops nobody but whom it concerns.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE;
use protocol::Revision;
use serde_json::json;
use store::{Digest, NatsStore, Position, ReadError, Store as _};
use testkit::nats::Server;

use crate::contract::{change, run};

async fn put(server: &Server, subject: &str, bytes: impl Into<bytes::Bytes>) {
    let client = async_nats::connect(server.address()).await.unwrap();
    let context = async_nats::jetstream::new(client);
    context.publish(subject.to_owned(), bytes.into()).await.unwrap().await.unwrap();
}

#[tokio::test]
async fn a_run_that_cannot_be_understood_does_not_hide_the_others() {
    for rubbish in [r#"{"format":2,"body":{}}"#, "hello"] {
        let server = Server::start();
        let store = NatsStore::new(server.settings());
        let (well, ill) = (run("well"), run("weird"));
        store.commit(change(&ill, Position::absent(), "1")).await.unwrap();
        store.commit(change(&well, Position::absent(), "1")).await.unwrap();
        put(&server, "callboard.run.weird", rubbish).await;
        let rows = store.runs().await.unwrap();
        let mut listed: Vec<_> =
            rows.iter().map(|row| (row.run.as_str(), row.revision, row.protocol.as_str())).collect();
        listed.sort_unstable();
        assert_eq!(listed, [("weird", Revision(0), ""), ("well", Revision(1), "steps")]);
        assert_eq!(store.runs_beginning("we", 9).await.unwrap(), [ill.clone(), well.clone()]);
        // Whoever asks for it is told what is wrong with it.
        let error = store.load(&ill).await.unwrap_err();
        assert!(matches!(error, ReadError::Unavailable(_)), "{error}");
    }
}

#[tokio::test]
async fn a_blob_that_claims_to_be_huge_is_damaged_and_nothing_worse() {
    let server = Server::start();
    let store = NatsStore::new(server.settings());
    let digest: Digest = store.put_blobs(vec![b"small".to_vec()]).await.unwrap().remove(0);
    let meta = json!({
        "name": digest, "bucket": "callboard-blobs", "nuid": "none", "size": u64::MAX, "chunks": 1,
    });
    let subject = format!("$O.callboard-blobs.M.{}", URL_SAFE.encode(digest.as_str()));
    put(&server, &subject, meta.to_string()).await;
    let error = store.blob(&digest).await.unwrap_err();
    assert!(matches!(error, ReadError::DamagedBlob { .. }), "{error}");
}
