//! A process that does not belong to callboard and must not be touched.

use std::fs;
use std::os::unix::process::ExitStatusExt as _;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use crate::process::ProcessHandle;
use crate::wait::DEADLINE;

/// A process of another program. Killed on drop.
#[derive(Debug)]
pub struct UnrelatedProcess(Child);

impl UnrelatedProcess {
    pub fn start() -> Self {
        let mut command = Command::new("sleep");
        command.arg("1000").env_clear().stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        Self(command.spawn().expect("sleep can be started"))
    }

    /// Starts a process with the pid of one that has ended. Works only in a pid namespace of the test.
    #[track_caller]
    pub fn with_pid(pid: i32) -> Self {
        let deadline = Instant::now() + DEADLINE;
        loop {
            // The kernel assigns the pid after this one next. If another process gets it first, try again.
            fs::write("/proc/sys/kernel/ns_last_pid", (pid - 1).to_string())
                .expect("the pid namespace is our own");
            let started = Self::start();
            if started.pid() == pid {
                return started;
            }
            assert!(Instant::now() < deadline, "pid {pid} is not assigned again");
        }
    }

    pub fn pid(&self) -> i32 {
        self.0.id().try_into().expect("a pid is small")
    }

    /// Returns its start time in clock ticks since boot, as in `/proc/PID/stat`.
    pub fn start_time(&self) -> u64 {
        let stat = fs::read_to_string(format!("/proc/{}/stat", self.pid())).expect("it lives");
        let after_name = stat.rsplit_once(") ").expect("a name has brackets").1;
        after_name.split(' ').nth(19).and_then(|ticks| ticks.parse().ok()).expect("it has a start time")
    }

    /// Fails if it has ended.
    #[track_caller]
    pub fn expect_alive(mut self) {
        let process = ProcessHandle::child(self.pid());
        assert!(
            !process.ends_within(Duration::ZERO),
            "process {} was ended by signal {:?}",
            self.pid(),
            self.kill()
        );
    }

    fn kill(&mut self) -> Option<i32> {
        let _ = self.0.kill();
        self.0.wait().ok().as_ref().and_then(ExitStatus::signal)
    }
}

impl Drop for UnrelatedProcess {
    fn drop(&mut self) {
        self.kill();
    }
}
