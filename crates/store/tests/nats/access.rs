//! Who is let in, who is refused, and that no refusal tells a secret.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use nkeys::KeyPair;
use serde_json::{Value, json};
use store::{Access, NatsConnectError, NatsSettings, NatsStore, Position, Store as _, Tls, Unavailable};
use testkit::nats::Server;
use tracing::subscriber::DefaultGuard;
use tracing_subscriber::util::SubscriberInitExt as _;

use crate::certificates::Authority;
use crate::contract::{change, run};
use crate::opening::{fault, whole};

/// All that is logged on this thread, by whomever, however small.
struct Log {
    file: tempfile::NamedTempFile,
    _until_then: DefaultGuard,
}

impl Log {
    fn keep() -> Self {
        let file = tempfile::NamedTempFile::new().unwrap();
        let log = tracing_subscriber::fmt().with_env_filter("trace");
        let log = log.with_writer(Arc::new(file.reopen().unwrap())).finish();
        Self { file, _until_then: log.set_default() }
    }

    fn words(&self) -> String {
        fs::read_to_string(self.file.path()).unwrap()
    }
}

fn tells_no_secret(words: &str, secrets: &[&str]) {
    for secret in secrets {
        assert!(!words.contains(secret), "it tells the secret `{secret}`: {words}");
    }
}

/// Demands that these settings let us in, far enough to write.
async fn is_let_in(settings: NatsSettings, secrets: &[&str]) {
    let (store, log) = (NatsStore::new(settings), Log::keep());
    store.open().await.unwrap_or_else(|error| panic!("{}", whole(&error)));
    store.commit(change(&run("r"), Position::absent(), "1")).await.unwrap();
    let logged = log.words();
    assert!(logged.contains("CONNECT"), "the client logs what it says: {logged}");
    tells_no_secret(&format!("{store:?} {logged}"), secrets);
}

/// Demands that these settings are refused, and that no word of it has one of the secrets. Gives the words.
async fn is_refused(settings: NatsSettings, secrets: &[&str]) -> (Unavailable, String) {
    let (store, log) = (NatsStore::new(settings), Log::keep());
    let error = store.open().await.unwrap_err();
    let words = whole(&error);
    tells_no_secret(&format!("{words} {error:?} {store:?} {}", log.words()), secrets);
    for server in &store.settings().servers {
        assert!(words.contains(server), "it does not name the server: {words}");
    }
    (error, words)
}

fn is_kept_out(error: &Unavailable) {
    use NatsConnectError::{SigningFailed, TlsFailed, Unauthorized};
    let is_it = matches!(fault(error), Some(Unauthorized(_) | SigningFailed(_) | TlsFailed(_)));
    assert!(is_it, "{}: {:?}", whole(error), fault(error));
}

#[tokio::test]
async fn a_password_lets_us_in_and_a_wrong_one_is_refused_and_not_repeated() {
    let server = Server::start_with("authorization { user: ann, password: r1ght }");
    let with = |user: &str| -> NatsSettings {
        let settings: NatsSettings = format!("nats://{user}@{}", server.address()).parse().unwrap();
        NatsSettings { replicas: 1, ..settings }
    };
    for stranger in ["ann:wr0ng", "bob:wr0ng", "wr0ng"] {
        let (error, words) = is_refused(with(stranger), &["wr0ng"]).await;
        is_kept_out(&error);
        assert!(words.contains("authorization failed"), "{words}");
    }
    is_refused(server.settings(), &[]).await;
    is_let_in(with("ann:r1ght"), &["r1ght"]).await;
}

#[tokio::test]
async fn a_token_lets_us_in_and_a_wrong_one_is_refused_and_not_repeated() {
    let server = Server::start_with("authorization { token: r1ght }");
    let with = |token: &str| NatsSettings { access: Access::Token(token.to_owned()), ..server.settings() };
    let (error, words) = is_refused(with("wr0ng"), &["wr0ng"]).await;
    is_kept_out(&error);
    assert!(words.contains("authorization failed"), "{words}");
    is_let_in(with("r1ght"), &["r1ght"]).await;
}

