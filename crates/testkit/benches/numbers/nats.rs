//! A NATS server for the benchmark, and writes of a plain client to it, to compare a commit with what NATS alone costs.

use std::fs::File;
use std::io::{BufRead as _, BufReader};
use std::net::TcpListener;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use anyhow::{Context as _, bail};
use async_nats::HeaderMap;
use async_nats::header::{HeaderValue, NATS_EXPECTED_LAST_SUBJECT_SEQUENCE};
use async_nats::jetstream::Context;
use async_nats::jetstream::stream;
use bytes::Bytes;

/// The variable in which `scripts/bench` names the server.
const PROGRAM: &str = "NATS_SERVER";

/// A server process, killed on drop.
pub(crate) struct Server {
    child: Child,
    pub(crate) address: String,
}

impl Server {
    /// Starts a server with its files in `directory`, and waits until it is ready.
    pub(crate) fn start(directory: &Path) -> anyhow::Result<Self> {
        let program = std::env::var_os(PROGRAM).filter(|program| !program.is_empty());
        let program = program.with_context(|| format!("{PROGRAM} names no server; use scripts/bench"))?;
        let address = TcpListener::bind("127.0.0.1:0")?.local_addr()?;
        let mut command = Command::new(&program);
        command.args(["--jetstream", "--addr", &address.ip().to_string()]);
        command.args(["--port", &address.port().to_string(), "--store_dir"]).arg(directory);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
        let child = command.spawn().with_context(|| format!("cannot start `{}`", program.display()))?;
        let mut server = Self { child, address: address.to_string() };
        let mut log = BufReader::new(server.child.stderr.take().context("stderr is piped")?);
        let mut output = String::new();
        while !output.contains("Server is ready") {
            if log.read_line(&mut output)? == 0 {
                bail!("the server does not start:\n{output}");
            }
        }
        // Its log must be read, or it would block.
        let mut log_file = File::create(directory.join("log"))?;
        std::thread::spawn(move || std::io::copy(&mut log, &mut log_file).is_ok());
        Ok(server)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _already_gone = self.child.kill();
        let _already_waited = self.child.wait();
    }
}

/// Returns a client with a connection of its own.
pub(crate) async fn connect(address: &str) -> anyhow::Result<Context> {
    Ok(async_nats::jetstream::new(async_nats::connect(address).await?))
}

/// Returns the payload of the run's newest commit, so that the plain client can send the same bytes.
pub(crate) async fn payload(client: &Context, run: &str) -> anyhow::Result<Bytes> {
    let journal = client.get_stream("callboard-journal").await?;
    let request = journal.raw_message_builder().last_by_subject(format!("callboard.run.{run}"));
    Ok(request.send().await?.payload)
}

/// Creates the stream `bare` for the plain client, with the settings of the journal's stream.
pub(crate) async fn create_stream(client: &Context) -> anyhow::Result<()> {
    let config = stream::Config {
        name: "bare".to_owned(),
        subjects: vec!["bare.*".to_owned()],
        storage: stream::StorageType::File,
        discard: stream::DiscardPolicy::New,
        ..stream::Config::default()
    };
    client.get_or_create_stream(config).await?;
    Ok(())
}

/// Publishes if the subject has the expected last sequence, and waits for the answer.
pub(crate) async fn publish(
    client: &Context,
    subject: String,
    last_sequence: u64,
    payload: Bytes,
) -> anyhow::Result<u64> {
    let mut headers = HeaderMap::new();
    headers.insert(NATS_EXPECTED_LAST_SUBJECT_SEQUENCE, HeaderValue::from(last_sequence));
    let answer = client.publish_with_headers(subject, headers, payload).await?;
    Ok(answer.await?.sequence)
}
