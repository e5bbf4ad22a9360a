//! The real binary, run with an environment of its own.

use std::io::{Read, Write as _};
use std::os::unix::process::ExitStatusExt as _;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{Arc, Condvar, Mutex};
use std::thread::JoinHandle;

use rustix::process::Signal;
use serde_json::Value;

use crate::process::ProcessHandle;
use crate::test_env::TestEnv;
use crate::wait::DEADLINE;

/// A call of `callboard` that has not started yet.
#[derive(Debug)]
pub struct Callboard<'s> {
    test_env: &'s TestEnv,
    arguments: Vec<String>,
    command: Command,
}

impl<'s> Callboard<'s> {
    pub(crate) fn new(test_env: &'s TestEnv, arguments: &[&str]) -> Self {
        let mut command = Command::new(test_env.program());
        command.args(arguments);
        Self { test_env, arguments: arguments.iter().map(|&argument| argument.to_owned()).collect(), command }
            .prepared()
    }

    /// Runs the call on a terminal of its own, which the program `script` makes. The name of a test that uses it begins with
    /// `needs_script_`. Replaces the command, so variables and a directory must be set after it.
    #[must_use]
    pub fn on_terminal(self) -> Self {
        let program = self.test_env.program().to_str().expect("our paths are UTF-8");
        let words = std::iter::once(program).chain(self.arguments.iter().map(String::as_str));
        let line: Vec<_> = words.map(|word| format!("'{word}'")).collect();
        let mut command = Command::new("script");
        command.args(["--quiet", "--flush", "--return", "--command", &line.join(" "), "/dev/null"]);
        let mut prepared = Self { command, ..self }.prepared();
        prepared.command.env("TERM", "xterm").env("SHELL", "/bin/sh").stdin(Stdio::piped());
        prepared
    }

    /// Runs the call from a line of shell in which `"$@"` is the call: for limits, closed pipes and unusual parents.
    /// Replaces the command, so variables and a directory must be set after it.
    #[must_use]
    pub fn in_shell(self, line: &str) -> Self {
        let mut command = Command::new("sh");
        command.args(["-c", line, "sh"]).arg(self.test_env.program()).args(&self.arguments);
        Self { command, ..self }.prepared()
    }

    /// Sets the environment and the pipes.
    fn prepared(mut self) -> Self {
        let inherited = ["PATH", "LD_LIBRARY_PATH", "LLVM_PROFILE_FILE", "TMPDIR"];
        let test_env = self.test_env;
        self.command
            .current_dir(test_env.repo())
            .env_clear()
            .envs(inherited.iter().filter_map(|name| Some((name, std::env::var_os(name)?))))
            .env("HOME", test_env.home())
            .env("XDG_CONFIG_HOME", test_env.home().join(".config"))
            .env("LANG", "C.UTF-8")
            .env("USER", "tester")
            .env("CALLBOARD_BACKOFF", "10ms")
            .envs(test_env.backend().address().map(|address| ("CALLBOARD_STORE", address)))
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        self
    }

    /// Sets a variable.
    #[must_use]
    pub fn env(mut self, name: &str, value: impl AsRef<std::ffi::OsStr>) -> Self {
        self.command.env(name, value);
        self
    }

    /// Sets the working directory, which is the repository by default.
    #[must_use]
    pub fn current_dir(mut self, directory: impl AsRef<std::path::Path>) -> Self {
        self.command.current_dir(directory);
        self
    }

    /// Runs it to its end.
    #[track_caller]
    pub fn run(self) -> CallOutput {
        self.start().wait()
    }

    /// Starts it.
    #[track_caller]
    pub fn start(mut self) -> Running<'s> {
        let mut child = self.command.spawn().expect("callboard can be started");
        let stdout = PipeOutput::from(child.stdout.take().expect("it is piped"));
        let stderr = PipeOutput::from(child.stderr.take().expect("it is piped"));
        let pid = i32::try_from(child.id()).expect("a pid is small");
        Running {
            test_env: self.test_env,
            arguments: self.arguments,
            child,
            process: KillOnDrop(ProcessHandle::child(pid)),
            stdout,
            stderr,
        }
    }
}

/// The output of a pipe so far. A thread reads it, so that the process never blocks.
#[derive(Debug)]
struct PipeOutput {
    text: Arc<(Mutex<Vec<u8>>, Condvar)>,
    thread: JoinHandle<()>,
}

impl PipeOutput {
    fn from(mut pipe: impl Read + Send + 'static) -> Self {
        let text = Arc::new((Mutex::new(Vec::new()), Condvar::new()));
        let shared = text.clone();
        let thread = std::thread::spawn(move || {
            let mut buffer = [0; 4096];
            while let Ok(length) = pipe.read(&mut buffer)
                && length > 0
            {
                shared.0.lock().expect("no thread panics with the lock").extend_from_slice(&buffer[..length]);
                shared.1.notify_all();
            }
        });
        Self { text, thread }
    }

