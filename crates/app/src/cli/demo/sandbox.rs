//! The folder in which the demo takes place: a small git repository and what its agents and the storyteller share.
//!
//! ```text
//! FOLDER/leap-year/   the repository; the store lies in its git directory
//! FOLDER/bin/         this program under its name, for the agents' reports
//! FOLDER/home/        nobody's home, so that nobody's settings count
//! FOLDER/ledger       a line from each agent as it begins and ends
//! FOLDER/bell, idea   pipes: an agent has noted something; the coder may go on
//! ```

use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Output, Stdio};
use std::time::Duration;

use rustix::fs::{CWD, Mode, mkfifoat};
use tempfile::TempDir;
use tokio::process::Command;

use super::ledger::Wakeup;
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
    ("agents/ledger.sh", include_str!("sandbox/agents/ledger.sh")),
    ("agents/coder.sh", include_str!("sandbox/agents/coder.sh")),
    ("agents/tester.sh", include_str!("sandbox/agents/tester.sh")),
    ("agents/writer.sh", include_str!("sandbox/agents/writer.sh")),
];

/// What of the caller's environment reaches the demo: what it takes to find programs and to print. No `CALLBOARD_*`, no
/// `GIT_*`, no settings.
const PASSED: [&str; 8] = ["PATH", "TMPDIR", "LANG", "LC_ALL", "LC_CTYPE", "TZ", "USER", "LLVM_PROFILE_FILE"];

/// The folder with everything in it.
#[derive(Debug)]
pub(super) struct Sandbox {
    folder: TempDir,
    root: PathBuf,
    repo: PathBuf,
    program: PathBuf,
    pace: Duration,
}

/// What the repository's own test says.
#[derive(Debug)]
pub(super) struct Tested {
    pub(super) passes: bool,
    pub(super) said: Vec<String>,
}

impl Sandbox {
    /// Makes the folder and commits the repository with its bug.
    pub(super) async fn build(pace: Duration) -> Result<Self, Failure> {
        let program = std::env::current_exe().map_err(|error| {
            Failure::new(Exit::Bug, "cannot tell which program this is").because(Some(&error))
        })?;
        let made = tempfile::Builder::new().prefix("callboard-demo-").tempdir();
        let made = made.and_then(|folder| Ok((folder.path().canonicalize()?, folder)));
        let (root, folder) = made.map_err(|error| {
            Failure::usage(format!("cannot make a folder in `{}`", std::env::temp_dir().display()))
                .because(Some(&error))
                .hint("set TMPDIR to a directory that can be written to")
        })?;
        let sandbox = Self { repo: root.join("leap-year"), root, folder, program, pace };
        sandbox.furnish().map_err(|error| {
            Failure::usage(format!("cannot write to `{}`", sandbox.root.display())).because(Some(&error))
        })?;
        sandbox.git(&["init", "--quiet", "--template=", "."]).await?;
        for (key, value) in
            [("user.name", "demo"), ("user.email", "demo@example.com"), ("commit.gpgsign", "false")]
        {
            sandbox.git(&["config", key, value]).await?;
        }
        sandbox.git(&["add", "."]).await?;
        sandbox.git(&["commit", "--quiet", "--message", "a calendar, not right yet"]).await?;
        Ok(sandbox)
    }

    fn furnish(&self) -> std::io::Result<()> {
        for (name, text) in FILES {
            let path = self.repo.join(name);
            fs::create_dir_all(path.parent().unwrap_or(&self.repo))?;
            fs::write(path, text)?;
        }
        fs::create_dir(self.root.join("home"))?;
        fs::create_dir(self.root.join("bin"))?;
        std::os::unix::fs::symlink(&self.program, self.root.join("bin/callboard"))?;
        fs::write(self.ledger(), "")?;
        for pipe in [self.bell(), self.idea()] {
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

    pub(super) fn ledger(&self) -> PathBuf {
        self.root.join("ledger")
    }

    fn bell(&self) -> PathBuf {
        self.root.join("bell")
    }

    fn idea(&self) -> PathBuf {
        self.root.join("idea")
    }

    /// Listens to the agents.
    pub(super) fn listen(&self) -> Result<Wakeup, Failure> {
        Wakeup::open(&self.bell(), self.ledger()).map_err(|error| cannot_use(&self.bell(), &error))
    }

    /// Lets the coder go on, whether it waits already or comes later. It holds as long as the file is kept.
    pub(super) fn inspire(&self) -> Result<fs::File, Failure> {
        let idea = self.idea();
        // Opened for both, so that it does not block.
        let pipe = fs::File::options().read(true).write(true).open(&idea);
        let written = pipe.and_then(|mut pipe| std::io::Write::write_all(&mut pipe, b"\n\n").map(|()| pipe));
        written.map_err(|error| cannot_use(&idea, &error))
    }

    /// A program in the repository, with an environment of its own and out of reach of the keyboard's Ctrl-C: whoever
    /// tells the story decides who ends.
    fn command(&self, program: impl AsRef<OsStr>) -> Command {
        let mut command = Command::new(program);
        let path = std::env::var_os("PATH").unwrap_or_else(|| "/usr/local/bin:/usr/bin:/bin".into());
        let mut with_ours = self.root.join("bin").into_os_string();
        with_ours.push(":");
        with_ours.push(path);
        command
            .current_dir(&self.repo)
            .env_clear()
            .envs(PASSED.iter().filter_map(|name| Some((name, std::env::var_os(name)?))))
            .env("PATH", with_ours)
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

    /// This program.
    pub(super) fn callboard(&self, arguments: &[&str]) -> Command {
        let mut command = self.command(&self.program);
        command.args(arguments);
        command
    }

    /// Runs the repository's test.
    pub(super) async fn test(&self) -> Result<Tested, Failure> {
        let Output { status, stdout, .. } =
            self.command("sh").arg("test.sh").output().await.map_err(|error| {
                Failure::usage("the demo needs `sh`, which could not be started").because(Some(&error))
            })?;
        let said = String::from_utf8_lossy(&stdout).lines().map(str::to_owned).collect();
        Ok(Tested { passes: status.success(), said })
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
        let said = String::from_utf8_lossy(&stderr).trim().to_owned();
        Err(Failure::usage(format!("`git {}` failed in the demo's repository: {said}", arguments.join(" "))))
    }

    /// Ends what the run may have left at work. The engines are dead by now, or will be in a run_at: `stop` waits for that
    /// and ends the agents as their engine would.
    pub(super) async fn clear(&self) -> Result<(), Failure> {
        let stopped = self.callboard(&["stop", RUN]).stdout(Stdio::null()).stderr(Stdio::null()).status();
        // Its code does not matter: there may be no run yet, or one that has finished.
        stopped
            .await
            .map(drop)
            .map_err(|error| Failure::new(Exit::Bug, "cannot end the demo's agents").because(Some(&error)))
    }

    /// Leaves the folder where it is, as a place to look around and run things again.
    pub(super) fn keep(self) -> PathBuf {
        // Agents take a missing pipe for an absent storyteller, which is what we are about to be.
        let _ = fs::remove_file(self.bell());
        let _ = fs::remove_file(self.idea());
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
