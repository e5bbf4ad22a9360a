//! A proxy between client and server that can delay requests, drop answers, and answer in the server's place.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use store::{NatsSettings, NatsStore, Timeouts};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Mutex as AsyncMutex, Notify};
use tokio::task::JoinHandle;

use super::Server;

/// A proxy in front of one server.
#[derive(Debug)]
pub struct Proxy {
    address: String,
    state: Arc<Mutex<State>>,
    /// Notified when a request is delayed.
    delayed: Arc<Notify>,
}

#[derive(Debug, Default)]
struct State {
    /// Whether requests are delayed.
    delays: bool,
    /// Whether requests are delayed from the next write to a bucket on.
    delays_from_bucket_write: bool,
    /// Delay requests from the next one on that contains this text.
    delays_from: Option<&'static str>,
    /// Whether answers are dropped.
    drops_answers: bool,
    /// Whether answers are dropped from the next write to a bucket on.
    drops_after_bucket_write: bool,
    /// Whether answers are dropped from the next write to a run on.
    drops_after_run_write: bool,
    /// How many writes to runs and to buckets the proxy is still to refuse itself.
    run_refusals: u32,
    bucket_refusals: u32,
    connections: Vec<Connection>,
}

/// One connection of a client.
#[derive(Debug)]
pub struct Connection {
    /// The tasks that forward requests and answers.
    forwarders: [JoinHandle<()>; 2],
    /// The connection to the server, and the delayed requests.
    requests: Arc<AsyncMutex<(OwnedWriteHalf, Vec<u8>)>>,
    answers: Arc<AsyncMutex<OwnedReadHalf>>,
}

impl Proxy {
    pub async fn to(server: &Server) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let address = listener.local_addr().expect("it is bound").to_string();
        let (state, target) = (Arc::new(Mutex::new(State::default())), server.address());
        let delayed = Arc::new(Notify::new());
        let (shared, notify) = (Arc::clone(&state), Arc::clone(&delayed));
        tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                let (from_server, to_server) =
                    TcpStream::connect(&target).await.expect("the server listens").into_split();
                let (from_client, to_client) = client.into_split();
                let requests = Arc::new(AsyncMutex::new((to_server, Vec::new())));
                let (answers, to_client) =
                    (Arc::new(AsyncMutex::new(from_server)), Arc::new(AsyncMutex::new(to_client)));
                let up = upstream(
                    from_client,
                    Arc::clone(&requests),
                    Arc::clone(&to_client),
                    Arc::clone(&shared),
                    Arc::clone(&notify),
                );
                let forwarders = [
                    tokio::spawn(up),
                    tokio::spawn(downstream(Arc::clone(&answers), to_client, Arc::clone(&shared))),
                ];
                lock(&shared).connections.push(Connection { forwarders, requests, answers });
            }
        });
        Self { address, state, delayed }
    }

    /// Returns a store behind the proxy with this outage timeout.
    pub fn store(&self, outage: Duration) -> NatsStore {
        let settings: NatsSettings = self.address.parse().expect("an address of ours");
        let timeouts = Timeouts { request: Duration::from_millis(300), outage, ..Timeouts::default() };
        NatsStore::new(NatsSettings { replicas: 1, timeouts, ..settings })
    }

    fn state(&self) -> MutexGuard<'_, State> {
        lock(&self.state)
    }

    /// Delays all requests from now on.
    pub fn delay_requests(&self) {
        self.state().delays = true;
    }

    /// Delays the next write to a bucket, and everything after it.
    pub fn delay_from_bucket_write(&self) {
        self.state().delays_from_bucket_write = true;
    }

    /// Delays the next request that contains `text`, and everything after it.
    pub fn delay_from(&self, text: &'static str) {
        self.state().delays_from = Some(text);
    }

    /// Sends the delayed requests to the server, and stops delaying.
    pub async fn forward_delayed(&self) {
        let connections: Vec<_> = {
            let mut state = self.state();
            (state.delays, state.delays_from_bucket_write, state.delays_from) = (false, false, None);
            state.connections.iter().map(|connection| Arc::clone(&connection.requests)).collect()
        };
        for connection in connections {
            let (server, bytes) = &mut *connection.lock().await;
            // The client may have closed the connection meanwhile.
            let _ = server.write_all(bytes).await;
            bytes.clear();
        }
    }

    /// Forwards the next write to a bucket, and drops all answers from then on.
    pub fn drop_answers_after_bucket_write(&self) {
        self.state().drops_after_bucket_write = true;
    }

    /// Forwards the next write to a run, and drops all answers from then on.
    pub fn drop_answers_after_run_write(&self) {
        self.state().drops_after_run_write = true;
    }

    /// Refuses the next writes to runs, as a server does while another write to the subject is in progress.
    pub fn refuse_run_writes(&self, times: u32) {
        self.state().run_refusals = times;
    }

    /// Refuses the next writes to buckets.
    pub fn refuse_bucket_writes(&self, times: u32) {
        self.state().bucket_refusals = times;
    }

    /// Returns how many writes are still to be refused.
    pub fn remaining_refusals(&self) -> u32 {
        let state = self.state();
        state.run_refusals.saturating_add(state.bucket_refusals)
    }

    /// Waits until a request is delayed.
    pub async fn wait_until_delayed(&self) {
        loop {
            // Created before the check, so that a notification in between is not lost.
            let delayed = self.delayed.notified();
            let connections: Vec<_> =
                self.state().connections.iter().map(|connection| Arc::clone(&connection.requests)).collect();
            for connection in connections {
                if !connection.lock().await.1.is_empty() {
                    return;
                }
            }
            delayed.await;
        }
    }

    /// Cuts all connections without telling the server. New connections are forwarded.
    pub fn cut(&self) -> Vec<Connection> {
        let mut state = self.state();
        (state.delays, state.delays_from_bucket_write, state.delays_from) = (false, false, None);
        (state.drops_after_bucket_write, state.drops_after_run_write, state.drops_answers) =
            (false, false, false);
        let connections = std::mem::take(&mut state.connections);
        connections.iter().flat_map(|connection| &connection.forwarders).for_each(JoinHandle::abort);
        connections
    }
}

