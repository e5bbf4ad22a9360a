//! Writes that reach the server late, after everybody has given them up.
//!
//! A wire between client and server holds back what is said on it. When it is cut the client connects anew, and what was held
//! back still gets to the server when the test lets it.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use protocol::Revision;
use store::{CommitError, NatsSettings, NatsStore, Patience, Position, ReadError, Store as _, StoredEntry};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;

use crate::contract::{change, run};
use crate::servers::Server;

struct Wire {
    address: String,
    state: Arc<Mutex<State>>,
}

#[derive(Default)]
struct State {
    /// Whether what clients say is held back from now on.
    holding: bool,
    lines: Vec<Line>,
}

/// One connection: its two directions, what is held back of the first, and what the server says.
struct Line {
    pumps: [JoinHandle<()>; 2],
    held: Arc<tokio::sync::Mutex<(OwnedWriteHalf, Vec<u8>)>>,
    said: Arc<tokio::sync::Mutex<OwnedReadHalf>>,
}

impl Wire {
    async fn to(server: &Server) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let (state, target) = (Arc::new(Mutex::new(State::default())), server.address());
        let shared = Arc::clone(&state);
        tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                let (from_server, to_server) = TcpStream::connect(&target).await.unwrap().into_split();
                let (from_client, to_client) = client.into_split();
                let held = Arc::new(tokio::sync::Mutex::new((to_server, Vec::new())));
                let said = Arc::new(tokio::sync::Mutex::new(from_server));
                let pumps = [
                    tokio::spawn(upstream(from_client, Arc::clone(&held), Arc::clone(&shared))),
                    tokio::spawn(downstream(Arc::clone(&said), to_client)),
                ];
                shared.lock().unwrap().lines.push(Line { pumps, held, said });
            }
        });
        Self { address, state }
    }

    /// A store at the other end, which waits so long for an outage to end.
    fn store(&self, outage: Duration) -> NatsStore {
        let settings: NatsSettings = self.address.parse().unwrap();
        let patience = Patience { answer: Duration::from_millis(300), outage, ..Patience::default() };
        NatsStore::new(NatsSettings { replicas: 1, patience, ..settings })
    }

    fn hold(&self) {
        self.state.lock().unwrap().holding = true;
    }

    /// Cuts the clients off. The server does not notice; whoever connects from now on is let through.
    fn cut(&self) -> Vec<Line> {
        let mut state = self.state.lock().unwrap();
        state.holding = false;
        let lines = std::mem::take(&mut state.lines);
        lines.iter().flat_map(|line| &line.pumps).for_each(JoinHandle::abort);
        lines
    }
}

async fn upstream(
    mut client: OwnedReadHalf,
    held: Arc<tokio::sync::Mutex<(OwnedWriteHalf, Vec<u8>)>>,
    state: Arc<Mutex<State>>,
) {
    let mut buffer = [0; 65536];
    while let Ok(length @ 1..) = client.read(&mut buffer).await {
        let (server, bytes) = &mut *held.lock().await;
        if state.lock().unwrap().holding {
            bytes.extend_from_slice(&buffer[..length]);
        } else if server.write_all(&buffer[..length]).await.is_err() {
            break;
        }
    }
}

async fn downstream(server: Arc<tokio::sync::Mutex<OwnedReadHalf>>, mut client: OwnedWriteHalf) {
    let _either_is_gone = tokio::io::copy(&mut *server.lock().await, &mut client).await;
}

/// Lets the server hear what was held back of lines that are cut, and gives what it answers to the write in it.
async fn deliver(lines: Vec<Line>) -> String {
    for Line { held, said, .. } in lines {
        let (server, bytes) = &mut *held.lock().await;
        let text = String::from_utf8_lossy(bytes).into_owned();
        // HPUB subject inbox sizes: the answer goes to the inbox.
        let Some((_, write)) = text.split_once("HPUB callboard.run.") else { continue };
        let inbox = write.split(' ').nth(1).unwrap();
        server.write_all(bytes).await.unwrap();
        let (mut answers, mut buffer) = (String::new(), [0; 65536]);
        loop {
            let length = said.lock().await.read(&mut buffer).await.unwrap();
            assert!(length > 0, "the server hung up: {answers}");
            answers.push_str(std::str::from_utf8(&buffer[..length]).unwrap());
            if let Some((_, answer)) = answers.split_once(inbox)
                && let Some((answer, _)) = answer.split_once("}\r\n")
            {
                return answer.to_owned();
            }
        }
    }
    panic!("nothing was held back");
}

fn bodies(entries: &[StoredEntry]) -> Vec<&str> {
    entries.iter().map(|entry| entry.body.as_str()).collect()
}

#[tokio::test]
async fn a_write_that_was_settled_as_lost_does_not_land_later() {
    let server = Server::start();
    let wire = Wire::to(&server).await;
    let (store, run) = (wire.store(Duration::from_millis(600)), run("late"));
    let first = store.commit(change(&run, Position::absent(), "1")).await.unwrap();
    wire.hold();
    let commit = change(&run, first, "late");
    let id = commit.write_id;
    let error = store.commit(commit).await.unwrap_err();
    assert!(matches!(error, CommitError::Unknown { .. }), "{error:?}");
    let lines = wire.cut();
    let settled = loop {
        match store.settle(&run, id).await {
            Ok(settled) => break settled,
            Err(ReadError::Unavailable(_)) => {}
            Err(error) => panic!("{error}"),
        }
    };
    assert_eq!(settled, None);
    let answer = deliver(lines).await;
    assert!(answer.contains("wrong last sequence"), "{answer}");
    assert_eq!(bodies(&store.entries(&run, Revision(0)).await.unwrap()), ["1"]);
    store.commit(change(&run, first, "2")).await.unwrap();
    assert_eq!(bodies(&store.entries(&run, Revision(0)).await.unwrap()), ["1", "2"]);
}

#[tokio::test]
async fn a_write_whose_connection_is_cut_is_made_again_and_lands_once() {
    let server = Server::start();
    let wire = Wire::to(&server).await;
    let (store, run) = (wire.store(Duration::from_secs(60)), run("cut"));
    let first = store.commit(change(&run, Position::absent(), "1")).await.unwrap();
    wire.hold();
    let (writer, name) = (store.clone(), run.clone());
    let writing = tokio::spawn(async move { writer.commit(change(&name, first, "2")).await });
    let is_held = async || {
        let lines: Vec<_> = wire.state.lock().unwrap().lines.iter().map(|l| Arc::clone(&l.held)).collect();
        let mut held = 0;
        for line in lines {
            held += line.lock().await.1.len();
        }
        held > 0
    };
    while !is_held().await {
        tokio::task::yield_now().await;
    }
    let lines = wire.cut();
    let second = writing.await.unwrap().unwrap();
    assert_eq!(second.revision, Revision(2));
    let answer = deliver(lines).await;
    assert!(answer.contains("wrong last sequence"), "{answer}");
    assert_eq!(bodies(&store.entries(&run, Revision(0)).await.unwrap()), ["1", "2"]);
    assert_eq!(store.load(&run).await.unwrap().unwrap().position, second);
}
