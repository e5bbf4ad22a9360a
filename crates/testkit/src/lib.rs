//! For tests only: real repositories, a real agent, the real binary, and means to wait for what they do.
//!
//! Nothing here stands in for our own code. A [`Scene`] is a git repository with a scripted agent beside it; tests run
//! the built `callboard` in it and look at what a user could look at: exit code, output, files, the journal. The one
//! thing a user has not is the [ledger](Scene::ledger), in which the agent notes what really ran.
//!
//! Waiting means blocking on an event (a pipe, a pidfd, inotify). The only clock is a deadline after which a test that
//! waits in vain fails instead of hanging.
//!
//! Helpers panic with what went wrong: to fail the test is their way to report an error.

mod apart;
mod backing;
mod command;
mod disk;
pub mod explorer;
pub mod harness;
mod innocent;
mod ledger;
pub mod nats;
mod port;
mod process;
mod reader;
mod redact;
mod scene;
pub mod torture;
mod wait;

pub use apart::{World, apart};
pub use backing::{Backing, TempStore, on_nats};
pub use command::{Callboard, Running, Session, first_to_end};
pub use disk::Disk;
pub use innocent::Innocent;
pub use ledger::{Ledger, Line};
pub use process::{Held, Orphan, expect_no_orphans, orphans, wait_until_stopped};
pub use reader::{Seen, ViewReader};
pub use redact::redact;
pub use scene::{Gate, Scene, last_error, status};
pub use wait::{DEADLINE, until};
