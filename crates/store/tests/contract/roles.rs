//! What child processes do, and how a test starts, hears and kills them.

use std::io::{BufRead as _, BufReader, Write as _};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::Duration;

use protocol::{Revision, RunId};
use store::{Commit, CommitError, Position, Store};

use super::{Backend, change, item, part};

const ROLE: &str = "STORE_TEST_ROLE";
const ADDRESS: &str = "STORE_TEST_ADDRESS";
const RUN: &str = "STORE_TEST_RUN";

/// A watcher that hears nothing for this long has missed the bell. Far beyond what a loaded machine needs.
pub(crate) const DEAF: Duration = Duration::from_secs(60);

/// A child process playing a role. It is killed when dropped.
pub(crate) struct Player {
    child: Child,
    lines: BufReader<ChildStdout>,
}

impl Player {
    /// Starts `role` with a number whose meaning is the role's.
    pub(crate) fn start<B: Backend>(backend: &B, role: &str, run: &RunId, number: u64) -> Self {
        Self::start_with(Command::new(std::env::current_exe().unwrap()), backend, role, run, number)
    }

    /// Starts `role` through a command that ends in this test binary.
    pub(crate) fn start_with<B: Backend>(
        mut command: Command,
        backend: &B,
        role: &str,
        run: &RunId,
        number: u64,
    ) -> Self {
        command.args(["role_for_children", "--exact", "--nocapture", "--quiet"]);
        command.env(ROLE, format!("{role} {number}")).env(ADDRESS, backend.address()).env(RUN, run.as_str());
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap());
        Self { child, lines }
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// The next thing it says, `None` once it has ended.
    pub(crate) fn hear(&mut self) -> Option<String> {
        let mut line = String::new();
        while self.lines.read_line(&mut line).unwrap() > 0 {
            // The test harness talks too, and a killed process may leave half a line.
            if let Some((_, said)) = line.split_once("> ")
                && let Some(said) = said.strip_suffix('\n')
            {
                return Some(said.to_owned());
            }
            line.clear();
        }
        None
    }

    /// `kill -9`, and everything it had said before.
    pub(crate) fn kill(mut self) -> Vec<String> {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
        std::iter::from_fn(|| self.hear()).collect()
    }

    /// Waits for its end and demands that it ended well.
    pub(crate) fn succeed(mut self) -> Vec<String> {
        let said = std::iter::from_fn(|| self.hear()).collect();
        assert!(self.child.wait().unwrap().success());
        said
    }
}

impl Drop for Player {
    fn drop(&mut self) {
        let _already_gone = self.child.kill();
        let _already_waited = self.child.wait();
    }
}

pub(crate) fn say(words: std::fmt::Arguments<'_>) {
    // One call, so that a kill cannot leave half of it; newline first, for the harness does not end its own lines.
    std::io::stdout().write_all(format!("\n> {words}\n").as_bytes()).unwrap();
    std::io::stdout().flush().unwrap();
}

pub(crate) fn play<B: Backend>() {
    let Ok(role) = std::env::var(ROLE) else { return };
    let (role, number) = role.split_once(' ').unwrap();
    let number = number.parse().unwrap();
    let address = std::env::var_os(ADDRESS).unwrap();
    let run = RunId::new(std::env::var(RUN).unwrap()).unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let _guard = runtime.enter();
    let store = B::attach(&address);
    runtime.block_on(async {
        match role {
            "count" => count(store, &run, number).await,
            "write" => write(store, &run, number).await,
            "watch" => watch(store, &run, number).await,
            "lead" => lock(store, &run).await,
            "commit" => commit(store, &run, number).await,
            other => panic!("no role `{other}`"),
        }
    });
}

/// Adds one to the document, `times` times, each repeated until it is applied, and says how often others were first. Whoever
/// was overtaken pauses, as everybody does who uses a store: without that most tries would be in vain.
async fn count(store: impl Store, run: &RunId, times: u64) {
    let (me, mut lost) = (std::process::id(), 0);
    for n in 0..times {
        let mut races = 0;
        loop {
            let position = store.load(run).await.unwrap().unwrap().position;
            let document = store.parts_at(run, position.revision).await.unwrap();
            let count: u64 = document[0].body.parse().unwrap();
            let parts = vec![part("count", &(count + 1).to_string())];
            let snapshot = Some(String::new());
            let entry = format!("{me} {n}");
            match store.commit(Commit { parts, snapshot, ..change(run, position, &entry) }).await {
                Ok(_) => break,
                Err(CommitError::Conflict { .. }) => races += 1,
                Err(error) => panic!("{error}"),
            }
            let longest = Duration::from_millis(10 << races.min(4));
            tokio::time::sleep(longest.mul_f64(fastrand::f64())).await;
        }
        lost += races;
    }
    say(format_args!("{lost}"));
}

/// Commits until the run is at `last`, beside others that do the same, and says which commits were acknowledged.
///
/// Every commit moves the part and the outbox item along, so that a torn one would show.
async fn write(store: impl Store, run: &RunId, last: u64) {
    loop {
        let position = store.load(run).await.unwrap().map_or(Position::absent(), |loaded| loaded.position);
        if position.revision.0 >= last {
            return;
        }
        let next = position.revision.next();
        let commit = Commit {
            parts: vec![part("document", &format!("{next} {}", "x".repeat(2000)))],
            outbox: vec![item(&next.to_string(), "{}")],
            acknowledged: vec![position.revision.to_string()],
            snapshot: Some(next.to_string()),
            ..change(run, position, &next.to_string())
        };
        let id = commit.write_id;
        match store.commit(commit).await {
            Ok(done) => say(format_args!("{} {id}", done.revision)),
            Err(CommitError::Conflict { .. }) => {}
            Err(error) => panic!("{error}"),
        }
    }
}

/// Says every revision it is told of, up to `last`.
async fn watch(store: impl Store, run: &RunId, last: u64) {
    let mut watch = store.watch(run, Revision(0)).await.unwrap();
    say(format_args!("ready"));
    while watch.after().0 < last {
        let news = tokio::time::timeout(DEAF, watch.next()).await.expect("the bell was missed").unwrap();
        for entry in news {
            assert_eq!(entry.revision.to_string(), entry.body);
            say(format_args!("{}", entry.revision));
        }
    }
}

/// Becomes the engine and stays it until killed.
async fn lock(store: impl Store, run: &RunId) {
    let lock = store.lock_engine(run).await.unwrap();
    say(format_args!("{}", lock.epoch()));
    std::io::stdin().read_line(&mut String::new()).unwrap();
}

/// Commits one entry of that size and says how it went.
async fn commit(store: impl Store, run: &RunId, size: u64) {
    let position = store.load(run).await.unwrap().unwrap().position;
    let commit = change(run, position, &"x".repeat(usize::try_from(size).unwrap()));
    let id = commit.write_id;
    match store.commit(commit).await {
        Ok(position) => say(format_args!("landed at {}", position.revision)),
        Err(CommitError::Unknown { write_id, .. }) => {
            assert_eq!(write_id, id);
            say(format_args!("unknown, settled as {:?}", store.settle(run, id).await.unwrap()));
        }
        Err(error) => say(format_args!("{error:?}")),
    }
}