    #[track_caller]
    fn wait_for(&self, what: &str) {
        let text = self.text.0.lock().expect("no thread panics with the lock");
        let waited = self
            .text
            .1
            .wait_timeout_while(text, DEADLINE, |text| !String::from_utf8_lossy(text).contains(what));
        let (text, waited) = waited.expect("no thread panics with the lock");
        let text = String::from_utf8_lossy(&text);
        assert!(!waited.timed_out(), "waited in vain for `{what}`; its output:\n{text}");
    }

    fn finish(self) -> String {
        self.thread.join().expect("the reader does not panic");
        let text = self.text.0.lock().expect("no thread panics with the lock");
        String::from_utf8_lossy(&text).into_owned()
    }
}

/// A running `callboard`.
#[derive(Debug)]
pub struct Running<'s> {
    test_env: &'s TestEnv,
    arguments: Vec<String>,
    child: Child,
    process: KillOnDrop,
    stdout: PipeOutput,
    stderr: PipeOutput,
}

impl Running<'_> {
    pub fn pid(&self) -> i32 {
        self.process.0.pid()
    }

    pub fn signal(&self, signal: Signal) {
        self.process.0.signal(signal);
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
        self.process.0.kill();
    }

    pub fn has_ended(&self) -> bool {
        self.process.0.has_ended()
    }

    /// Blocks until it ends, at most for `length`. Returns whether it has ended.
    pub fn ends_within(&self, length: std::time::Duration) -> bool {
        self.process.0.ends_within(length)
    }

    /// Blocks until this is in its messages (stderr).
    #[track_caller]
    pub fn wait_for_stderr(&self, what: &str) {
        self.stderr.wait_for(what);
    }

    /// Blocks until this is on its terminal or in its data (stdout).
    #[track_caller]
    pub fn wait_for_stdout(&self, what: &str) {
        self.stdout.wait_for(what);
    }

    /// Types on its terminal.
    pub fn press(&mut self, keys: &str) {
        let terminal = self.child.stdin.as_mut().expect("it has a terminal");
        terminal.write_all(keys.as_bytes()).expect("the terminal takes keys");
    }

    /// Blocks until it has ended. Returns whether `kill -9` ended it.
    pub(crate) fn was_killed(&self) -> bool {
        self.process.0.wait();
        self.process.0.ending_signal() == Some(Signal::KILL.as_raw())
    }

    #[track_caller]
    pub fn wait(mut self) -> CallOutput {
        self.process.0.wait();
        let status = self.child.wait().expect("it is our child");
        let (stdout, stderr) = (self.stdout.finish(), self.stderr.finish());
        CallOutput {
            redacted: transcript(self.test_env, &self.arguments, status, &stdout, &stderr),
            code: status.code().unwrap_or(-1),
            status,
            stdout,
            stderr,
        }
    }
}

/// Blocks until one of the two has ended. Returns its index.
#[track_caller]
pub fn first_to_end(both: [&Running<'_>; 2]) -> usize {
    ProcessHandle::first_to_end(both.map(|one| &one.process.0))
}

/// Kills a `callboard` whose test failed before it waited for it.
#[derive(Debug)]
struct KillOnDrop(ProcessHandle);

impl Drop for KillOnDrop {
    fn drop(&mut self) {
        self.0.kill();
    }
}

/// The result of a call.
#[derive(Debug)]
pub struct CallOutput {
    /// −1 if a signal ended it.
    pub code: i32,
    pub status: ExitStatus,
    pub stdout: String,
    pub stderr: String,
    redacted: String,
}

impl CallOutput {
    /// The call as a terminal would show it, redacted: stderr first, then stdout.
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
    pub fn json_lines(&self) -> Vec<Value> {
        let parse = |line| serde_json::from_str(line).unwrap_or_else(|error| panic!("{error} in: {line}"));
        self.stdout.lines().map(parse).collect()
    }
}

fn transcript(
    test_env: &TestEnv,
    arguments: &[String],
    status: ExitStatus,
    stdout: &str,
    stderr: &str,
) -> String {
    let quoted = arguments.iter().map(|argument| {
        let plain = !argument.is_empty() && !argument.contains([' ', '"', '\'', '{', '$']);
        if plain { argument.clone() } else { format!("'{argument}'") }
    });
    let line = format!("$ callboard {}", quoted.collect::<Vec<_>>().join(" "));
    let ended = match status.code() {
        Some(code) => format!("[exit {code}]"),
        None => format!("[signal {}]", status.signal().unwrap_or_default()),
    };
    test_env.redact(&format!("{line}\n{stderr}{stdout}{ended}"))
}
