//! For tests only: real repositories, a scripted agent, the real binary, and ways to wait for what they do.
//!
//! Nothing here replaces code of ours. A [`TestEnv`] is a git repository with a scripted agent beside it. Tests run the
//! built `callboard` in it and check what a user can see: exit code, output, files, the journal. Only the
//! [agent log](TestEnv::agent_log) is invisible to users: the agent records in it what really ran.
//!
//! Waiting means blocking on an event (a pipe, a pidfd, inotify). The only clock is a deadline, after which a test fails
//! instead of hanging. Helpers panic with what went wrong, which fails the test.
//!
//! # Both stores
//!
//! Tests run on the embedded store. Many run a second time with `CALLBOARD_TEST_STORE=nats`, each on a NATS server of
//! its own. If a test is about the embedded store (its file, its locks), its name or that of its module begins with
//! `embedded_`. The second pass uses the nextest profile `nats`, which leaves these tests out: they would pass there
//! without a check of anything.

pub mod harness;
pub mod items;
pub mod nats;
mod process;
mod sandbox;
mod test_env;
pub mod torture;
mod view_reader;
mod wait;

pub use explorer::TeamSchemas;
pub use process::{
    AttemptProcess, ProcessHandle, UnrelatedProcess, attempt_processes, expect_no_orphans,
    wait_until_suspended,
};
pub use sandbox::{Disk, Isolation, isolated};
pub use test_env::{
    AgentBarrier, AgentEvent, AgentLog, Backend, CallOutput, Callboard, Running, TempStore, TestEnv,
    first_to_end, last_error, on_nats, redact, status,
};
pub use view_reader::{ReadStats, ViewReader};
pub use wait::{DEADLINE, wait_until};
