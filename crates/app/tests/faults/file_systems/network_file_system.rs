//! A store on a file system where SQLite's shared memory is unreliable. The crate `linux` tests the list of them; FUSE
//! is the one that every machine can mount.

use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use testkit::{Isolation, isolated};

use crate::faults::c_sources::compile_c;
use crate::faults::test_env;

/// A mounted FUSE file system. Unmounted when it is dropped.
struct FuseMount {
    server: Child,
    mount_point: String,
}

impl FuseMount {
    fn new(mount_point: &Path, program: &Path) -> Self {
        assert!(
            Path::new("/dev/fuse").exists(),
            "this test needs FUSE: `modprobe fuse`, or give the container `--device /dev/fuse`"
        );
        std::fs::create_dir(mount_point).unwrap();
        let mut server = Command::new(program).arg(mount_point).stdout(Stdio::piped()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(server.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let mounted = Self { server, mount_point: mount_point.to_str().unwrap().to_owned() };
        assert_eq!(line, "ready\n", "it says why not on standard error");
        mounted
    }
}

impl Drop for FuseMount {
    fn drop(&mut self) {
        let _ = Command::new("umount").args(["--lazy", &self.mount_point]).output();
        let _ = self.server.kill();
        let _ = self.server.wait();
    }
}

#[test]
fn embedded_a_store_on_fuse_is_refused_with_the_setting_to_use() {
    isolated(Isolation::Mounts, || {
        let test_env = test_env();
        test_env.workflow(&["a"]);
        let program = compile_c("fuse.c", &["-O1"], &test_env.agent_dir());
        let mounted = FuseMount::new(&test_env.agent_dir().join("mounted"), &program);
        for store in [mounted.mount_point.clone(), format!("{}/deeper/store", mounted.mount_point)] {
            for command in [
                test_env.run(&["--store", &store]),
                test_env.callboard(&["ls"]).env("CALLBOARD_STORE", &store),
            ] {
                let refused = command.run();
                assert_eq!(refused.code, 5, "{}", refused.transcript());
                let expected = format!("the store `{store}` would be on a network file system (FUSE)");
                assert!(refused.stderr.contains(&expected), "{}", refused.stderr);
                assert!(
                    refused.stderr.contains("set CALLBOARD_STORE to a local directory"),
                    "{}",
                    refused.stderr
                );
            }
        }
        assert!(test_env.agent_log().started().is_empty());
        assert_eq!(test_env.run(&[]).run().code, 0, "the repository itself is fine");
    });
}
