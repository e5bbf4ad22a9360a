//! A temporary git repository with a home directory and the scripted agent.

mod agent_log;
mod backend;
mod command;
mod redact;

pub use agent_log::{AgentEvent, AgentLog};
pub(crate) use backend::open;
pub use backend::{Backend, TempStore, on_nats};
pub use command::{CallOutput, Callboard, Running, first_to_end};
pub use redact::redact;

use std::fs::{self, File, OpenOptions};
use std::io::Write as _;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;

use protocol::RunId;
use rustix::fs::{CWD, Mode};
use serde_json::Value;
use tempfile::TempDir;

use crate::harness;
use crate::nats::Server;

const AGENT: &str = include_str!("agent.sh");

/// A temporary git repository in which the real binary runs with an environment of its own.
#[derive(Debug)]
pub struct TestEnv {
    /// Removed with the test environment.
    _directory: TempDir,
    repo: PathBuf,
    program: PathBuf,
    backend: Backend,
    store: PathBuf,
}

impl TestEnv {
    /// Creates a test environment for the built `callboard`, on the store that the tests run on.
    pub fn new(program: impl AsRef<Path>) -> Self {
        Self::named(program, "repo")
    }

    /// Creates a test environment whose repository directory has this name.
    pub fn named(program: impl AsRef<Path>, name: &str) -> Self {
        Self::with_backend(program, name, Backend::chosen())
    }

    /// Creates a test environment on this server, whatever store the tests run on.
    pub fn on(server: Server, program: impl AsRef<Path>) -> Self {
        Self::with_backend(program, "repo", server.into())
    }

    fn with_backend(program: impl AsRef<Path>, name: &str, backend: Backend) -> Self {
        let directory =
            tempfile::Builder::new().prefix("callboard-").tempdir().expect("a temporary directory");
        // The output contains canonical paths.
        let root = directory.path().canonicalize().expect("it was just made");
        let repo = root.join(name);
        let mut test_env = Self {
            store: repo.join(".git/callboard"),
            repo,
            _directory: directory,
            program: program.as_ref().to_owned(),
            backend,
        };
        for directory in [test_env.repo(), &test_env.home(), &test_env.agent_dir()] {
            fs::create_dir_all(directory).expect("a directory can be made");
        }
        test_env.write_program(test_env.agent_path(), AGENT);
        symlink(&test_env.program, test_env.agent_dir().join("callboard")).expect("a link can be made");
        // An agent that shall hang reads from this pipe, to which no process writes.
        mkfifo(&test_env.agent_dir().join("never"));
        test_env.git(&["init", "--quiet", "--initial-branch=main"]);
        test_env.write("task.md", "Do what the step says.\n");
        test_env.git(&["add", "."]);
        test_env.git(&["commit", "--quiet", "--message=begin"]);
        if let Backend::Nats { .. } = test_env.backend {
            // A single server has one replica. The store tells where its local directory is.
            test_env.write("../home/.config/callboard/config.toml", "[store]\nreplicas = 1\n");
            // In a thread of its own, because the caller may be inside a runtime.
            let opened = std::thread::scope(|scope| scope.spawn(|| test_env.open_store()).join());
            test_env.store = opened.expect("the server answers").local_dir().root().to_owned();
        }
        test_env
    }

    pub fn repo(&self) -> &Path {
        &self.repo
    }

    /// The directory, outside of the repository, through which agents and tests exchange files. No store is in it.
    pub fn agent_dir(&self) -> PathBuf {
        self.repo.with_file_name("shared")
    }

    pub fn home(&self) -> PathBuf {
        self.repo.with_file_name("home")
    }

    /// The local directory, with the attempts. That of an embedded store also has the database.
    pub fn store_dir(&self) -> PathBuf {
        self.store.clone()
    }

    pub fn backend(&self) -> &Backend {
        &self.backend
    }

    /// The scripted agent, which accepts the flags of the wrapper contract and ignores them.
    pub fn agent_path(&self) -> PathBuf {
        self.agent_dir().join("agent.sh")
    }

    pub fn program(&self) -> &Path {
        &self.program
    }

    pub fn agent_log(&self) -> AgentLog {
        AgentLog::new(self.agent_dir().join("agent_log"))
    }

    /// The directory of an attempt: of `plan#1.1` with the step `plan` and the number `1.1`.
    pub fn attempt_dir(&self, run: &str, step: &str, number: &str) -> PathBuf {
        self.store_dir().join("attempts").join(run).join(step).join(number)
    }

    pub fn view_path(&self, run: &str) -> PathBuf {
        self.repo.join(".agents/runs").join(run).join("run_state.json")
    }

    /// Reads the document from the view.
    #[track_caller]
    pub fn document(&self, run: &str) -> Value {
        let text = fs::read_to_string(self.view_path(run)).expect("the view is there");
        serde_json::from_str(&text).expect("a view is always whole")
    }

