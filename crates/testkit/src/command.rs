//! The real binary, run with an environment of its own.

use std::io::{Read, Write as _};
use std::os::unix::process::ExitStatusExt as _;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{Arc, Condvar, Mutex};
use std::thread::JoinHandle;

use rustix::process::Signal;
use serde_json::Value;

use crate::process::Held;
use crate::scene::Scene;
use crate::wait::DEADLINE;

/// One call of `callboard`, not made yet.
#[derive(Debug)]
pub struct Callboard<'s> {
    scene: &'s Scene,
    arguments: Vec<String>,
    command: Command,
}

impl<'s> Callboard<'s> {
    pub(crate) fn new(scene: &'s Scene, arguments: &[&str]) -> Self {
        let mut command = Command::new(scene.program());
        command.args(arguments);
        Self { scene, arguments: arguments.iter().map(|&argument| argument.to_owned()).collect(), command }
            .prepared()
    }

    /// The same on a terminal of its own, with the help of `script`; `None` where that is missing.
    pub fn on_terminal(self) -> Option<Self> {
        let has_script =
            Command::new("script").arg("--version").output().is_ok_and(|output| output.status.success());
        let program = self.scene.program().to_str().expect("our paths are UTF-8");
        let words = std::iter::once(program).chain(self.arguments.iter().map(String::as_str));
        let line: Vec<_> = words.map(|word| format!("'{word}'")).collect();
        let mut command = Command::new("script");
        command.args(["--quiet", "--flush", "--return", "--command", &line.join(" "), "/dev/null"]);
        let mut prepared = Self { command, ..self }.prepared();
        prepared.command.env("TERM", "xterm").env("SHELL", "/bin/sh").stdin(Stdio::piped());
        has_script.then_some(prepared)
    }

    /// The same as a line of shell, in which `"$@"` is the call: for limits, closed pipes and odd parents.
    #[must_use]
    pub fn in_shell(self, line: &str) -> Self {
        let mut command = Command::new("sh");
        command.args(["-c", line, "sh"]).arg(self.scene.program()).args(&self.arguments);
        Self { command, ..self }.prepared()
    }

    /// An environment of its own, and pipes.
    fn prepared(mut self) -> Self {
        let kept = ["PATH", "LD_LIBRARY_PATH", "LLVM_PROFILE_FILE", "TMPDIR"];
        let scene = self.scene;
        self.command
            .current_dir(scene.repo())
            .env_clear()
            .envs(kept.iter().filter_map(|name| Some((name, std::env::var_os(name)?))))
            .env("HOME", scene.home())
            .env("XDG_CONFIG_HOME", scene.home().join(".config"))
            .env("LANG", "C.UTF-8")
            .env("USER", "tester")
            .env("CALLBOARD_BACKOFF", "10ms")
            .envs(scene.backing().address().map(|address| ("CALLBOARD_STORE", address)))
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        self
    }

    /// One more variable.
    #[must_use]
    pub fn env(mut self, name: &str, value: impl AsRef<std::ffi::OsStr>) -> Self {
        self.command.env(name, value);
        self
    }

    /// Starts elsewhere than in the repository.
    #[must_use]
    pub fn current_dir(mut self, directory: impl AsRef<std::path::Path>) -> Self {
        self.command.current_dir(directory);
        self
    }

    /// Runs it to its end.
    #[track_caller]
    pub fn run(self) -> Session {
        self.start().wait()
    }

    /// Starts it.
    #[track_caller]
    pub fn start(mut self) -> Running<'s> {
        let mut child = self.command.spawn().expect("callboard can be started");
        let stdout = Collected::from(child.stdout.take().expect("it is piped"));
        let stderr = Collected::from(child.stderr.take().expect("it is piped"));
        let pid = i32::try_from(child.id()).expect("a pid is small");
        Running {
            scene: self.scene,
            arguments: self.arguments,
            child,
            held: Leash(Held::child(pid)),
            stdout,
            stderr,
        }
    }
}

/// What came out of a pipe so far. It is read beside the test, so that nobody blocks on it.
#[derive(Debug)]
struct Collected {
    text: Arc<(Mutex<Vec<u8>>, Condvar)>,
    thread: JoinHandle<()>,
}

impl Collected {
    fn from(mut pipe: impl Read + Send + 'static) -> Self {
        let text = Arc::new((Mutex::new(Vec::new()), Condvar::new()));
        let shared = text.clone();
        let thread = std::thread::spawn(move || {
            let mut buffer = [0; 4096];
            while let Ok(length) = pipe.read(&mut buffer)
                && length > 0
            {
                shared.0.lock().expect("nobody panics with it").extend_from_slice(&buffer[..length]);
                shared.1.notify_all();
            }
        });
        Self { text, thread }
    }

