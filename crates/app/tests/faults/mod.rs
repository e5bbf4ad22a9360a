//! Faults of the machine, a file or folder for each. Real file systems, real processes, the real binary. A test that needs its own
//! mounts or process ids runs in its own Linux namespaces.

mod c_sources;
mod clock;
mod every_commit;
mod file_systems;
mod git_commands;
pub(crate) mod in_process_run;
mod many_runs;
mod processes;
mod reboot;
mod syncing;

use testkit::{ProcessHandle, TestEnv, last_error, status};

/// Makes a repository for the built program.
fn test_env() -> TestEnv {
    TestEnv::new(env!("CARGO_BIN_EXE_callboard"))
}

/// Makes a run whose engine and shim were killed, and the agent with them, during its first step. Later attempts succeed.
fn killed_run() -> TestEnv {
    let test_env = test_env();
    test_env.workflow(&["a", "b: a"]);
    test_env.script_agent(&["a * hang"]);
    let running = test_env.run(&[]).start();
    let agent =
        ProcessHandle::of(test_env.agent_log().wait_for_start("a#1.1")).expect("the agent is at work");
    running.kill();
    let shim = ProcessHandle::shim(&test_env.attempt_dir("trial", "a", "1.1")).expect("its shim lives");
    shim.kill();
    running.wait();
    shim.wait();
    agent.wait();
    test_env.script_agent(&[]);
    test_env
}