    /// Waits until the view satisfies `predicate`.
    #[track_caller]
    pub fn wait_for_view(&self, run: &str, what: &str, predicate: impl Fn(&Value) -> bool) -> Value {
        let view = self.view_path(run);
        fs::create_dir_all(view.parent().expect("a view lies in a directory")).expect("it can be made");
        crate::wait_until(view.parent().expect("as above"), what, || {
            let text = fs::read_to_string(&view).ok()?;
            let document = serde_json::from_str(&text).expect("a view is always whole");
            predicate(&document).then_some(document)
        })
    }

    /// Waits until a run's engine, which this test did not start itself, has ended.
    #[track_caller]
    pub fn wait_for_engine_exit(&self, run: &str) {
        if let Some(engine) = self.engine(run).and_then(crate::ProcessHandle::of) {
            engine.wait();
        }
    }

    /// Returns the pid of a run's engine. After it has ended: its pid still on SQLite, `None` on NATS.
    #[track_caller]
    pub fn engine(&self, run: &str) -> Option<i32> {
        match self.backend {
            Backend::Embedded => {
                let lock_text = fs::read_to_string(self.store.join("engines").join(format!("{run}.lock")));
                let lock_text = lock_text.expect("an engine has signed its lock");
                let pid = lock_text.split(' ').next().and_then(|pid| pid.parse().ok());
                Some(pid.expect("it begins with its pid"))
            }
            Backend::Nats { .. } => {
                let run = RunId::new(run).expect("a name");
                let holder =
                    harness::block_on(self.open_store().engine_holder(&run)).expect("the server answers");
                holder.map(|holder| i32::try_from(holder.pid).expect("a pid is small"))
            }
        }
    }

    /// Writes a file of the repository.
    pub fn write(&self, name: impl AsRef<Path>, text: &str) -> PathBuf {
        let path = self.repo.join(name);
        fs::create_dir_all(path.parent().expect("a file lies in a directory")).expect("it can be made");
        fs::write(&path, text).expect("the file can be written");
        path
    }

