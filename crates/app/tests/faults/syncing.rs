//! What is synced to disk, so that it survives a power failure.

use std::fs;

use crate::faults::c_sources::compile_c;
use crate::faults::test_env;

#[test]
fn the_last_view_is_synced_before_and_after_it_gets_its_name() {
    let test_env = test_env();
    let library = compile_c("sync.c", &["-shared", "-fPIC", "-O1"], &test_env.agent_dir());
    test_env.workflow(&["a"]);
    let log = test_env.agent_dir().join("synced");
    let session = test_env.run(&[]).env("LD_PRELOAD", &library).env("SYNC_LOG", &log).run();
    assert_eq!(session.code, 0, "{}", session.transcript());
    let log = fs::read_to_string(log).unwrap();
    let view = test_env.view_path("trial");
    let directory = view.parent().unwrap().to_str().unwrap();
    // The last lines of the directory: the view under its temporary name, then the directory with its new name.
    let lines: Vec<_> = log.lines().filter(|line| line.starts_with(directory)).collect();
    let [.., temporary, renamed] = lines.as_slice() else { panic!("{log}") };
    assert!(temporary.starts_with(&format!("{directory}/.callboard-")), "{log}");
    assert_eq!(*renamed, directory, "{log}");
}
