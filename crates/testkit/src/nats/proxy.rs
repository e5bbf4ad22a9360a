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
    /// Whether requests are delayed from now on.
    holding: bool,
    /// Whether they are from the next bucket write on, or from the next request that contains these bytes.
    holding_writes: bool,
    holding_at: Option<&'static str>,
    /// Whether answers are dropped from the next bucket write on, or the next run write, and whether they are now.
    losing_after_write: bool,
    losing_after_run_write: bool,
    answers_lost: bool,
    /// How many writes to runs and to buckets the proxy refuses itself.
    refusals: u32,
    bucket_refusals: u32,
    lines: Vec<Line>,
}

/// One connection: its two directions, the delayed requests, and the server's answers.
#[derive(Debug)]
pub struct Line {
    pumps: [JoinHandle<()>; 2],
    held: Arc<AsyncMutex<(OwnedWriteHalf, Vec<u8>)>>,
    said: Arc<AsyncMutex<OwnedReadHalf>>,
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
                let held = Arc::new(AsyncMutex::new((to_server, Vec::new())));
                let (said, to_client) =
                    (Arc::new(AsyncMutex::new(from_server)), Arc::new(AsyncMutex::new(to_client)));
                let up = upstream(
                    from_client,
                    Arc::clone(&held),
                    Arc::clone(&to_client),
                    Arc::clone(&shared),
                    Arc::clone(&notify),
                );
                let pumps = [
                    tokio::spawn(up),
                    tokio::spawn(downstream(Arc::clone(&said), to_client, Arc::clone(&shared))),
                ];
                lock(&shared).lines.push(Line { pumps, held, said });
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

    pub fn hold(&self) {
        self.state().holding = true;
    }

    /// Delays the next write to a bucket, and everything after it.
    pub fn hold_writes(&self) {
        self.state().holding_writes = true;
    }

    /// Delays the next request that contains `words`, and everything after it.
    pub fn hold_at(&self, words: &'static str) {
        self.state().holding_at = Some(words);
    }

    /// Sends the delayed requests to the server, and stops delaying.
    pub async fn let_go(&self) {
        let lines: Vec<_> = {
            let mut state = self.state();
            (state.holding, state.holding_writes, state.holding_at) = (false, false, None);
            state.lines.iter().map(|line| Arc::clone(&line.held)).collect()
        };
        for line in lines {
            let (server, bytes) = &mut *line.lock().await;
            // The client may have closed the connection meanwhile.
            let _ = server.write_all(bytes).await;
            bytes.clear();
        }
    }

    /// Forwards the next write to a bucket, and drops all answers from then on.
    pub fn lose_answers_after_write(&self) {
        self.state().losing_after_write = true;
    }

    /// Forwards the next write to a run, and drops all answers from then on.
    pub fn lose_answers_after_write_to_run(&self) {
        self.state().losing_after_run_write = true;
    }

    /// Refuses the next writes to runs, as a server does while another write to the subject is in progress.
    pub fn refuse(&self, times: u32) {
        self.state().refusals = times;
    }

    /// Refuses the next writes to buckets.
    pub fn refuse_in_bucket(&self, times: u32) {
        self.state().bucket_refusals = times;
    }

    /// Returns how many writes are still to be refused.
    pub fn refusals(&self) -> u32 {
        let state = self.state();
        state.refusals.saturating_add(state.bucket_refusals)
    }

    /// Waits until a request is delayed.
    pub async fn holds_something(&self) {
        loop {
            // Created before the check, so that a notification in between is not lost.
            let delayed = self.delayed.notified();
            let lines: Vec<_> = self.state().lines.iter().map(|line| Arc::clone(&line.held)).collect();
            for line in lines {
                if !line.lock().await.1.is_empty() {
                    return;
                }
            }
            delayed.await;
        }
    }

    /// Cuts all connections without telling the server. New connections are forwarded.
    pub fn cut(&self) -> Vec<Line> {
        let mut state = self.state();
        (state.holding, state.holding_writes, state.holding_at) = (false, false, None);
        (state.losing_after_write, state.losing_after_run_write, state.answers_lost) = (false, false, false);
        let lines = std::mem::take(&mut state.lines);
        lines.iter().flat_map(|line| &line.pumps).for_each(JoinHandle::abort);
        lines
    }
}

