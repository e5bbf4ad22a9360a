//! Sessions of the real binary, one folder per topic. Each test has a repository of its own and real agent processes.

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