    #[track_caller]
    fn wait_for(&self, what: &str) {
        let text = self.text.0.lock().expect("nobody panics with it");
        let waited = self
            .text
            .1
            .wait_timeout_while(text, DEADLINE, |text| !String::from_utf8_lossy(text).contains(what));
        let (text, waited) = waited.expect("nobody panics with it");
        let text = String::from_utf8_lossy(&text);
        assert!(!waited.timed_out(), "waited in vain for `{what}`; it said:\n{text}");
    }

    fn finish(self) -> String {
        self.thread.join().expect("the reader does not panic");
        let text = self.text.0.lock().expect("nobody panics with it");
        String::from_utf8_lossy(&text).into_owned()
    }
}

/// A `callboard` at work.
#[derive(Debug)]
pub struct Running<'s> {
    scene: &'s Scene,
    arguments: Vec<String>,
    child: Child,
    held: Leash,
    stdout: Collected,
    stderr: Collected,
}

impl Running<'_> {
    pub fn pid(&self) -> i32 {
        self.held.0.pid()
    }

    pub fn signal(&self, signal: Signal) {
        self.held.0.signal(signal);
    }

    /// Ctrl-C.
    pub fn interrupt(&self) {
        self.signal(Signal::INT);
    }

    pub fn terminate(&self) {
        self.signal(Signal::TERM);
    }

    /// `kill -9`.
    pub fn kill(&self) {
        self.held.0.kill();
    }

    pub fn has_ended(&self) -> bool {
        self.held.0.has_ended()
    }

    /// Blocks until it ends, at most this long, and says whether it has.
    pub fn ends_within(&self, length: std::time::Duration) -> bool {
        self.held.0.ends_within(length)
    }

    /// Blocks until it has told this to people.
    #[track_caller]
    pub fn wait_until_it_says(&self, what: &str) {
        self.stderr.wait_for(what);
    }

    /// Blocks until this is on its terminal, or in its data.
    #[track_caller]
    pub fn wait_until_it_shows(&self, what: &str) {
        self.stdout.wait_for(what);
    }

    /// Types on its terminal.
    pub fn press(&mut self, keys: &str) {
        let terminal = self.child.stdin.as_mut().expect("it has a terminal");
        terminal.write_all(keys.as_bytes()).expect("the terminal takes keys");
    }

    /// Whether the kill was what ended it; blocks until it has ended.
    pub(crate) fn was_killed(&self) -> bool {
        self.held.0.wait();
        self.held.0.ending_signal() == Some(Signal::KILL.as_raw())
    }

    #[track_caller]
    pub fn wait(mut self) -> Session {
        self.held.0.wait();
        let status = self.child.wait().expect("it is our child");
        let (stdout, stderr) = (self.stdout.finish(), self.stderr.finish());
        Session {
            redacted: transcript(self.scene, &self.arguments, status, &stdout, &stderr),
            code: status.code().unwrap_or(-1),
            status,
            stdout,
            stderr,
        }
    }
}

/// Blocks until one of the two has ended, and says which.
#[track_caller]
pub fn first_to_end(both: [&Running<'_>; 2]) -> usize {
    Held::first_to_end(both.map(|one| &one.held.0))
}

/// Ends a `callboard` whose test has failed before it waited for it.
#[derive(Debug)]
struct Leash(Held);

impl Drop for Leash {
    fn drop(&mut self) {
        self.0.kill();
    }
}

/// What a call came to.
#[derive(Debug)]
pub struct Session {
    /// −1 if a signal ended it.
    pub code: i32,
    pub status: ExitStatus,
    pub stdout: String,
    pub stderr: String,
    redacted: String,
}

impl Session {
    /// The call as a terminal would show it, without what differs from run to run: errors first, then data.
    pub fn transcript(&self) -> &str {
        &self.redacted
    }

    /// Standard output as one JSON value.
    #[track_caller]
    pub fn json(&self) -> Value {
        serde_json::from_str(&self.stdout).unwrap_or_else(|error| panic!("{error} in:\n{}", self.stdout))
    }

    /// Standard output as one JSON value per line.
    #[track_caller]
    pub fn events(&self) -> Vec<Value> {
        let parse = |line| serde_json::from_str(line).unwrap_or_else(|error| panic!("{error} in: {line}"));
        self.stdout.lines().map(parse).collect()
    }
}

fn transcript(scene: &Scene, arguments: &[String], status: ExitStatus, stdout: &str, stderr: &str) -> String {
    let quoted = arguments.iter().map(|argument| {
        let plain = !argument.is_empty() && !argument.contains([' ', '"', '\'', '{', '$']);
        if plain { argument.clone() } else { format!("'{argument}'") }
    });
    let line = format!("$ callboard {}", quoted.collect::<Vec<_>>().join(" "));
    let ended = match status.code() {
        Some(code) => format!("[exit {code}]"),
        None => format!("[signal {}]", status.signal().unwrap_or_default()),
    };
    scene.redact(&format!("{line}\n{stderr}{stdout}{ended}"))
}
