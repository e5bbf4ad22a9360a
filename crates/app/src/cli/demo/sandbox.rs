//! The folder of the demo: a small git repository, and the files that the agents and the demo share.
//!
//! ```text
//! FOLDER/leap-year/   the repository; the store is in its git directory
//! FOLDER/bin/         this program under its name, for the agents' reports
//! FOLDER/home/        an empty home directory, so that no user settings apply
//! FOLDER/agents.log   one line from each agent at its start and one at its end
//! FOLDER/wakeup       a pipe: an agent has written to the log
//! FOLDER/release      a pipe: the coder waits here until the demo has killed the engine
//! ```

use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Output, Stdio};
use std::time::Duration;

use rustix::fs::{CWD, Mode, mkfifoat};
use tempfile::TempDir;
use tokio::process::Command;

use super::agent_log::Wakeup;
use crate::failure::{Exit, Failure};

/// The name of the run.
pub(super) const RUN: &str = "leap";

const FILES: [(&str, &str); 11] = [
    ("leap.sh", include_str!("sandbox/leap.sh")),
    ("test.sh", include_str!("sandbox/test.sh")),
    ("workflow.yaml", include_str!("sandbox/workflow.yaml")),
    ("callboard.toml", include_str!("sandbox/callboard.toml")),
    ("prompts/fix.md", include_str!("sandbox/prompts/fix.md")),
    ("prompts/test.md", include_str!("sandbox/prompts/test.md")),
    ("prompts/docs.md", include_str!("sandbox/prompts/docs.md")),
    ("agents/log.sh", include_str!("sandbox/agents/log.sh")),
    ("agents/coder.sh", include_str!("sandbox/agents/coder.sh")),
    ("agents/tester.sh", include_str!("sandbox/agents/tester.sh")),
    ("agents/writer.sh", include_str!("sandbox/agents/writer.sh")),
];

/// The variables that the demo inherits: those needed to find programs, to print and to measure coverage. No
/// `CALLBOARD_*` and no `GIT_*`.
const INHERITED_VARIABLES: [&str; 8] =
    ["PATH", "TMPDIR", "LANG", "LC_ALL", "LC_CTYPE", "TZ", "USER", "LLVM_PROFILE_FILE"];

/// The folder of the demo.
#[derive(Debug)]
pub(super) struct Sandbox {
    folder: TempDir,
    root: PathBuf,
    repo: PathBuf,
    program: PathBuf,
    /// How long an agent sleeps after a line of its log.
    pace: Duration,
}

/// The result of the repository's test.
#[derive(Debug)]
pub(super) struct TestResult {
    pub(super) passes: bool,
    pub(super) output: Vec<String>,
}

impl Sandbox {
    /// Creates the folder and commits the repository with its bug.
    pub(super) async fn build(pace: Duration) -> Result<Self, Failure> {
        let program = std::env::current_exe().map_err(|error| {
            Failure::new(Exit::Bug, "cannot find the path of this program").because(Some(&error))
        })?;
        let created = tempfile::Builder::new().prefix("callboard-demo-").tempdir();
        let created = created.and_then(|folder| Ok((folder.path().canonicalize()?, folder)));
        let (root, folder) = created.map_err(|error| {
            Failure::usage(format!("cannot create a folder in `{}`", std::env::temp_dir().display()))
                .because(Some(&error))
                .hint("set TMPDIR to a writable directory")
        })?;
        let sandbox = Self { repo: root.join("leap-year"), root, folder, program, pace };
        sandbox.write_files().map_err(|error| {
            Failure::usage(format!("cannot write to `{}`", sandbox.root.display())).because(Some(&error))
        })?;
        sandbox.git(&["init", "--quiet", "--template=", "."]).await?;
        for (key, value) in
            [("user.name", "demo"), ("user.email", "demo@example.com"), ("commit.gpgsign", "false")]
        {
            sandbox.git(&["config", key, value]).await?;
        }
        sandbox.git(&["add", "."]).await?;
        sandbox.git(&["commit", "--quiet", "--message", "add a calendar with a bug"]).await?;
        Ok(sandbox)
    }

    fn write_files(&self) -> std::io::Result<()> {
        for (name, text) in FILES {
            let path = self.repo.join(name);
            fs::create_dir_all(path.parent().unwrap_or(&self.repo))?;
            fs::write(path, text)?;
        }
        fs::create_dir(self.root.join("home"))?;
        fs::create_dir(self.root.join("bin"))?;
        std::os::unix::fs::symlink(&self.program, self.root.join("bin/callboard"))?;
        fs::write(self.agent_log(), "")?;
        for pipe in [self.wakeup_pipe(), self.continue_pipe()] {
            mkfifoat(CWD, pipe, Mode::RUSR | Mode::WUSR)?;
        }
        Ok(())
    }

    pub(super) fn root(&self) -> &Path {
        &self.root
    }

