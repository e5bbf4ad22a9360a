//! The real binary opens one store of every released format of the database.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use crate::sessions::{status, test_env};

#[test]
fn embedded_needs_sqlite3_the_runs_of_every_format_are_shown_checked_and_resumed() {
    let formats = Path::new(env!("CARGO_MANIFEST_DIR")).join("../store/tests/formats");
    for fixture in fs::read_dir(formats).unwrap() {
        let fixture = fixture.unwrap().path();
        let old = test_env();
        for directory in ["attempts", "engines"] {
            fs::create_dir_all(old.store_dir().join(directory)).unwrap();
        }
        let filled = Command::new("sqlite3")
            .arg(old.store_dir().join("callboard.db"))
            .stdin(fs::File::open(&fixture).unwrap())
            .status();
        assert!(filled.unwrap().success());
        let mut set_wal_mode = Command::new("sqlite3");
        set_wal_mode
            .arg(old.store_dir().join("callboard.db"))
            .arg("PRAGMA journal_mode=wal")
            .stdout(Stdio::null());
        assert!(set_wal_mode.status().unwrap().success());

        let fixture_name = fixture.display();
        // Without damage, `recover` only checks.
        let checked = old.callboard(&["recover"]).run();
        assert!(checked.stdout.contains("is intact"), "{fixture_name}: {}", checked.transcript());
        for run in ["succeeded", "failed", "interrupted"] {
            for command in ["show", "log"] {
                let session = old.callboard(&[command, run]).run();
                assert_eq!(session.code, 0, "{fixture_name}: {}", session.transcript());
            }
        }
        // The repository of the fixture does not exist, so the run continues in another one.
        let file = old.agent_dir().join("run.tar");
        let file = file.to_str().unwrap();
        assert_eq!(old.callboard(&["export", "interrupted", "-o", file]).run().code, 0);
        let new = test_env();
        assert_eq!(new.callboard(&["import", file]).run().code, 0);
        let resumed = new.with_agent(&["resume", "interrupted"]).run();
        assert_eq!(resumed.code, 0, "{fixture_name}: {}", resumed.transcript());
        assert_eq!(new.agent_log().started(), ["code#1.2", "review#1.1"], "{fixture_name}");
        assert_eq!(status(&new.document("interrupted"), "review"), "COMPLETED");
    }
}
