//! Authentication and TLS: which credentials are accepted, and that no error or log shows a secret.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use nkeys::KeyPair;
use serde_json::{Value, json};
use store::{NatsAuth, NatsConnectError, NatsSettings, NatsStore, Position, Store as _, Tls, Unavailable};
use testkit::nats::Server;
use tracing::subscriber::DefaultGuard;
use tracing_subscriber::util::SubscriberInitExt as _;

use crate::certificates::Authority;
use crate::contract::{entry_commit, run};
use crate::opening::{connect_error, with_causes};

/// Captures everything that is logged on this thread.
struct Log {
    file: tempfile::NamedTempFile,
    _guard: DefaultGuard,
}

impl Log {
    fn capture() -> Self {
        let file = tempfile::NamedTempFile::new().unwrap();
        let log = tracing_subscriber::fmt().with_env_filter("trace");
        let log = log.with_writer(Arc::new(file.reopen().unwrap())).finish();
        Self { file, _guard: log.set_default() }
    }

    fn text(&self) -> String {
        fs::read_to_string(self.file.path()).unwrap()
    }
}

fn assert_no_secret(words: &str, secrets: &[&str]) {
    for secret in secrets {
        assert!(!words.contains(secret), "shows the secret `{secret}`: {words}");
    }
}

/// Asserts that these settings are accepted and allow a commit.
async fn assert_accepted(settings: NatsSettings, secrets: &[&str]) {
    let (store, log) = (NatsStore::new(settings), Log::capture());
    store.open().await.unwrap_or_else(|error| panic!("{}", with_causes(&error)));
    store.commit(entry_commit(&run("r"), Position::absent(), "1")).await.unwrap();
    let logged = log.text();
    assert!(logged.contains("CONNECT"), "the client logs its requests: {logged}");
    assert_no_secret(&format!("{store:?} {logged}"), secrets);
}

/// Asserts that these settings are refused without showing a secret. Returns the error and its text.
async fn assert_refused(settings: NatsSettings, secrets: &[&str]) -> (Unavailable, String) {
    let (store, log) = (NatsStore::new(settings), Log::capture());
    let error = store.open().await.unwrap_err();
    let words = with_causes(&error);
    assert_no_secret(&format!("{words} {error:?} {store:?} {}", log.text()), secrets);
    for server in &store.settings().servers {
        assert!(words.contains(server), "the error does not name the server: {words}");
    }
    (error, words)
}

fn assert_unauthorized(error: &Unavailable) {
    use NatsConnectError::{SigningFailed, TlsFailed, Unauthorized};
    let is_expected = matches!(connect_error(error), Some(Unauthorized(_) | SigningFailed(_) | TlsFailed(_)));
    assert!(is_expected, "{}: {:?}", with_causes(error), connect_error(error));
}

#[tokio::test]
async fn a_password_is_accepted_and_a_wrong_one_is_refused_without_showing_it() {
    let server = Server::start_with("authorization { user: ann, password: r1ght }");
    let with = |user: &str| -> NatsSettings {
        let settings: NatsSettings = format!("nats://{user}@{}", server.address()).parse().unwrap();
        NatsSettings { replicas: 1, ..settings }
    };
    for credentials in ["ann:wr0ng", "bob:wr0ng", "wr0ng"] {
        let (error, words) = assert_refused(with(credentials), &["wr0ng"]).await;
        assert_unauthorized(&error);
        assert!(words.contains("authorization failed"), "{words}");
    }
    assert_refused(server.settings(), &[]).await;
    assert_accepted(with("ann:r1ght"), &["r1ght"]).await;
}

#[tokio::test]
async fn a_token_is_accepted_and_a_wrong_one_is_refused_without_showing_it() {
    let server = Server::start_with("authorization { token: r1ght }");
    let with = |token: &str| NatsSettings { auth: NatsAuth::Token(token.to_owned()), ..server.settings() };
    let (error, words) = assert_refused(with("wr0ng"), &["wr0ng"]).await;
    assert_unauthorized(&error);
    assert!(words.contains("authorization failed"), "{words}");
    assert_accepted(with("r1ght"), &["r1ght"]).await;
}