    /// Writes a program, relative to the repository.
    pub fn write_program(&self, path: impl AsRef<Path>, script: &str) -> PathBuf {
        let path = self.write(path, script);
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).expect("it is ours");
        path
    }

    /// Writes `wf.yaml` with steps given as `id: need need`, all for agent `coder` with the prompt `task.md`.
    pub fn workflow(&self, steps: &[&str]) -> PathBuf {
        let mut text = "name: trial\nsteps:\n".to_owned();
        for step in steps {
            let (id, needs) = step.split_once(':').unwrap_or((step, ""));
            let needs: Vec<_> = needs.split_whitespace().collect();
            text.push_str(&format!("  - id: {id}\n    agent: coder\n    prompt: task.md\n"));
            if !needs.is_empty() {
                text.push_str(&format!("    needs: [{}]\n", needs.join(", ")));
            }
        }
        self.write("wf.yaml", &text)
    }

    /// Writes `wf.yaml` with steps given in YAML: `id: review, needs: [code], loop_back_to: code`.
    pub fn workflow_yaml(&self, steps: &[&str]) -> PathBuf {
        let steps = steps.iter().map(|step| format!("  - {{agent: coder, prompt: task.md, {step}}}\n"));
        self.write("wf.yaml", &format!("name: trial\nsteps:\n{}", steps.collect::<String>()))
    }

    /// Sets the behaviour of the scripted agent, one line per step and attempt; `agent.sh` describes the lines.
    pub fn script_agent(&self, lines: &[&str]) {
        fs::write(self.agent_dir().join("plan"), lines.join("\n") + "\n").expect("the plan can be written");
    }

    /// Creates a barrier at which scripted agents with the behaviour `wait NAME` wait.
    pub fn barrier(&self, name: &str) -> AgentBarrier {
        let path = self.agent_dir().join(name);
        mkfifo(&path);
        AgentBarrier { path, pipe: None }
    }

    /// Waits for a file that an agent creates in the shared directory. It may still be empty.
    #[track_caller]
    pub fn wait_for_file(&self, name: &str) {
        let path = self.agent_dir().join(name);
        crate::wait_until(&self.agent_dir(), name, || path.exists().then_some(()));
    }

    /// Waits for lines that an agent writes to a file in the shared directory with one write. Returns them.
    #[track_caller]
    pub fn wait_for_lines(&self, name: &str) -> String {
        let path = self.agent_dir().join(name);
        crate::wait_until(&self.agent_dir(), name, || {
            fs::read_to_string(&path).ok().filter(|text| text.ends_with('\n'))
        })
    }

    /// Prepares a call of the binary.
    pub fn callboard(&self, arguments: &[&str]) -> Callboard<'_> {
        Callboard::new(self, arguments)
    }

    /// Prepares a call with `--wrapper AGENT` at the end, so that the scripted agent works on every step.
    pub fn with_agent(&self, arguments: &[&str]) -> Callboard<'_> {
        self.with_agent_and(arguments, &[])
    }

    /// `callboard run wf.yaml --run-id RUN --wrapper AGENT`.
    pub fn run_named(&self, run: &str) -> Callboard<'_> {
        self.with_agent(&["run", "wf.yaml", "--run-id", run])
    }

    /// `callboard run wf.yaml --run-id trial --wrapper AGENT`, and more arguments.
    pub fn run(&self, more: &[&str]) -> Callboard<'_> {
        self.with_agent_and(&["run", "wf.yaml", "--run-id", "trial"], more)
    }

    fn with_agent_and(&self, arguments: &[&str], more: &[&str]) -> Callboard<'_> {
        let agent = self.agent_path();
        let agent = agent.to_str().expect("our paths are UTF-8");
        self.callboard(&[arguments, &["--wrapper", agent], more].concat())
    }

    /// Returns the journal of a run, oldest entry first.
    #[track_caller]
    pub fn journal(&self, run: &str) -> Vec<Value> {
        let log = self.callboard(&["log", run, "--json"]).run();
        assert_eq!(log.code, 0, "{}", log.stderr);
        log.json_lines()
    }

    /// Fails if a process of an attempt is alive.
    #[track_caller]
    pub fn expect_no_orphans(&self) {
        crate::expect_no_orphans(&self.store_dir());
    }

    #[track_caller]
    pub fn git(&self, arguments: &[&str]) -> String {
        let output = Command::new("git")
            .args(["-c", "user.name=Tester", "-c", "user.email=tester@example.com"])
            .args(arguments)
            .current_dir(&self.repo)
            .env("GIT_CONFIG_GLOBAL", "/dev/null")
            .env("GIT_CONFIG_SYSTEM", "/dev/null")
            // A git hook that runs the tests has these for its own repository.
            .env_remove("GIT_DIR")
            .env_remove("GIT_INDEX_FILE")
            .env_remove("GIT_WORK_TREE")
            .output()
            .expect("git can be run");
        assert!(output.status.success(), "git {arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8_lossy(&output.stdout).into_owned()
    }

    /// Replaces what differs from run to run; see [`crate::redact()`].
    pub(crate) fn redact(&self, text: &str) -> String {
        let root = self.repo.parent().expect("the repository lies in the directory of the test environment");
        // A store on NATS is shown by its server or by its directory, never with credentials.
        let text = match self.backend {
            Backend::Embedded => text.to_owned(),
            Backend::Nats { .. } => {
                text.replace(&format!("nats://{}", self.backend.server().address()), "[STORE]")
            }
        };
        let names = [
            (self.store_dir(), "[STORE]"),
            (self.agent_dir(), "[SHARED]"),
            (self.repo.clone(), "[REPO]"),
            (root.to_owned(), "[DIR]"),
        ];
        let text = names
            .iter()
            .fold(text, |text, (path, name)| text.replace(path.to_str().expect("our paths are UTF-8"), name));
        redact(&text)
    }
}

impl Drop for TestEnv {
    /// A failed test may leave agents that wait for ever. They carry the mark of this store, so they can be killed.
    fn drop(&mut self) {
        if std::thread::panicking() {
            for orphan in crate::attempt_processes(&self.store_dir()) {
                orphan.kill();
            }
        }
    }
}

/// A named pipe at which scripted agents wait until a test lets them continue. Not a gate of a workflow.
#[derive(Debug)]
pub struct AgentBarrier {
    path: PathBuf,
    pipe: Option<File>,
}

impl AgentBarrier {
    /// Lets all agents pass, now and later.
    pub fn open(&mut self) {
        // Opened for reading and writing so that it does not block, and kept open so that the lines stay in the pipe.
        let mut pipe = OpenOptions::new().read(true).write(true).open(&self.path).expect("the pipe is there");
        // Each agent reads one line.
        pipe.write_all(&[b'\n'; 1000]).expect("a pipe holds more than this");
        self.pipe = Some(pipe);
    }
}

fn mkfifo(path: &Path) {
    rustix::fs::mkfifoat(CWD, path, Mode::RUSR | Mode::WUSR).expect("a pipe can be made");
}

/// Returns the status of a step in a view.
pub fn status<'d>(document: &'d Value, step: &str) -> &'d str {
    document["steps"][step]["status"].as_str().unwrap_or("no such step")
}

/// Returns the last error of a step in a view.
pub fn last_error<'d>(document: &'d Value, step: &str) -> &'d str {
    document["steps"][step]["last_error"].as_str().unwrap_or_default()
}
