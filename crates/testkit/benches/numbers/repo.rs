//! A repository to measure in, with agents that cost next to nothing.

use std::ffi::OsString;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitCode, Stdio};
use std::time::{Duration, Instant, SystemTime};

use anyhow::{Context as _, ensure};
use testkit::TestEnv;

/// The argument with which this program is an agent that records its start time.
pub(crate) const STAMP: &str = "__stamp";

/// Writes the time to a file and waits until it is killed.
pub(crate) fn stamp(file: Option<OsString>) -> ExitCode {
    let Some(file) = file.map(PathBuf::from) else { return ExitCode::FAILURE };
    let nanos = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).map_or(0, |since| since.as_nanos());
    let draft = file.with_extension("new");
    if std::fs::write(&draft, nanos.to_string()).and_then(|()| std::fs::rename(&draft, &file)).is_err() {
        return ExitCode::FAILURE;
    }
    loop {
        std::thread::park();
    }
}

/// A temporary repository in which `callboard` is measured.
pub(crate) struct BenchRepo<'p> {
    program: &'p Path,
    test_env: TestEnv,
}

impl<'p> BenchRepo<'p> {
    /// Creates a repository. Agent `trivial` is `/bin/true`; agent `stamper` records its start time and waits.
    pub(crate) fn new(program: &'p Path) -> anyhow::Result<Self> {
        let repo = Self { program, test_env: TestEnv::new(program) };
        std::fs::create_dir(repo.stamps())?;
        let this_program = std::env::current_exe()?;
        let quoted = |path: &Path| format!("{:?}", path.display().to_string());
        let stamp = quoted(&repo.stamps().join("{step_id}"));
        repo.test_env.write(
            "callboard.toml",
            &format!(
                "[adapters.trivial]\ncommand = [\"/bin/true\"]\nreport = \"exit-code\"\n\n\
                 [adapters.stamper]\ncommand = [{}, {STAMP:?}, {stamp}]\ngrace = \"1s\"\n",
                quoted(&this_program)
            ),
        );
        Ok(repo)
    }

    pub(crate) fn test_env(&self) -> &TestEnv {
        &self.test_env
    }

    /// The directory of the recorded times: a file per step.
    pub(crate) fn stamps(&self) -> PathBuf {
        self.test_env.agent_dir().join("stamps")
    }

    /// Writes a workflow of steps `s1`, `s2`, … all for one agent.
    pub(crate) fn workflow(&self, shape: Shape, steps: usize, agent: &str) -> PathBuf {
        let agents = std::iter::repeat_n(agent, steps).collect::<Vec<_>>();
        self.workflow_with_agents(shape, &agents)
    }

    /// Writes a workflow with an agent for each step.
    pub(crate) fn workflow_with_agents(&self, shape: Shape, agents: &[&str]) -> PathBuf {
        let mut text = "name: bench\nsteps:\n".to_owned();
        for (agent, number) in agents.iter().zip(1..) {
            text.push_str(&format!("  - {{id: s{number}, agent: {agent}, prompt: task.md"));
            if shape == Shape::Line && number > 1 {
                text.push_str(&format!(", needs: [s{}]", number - 1));
            }
            text.push_str("}\n");
        }
        self.test_env.write("wf.yaml", &text)
    }

    /// Prepares the binary in this repository, with its messages in a file.
    pub(crate) fn callboard(&self, arguments: &[&str]) -> anyhow::Result<Command> {
        let mut command = self.command(self.program, arguments);
        command.stderr(File::create(self.messages())?);
        Ok(command)
    }

    fn messages(&self) -> PathBuf {
        self.test_env.agent_dir().join("messages")
    }

    /// Prepares another program in the same environment.
    pub(crate) fn command(&self, program: &Path, arguments: &[&str]) -> Command {
        let mut command = Command::new(program);
        command
            .args(arguments)
            .current_dir(self.test_env.repo())
            .env_clear()
            .envs(["PATH", "TMPDIR"].iter().filter_map(|name| Some((name, std::env::var_os(name)?))))
            .env("HOME", self.test_env.home())
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        command
    }

    /// Returns how long `run wf.yaml` takes, from its start to its exit.
    pub(crate) fn time_run(&self, run: &str, jobs: usize) -> anyhow::Result<Duration> {
        self.time(&["run", "wf.yaml", "--run-id", run, "--jobs", &jobs.to_string()])
    }

    /// Returns how long a command takes, which must succeed.
    pub(crate) fn time(&self, arguments: &[&str]) -> anyhow::Result<Duration> {
        let mut command = self.callboard(arguments)?;
        let begun = Instant::now();
        let status = command.status().with_context(|| format!("cannot start {command:?}"))?;
        let took = begun.elapsed();
        let messages = || std::fs::read_to_string(self.messages()).unwrap_or_default();
        ensure!(status.success(), "`callboard {}` ended with {status}:\n{}", arguments.join(" "), messages());
        Ok(took)
    }

    /// Starts an engine, and returns when the agents of these steps are running.
    pub(crate) fn engine(&self, arguments: &[&str], steps: &[String]) -> anyhow::Result<Engine> {
        let engine = Engine(self.callboard(arguments)?.spawn()?);
        testkit::wait_until(&self.stamps(), "every agent's stamp", || {
            steps.iter().all(|step| self.stamps().join(step).exists()).then_some(())
        });
        Ok(engine)
    }

    /// Returns when the agent of a step started, as it recorded itself.
    pub(crate) fn take_stamp(&self, step: &str) -> anyhow::Result<SystemTime> {
        let path = self.stamps().join(step);
        let nanos: u64 = std::fs::read_to_string(&path)?.parse().context("a stamp is a number")?;
        std::fs::remove_file(path)?;
        Ok(SystemTime::UNIX_EPOCH + Duration::from_nanos(nanos))
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Shape {
    /// Each step needs the one before.
    Line,
    /// All steps are independent.
    Wide,
}

/// A running engine, with agents that do not end by themselves.
pub(crate) struct Engine(Child);

impl Engine {
    pub(crate) fn pid(&self) -> u32 {
        self.0.id()
    }

    /// Ends it and its agents; the run can be resumed.
    pub(crate) fn end(mut self) -> anyhow::Result<()> {
        let engine = rustix::process::Pid::from_child(&self.0);
        rustix::process::kill_process(engine, rustix::process::Signal::TERM)?;
        self.0.wait()?;
        Ok(())
    }
}