#[tokio::test]
async fn an_nkey_is_accepted_and_another_one_is_refused() {
    let (ours, other) = (KeyPair::new_user(), KeyPair::new_user());
    let users = format!("authorization {{ users: [{{ nkey: {} }}] }}", ours.public_key());
    let server = Server::start_with(&users);
    let directory = tempfile::tempdir().unwrap();
    let with = |text: &str| {
        let file = directory.path().join("seed");
        fs::write(&file, text).unwrap();
        NatsSettings { auth: NatsAuth::Nkey(file), ..server.settings() }
    };
    let seed = ours.seed().unwrap();
    assert_accepted(with(&format!("{seed}\n")), &[&seed]).await;
    let seed = other.seed().unwrap();
    let (error, _) = assert_refused(with(&seed), &[&seed]).await;
    assert_unauthorized(&error);
    let truncated = &seed[..seed.len() - 4];
    let (error, words) = assert_refused(with(truncated), &[truncated]).await;
    assert!(matches!(connect_error(&error), Some(NatsConnectError::UnreadableFile { .. })), "{words}");
    assert!(words.contains("not hold an nkey seed"), "{words}");
    let missing = NatsAuth::Nkey(directory.path().join("nowhere"));
    let (error, words) = assert_refused(NatsSettings { auth: missing, ..server.settings() }, &[]).await;
    assert!(matches!(connect_error(&error), Some(NatsConnectError::UnreadableFile { .. })), "{words}");
    assert!(words.contains("nowhere"), "{words}");
}

/// Returns a signed JWT with these claims.
fn sign_jwt(issuer: &KeyPair, subject: &KeyPair, claims: &Value) -> String {
    let encoded = |value: &Value| URL_SAFE_NO_PAD.encode(value.to_string());
    let (issuer_key, subject_key) = (issuer.public_key(), subject.public_key());
    let payload = json!({
        "jti": subject_key, "iat": 1_700_000_000, "iss": issuer_key, "sub": subject_key, "name": "test", "nats": claims,
    });
    let text = format!("{}.{}", encoded(&json!({ "typ": "JWT", "alg": "ed25519-nkey" })), encoded(&payload));
    let signature = issuer.sign(text.as_bytes()).unwrap();
    format!("{text}.{}", URL_SAFE_NO_PAD.encode(signature))
}

/// Whether an account has JetStream. The system account must not have it.
#[derive(Clone, Copy, PartialEq, Eq)]
enum JetStream {
    Yes,
    No,
}

fn account_jwt(operator: &KeyPair, account: &KeyPair, jetstream: JetStream) -> String {
    let mut unlimited = vec!["subs", "data", "payload", "imports", "exports", "conn", "leaf"];
    if jetstream == JetStream::Yes {
        unlimited.extend(["mem_storage", "disk_storage", "streams", "consumer"]);
    }
    let mut limits: Value = unlimited.iter().map(|limit| ((*limit).to_owned(), json!(-1))).collect();
    limits["wildcards"] = json!(true);
    sign_jwt(operator, account, &json!({ "type": "account", "version": 2, "limits": limits }))
}

fn user_jwt(account: &KeyPair, user: &KeyPair) -> String {
    let claims = json!({ "type": "user", "version": 2, "subs": -1, "data": -1, "payload": -1 });
    sign_jwt(account, user, &claims)
}

/// Writes a credentials file as `nsc` does.
fn credentials(directory: &Path, name: &str, jwt: &str, seed: &str) -> PathBuf {
    let file = directory.join(name);
    let text = format!(
        "-----BEGIN NATS USER JWT-----\n{jwt}\n------END NATS USER JWT------\n\n\
         -----BEGIN USER NKEY SEED-----\n{seed}\n------END USER NKEY SEED------\n"
    );
    fs::write(&file, text).unwrap();
    file
}

#[tokio::test]
async fn credentials_of_the_operator_are_accepted_and_others_are_refused() {
    let (operator, system, ours) = (KeyPair::new_operator(), KeyPair::new_account(), KeyPair::new_account());
    let server = Server::start_with(&format!(
        "operator: {}\nsystem_account: {system_key}\nresolver: MEMORY\n\
         resolver_preload: {{ {system_key}: {}, {}: {} }}",
        sign_jwt(&operator, &operator, &json!({ "type": "operator", "version": 2 })),
        account_jwt(&operator, &system, JetStream::No),
        ours.public_key(),
        account_jwt(&operator, &ours, JetStream::Yes),
        system_key = system.public_key(),
    ));
    let directory = tempfile::tempdir().unwrap();
    let with = |file: PathBuf| NatsSettings { auth: NatsAuth::Credentials(file), ..server.settings() };
    let file = |name: &str, jwt: &str, seed: &str| with(credentials(directory.path(), name, jwt, seed));

    let (ann, bob) = (KeyPair::new_user(), KeyPair::new_user());
    let (jwt, seed) = (user_jwt(&ours, &ann), ann.seed().unwrap());
    assert_accepted(file("ann", &jwt, &seed), &[&jwt, &seed]).await;

    // A user of an account that the operator does not know.
    let (unknown_jwt, bob_seed) = (user_jwt(&KeyPair::new_account(), &bob), bob.seed().unwrap());
    let (error, words) =
        assert_refused(file("unknown", &unknown_jwt, &bob_seed), &[&unknown_jwt, &bob_seed]).await;
    assert_unauthorized(&error);
    assert!(words.contains("authorization failed"), "{words}");
    // Ann's JWT with another user's seed.
    let (error, _) = assert_refused(file("stolen", &jwt, &bob_seed), &[&jwt, &bob_seed]).await;
    assert_unauthorized(&error);
    // No credentials.
    assert_refused(server.settings(), &[]).await;

    let truncated = directory.path().join("torn");
    fs::write(&truncated, &seed).unwrap();
    let (error, words) = assert_refused(with(truncated), &[&seed]).await;
    assert!(
        matches!(connect_error(&error), Some(NatsConnectError::UnreadableFile { .. }))
            && words.contains("torn"),
        "{words}"
    );
    let (error, words) = assert_refused(with(directory.path().join("nowhere")), &[]).await;
    assert!(
        matches!(connect_error(&error), Some(NatsConnectError::UnreadableFile { .. }))
            && words.contains("nowhere"),
        "{words}"
    );
}

