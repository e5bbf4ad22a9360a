//! NATS servers for tests, each a process on a port and in a directory of its own. A server is killed when its
//! [`Server`] is dropped, or by the kernel when the thread that started it ends. A [`Proxy`] can delay and drop what is
//! sent to a server.

mod port;
mod proxy;

use std::fs;
use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::LazyLock;
use std::time::Duration;

use rustix::process::{Pid, Signal, WaitOptions, kill_process, waitpid};
use store::{AnyStore, Location, MIN_VERSION, NatsSettings, NatsStore, Timeouts};

pub use proxy::{Connection, Proxy, deliver};

pub use port::Port;

/// A server that is killed with its test.
#[derive(Debug)]
pub struct Server {
    child: Child,
    directory: tempfile::TempDir,
    port: Port,
    /// The port on which the other servers of its cluster reach it, reserved while this server exists.
    _route: Option<Port>,
    /// Additional configuration.
    extra: String,
    /// What precedes the host in the address: nothing, or `user:password@`.
    credentials: String,
}

impl Server {
    pub fn start() -> Self {
        Self::start_with("")
    }

    /// Starts a server with additional configuration.
    pub fn start_with(extra: &str) -> Self {
        let directory = tempfile::tempdir().expect("a temporary directory");
        let port = Port::take();
        let child = launch(directory.path(), port.number, extra);
        Self { child, directory, port, _route: None, extra: extra.to_owned(), credentials: String::new() }
    }

    /// Starts a server that requires a password.
    pub fn start_for(user: &str, password: &str) -> Self {
        let mut server =
            Self::start_with(&format!("authorization {{ user: \"{user}\", password: \"{password}\" }}"));
        server.credentials = format!("{user}:{password}@");
        server
    }

    /// Starts a cluster of three servers, named `n0` to `n2` in this order.
    pub fn start_cluster() -> [Self; 3] {
        let ports = [(); 3].map(|()| Port::take());
        let address = |port: &Port| format!("127.0.0.1:{}", port.number);
        let routes = ports.each_ref().map(|port| format!("\"nats://{}\"", address(port))).join(", ");
        let name = format!("three-{}", ports[0].number);
        let mut number = 0;
        ports.map(|port| {
            let mut server = Self::start_with(&format!(
                "server_name: n{number}\ncluster {{ name: {name}, listen: \"{}\", routes: [{routes}] }}",
                address(&port)
            ));
            number += 1;
            server._route = Some(port);
            server
        })
    }

    /// `host:port`, for clients.
    pub fn address(&self) -> String {
        format!("127.0.0.1:{}", self.port.number)
    }

    /// The URL with credentials.
    pub fn url(&self) -> String {
        format!("nats://{}{}", self.credentials, self.address())
    }

    /// The directory of a stream.
    pub fn stream_dir(&self, name: &str) -> PathBuf {
        self.directory.path().join("jetstream/$G/streams").join(name)
    }

    /// Settings for a store with one replica.
    pub fn settings(&self) -> NatsSettings {
        settings(&self.address())
    }

    /// Stops it (SIGSTOP), and waits until it has stopped.
    pub fn suspend(&self) {
        let id = Pid::from_child(&self.child);
        kill_process(id, Signal::STOP).expect("it is our child");
        waitpid(Some(id), WaitOptions::UNTRACED).expect("it is our child");
    }

    /// Continues it (SIGCONT).
    pub fn resume(&self) {
        kill_process(Pid::from_child(&self.child), Signal::CONT).expect("it is our child");
    }

    /// `kill -9`; its directory stays.
    pub fn kill(&mut self) {
        self.child.kill().expect("it is our child");
        self.child.wait().expect("it is our child");
    }

    /// Restarts it on the same port with an empty directory. Returns the previous one.
    pub fn restart_empty(&mut self) -> tempfile::TempDir {
        self.restart_in(tempfile::tempdir().expect("a temporary directory"))
    }

    /// Restarts it on the same port with that directory. Returns the previous one.
    pub fn restart_in(&mut self, directory: tempfile::TempDir) -> tempfile::TempDir {
        let previous = std::mem::replace(&mut self.directory, directory);
        self.restart();
        previous
    }

    /// Restarts it on the same port, with its directory.
    pub fn restart(&mut self) {
        self.child = launch(self.directory.path(), self.port.number, &self.extra);
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _already_gone = self.child.kill();
        let _already_waited = self.child.wait();
    }
}

/// Wraps a store for callers that do not use its local directory.
pub fn any_store(store: NatsStore) -> AnyStore {
    let unused = std::env::temp_dir().join("callboard-unused");
    let local_dir = Location::find(&unused, Some(unused.clone())).expect("it need not be there");
    AnyStore::nats(store, local_dir)
}

pub fn settings(address: &str) -> NatsSettings {
    let settings: NatsSettings = address.parse().expect("an address of ours");
    // A killed server never answers, and tests need not wait as long as users.
    let timeouts = Timeouts { request: Duration::from_secs(2), ..settings.timeouts };
    NatsSettings { replicas: 1, timeouts, ..settings }
}

/// Starts a server and waits until it is ready.
fn launch(directory: &Path, port: u16, extra: &str) -> Child {
    let at = directory.display();
    let text = format!("listen: \"127.0.0.1:{port}\"\njetstream: {{ store_dir: \"{at}\" }}\n{extra}\n");
    let configuration = directory.join("configuration");
    fs::write(&configuration, text).expect("its directory is ours");
    // The kernel kills it when this thread ends, even if the test process is killed by `kill -9`.
    let mut command = Command::new("setpriv");
    command.args(["--pdeathsig", "KILL"]).arg(&*PROGRAM).arg("--config").arg(configuration);
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
    let mut child = command.spawn().expect("`setpriv` of util-linux is needed");
    let mut log = BufReader::new(child.stderr.take().expect("it is piped"));
    let mut output = String::new();
    while !output.contains("Server is ready") {
        assert!(
            log.read_line(&mut output).expect("its log is text") > 0,
            "nats-server does not start:\n{output}"
        );
    }
    // The log is read to its end: a server whose pipe is full would block.
    std::thread::spawn(move || std::io::copy(&mut log, &mut std::io::sink()).is_ok());
    child
}

/// Returns a port on which no process listened just now.
pub fn free_port() -> u16 {
    Port::take().number
}

/// A server that is new enough: on PATH, or in the tool directory of the build.
static PROGRAM: LazyLock<PathBuf> = LazyLock::new(|| {
    let build = std::env::current_exe().expect("a test knows its program");
    let tools = build.ancestors().nth(3).expect("it lies in the build's directory").join("tools/nats-server");
    let candidates = [PathBuf::from("nats-server"), tools];
    let fit =
        candidates.into_iter().find(|program| version(program).is_some_and(|version| version >= MIN_VERSION));
    fit.expect("no nats-server of at least 2.10.25: run scripts/tools, or scripts/verify --no-nats")
});

fn version(program: &Path) -> Option<[u64; 3]> {
    let answer = Command::new(program).arg("--version").output().ok()?;
    let answer = String::from_utf8(answer.stdout).ok()?;
    let mut numbers = answer.trim().strip_prefix("nats-server: v")?.split(['.', '-']).map(|n| n.parse().ok());
    Some([numbers.next()??, numbers.next()??, numbers.next()??])
}
