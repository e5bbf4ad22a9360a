//! A process that has nothing to do with us, and shall not notice us.

use std::fs;
use std::os::unix::process::ExitStatusExt as _;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use crate::process::Held;
use crate::wait::DEADLINE;

/// Somebody else's process. It is ended with this.
#[derive(Debug)]
pub struct Innocent(Child);

impl Innocent {
    pub fn start() -> Self {
        let mut command = Command::new("sleep");
        command.arg("1000").env_clear().stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        Self(command.spawn().expect("sleep can be started"))
    }

    /// Starts one that has this number, which nobody has any more. Only where process numbers are our own.
    #[track_caller]
    pub fn with_pid(pid: i32) -> Self {
        let deadline = Instant::now() + DEADLINE;
        loop {
            // The kernel's next number is the one after this. Somebody else may be faster, so it may take some tries.
            fs::write("/proc/sys/kernel/ns_last_pid", (pid - 1).to_string())
                .expect("the numbers are ours to give");
            let started = Self::start();
            if started.pid() == pid {
                return started;
            }
            assert!(Instant::now() < deadline, "number {pid} is not given away again");
        }
    }

    pub fn pid(&self) -> i32 {
        self.0.id().try_into().expect("a pid is small")
    }

    /// In clock ticks since boot, as in `/proc/PID/stat`.
    pub fn start_time(&self) -> u64 {
        let stat = fs::read_to_string(format!("/proc/{}/stat", self.pid())).expect("it lives");
        let after_name = stat.rsplit_once(") ").expect("a name has brackets").1;
        after_name.split(' ').nth(19).and_then(|ticks| ticks.parse().ok()).expect("it has a start time")
    }

    /// Fails if anybody has ended it.
    #[track_caller]
    pub fn expect_untouched(mut self) {
        let held = Held::child(self.pid());
        assert!(!held.ends_within(Duration::ZERO), "process {} was ended by {:?}", self.pid(), self.end());
    }

    fn end(&mut self) -> Option<i32> {
        let _ = self.0.kill();
        self.0.wait().ok().as_ref().and_then(ExitStatus::signal)
    }
}

impl Drop for Innocent {
    fn drop(&mut self) {
        self.end();
    }
}