/// Forwards, delays or refuses the requests of one client.
async fn upstream(
    mut client: OwnedReadHalf,
    requests: Arc<AsyncMutex<(OwnedWriteHalf, Vec<u8>)>>,
    to_client: Arc<AsyncMutex<OwnedWriteHalf>>,
    state: Arc<Mutex<State>>,
    delayed: Arc<Notify>,
) {
    // Large enough for everything that a client sends at once, so that a write is read as a whole.
    let mut data = Vec::with_capacity(1 << 20);
    while let Ok(1..) = client.read_buf(&mut data).await {
        while let Some((write, is_run)) = next_refused_write(&data, &state) {
            if data.len() < write.end {
                // The rest of the write is on its way.
                client.read_buf(&mut data).await.expect("a client sends all of a write");
                continue;
            }
            data.drain(write.start..write.end);
            {
                let mut state = lock(&state);
                let left = if is_run { &mut state.run_refusals } else { &mut state.bucket_refusals };
                *left -= 1;
            }
            let answer = r#"{"error":{"code":400,"err_code":10164,"description":"wrong last sequence"},"stream":"callboard-journal","seq":0}"#;
            let message = format!("MSG {} 0 {}\r\n{answer}\r\n", write.reply_to, answer.len());
            to_client
                .lock()
                .await
                .write_all(message.as_bytes())
                .await
                .expect("a client waits for its answer");
        }
        let (server, bytes) = &mut *requests.lock().await;
        let is_delayed = {
            let mut state = lock(&state);
            let writes = find_write(&data, TO_BUCKET).is_some();
            state.delays |= state.delays_from_bucket_write && writes;
            state.delays |= state.delays_from.is_some_and(|text| contains(&data, text.as_bytes()));
            state.drops_answers |= state.drops_after_bucket_write && writes;
            state.drops_answers |= state.drops_after_run_write && find_write(&data, TO_RUN).is_some();
            state.delays
        };
        if is_delayed {
            bytes.append(&mut data);
            delayed.notify_waiters();
        } else if server.write_all(&data).await.is_err() {
            break;
        }
        data.clear();
    }
}

