//! Sessions of the real binary, one folder per theme. Each runs in a repository of its own with a real agent process.

mod agents;
mod commands;
mod protocols;
mod runs;
mod steps;

use testkit::{TestEnv, last_error, status};

/// Makes a repository for the built program.
fn test_env() -> TestEnv {
    TestEnv::new(env!("CARGO_BIN_EXE_callboard"))
}
