//! The tasks of child processes, and how a test starts, reads and kills them.

use std::io::{BufRead as _, BufReader, Write as _};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::Duration;

use protocol::{Revision, RunId};
use store::{Commit, CommitError, Position, Store};

use super::{Backend, entry_commit, item, part};

const TASK: &str = "STORE_TEST_TASK";
const ADDRESS: &str = "STORE_TEST_ADDRESS";
const RUN: &str = "STORE_TEST_RUN";

/// After this time a watcher has missed an event. Far more than a loaded machine needs.
pub(crate) const WATCH_TIMEOUT: Duration = Duration::from_secs(60);

/// A child process with a task. Killed when dropped.
pub(crate) struct ChildProcess {
    child: Child,
    lines: BufReader<ChildStdout>,
}

impl ChildProcess {
    /// Starts `task` with a number whose meaning depends on the task.
    pub(crate) fn start<B: Backend>(backend: &B, task: &str, run: &RunId, number: u64) -> Self {
        Self::start_with(Command::new(std::env::current_exe().unwrap()), backend, task, run, number)
    }

    /// Starts `task` through a command that executes this test binary.
    pub(crate) fn start_with<B: Backend>(
        mut command: Command,
        backend: &B,
        task: &str,
        run: &RunId,
        number: u64,
    ) -> Self {
        command.args(["child_task", "--exact", "--nocapture", "--quiet"]);
        command.env(TASK, format!("{task} {number}")).env(ADDRESS, backend.address()).env(RUN, run.as_str());
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap());
        Self { child, lines }
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Returns the next line that it prints, or `None` once it has ended.
    pub(crate) fn next_line(&mut self) -> Option<String> {
        let mut line = String::new();
        while self.lines.read_line(&mut line).unwrap() > 0 {
            // Skip what the test harness prints, and a partial line of a killed process.
            if let Some((_, text)) = line.split_once("> ")
                && let Some(text) = text.strip_suffix('\n')
            {
                return Some(text.to_owned());
            }
            line.clear();
        }
        None
    }

    /// Kills it with SIGKILL. Returns the remaining lines that it printed.
    pub(crate) fn kill(mut self) -> Vec<String> {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
        std::iter::from_fn(|| self.next_line()).collect()
    }

    /// Waits until it succeeds. Returns the remaining lines that it printed.
    pub(crate) fn succeed(mut self) -> Vec<String> {
        let lines = std::iter::from_fn(|| self.next_line()).collect();
        assert!(self.child.wait().unwrap().success());
        lines
    }
}

impl Drop for ChildProcess {
    fn drop(&mut self) {
        let _already_gone = self.child.kill();
        let _already_waited = self.child.wait();
    }
}

/// Prints a line for [`ChildProcess::next_line`].
pub(crate) fn print_line(text: std::fmt::Arguments<'_>) {
    // One call, so that a kill leaves no partial line. Newline first, because the harness does not end its own lines.
    std::io::stdout().write_all(format!("\n> {text}\n").as_bytes()).unwrap();
    std::io::stdout().flush().unwrap();
}

/// Performs the task that the environment names, if it names one.
pub(crate) fn run_child_task<B: Backend>() {
    let Ok(task) = std::env::var(TASK) else { return };
    let (task, number) = task.split_once(' ').unwrap();
    let number = number.parse().unwrap();
    let address = std::env::var_os(ADDRESS).unwrap();
    let run = RunId::new(std::env::var(RUN).unwrap()).unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let _guard = runtime.enter();
    let store = B::attach(&address);
    runtime.block_on(async {
        match task {
            "count" => count(store, &run, number).await,
            "write" => write(store, &run, number).await,
            "watch" => watch(store, &run, number).await,
            "lock" => lock(store, &run).await,
            "commit" => commit(store, &run, number).await,
            other => panic!("no task `{other}`"),
        }
    });
}

/// Increments the document `times` times, and prints how many conflicts it met. Backs off after a conflict, as every
/// client does; without that most commits would fail.
async fn count(store: impl Store, run: &RunId, times: u64) {
    let (pid, mut total_conflicts) = (std::process::id(), 0);
    for n in 0..times {
        let mut conflicts = 0;
        loop {
            let position = store.load(run).await.unwrap().unwrap().position;
            let document = store.parts_at(run, position.revision).await.unwrap();
            let count: u64 = document[0].body.parse().unwrap();
            let parts = vec![part("count", &(count + 1).to_string())];
            let snapshot = Some(String::new());
            let entry = format!("{pid} {n}");
            match store.commit(Commit { parts, snapshot, ..entry_commit(run, position, &entry) }).await {
                Ok(_) => break,
                Err(CommitError::Conflict { .. }) => conflicts += 1,
                Err(error) => panic!("{error}"),
            }
            let longest = Duration::from_millis(10 << conflicts.min(4));
            tokio::time::sleep(longest.mul_f64(fastrand::f64())).await;
        }
        total_conflicts += conflicts;
    }
    print_line(format_args!("{total_conflicts}"));
}

/// Commits until the run is at `last`, concurrently with other writers, and prints every acknowledged commit.
///
/// Every commit replaces the part and the outbox item, so that a torn commit would be visible.
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
            ..entry_commit(run, position, &next.to_string())
        };
        let id = commit.write_id;
        match store.commit(commit).await {
            Ok(done) => print_line(format_args!("{} {id}", done.revision)),
            Err(CommitError::Conflict { .. }) => {}
            Err(error) => panic!("{error}"),
        }
    }
}

/// Watches the run up to revision `last` and prints every revision.
async fn watch(store: impl Store, run: &RunId, last: u64) {
    let mut watch = store.watch(run, Revision(0)).await.unwrap();
    print_line(format_args!("ready"));
    while watch.after().0 < last {
        let next = tokio::time::timeout(WATCH_TIMEOUT, watch.next()).await;
        for entry in next.expect("the watcher is woken").unwrap() {
            assert_eq!(entry.revision.to_string(), entry.body);
            print_line(format_args!("{}", entry.revision));
        }
    }
}

/// Takes the engine lock, prints its epoch and holds it until the process is killed or its standard input closes.
async fn lock(store: impl Store, run: &RunId) {
    let lock = store.lock_engine(run).await.unwrap();
    print_line(format_args!("{}", lock.epoch()));
    std::io::stdin().read_line(&mut String::new()).unwrap();
}

/// Commits one entry of the given size and prints the result.
async fn commit(store: impl Store, run: &RunId, size: u64) {
    let position = store.load(run).await.unwrap().unwrap().position;
    let commit = entry_commit(run, position, &"x".repeat(usize::try_from(size).unwrap()));
    let id = commit.write_id;
    match store.commit(commit).await {
        Ok(position) => print_line(format_args!("landed at {}", position.revision)),
        Err(CommitError::OutcomeUnknown { write_id, .. }) => {
            assert_eq!(write_id, id);
            print_line(format_args!(
                "unknown, resolved as {:?}",
                store.resolve_unknown_write(run, id).await.unwrap()
            ));
        }
        Err(error) => print_line(format_args!("{error:?}")),
    }
}