/// Locks the state, even after a panic: no task leaves it half-changed.
fn lock(state: &Mutex<State>) -> MutexGuard<'_, State> {
    state.lock().unwrap_or_else(PoisonError::into_inner)
}

fn contains(data: &[u8], part: &[u8]) -> bool {
    data.windows(part.len()).any(|window| window == part)
}

/// Returns the next write to refuse, and whether it is to a run.
fn next_refused_write(data: &[u8], state: &Mutex<State>) -> Option<(Write, bool)> {
    let state = lock(state);
    let of = |times: u32, prefix| if times > 0 { find_write(data, prefix) } else { None };
    let run = of(state.run_refusals, TO_RUN).map(|write| (write, true));
    run.or_else(|| Some((of(state.bucket_refusals, TO_BUCKET)?, false)))
}

/// A write among the bytes of a client: where it is, and the subject to which its answer goes.
struct Write {
    start: usize,
    end: usize,
    reply_to: String,
}

/// The prefixes of writes to a run and to a bucket.
const TO_RUN: &[u8] = b"HPUB callboard.run.";
const TO_BUCKET: &[u8] = b"HPUB $KV.";
/// What follows [`TO_RUN`] in a message that records a bucket and belongs to no run.
const BUCKET_MARKER: &[u8] = b"=bucket-";

const PLAIN: &str = "the protocol of NATS is plain text";

/// Finds the first write with this prefix: the line `HPUB subject reply-to header-length length`, then `length` bytes and
/// the end of a line.
fn find_write(data: &[u8], prefix: &[u8]) -> Option<Write> {
    let begins =
        |(start, window)| window == prefix && !data[start + prefix.len()..].starts_with(BUCKET_MARKER);
    let start = data.windows(prefix.len()).enumerate().position(begins)?;
    let length = data[start..].windows(2).position(|window| window == b"\r\n")?;
    let line = std::str::from_utf8(&data[start..start + length]).expect(PLAIN);
    let [_, _, reply_to, _, size] = line.split(' ').collect::<Vec<_>>()[..] else { panic!("{line}") };
    let end = start + length + 2 + size.parse::<usize>().expect(PLAIN) + 2;
    Some(Write { start, end, reply_to: reply_to.to_owned() })
}

/// Forwards or drops the answers to one client.
async fn downstream(
    server: Arc<AsyncMutex<OwnedReadHalf>>,
    client: Arc<AsyncMutex<OwnedWriteHalf>>,
    state: Arc<Mutex<State>>,
) {
    let (mut server, mut buffer) = (server.lock().await, [0; 65536]);
    while let Ok(length @ 1..) = server.read(&mut buffer).await {
        let drops_answers = lock(&state).drops_answers;
        if !drops_answers && client.lock().await.write_all(&buffer[..length]).await.is_err() {
            break;
        }
    }
}

/// Sends the delayed requests of the first cut connection with a write to the server. Returns the answer to that write.
pub async fn deliver(connections: Vec<Connection>) -> String {
    for Connection { requests, answers: from_server, .. } in connections {
        let (server, bytes) = &mut *requests.lock().await;
        let write = find_write(bytes, TO_BUCKET).or_else(|| find_write(bytes, TO_RUN));
        let Some(Write { reply_to, .. }) = write else { continue };
        server.write_all(bytes).await.expect("the server listens");
        let (mut answers, mut buffer) = (String::new(), [0; 65536]);
        loop {
            let length = from_server.lock().await.read(&mut buffer).await.expect("the server answers");
            assert!(length > 0, "the server hung up: {answers}");
            answers.push_str(std::str::from_utf8(&buffer[..length]).expect(PLAIN));
            if let Some((_, answer)) = answers.split_once(&reply_to)
                && let Some((answer, _)) = answer.split_once("}\r\n")
            {
                return answer.to_owned();
            }
        }
    }
    panic!("no write was delayed");
}
