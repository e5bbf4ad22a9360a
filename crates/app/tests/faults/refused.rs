//! A store where SQLite's shared memory is unreliable. The list of such file systems is tested in
//! the store; FUSE is the one available everywhere.

use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use testkit::{Isolation, isolated};

use crate::faults::built::built;
use crate::faults::test_env;

/// A FUSE file system, until it is dropped.
struct Mounted {
    server: Child,
    place: String,
}

impl Mounted {
    fn at(place: &Path, program: &Path) -> Self {
        assert!(
            Path::new("/dev/fuse").exists(),
            "this test needs FUSE: `modprobe fuse`, or give the container `--device /dev/fuse`"
        );
        std::fs::create_dir(place).unwrap();
        let mut server = Command::new(program).arg(place).stdout(Stdio::piped()).spawn().unwrap();
        let mut said = String::new();
        BufReader::new(server.stdout.take().unwrap()).read_line(&mut said).unwrap();
        let mounted = Self { server, place: place.to_str().unwrap().to_owned() };
        assert_eq!(said, "ready\n", "it says why not on standard error");
        mounted
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        let _ = Command::new("umount").args(["--lazy", &self.place]).output();
        let _ = self.server.kill();
        let _ = self.server.wait();
    }
}

#[test]
fn embedded_a_store_on_fuse_is_refused_with_the_setting_to_use() {
    isolated(Isolation::Mounts, || {
        let test_env = test_env();
        test_env.workflow(&["a"]);
        let program = built("fuse.c", &["-O1"], &test_env.shared_dir());
        let mounted = Mounted::at(&test_env.shared_dir().join("mounted"), &program);
        for store in [mounted.place.clone(), format!("{}/deeper/store", mounted.place)] {
            for command in [
                test_env.run(&["--store", &store]),
                test_env.callboard(&["ls"]).env("CALLBOARD_STORE", &store),
            ] {
                let refused = command.run();
                assert_eq!(refused.code, 5, "{}", refused.transcript());
                let told = format!("the store `{store}` would be on a network file system (FUSE)");
                assert!(refused.stderr.contains(&told), "{}", refused.stderr);
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