#[tokio::test]
async fn a_key_lets_us_in_and_another_one_is_refused() {
    let (ours, strangers) = (KeyPair::new_user(), KeyPair::new_user());
    let users = format!("authorization {{ users: [{{ nkey: {} }}] }}", ours.public_key());
    let server = Server::start_with(&users);
    let directory = tempfile::tempdir().unwrap();
    let with = |text: &str| {
        let file = directory.path().join("seed");
        fs::write(&file, text).unwrap();
        NatsSettings { access: Access::Nkey(file), ..server.settings() }
    };
    let seed = ours.seed().unwrap();
    is_let_in(with(&format!("{seed}\n")), &[&seed]).await;
    let seed = strangers.seed().unwrap();
    let (error, _) = is_refused(with(&seed), &[&seed]).await;
    is_kept_out(&error);
    let torn = &seed[..seed.len() - 4];
    let (error, words) = is_refused(with(torn), &[torn]).await;
    assert!(matches!(fault(&error), Some(NatsConnectError::UnreadableFile { .. })), "{words}");
    assert!(words.contains("not hold an nkey seed"), "{words}");
    let nowhere = Access::Nkey(directory.path().join("nowhere"));
    let (error, words) = is_refused(NatsSettings { access: nowhere, ..server.settings() }, &[]).await;
    assert!(matches!(fault(&error), Some(NatsConnectError::UnreadableFile { .. })), "{words}");
    assert!(words.contains("nowhere"), "{words}");
}

/// Says something about somebody, signed.
fn signed(issuer: &KeyPair, subject: &KeyPair, claims: &Value) -> String {
    let encoded = |value: &Value| URL_SAFE_NO_PAD.encode(value.to_string());
    let (issuer_key, subject_key) = (issuer.public_key(), subject.public_key());
    let payload = json!({
        "jti": subject_key, "iat": 1_700_000_000, "iss": issuer_key, "sub": subject_key, "name": "test", "nats": claims,
    });
    let text = format!("{}.{}", encoded(&json!({ "typ": "JWT", "alg": "ed25519-nkey" })), encoded(&payload));
    let signature = issuer.sign(text.as_bytes()).unwrap();
    format!("{text}.{}", URL_SAFE_NO_PAD.encode(signature))
}

/// JetStream is for the one that we use; the server does not want it for its own.
#[derive(Clone, Copy, PartialEq, Eq)]
enum JetStream {
    Yes,
    No,
}

fn account(operator: &KeyPair, account: &KeyPair, jetstream: JetStream) -> String {
    let mut endless = vec!["subs", "data", "payload", "imports", "exports", "conn", "leaf"];
    if jetstream == JetStream::Yes {
        endless.extend(["mem_storage", "disk_storage", "streams", "consumer"]);
    }
    let mut limits: Value = endless.iter().map(|limit| ((*limit).to_owned(), json!(-1))).collect();
    limits["wildcards"] = json!(true);
    signed(operator, account, &json!({ "type": "account", "version": 2, "limits": limits }))
}

fn user(account: &KeyPair, user: &KeyPair) -> String {
    let claims = json!({ "type": "user", "version": 2, "subs": -1, "data": -1, "payload": -1 });
    signed(account, user, &claims)
}

/// As `nsc` writes it.
fn credentials(directory: &Path, name: &str, token: &str, seed: &str) -> PathBuf {
    let file = directory.join(name);
    let text = format!(
        "-----BEGIN NATS USER JWT-----\n{token}\n------END NATS USER JWT------\n\n\
         -----BEGIN USER NKEY SEED-----\n{seed}\n------END USER NKEY SEED------\n"
    );
    fs::write(&file, text).unwrap();
    file
}

