//! Faults of the machine, one file each. Real file systems, real processes, the real binary; what needs
//! mounts or process ids of its own runs in its own namespaces.

mod built;
mod clock;
pub(crate) mod engine_config;
mod every_commit;
mod full_disk;
mod git_commands;
mod lingering;
mod many_runs;
mod pid_reuse;
mod read_only;
mod reboot;
mod refused;
mod stopped;
mod two_engines;

use testkit::{ProcessHandle, Scene, last_error, status};

/// A fresh repository for the built program.
fn scene() -> Scene {
    Scene::new(env!("CARGO_BIN_EXE_callboard"))
}

/// Makes a run whose engine, shim and agent were killed during its first step. Later attempts succeed.
fn killed_run() -> Scene {
    let scene = scene();
    scene.workflow(&["a", "b: a"]);
    scene.plan(&["a * hang"]);
    let running = scene.run(&[]).start();
    let agent = ProcessHandle::of(scene.agent_log().wait_for_start("a#1.1")).expect("at work");
    running.kill();
    let shim = ProcessHandle::shim(&scene.attempt("trial", "a", "1.1")).expect("its shim lives");
    shim.kill();
    running.wait();
    shim.wait();
    agent.wait();
    scene.plan(&[]);
    scene
}
