//! An attempt with a script as its agent, and the shim that runs it.

use std::fs;
use std::path::PathBuf;
use std::time::Duration;

use protocol::report::ReportIdentity;
use protocol::{AttemptId, RunId};
use rustix::process::{Pid, PidfdFlags};
use supervisor::{AttemptDir, AttemptEnd, AttemptHandle, ExitRecord, HandleEvent, Launch, ShimProgram, shim};
use tempfile::TempDir;

/// Longer than any test, so that a test that waits for it visibly hangs.
pub(crate) const LONG: Duration = Duration::from_secs(3600);

pub(crate) struct Fixture {
    /// Removes everything when the test is done.
    _root: TempDir,
    pub(crate) dir: AttemptDir,
    pub(crate) launch: Launch,
}

impl Fixture {
    /// Makes an attempt whose agent is this script. It runs in the attempt's directory. By writing `report.json` it tells
    /// the test how far it has come.
    pub(crate) fn script(script: &str) -> Self {
        Self::command(&["sh", "-c", script])
    }

    pub(crate) fn command(argv: &[&str]) -> Self {
        let root = tempfile::tempdir().unwrap();
        let run = RunId::new("f8c1a491").unwrap();
        let attempt: AttemptId = "review#2.1".parse().unwrap();
        let dir = AttemptDir::new(&root.path().join("attempts"), &run, &attempt);
        dir.create().unwrap();
        let launch = Launch {
            run,
            attempt,
            store: root.path().join("a store"),
            argv: argv.iter().map(|argument| (*argument).to_owned()).collect(),
            cwd: dir.path().to_owned(),
            env: vec![("PATH".into(), std::env::var_os("PATH").unwrap().into())],
            timeout: None,
            silence: None,
            grace: LONG,
            agent_open_files_limit: None,
        };
        Self { _root: root, dir, launch }
    }

    pub(crate) fn launch(&self) -> AttemptHandle {
        self.launch_with_watcher(&linux::DirWatcher::new().unwrap())
    }

    pub(crate) fn launch_with_watcher(&self, dir_watcher: &linux::DirWatcher) -> AttemptHandle {
        let mut handle = AttemptHandle::attach(dir_watcher, self.dir.clone(), self.launch.mark()).unwrap();
        handle.start(&this_binary_as_shim(), &self.launch).unwrap();
        handle
    }

    pub(crate) fn adopt(&self) -> AttemptHandle {
        AttemptHandle::attach(&linux::DirWatcher::new().unwrap(), self.dir.clone(), self.launch.mark())
            .unwrap()
    }

    /// Runs the attempt to its end.
    pub(crate) async fn run_to_end(&self) -> ExitRecord {
        wait_for_exit(&mut self.launch()).await
    }

    pub(crate) fn file(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    pub(crate) fn text(&self, name: &str) -> String {
        fs::read_to_string(self.file(name)).unwrap()
    }

    /// Opens the process whose pid a script wrote into this file.
    pub(crate) fn process(&self, name: &str) -> OpenProcess {
        OpenProcess::new(self.text(name).trim().parse().unwrap())
    }

    /// Opens the shim that holds the claim.
    pub(crate) fn shim(&self) -> OpenProcess {
        let claim: serde_json::Value = serde_json::from_str(&self.text("claim")).unwrap();
        OpenProcess::new(claim["pid"].as_i64().unwrap().try_into().unwrap())
    }

    pub(crate) fn expected(&self) -> ReportIdentity {
        expected()
    }
}

fn expected() -> ReportIdentity {
    ReportIdentity {
        run_id: "f8c1a491".parse().unwrap(),
        step_id: "review".parse().unwrap(),
        agent: "reviewer".to_owned(),
    }
}

/// Agents outlive the process that started them, so a failed test must kill them.
impl Drop for Fixture {
    fn drop(&mut self) {
        if std::thread::panicking() && self.file("claim").exists() && !self.file("exit.json").exists() {
            let claim: serde_json::Value = serde_json::from_str(&self.text("claim")).unwrap_or_default();
            let pid = claim["pid"].as_i64().and_then(|pid| Pid::from_raw(pid.try_into().ok()?));
            if let Some(shim) = pid {
                let _ = rustix::process::kill_process(shim, rustix::process::Signal::KILL);
            }
            let _ = supervisor::kill_marked(&self.launch.mark());
        }
    }
}

/// A process that was running when the test opened it.
pub(crate) struct OpenProcess {
    pub(crate) pid: Pid,
    fd: std::os::fd::OwnedFd,
}

impl OpenProcess {
    fn new(pid: i32) -> Self {
        let pid = Pid::from_raw(pid).unwrap();
        let fd = rustix::process::pidfd_open(pid, PidfdFlags::empty()).unwrap();
        let process = Self { pid, fd };
        assert!(!process.has_ended(), "process {} ended too early", pid.as_raw_pid());
        process
    }

    fn poll(&self, limit: Duration) -> bool {
        let mut fds = [rustix::event::PollFd::new(&self.fd, rustix::event::PollFlags::IN)];
        rustix::event::poll(&mut fds, Some(&limit.try_into().unwrap())).unwrap() > 0
    }

    pub(crate) fn has_ended(&self) -> bool {
        self.poll(Duration::ZERO)
    }

    pub(crate) fn wait(&self) {
        assert!(self.poll(LONG));
    }

    pub(crate) fn kill(&self) {
        rustix::process::pidfd_send_signal(&self.fd, rustix::process::Signal::KILL).unwrap();
    }
}

pub(crate) async fn wait_for_report(handle: &mut AttemptHandle) {
    assert_eq!(handle.next().await.unwrap(), HandleEvent::ReportWritten);
}

pub(crate) async fn wait_for_end(handle: &mut AttemptHandle) -> AttemptEnd {
    loop {
        if let HandleEvent::Ended(end) = handle.next().await.unwrap() {
            return end;
        }
    }
}

pub(crate) async fn wait_for_exit(handle: &mut AttemptHandle) -> ExitRecord {
    match wait_for_end(handle).await {
        AttemptEnd::Exit(record) => record,
        other => panic!("expected an exit record, got {other:?}"),
    }
}

/// The test binary itself, told to run nothing but [`the_shim`].
fn this_binary_as_shim() -> ShimProgram {
    let args = ["fixture::the_shim", "--exact", "--test-threads=1", "--nocapture"];
    ShimProgram { program: std::env::current_exe().unwrap(), args: args.map(Into::into).to_vec() }
}

/// Not a test, but what [`this_binary_as_shim`] runs. Does nothing without an attempt's directory as last argument.
#[test]
fn the_shim() {
    let last = PathBuf::from(std::env::args_os().next_back().unwrap());
    if last.join("launch.json").exists() {
        let code = shim::main(&last);
        std::process::exit(i32::from(code != std::process::ExitCode::SUCCESS));
    }
}

/// Not a test, but what a script calls instead of `callboard report`: submits the file `to_submit` of the attempt's
/// directory, which is the last argument.
#[test]
fn the_report_command() {
    let last = PathBuf::from(std::env::args_os().next_back().unwrap());
    let Ok(bytes) = fs::read(last.join("to_submit")) else { return };
    let attempt: AttemptId = "review#2.1".parse().unwrap();
    let root = last.ancestors().nth(3).unwrap();
    let dir = AttemptDir::new(root, &RunId::new("f8c1a491").unwrap(), &attempt);
    supervisor::report::submit(&dir, &expected(), &bytes).unwrap();
}