async fn upstream(
    mut client: OwnedReadHalf,
    held: Arc<AsyncMutex<(OwnedWriteHalf, Vec<u8>)>>,
    to_client: Arc<AsyncMutex<OwnedWriteHalf>>,
    state: Arc<Mutex<State>>,
    delayed: Arc<Notify>,
) {
    // Large enough for everything that a client sends at once, so that a write is read as a whole.
    let mut words = Vec::with_capacity(1 << 20);
    while let Ok(1..) = client.read_buf(&mut words).await {
        while let Some((write, is_run)) = refused(&words, &state) {
            if words.len() < write.end {
                // The rest of the write is on its way.
                client.read_buf(&mut words).await.expect("a client says all of a write");
                continue;
            }
            words.drain(write.start..write.end);
            {
                let mut state = lock(&state);
                let left = if is_run { &mut state.refusals } else { &mut state.bucket_refusals };
                *left -= 1;
            }
            let answer = r#"{"error":{"code":400,"err_code":10164,"description":"wrong last sequence"},"stream":"callboard-journal","seq":0}"#;
            let message = format!("MSG {} 0 {}\r\n{answer}\r\n", write.inbox, answer.len());
            to_client
                .lock()
                .await
                .write_all(message.as_bytes())
                .await
                .expect("a client waits for its answer");
        }
        let (server, bytes) = &mut *held.lock().await;
        let is_held = {
            let mut state = lock(&state);
            let writes = find_write(&words, TO_BUCKET).is_some();
            state.holding |= state.holding_writes && writes;
            state.holding |= state.holding_at.is_some_and(|at| contains(&words, at.as_bytes()));
            state.answers_lost |= state.losing_after_write && writes;
            state.answers_lost |= state.losing_after_run_write && find_write(&words, TO_RUN).is_some();
            state.holding
        };
        if is_held {
            bytes.append(&mut words);
            delayed.notify_waiters();
        } else if server.write_all(&words).await.is_err() {
            break;
        }
        words.clear();
    }
}

/// Locks the state, even after a panic: no task leaves it half-changed.
fn lock(state: &Mutex<State>) -> MutexGuard<'_, State> {
    state.lock().unwrap_or_else(PoisonError::into_inner)
}

fn contains(words: &[u8], part: &[u8]) -> bool {
    words.windows(part.len()).any(|window| window == part)
}

/// Returns the next write to refuse, and whether it is to a run.
fn refused(words: &[u8], state: &Mutex<State>) -> Option<(Write, bool)> {
    let state = lock(state);
    let of = |times: u32, verb| if times > 0 { find_write(words, verb) } else { None };
    let run = of(state.refusals, TO_RUN).map(|write| (write, true));
    run.or_else(|| Some((of(state.bucket_refusals, TO_BUCKET)?, false)))
}

/// A write among the bytes of a client: where it is, and where its answer goes.
struct Write {
    start: usize,
    end: usize,
    inbox: String,
}

/// The prefixes of writes to a run and to a bucket.
const TO_RUN: &[u8] = b"HPUB callboard.run.";
const TO_BUCKET: &[u8] = b"HPUB $KV.";
/// What follows the prefix in a message about a bucket, which belongs to no run.
const NO_RUN: &[u8] = b"=bucket-";

const PLAIN: &str = "the protocol of NATS is plain text";

/// Parses `HPUB subject inbox header-length length`, then that many bytes, each followed by an end of line.
fn find_write(words: &[u8], verb: &[u8]) -> Option<Write> {
    let begins = |(start, window)| window == verb && !words[start + verb.len()..].starts_with(NO_RUN);
    let start = words.windows(verb.len()).enumerate().position(begins)?;
    let length = words[start..].windows(2).position(|window| window == b"\r\n")?;
    let line = std::str::from_utf8(&words[start..start + length]).expect(PLAIN);
    let [_, _, inbox, _, size] = line.split(' ').collect::<Vec<_>>()[..] else { panic!("{line}") };
    let end = start + length + 2 + size.parse::<usize>().expect(PLAIN) + 2;
    Some(Write { start, end, inbox: inbox.to_owned() })
}

async fn downstream(
    server: Arc<AsyncMutex<OwnedReadHalf>>,
    client: Arc<AsyncMutex<OwnedWriteHalf>>,
    state: Arc<Mutex<State>>,
) {
    let (mut server, mut buffer) = (server.lock().await, [0; 65536]);
    while let Ok(length @ 1..) = server.read(&mut buffer).await {
        let answers_lost = lock(&state).answers_lost;
        if !answers_lost && client.lock().await.write_all(&buffer[..length]).await.is_err() {
            break;
        }
    }
}

/// Sends the delayed requests of cut connections to the server. Returns its answer to the write among them.
pub async fn deliver(lines: Vec<Line>) -> String {
    for Line { held, said, .. } in lines {
        let (server, bytes) = &mut *held.lock().await;
        let write = find_write(bytes, TO_BUCKET).or_else(|| find_write(bytes, TO_RUN));
        let Some(Write { inbox, .. }) = write else { continue };
        server.write_all(bytes).await.expect("the server listens");
        let (mut answers, mut buffer) = (String::new(), [0; 65536]);
        loop {
            let length = said.lock().await.read(&mut buffer).await.expect("the server answers");
            assert!(length > 0, "the server hung up: {answers}");
            answers.push_str(std::str::from_utf8(&buffer[..length]).expect(PLAIN));
            if let Some((_, answer)) = answers.split_once(&inbox)
                && let Some((answer, _)) = answer.split_once("}\r\n")
            {
                return answer.to_owned();
            }
        }
    }
    panic!("nothing was held back");
}
