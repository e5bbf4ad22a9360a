//! Ten thousand runs in one store.

use rusqlite::Connection;
use testkit::TestEnv;

use crate::faults::test_env;

const RUNS: usize = 10_000;

/// Copies a real run ten thousand times, as `old-00001` and so on.
fn copy_run(test_env: &TestEnv, run: &str) {
    let mut database = Connection::open(test_env.store_dir().join("callboard.db")).unwrap();
    database.execute_batch("PRAGMA synchronous = OFF").unwrap();
    let transaction = database.transaction().unwrap();
    let copies = format!(
        "CREATE TEMP TABLE original AS SELECT * FROM runs WHERE name = '{run}';
         WITH RECURSIVE numbers (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM numbers WHERE n < {RUNS})
         INSERT INTO runs (name, protocol, created, revision, token, summary)
         SELECT printf('old-%05d', n), protocol, created - n, revision, 0, summary FROM numbers, original;
         CREATE TEMP TABLE copies AS SELECT id FROM runs WHERE name LIKE 'old-%' ORDER BY id;
         INSERT INTO entries (run, revision, write_id, body, checksum)
         SELECT copies.id, revision, randomblob(16), body, checksum FROM copies, entries
         WHERE entries.run = (SELECT id FROM original) ORDER BY copies.id, revision;
         INSERT INTO parts (run, path, revision, body)
         SELECT copies.id, path, revision, body FROM copies, parts WHERE parts.run = (SELECT id FROM original);
         UPDATE runs SET token = (SELECT max(token) FROM entries WHERE entries.run = runs.id)
         WHERE id IN (SELECT id FROM copies);
         DROP TABLE copies; DROP TABLE original;"
    );
    transaction.execute_batch(&copies).unwrap();
    transaction.commit().unwrap();
}

#[test]
fn embedded_commands_work_in_a_store_with_ten_thousand_runs() {
    let test_env = test_env();
    test_env.workflow(&["a"]);
    let run = |name: &str| test_env.run_named(name);
    assert_eq!(run("first").run().code, 0);
    copy_run(&test_env, "first");
    let listed = test_env.callboard(&["ls", "--json"]).run().json();
    assert_eq!(listed.as_array().map(Vec::len), Some(RUNS + 1));
    for command in ["show", "log"] {
        let session = test_env.callboard(&[command, "old-09999"]).run();
        assert_eq!(session.code, 0, "{}", session.transcript());
    }
    let session = test_env.callboard(&["show", "old-0"]).run();
    assert_eq!(session.code, 2, "{}", session.transcript());
    let expected = "`old-0` is ambiguous: it matches `old-00001`, `old-00002`, `old-00003`, `old-00004`, `old-00005`, others";
    assert!(session.stderr.contains(expected), "{}", session.stderr);
    // A new run is started, interrupted, found as the only unfinished one, and stopped.
    test_env.script_agent(&["a * hang"]);
    let running = run("newest").start();
    testkit::wait_until(&test_env.agent_dir(), "the second start", || {
        (test_env.agent_log().started().len() == 2).then_some(())
    });
    running.kill();
    running.wait();
    let resumed = test_env.callboard(&["resume"]).start();
    resumed.wait_for_stderr("a#1.1 is still running: adopted");
    let stopped = test_env.callboard(&["stop", "newest"]).run();
    assert_eq!(stopped.code, 0, "{}", stopped.transcript());
    assert_eq!(resumed.wait().code, 130);
    test_env.script_agent(&[]);
    let resumed = test_env.callboard(&["resume", "newest"]).run();
    assert_eq!(resumed.code, 0, "{}", resumed.transcript());
    test_env.expect_no_orphans();
}