    pub(super) fn repo(&self) -> &Path {
        &self.repo
    }

    pub(super) fn agent_log(&self) -> PathBuf {
        self.root.join("agents.log")
    }

    fn wakeup_pipe(&self) -> PathBuf {
        self.root.join("wakeup")
    }

    fn continue_pipe(&self) -> PathBuf {
        self.root.join("release")
    }

    /// Opens the pipe that the agents write to.
    pub(super) fn listen(&self) -> Result<Wakeup, Failure> {
        Wakeup::open(&self.wakeup_pipe(), self.agent_log())
            .map_err(|error| cannot_use(&self.wakeup_pipe(), &error))
    }

    /// Lets the coder continue, now or when it starts to wait. The returned file must stay open until then.
    pub(super) fn let_coder_continue(&self) -> Result<fs::File, Failure> {
        let path = self.continue_pipe();
        // Opened for reading, too, so that it does not block. Two lines, for a second attempt of the coder.
        let pipe = fs::File::options().read(true).write(true).open(&path);
        let written = pipe.and_then(|mut pipe| std::io::Write::write_all(&mut pipe, b"\n\n").map(|()| pipe));
        written.map_err(|error| cannot_use(&path, &error))
    }

    /// A program in the repository with an environment of its own. It is in its own process group, so that Ctrl-C reaches only
    /// the demo, which then ends it.
    fn command(&self, program: impl AsRef<OsStr>) -> Command {
        let mut command = Command::new(program);
        let path = std::env::var_os("PATH").unwrap_or_else(|| "/usr/local/bin:/usr/bin:/bin".into());
        let mut search_path = self.root.join("bin").into_os_string();
        search_path.push(":");
        search_path.push(path);
        command
            .current_dir(&self.repo)
            .env_clear()
            .envs(INHERITED_VARIABLES.iter().filter_map(|name| Some((name, std::env::var_os(name)?))))
            .env("PATH", search_path)
            .env("HOME", self.root.join("home"))
            .env("XDG_CONFIG_HOME", self.root.join("home"))
            .env("GIT_CONFIG_NOSYSTEM", "1")
            .env("PACE", self.pace.as_secs_f64().to_string())
            .env("CLICOLOR_FORCE", "1")
            .stdin(Stdio::null())
            .process_group(0)
            .kill_on_drop(true);
        command
    }

    /// This program with the given arguments.
    pub(super) fn callboard(&self, arguments: &[&str]) -> Command {
        let mut command = self.command(&self.program);
        command.args(arguments);
        command
    }

    /// Runs the repository's test.
    pub(super) async fn test(&self) -> Result<TestResult, Failure> {
        let Output { status, stdout, .. } =
            self.command("sh").arg("test.sh").output().await.map_err(|error| {
                Failure::usage("the demo needs `sh`, which could not be started").because(Some(&error))
            })?;
        let output = String::from_utf8_lossy(&stdout).lines().map(str::to_owned).collect();
        Ok(TestResult { passes: status.success(), output })
    }

    async fn git(&self, arguments: &[&str]) -> Result<(), Failure> {
        let Output { status, stderr, .. } =
            self.command("git").args(arguments).output().await.map_err(|error| {
                Failure::usage("the demo needs `git`, which could not be started")
                    .because(Some(&error))
                    .hint("install git, or put it on the PATH")
            })?;
        if status.success() {
            return Ok(());
        }
        let message = String::from_utf8_lossy(&stderr).trim().to_owned();
        Err(Failure::usage(format!(
            "`git {}` failed in the demo's repository: {message}",
            arguments.join(" ")
        )))
    }

    /// Stops the run and its agents. `stop` waits until a killed engine is gone.
    pub(super) async fn stop_run(&self) -> Result<(), Failure> {
        let stopped = self.callboard(&["stop", RUN]).stdout(Stdio::null()).stderr(Stdio::null()).status();
        // The exit code does not matter: there may be no run yet, or it may have finished.
        stopped
            .await
            .map(drop)
            .map_err(|error| Failure::new(Exit::Bug, "cannot stop the demo's agents").because(Some(&error)))
    }

    /// Keeps the folder and returns its path.
    pub(super) fn keep(self) -> PathBuf {
        // Without the pipes, the agents run without waiting for the demo.
        let _ = fs::remove_file(self.wakeup_pipe());
        let _ = fs::remove_file(self.continue_pipe());
        self.folder.keep()
    }

    pub(super) fn remove(self) -> Result<(), Failure> {
        let root = self.root.clone();
        self.folder.close().map_err(|error| {
            Failure::usage(format!("cannot remove `{}`", root.display())).because(Some(&error))
        })
    }
}

fn cannot_use(pipe: &Path, error: &std::io::Error) -> Failure {
    Failure::new(Exit::Bug, format!("cannot use the pipe `{}`", pipe.display())).because(Some(error))
}