#[tokio::test]
async fn credentials_that_the_operator_vouches_for_let_us_in_and_others_are_refused() {
    let (operator, system, ours) = (KeyPair::new_operator(), KeyPair::new_account(), KeyPair::new_account());
    let server = Server::start_with(&format!(
        "operator: {}\nsystem_account: {system_key}\nresolver: MEMORY\n\
         resolver_preload: {{ {system_key}: {}, {}: {} }}",
        signed(&operator, &operator, &json!({ "type": "operator", "version": 2 })),
        account(&operator, &system, JetStream::No),
        ours.public_key(),
        account(&operator, &ours, JetStream::Yes),
        system_key = system.public_key(),
    ));
    let directory = tempfile::tempdir().unwrap();
    let with = |file: PathBuf| NatsSettings { access: Access::Credentials(file), ..server.settings() };
    let file = |name: &str, token: &str, seed: &str| with(credentials(directory.path(), name, token, seed));

    let (ann, bob) = (KeyPair::new_user(), KeyPair::new_user());
    let (token, seed) = (user(&ours, &ann), ann.seed().unwrap());
    is_let_in(file("ann", &token, &seed), &[&token, &seed]).await;

    // Somebody whom nobody of this operator's vouches for.
    let (foreign, bobs) = (user(&KeyPair::new_account(), &bob), bob.seed().unwrap());
    let (error, words) = is_refused(file("foreign", &foreign, &bobs), &[&foreign, &bobs]).await;
    is_kept_out(&error);
    assert!(words.contains("authorization failed"), "{words}");
    // Somebody who has seen Ann's token, and has not her seed.
    let (error, _) = is_refused(file("stolen", &token, &bobs), &[&token, &bobs]).await;
    is_kept_out(&error);
    // Nobody at all.
    is_refused(server.settings(), &[]).await;

    let torn = directory.path().join("torn");
    fs::write(&torn, &seed).unwrap();
    let (error, words) = is_refused(with(torn), &[&seed]).await;
    assert!(
        matches!(fault(&error), Some(NatsConnectError::UnreadableFile { .. })) && words.contains("torn"),
        "{words}"
    );
    let (error, words) = is_refused(with(directory.path().join("nowhere")), &[]).await;
    assert!(
        matches!(fault(&error), Some(NatsConnectError::UnreadableFile { .. })) && words.contains("nowhere"),
        "{words}"
    );
}

#[tokio::test]
async fn only_a_server_that_our_authority_vouches_for_is_spoken_to() {
    let (authority, other) = (Authority::new("ours"), Authority::new("other"));
    let directory = tempfile::tempdir().unwrap();
    let (certificate, key) = authority.sign(directory.path(), "127.0.0.1");
    let server =
        Server::start_with(&format!("tls {{ cert_file: {certificate:?}, key_file: {key:?}, timeout: 5 }}"));
    let trusting = |authority: &Authority| {
        let roots = Some(authority.file(directory.path(), "authority"));
        NatsSettings { tls: Tls { required: true, roots, identity: None }, ..server.settings() }
    };
    is_let_in(trusting(&authority), &[]).await;
    let (error, words) = is_refused(trusting(&other), &[]).await;
    is_kept_out(&error);
    assert!(words.contains("certificate"), "{words}");
    // Nobody of those whom the system trusts.
    let (_, words) = is_refused(server.settings(), &[]).await;
    assert!(words.contains("certificate"), "{words}");
    // The name in the certificate counts.
    let elsewhere = format!("tls://localhost:{}", server.address().rsplit_once(':').unwrap().1);
    let named = NatsSettings { servers: vec![elsewhere], ..trusting(&authority) };
    let (_, words) = is_refused(named, &[]).await;
    assert!(words.contains("certificate"), "{words}");
}

#[tokio::test]
async fn a_server_that_speaks_plainly_is_refused_where_tls_is_required() {
    let server = Server::start();
    let tls = Tls { required: true, ..Tls::default() };
    let (error, _) = is_refused(NatsSettings { tls, ..server.settings() }, &[]).await;
    assert!(matches!(fault(&error), Some(NatsConnectError::NoTls(_))), "{error:?}");
}

#[tokio::test]
async fn a_server_that_asks_for_a_certificate_lets_in_whom_it_trusts() {
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
    is_let_in(with(Some(ours.clone())), &[&key]).await;
    let (error, _) = is_refused(with(Some(other.sign(directory.path(), "bob"))), &[]).await;
    is_kept_out(&error);
    let (_, words) = is_refused(with(None), &[]).await;
    assert!(words.contains("CertificateRequired"), "{words}");
    // A key that is not the certificate's.
    let crossed = (ours.0.clone(), directory.path().join("bob.key"));
    is_refused(with(Some(crossed)), &[&key]).await;
    let missing = (ours.0, directory.path().join("nowhere"));
    let (error, words) = is_refused(with(Some(missing)), &[]).await;
    assert!(
        matches!(fault(&error), Some(NatsConnectError::UnreadableFile { .. })) && words.contains("nowhere"),
        "{words}"
    );
}