#[tokio::test]
async fn only_a_server_with_a_trusted_certificate_is_accepted() {
    let (authority, other) = (Authority::new("ours"), Authority::new("other"));
    let directory = tempfile::tempdir().unwrap();
    let (certificate, key) = authority.sign(directory.path(), "127.0.0.1");
    let server =
        Server::start_with(&format!("tls {{ cert_file: {certificate:?}, key_file: {key:?}, timeout: 5 }}"));
    let trusting = |authority: &Authority| {
        let roots = Some(authority.file(directory.path(), "authority"));
        NatsSettings { tls: Tls { required: true, roots, identity: None }, ..server.settings() }
    };
    assert_accepted(trusting(&authority), &[]).await;
    let (error, words) = assert_refused(trusting(&other), &[]).await;
    assert_unauthorized(&error);
    assert!(words.contains("certificate"), "{words}");
    // The system's certificate authorities.
    let (_, words) = assert_refused(server.settings(), &[]).await;
    assert!(words.contains("certificate"), "{words}");
    // The host name must match the certificate.
    let address = format!("tls://localhost:{}", server.address().rsplit_once(':').unwrap().1);
    let named = NatsSettings { servers: vec![address], ..trusting(&authority) };
    let (_, words) = assert_refused(named, &[]).await;
    assert!(words.contains("certificate"), "{words}");
}

#[tokio::test]
async fn a_server_without_tls_is_refused_where_tls_is_required() {
    let server = Server::start();
    let tls = Tls { required: true, ..Tls::default() };
    let (error, _) = assert_refused(NatsSettings { tls, ..server.settings() }, &[]).await;
    assert!(matches!(connect_error(&error), Some(NatsConnectError::NoTls(_))), "{error:?}");
}

#[tokio::test]
async fn a_server_that_verifies_clients_accepts_a_trusted_certificate() {
    let (authority, other) = (Authority::new("ours"), Authority::new("other"));
    let directory = tempfile::tempdir().unwrap();
    let roots = authority.file(directory.path(), "authority");
    let (certificate, key) = authority.sign(directory.path(), "127.0.0.1");
    let server = Server::start_with(&format!(
        "tls {{ cert_file: {certificate:?}, key_file: {key:?}, ca_file: {roots:?}, verify: true, timeout: 5 }}"
    ));
    let with = |identity: Option<(PathBuf, PathBuf)>| {
        let tls = Tls { required: true, roots: Some(roots.clone()), identity };
        NatsSettings { tls, ..server.settings() }
    };
    let ours = authority.sign(directory.path(), "ann");
    let key = fs::read_to_string(&ours.1).unwrap();
    assert_accepted(with(Some(ours.clone())), &[&key]).await;
    let (error, _) = assert_refused(with(Some(other.sign(directory.path(), "bob"))), &[]).await;
    assert_unauthorized(&error);
    let (_, words) = assert_refused(with(None), &[]).await;
    assert!(words.contains("CertificateRequired"), "{words}");
    // A key that does not belong to the certificate.
    let mismatched = (ours.0.clone(), directory.path().join("bob.key"));
    assert_refused(with(Some(mismatched)), &[&key]).await;
    let missing = (ours.0, directory.path().join("nowhere"));
    let (error, words) = assert_refused(with(Some(missing)), &[]).await;
    assert!(
        matches!(connect_error(&error), Some(NatsConnectError::UnreadableFile { .. }))
            && words.contains("nowhere"),
        "{words}"
    );
}
