//! `recover`: whatever happened to the store, what was not hit comes back, and nothing is made up.

#![expect(clippy::unwrap_used, reason = "a test may panic")]

use std::fs;
use std::path::Path;

use insta::assert_snapshot;
use protocol::{Revision, RunId};
use store::{Location, SqliteStore, Store as _};
use testkit::stage::wait;
use testkit::{Scene, embedded_only};

use crate::{scene, status};

const PAGE: usize = 4096;

/// Three delivered runs and one that was interrupted in its second step.
fn played() -> Scene {
    let scene = scene();
    scene.workflow(&["a", "b: a", "c: b"]);
    let agent = scene.agent();
    let agent = agent.to_str().unwrap();
    for run in ["one", "two", "three"] {
        let session = scene.callboard(&["run", "wf.yaml", "--run-id", run, "--wrapper", agent]).run();
        assert_eq!(session.code, 0, "{}", session.transcript());
    }
    scene.plan(&["b * hang"]);
    let running = scene.run(&[]).start();
    // Nine attempts of the other three, and two of this one.
    testkit::until(&scene.kit(), "its second step", || (scene.ledger().begun().len() == 11).then_some(()));
    running.interrupt();
    assert_eq!(running.wait().code, 130);
    scene.plan(&[]);
    scene
}

fn spoil(path: &Path, at: usize, length: usize) {
    let mut random = fastrand::Rng::with_seed(at as u64);
    let mut bytes = fs::read(path).unwrap();
    let end = (at + length).min(bytes.len());
    bytes[at..end].iter_mut().for_each(|byte| *byte = random.u8(..));
    fs::write(path, bytes).unwrap();
}

#[test]
fn a_sound_store_is_checked_and_left_alone() {
    embedded_only!("its file is checked");
    let scene = played();
    let database = scene.store().join("callboard.db");
    let before = fs::read(&database).unwrap();
    let session = scene.callboard(&["recover"]).run();
    assert_snapshot!(session.transcript(), @"
    $ callboard recover
    the store `[STORE]` is sound
      one   whole       5 entries, delivered
      two   whole       5 entries, delivered
      three whole       5 entries, delivered
      trial whole       5 entries, interrupted
    [exit 0]
    ");
    assert!(fs::read(&database).unwrap() == before, "the database was changed");
    assert!(!scene.store().join("saved").exists());
}

#[test]
fn a_store_whose_first_page_is_rubbish_comes_back_whole() {
    embedded_only!("a damaged file");
    let scene = played();
    let database = scene.store().join("callboard.db");
    spoil(&database, 0, PAGE);
    let damaged = fs::read(&database).unwrap();
    let refused = scene.callboard(&["ls"]).run();
    assert_eq!(refused.code, 5);
    assert!(refused.stderr.contains("callboard recover"), "{}", refused.stderr);

    let dry = scene.callboard(&["recover", "--dry-run"]).run();
    assert_eq!(dry.code, 0, "{}", dry.transcript());
    assert!(fs::read(&database).unwrap() == damaged && !scene.store().join("saved").exists());
    assert_snapshot!(dry.transcript(), @"
    $ callboard recover --dry-run
    note: nothing was changed; `callboard recover` does it, and keeps the store as it is first
    the store `[STORE]` is damaged
      the database cannot be read: file is not a database
    this is what would become of its runs:
      one   whole       5 entries, delivered
      two   whole       5 entries, delivered
      three whole       5 entries, delivered
      trial whole       5 entries, interrupted
    [exit 0]
    ");

    let recovered = scene.callboard(&["recover", "--json"]).run();
    assert_eq!(recovered.code, 0, "{}", recovered.transcript());
    let told = recovered.json();
    let kept = Path::new(told["kept"].as_str().unwrap());
    assert!(fs::read(kept.join("callboard.db")).unwrap() == damaged, "it was not kept byte for byte");
    assert!(told["runs"].as_array().unwrap().iter().all(|run| run["fate"] == "whole"), "{told}");
    let again = scene.callboard(&["recover"]).run();
    assert_eq!(again.code, 0, "{}", again.transcript());
    assert!(again.stdout.contains("is sound"), "{}", again.stdout);

    let resumed = scene.callboard(&["resume", "trial"]).run();
    assert_eq!(resumed.code, 0, "{}", resumed.transcript());
    assert_eq!(status(&scene.document("trial"), "c"), "COMPLETED");
    scene.expect_no_orphans();
}

/// Makes one entry unreadable, as a changed byte on the disk would.
fn spoil_entry(scene: &Scene, run: &str, revision: u64) {
    let path = scene.store().join("callboard.db");
    let entries = entries(&scene.store(), run);
    let body = &entries[usize::try_from(revision).unwrap() - 1];
    let mut bytes = fs::read(&path).unwrap();
    // Everywhere: pages that are free now may hold an older copy.
    let mut hits = 0;
    while let Some(at) = find(&bytes, body.as_bytes()) {
        bytes[at + body.len() / 2] ^= 1;
        hits += 1;
    }
    assert!(hits > 0, "a short entry lies on one page");
    fs::write(&path, bytes).unwrap();
}

fn find(bytes: &[u8], what: &[u8]) -> Option<usize> {
    bytes.windows(what.len()).position(|window| window == what)
}

fn find_all(bytes: &[u8], what: &[u8]) -> Vec<std::ops::Range<usize>> {
    let places = bytes.windows(what.len()).enumerate().filter(|(_, window)| *window == what);
    places.map(|(at, _)| at..at + what.len()).collect()
}

fn open(store: &Path) -> SqliteStore {
    let location = Location::find(Path::new("/"), Some(store.to_owned())).unwrap();
    SqliteStore::open_existing(&location).unwrap().expect("there is a store")
}

/// The entries of a run as they are stored.
fn entries(store: &Path, run: &str) -> Vec<String> {
    let stored = wait(open(store).entries(&RunId::new(run).unwrap(), Revision(0))).unwrap();
    stored.into_iter().map(|entry| entry.body).collect()
}

#[test]
fn a_run_with_a_spoilt_entry_is_cut_before_it_and_nothing_finished_runs_again() {
    embedded_only!("a damaged file");
    let scene = played();
    spoil_entry(&scene, "two", 4);
    let recovered = scene.callboard(&["recover"]).run();
    let kept = fs::read_dir(scene.store().join("saved")).unwrap().next().unwrap().unwrap().file_name();
    let transcript = recovered.transcript().replace(kept.to_str().unwrap(), "[WHEN]");
    assert_snapshot!(transcript, @"
    $ callboard recover
    note: somebody had changed `[REPO]/.agents/runs/two/run_state.json`; their bytes are in `[STORE]/quarantine/two/[HEX]-run_state.json`
    note: `callboard resume two` goes on where it is cut; what its agents finished later is found in their directories
    the store `[STORE]` was damaged
      entry 4 of run `two` is not what was written
    it is kept as it was in `[STORE]/saved/[WHEN]`
      one   whole       5 entries, delivered
      two   cut         3 of 5 entries, open, entry 4 is not what was written
      three whole       5 entries, delivered
      trial whole       5 entries, interrupted
      [REPO]/.agents/runs/two/run_state.json was written again
    [exit 1]
    ");
    let log = scene.callboard(&["log", "two"]).run();
    assert!(
        log.stdout.contains("recovered from a damaged store: entry 4 is not what was written"),
        "{}",
        log.stdout
    );
    let begun = scene.ledger().begun().len();
    let resumed = scene.callboard(&["resume", "two"]).run();
    assert_eq!(resumed.code, 0, "{}", resumed.transcript());
    assert_eq!(scene.ledger().begun().len(), begun, "what was finished ran again");
    assert!(scene.callboard(&["recover"]).run().stdout.contains("is sound"));
}

#[test]
fn a_run_whose_first_entry_contradicts_itself_is_named_and_the_others_come_back() {
    embedded_only!("a damaged file");
    let scene = played();
    let database = rusqlite::Connection::open(scene.store().join("callboard.db")).unwrap();
    // As in a store from before entries were sealed.
    let spoilt = "UPDATE entries SET seal = NULL, body = replace(body, '\"seat\":\"a\"', '\"seat\":\"z\"')
                  WHERE revision = 1 AND run = (SELECT id FROM runs WHERE name = 'one')";
    assert_eq!(database.execute(spoilt, []).unwrap(), 1);
    assert!(database.execute("UPDATE entries SET seal = NULL", []).unwrap() > 5);
    drop(database);
    let recovered = scene.callboard(&["recover"]).run();
    assert_eq!(recovered.code, 1, "{}", recovered.transcript());
    assert!(recovered.stdout.contains("it contradicts the entries before it"), "{}", recovered.transcript());
    let runs = scene.callboard(&["ls", "--json"]).run().json();
    let names: Vec<_> = runs.as_array().unwrap().iter().map(|run| run["run"].as_str().unwrap()).collect();
    assert!(!names.contains(&"one") && names.contains(&"trial"), "{names:?}");
}

#[test]
fn a_run_with_entries_of_a_newer_program_is_not_cut() {
    embedded_only!("a damaged file");
    let scene = played();
    let path = scene.store().join("callboard.db");
    let database = rusqlite::Connection::open(&path).unwrap();
    let newer = "UPDATE entries SET seal = NULL, body = json_set(body, '$.v', 99)
                 WHERE revision = 3 AND run = (SELECT id FROM runs WHERE name = 'one')";
    assert_eq!(database.execute(newer, []).unwrap(), 1);
    drop(database);
    let refused = scene.callboard(&["recover"]).run();
    assert_eq!(refused.code, 5, "{}", refused.transcript());
    assert!(refused.stderr.contains("a newer callboard"), "{}", refused.stderr);
    let database = rusqlite::Connection::open(&path).unwrap();
    let count = "SELECT count(*) FROM entries WHERE run = (SELECT id FROM runs WHERE name = 'one')";
    assert_eq!(database.query_one(count, [], |row| row.get::<_, i64>(0)).unwrap(), 5);
}

#[test]
fn a_second_recovery_keeps_its_own_copy() {
    embedded_only!("a damaged file");
    let scene = played();
    for run in ["one", "two"] {
        spoil_entry(&scene, run, 5);
        assert_eq!(scene.callboard(&["recover"]).run().code, 1);
    }
    let kept: Vec<_> =
        fs::read_dir(scene.store().join("saved")).unwrap().map(|d| d.unwrap().path()).collect();
    assert_eq!(kept.len(), 2, "{kept:?}");
    let copies: Vec<_> = kept.iter().map(|kept| fs::read(kept.join("callboard.db")).unwrap()).collect();
    assert!(copies[0] != copies[1]);
    let checked =
        std::process::Command::new("sha256sum").args(["-c", "digests"]).current_dir(&kept[0]).output();
    assert!(checked.unwrap().status.success());
}

#[test]
fn a_recovery_that_was_cut_off_goes_on_from_what_it_had_kept() {
    embedded_only!("a damaged file");
    let scene = played();
    let database = scene.store().join("callboard.db");
    // As if it had been killed after it kept the store and removed the old database.
    let kept = scene.store().join("saved/20260101T000000Z");
    fs::create_dir_all(&kept).unwrap();
    fs::rename(&database, kept.join("callboard.db")).unwrap();
    fs::write(kept.join("unfinished"), "").unwrap();
    let recovered = scene.callboard(&["recover"]).run();
    assert_eq!(recovered.code, 0, "{}", recovered.transcript());
    assert_eq!(entries(&scene.store(), "one").len(), 5);
    assert!(!kept.join("unfinished").exists() && kept.join("callboard.db").exists());

    // A mark that was left behind does not turn a store back that was used since.
    fs::write(kept.join("unfinished"), "").unwrap();
    assert_eq!(scene.callboard(&["resume", "trial"]).run().code, 0);
    let revision = entries(&scene.store(), "trial").len();
    assert!(scene.callboard(&["recover"]).run().stdout.contains("is sound"));
    assert_eq!(entries(&scene.store(), "trial").len(), revision);
}

#[test]
fn a_view_does_not_begin_an_empty_store_over_a_recovery_that_was_cut_off() {
    embedded_only!("a damaged file");
    let scene = played();
    let database = scene.store().join("callboard.db");
    let kept = scene.store().join("saved/20260101T000000Z");
    fs::create_dir_all(&kept).unwrap();
    fs::rename(&database, kept.join("callboard.db")).unwrap();
    fs::write(kept.join("unfinished"), "").unwrap();
    let (view, agent) = (scene.view("one"), scene.agent());
    let (view, agent) = (view.to_str().unwrap(), agent.to_str().unwrap());
    let rebuild = ["recover", "--from-view", view, "--workflow", "wf.yaml", "--wrapper", agent];
    let refused = scene.callboard(&rebuild).run();
    assert_eq!(refused.code, 5, "{}", refused.transcript());
    assert!(refused.stderr.contains("`callboard recover` first"), "{}", refused.stderr);
    assert!(!database.exists(), "an empty store was begun");
    assert_eq!(scene.callboard(&["recover"]).run().code, 0);
    assert_eq!(entries(&scene.store(), "one").len(), 5);
}

#[test]
fn a_store_with_a_living_engine_is_not_touched() {
    embedded_only!("its file is closed to others first");
    let scene = scene();
    scene.workflow(&["a"]);
    scene.plan(&["a * wait gate"]);
    let mut gate = scene.gate("gate");
    let running = scene.run(&[]).start();
    scene.ledger().wait_for_begin("a#1.1");
    assert_snapshot!(scene.callboard(&["recover"]).run().transcript(), @"
    $ callboard recover
    error: run `trial` has an engine: process [PID] on `[HOST]`

    hint: `callboard stop trial` stops it; then try again
    [exit 5]
    ");
    gate.open();
    assert_eq!(running.wait().code, 0);
}

#[test]
fn a_database_that_is_being_replaced_is_waited_for_and_not_called_gone() {
    embedded_only!("its file is gone");
    let scene = played();
    let (database, aside) = (scene.store().join("callboard.db"), scene.store().join("aside"));
    let ticket = fs::File::options().write(true).open(scene.store().join("ticket")).unwrap();
    ticket.lock().unwrap();
    fs::rename(&database, &aside).unwrap();
    let running = scene.callboard(&["ls"]).start();
    crate::archives::wait_for_queue(&scene, 1);
    fs::rename(&aside, &database).unwrap();
    drop(ticket);
    let listed = running.wait();
    assert_eq!(listed.code, 0, "{}", listed.transcript());
}

#[test]
fn a_deleted_database_is_named_with_what_to_do() {
    embedded_only!("its file is gone");
    let scene = played();
    fs::remove_file(scene.store().join("callboard.db")).unwrap();
    let refused = scene.callboard(&["ls"]).run();
    assert_eq!(refused.code, 5);
    assert!(refused.stderr.contains("callboard recover"), "{}", refused.stderr);
    assert_snapshot!(scene.callboard(&["recover"]).run().transcript(), @"
    $ callboard recover
    error: nothing can be read of the store `[STORE]`
      caused by: the database is gone, though its store is still there

    hint: `callboard recover --from FILE` puts a saved copy back
    hint: `callboard recover --from-view .agents/runs/RUN/run_state.json --workflow WORKFLOW` rebuilds a run
    hint: move `[STORE]` aside to begin with an empty store
    [exit 5]
    ");
    assert!(!scene.store().join("callboard.db").exists(), "an empty store was begun in silence");
}

#[test]
fn views_that_are_missing_or_changed_are_written_again() {
    let scene = played();
    let view = scene.view("one");
    let before = fs::read(&view).unwrap();
    fs::remove_file(&view).unwrap();
    fs::remove_dir_all(scene.view("two").parent().unwrap()).unwrap();
    fs::write(scene.view("three"), "mine").unwrap();
    let recovered = scene.callboard(&["recover", "--json"]).run();
    assert_eq!(recovered.code, 0, "{}", recovered.transcript());
    assert!(fs::read(&view).unwrap() == before);
    assert_eq!(status(&scene.document("two"), "c"), "COMPLETED");
    assert!(scene.view("two").with_file_name("reports").join("two__c.json").is_file());
    let kept = recovered.json()["quarantined"][0][1].as_str().unwrap().to_owned();
    assert_eq!(fs::read_to_string(kept).unwrap(), "mine");
    let again = scene.callboard(&["recover", "--json"]).run().json();
    assert_eq!(again["views"], serde_json::json!([]));
}

#[test]
fn an_agent_cannot_recover_the_store_it_lives_in() {
    let scene = played();
    let refused = scene.callboard(&["recover"]).env("CALLBOARD_ATTEMPT", "a#1.1").run();
    assert_eq!(refused.code, 3, "{}", refused.transcript());
}

/// Long: `CALLBOARD_SEEDS=300 cargo nextest run -p callboard whatever_is_damaged`.
#[test]
fn whatever_is_damaged_what_was_not_hit_comes_back_and_nothing_is_made_up() {
    embedded_only!("a damaged file");
    let seeds: u64 = std::env::var("CALLBOARD_SEEDS").ok().and_then(|n| n.parse().ok()).unwrap_or(6);
    let scene = played();
    let agent = scene.agent();
    for number in 0..12 {
        let run = format!("more-{number}");
        let arguments = ["run", "wf.yaml", "--run-id", &run, "--wrapper", agent.to_str().unwrap()];
        assert_eq!(scene.callboard(&arguments).run().code, 0);
    }
    let sound = scene.store();
    let runs: Vec<RunId> = wait(open(&sound).runs()).unwrap().into_iter().map(|row| row.run).collect();
    let written: Vec<(RunId, Vec<String>)> =
        runs.into_iter().map(|run| (run.clone(), entries(&sound, run.as_str()))).collect();
    let original = fs::read(sound.join("callboard.db")).unwrap();
    let definition = |entries: &[String]| {
        let first: serde_json::Value = serde_json::from_str(&entries[0]).unwrap();
        let digest = first["input"]["opened"]["definition"].as_str().unwrap().parse().unwrap();
        wait(open(&sound).blob(&digest)).unwrap().unwrap()
    };
    // Where each text lies: all of them on one page.
    let places: Vec<Vec<_>> = written
        .iter()
        .map(|(_, entries)| {
            let texts = entries.iter().map(|entry| entry.as_bytes().to_vec()).chain([definition(entries)]);
            texts.map(|text| find_all(&original, &text)).collect::<Vec<_>>().concat()
        })
        .collect();
    let (mut whole, mut all) = (0, 0);
    for seed in 0..seeds {
        let mut random = fastrand::Rng::with_seed(seed);
        let mut bytes = original.clone();
        let pages_only = random.bool();
        if pages_only {
            for _ in 0..random.usize(1..8) {
                let page = random.usize(..bytes.len() / PAGE) * PAGE;
                bytes[page..page + PAGE].iter_mut().for_each(|byte| *byte = random.u8(..));
            }
        } else {
            for _ in 0..random.usize(1..400) {
                let at = random.usize(..bytes.len());
                bytes[at] = random.u8(..);
            }
        }
        if random.u8(..4) == 0 {
            bytes.truncate(random.usize(PAGE..bytes.len()) / PAGE * PAGE);
        }
        let place = scene.kit().join(format!("store-{seed}"));
        fs::create_dir(&place).unwrap();
        copy(&sound.join("attempts"), &place.join("attempts"));
        fs::write(place.join("callboard.db"), &bytes).unwrap();
        let place_text = place.to_str().unwrap();
        let recovered = scene.callboard(&["recover", "--json", "--store", place_text]).run();
        let told = match recovered.code {
            0 | 1 => recovered.json(),
            // Nothing at all could be read, and that was said.
            5 => continue,
            _ => panic!("seed {seed}: {}", recovered.transcript()),
        };
        for ((run, entries_before), places) in written.iter().zip(&places) {
            let fate = told["runs"].as_array().unwrap().iter().find(|told| told["run"] == run.as_str());
            let fate = fate.map_or("gone", |told| told["fate"].as_str().unwrap());
            all += 1;
            whole += u32::from(fate == "whole");
            let untouched = pages_only
                && places.iter().all(|place| bytes.get(place.clone()) == original.get(place.clone()));
            assert!(!untouched || fate == "whole", "seed {seed}: {run} was not hit, and is {fate}");
            if matches!(fate, "gone" | "unreadable") {
                continue;
            }
            let mut after = entries(&place, run.as_str());
            if fate == "cut" {
                after.pop(); // the note that it was cut
            } else if untouched {
                assert_eq!(after.len(), entries_before.len(), "seed {seed}: {run}");
            }
            assert!(entries_before.starts_with(&after), "seed {seed}: {run} has entries nobody wrote");
        }
        let again = scene.callboard(&["recover", "--store", place_text]).run();
        assert!(again.stdout.contains("is sound"), "seed {seed}: {}", again.transcript());
        let trial = told["runs"]
            .as_array()
            .unwrap()
            .iter()
            .any(|run| run["run"] == "trial" && matches!(run["fate"].as_str(), Some("whole" | "cut")));
        if trial {
            let resumed = scene.callboard(&["resume", "trial", "--store", place_text]).run();
            assert_eq!(resumed.code, 0, "seed {seed}: {}", resumed.transcript());
        }
        testkit::expect_no_orphans(&place);
        fs::remove_dir_all(&place).unwrap();
    }
    assert!(all == 0 || whole > 0, "nothing was ever whole");
}

fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let target = to.join(entry.file_name());
        if entry.file_type().unwrap().is_dir() {
            copy(&entry.path(), &target);
        } else {
            fs::copy(entry.path(), target).unwrap();
        }
    }
}

#[test]
fn a_run_whose_store_is_gone_is_rebuilt_from_its_view() {
    embedded_only!("its file is gone");
    let scene = scene();
    scene.workflow(&["a", "b: a", "c: b"]);
    scene.plan(&["b * hang"]);
    let running = scene.run(&[]).start();
    scene.ledger().wait_for_begin("b#1.1");
    running.interrupt();
    assert_eq!(running.wait().code, 130);
    let before = scene.document("trial");
    fs::remove_dir_all(scene.store()).unwrap();
    scene.plan(&[]);
    let view = scene.view("trial");
    let agent = scene.agent();
    let rebuild = ["recover", "--from-view", view.to_str().unwrap(), "--workflow", "wf.yaml"];
    let rebuild = [&rebuild[..], &["--wrapper", agent.to_str().unwrap()]].concat();
    let rebuilt = scene.callboard(&rebuild).run();
    assert_eq!(rebuilt.code, 0, "{}", rebuilt.transcript());
    let after = scene.document("trial");
    assert_eq!(after["steps"], before["steps"]);
    assert_eq!(after["created_at"], before["created_at"]);
    let log = scene.callboard(&["log", "trial"]).run();
    assert!(log.stdout.contains("rebuilt from its view"), "{}", log.stdout);
    let shown = scene.callboard(&["show", "trial"]).run();
    assert!(shown.stdout.contains("rebuilt from its view"), "{}", shown.stdout);
    assert_eq!(scene.callboard(&rebuild).run().code, 3, "it exists now");

    let resumed = scene.callboard(&["resume", "trial"]).run();
    assert_eq!(resumed.code, 0, "{}", resumed.transcript());
    // The first step did not run again, and no attempt has the name of an earlier one.
    assert_eq!(scene.ledger().begun(), ["a#1.1", "b#1.1", "b#2.1", "c#1.1"]);
    assert!(scene.callboard(&["recover"]).run().stdout.contains("is sound"));
}

#[test]
fn a_view_that_breaks_its_rules_or_is_of_another_workflow_makes_no_run() {
    embedded_only!("its file is gone");
    let scene = scene();
    scene.workflow(&["a"]);
    assert_eq!(scene.run(&[]).run().code, 0);
    let agent = scene.agent();
    let good = fs::read_to_string(scene.view("trial")).unwrap();
    fs::remove_file(scene.store().join("callboard.db")).unwrap();
    let copy = scene.kit().join("view.json");
    let refused = |text: &str, steps: &[&str]| {
        fs::write(&copy, text).unwrap();
        scene.workflow(steps);
        let rebuild =
            ["recover", "--dry-run", "--from-view", copy.to_str().unwrap(), "--workflow", "wf.yaml"];
        let session =
            scene.callboard(&[&rebuild[..], &["--wrapper", agent.to_str().unwrap()]].concat()).run();
        assert_eq!(session.code, 2, "{}", session.transcript());
        session.stderr
    };
    let broken = refused(&good.replace("COMPLETED", "DONE"), &["a"]);
    assert!(broken.contains("status") && broken.contains("callboard check"), "{broken}");
    assert!(refused(&good, &["a", "b"]).contains("it has no step `b`"));
    assert!(refused(&good, &["z"]).contains("it has no step `z`"));
    // Delivered in the view is delivered in the store.
    scene.workflow(&["a"]);
    let view = scene.view("trial");
    let rebuild = ["recover", "--from-view", view.to_str().unwrap(), "--workflow", "wf.yaml", "--wrapper"];
    let session = scene.callboard(&[&rebuild[..], &[agent.to_str().unwrap()]].concat()).run();
    assert_eq!(session.code, 0, "{}", session.transcript());
    assert!(session.stdout.contains("delivered"), "{}", session.stdout);
}

/// SQLite would drop what was committed after the bad place, and the agent at work with it.
#[test]
fn a_log_with_a_bad_place_gives_back_what_was_committed_after_it() {
    embedded_only!("a damaged file");
    let scene = scene();
    scene.workflow(&["a", "b: a"]);
    scene.plan(&["b * hang"]);
    let running = scene.run(&[]).start();
    scene.ledger().wait_for_begin("b#1.1");
    running.kill();
    running.wait();
    let log = scene.store().join("callboard.db-wal");
    let frames = (fs::metadata(&log).unwrap().len() as usize - 32) / (24 + PAGE);
    assert!(frames > 8, "the log has {frames} frames");
    spoil(&log, 32 + 2 * (24 + PAGE) + 100, 50);
    let damaged = fs::read(&log).unwrap();
    let recovered = scene.callboard(&["recover", "--json"]).run();
    let told = recovered.json();
    assert!(told["damage"][0].as_str().unwrap().contains("of its log"), "{told}");
    assert_eq!(told["runs"][0]["fate"], "whole", "{told}");
    let kept = Path::new(told["kept"].as_str().unwrap());
    assert!(fs::read(kept.join("callboard.db-wal")).unwrap() == damaged, "it was not kept byte for byte");
    // The agent is still at work, and is adopted: no second one is started.
    let stopped = scene.callboard(&["stop", "trial"]).run();
    assert_eq!(stopped.code, 0, "{}", stopped.transcript());
    assert_eq!(scene.ledger().begun(), ["a#1.1", "b#1.1"]);
    scene.plan(&[]);
    assert_eq!(scene.callboard(&["resume", "trial"]).run().code, 0);
    assert_eq!(scene.ledger().begun(), ["a#1.1", "b#1.1", "b#1.2"]);
    scene.expect_no_orphans();
}

#[test]
fn a_view_with_an_absurd_count_is_refused_and_does_not_fill_the_memory() {
    let scene = scene();
    scene.workflow(&["a"]);
    assert_eq!(scene.run(&[]).run().code, 0);
    let mut document = scene.document("trial");
    document["run_id"] = "absurd".into();
    document["steps"]["a"]["iteration_count"] = u32::MAX.into();
    let view = scene.write("absurd.json", &document.to_string());
    let agent = scene.agent();
    let (view, agent) = (view.to_str().unwrap(), agent.to_str().unwrap());
    let rebuild = ["recover", "--from-view", view, "--workflow", "wf.yaml", "--wrapper", agent];
    // If it were believed, this would stop it before it stops the machine.
    let refused = scene.callboard(&rebuild).in_shell("ulimit -v 4000000; exec \"$@\"").run();
    assert_eq!(refused.code, 2, "{}", refused.transcript());
    assert!(refused.stderr.contains("cannot have been sent back 4294967295 times"), "{}", refused.stderr);
}

#[test]
fn the_journal_of_a_run_rebuilt_after_a_loop_names_no_gate_that_is_not_known() {
    embedded_only!("its file is gone");
    let scene = scene();
    scene.workflow_of(&["id: code", "id: review, needs: [code], loop_back_to: code"]);
    scene.plan(&["review * gate-failure 1"]);
    assert_eq!(scene.run(&[]).run().code, 0);
    assert_eq!(scene.document("trial")["steps"]["code"]["iteration_count"], 1);
    fs::remove_dir_all(scene.store()).unwrap();
    let (view, agent) = (scene.view("trial"), scene.agent());
    let rebuild = ["recover", "--from-view", view.to_str().unwrap(), "--workflow", "wf.yaml", "--wrapper"];
    let rebuilt = scene.callboard(&[&rebuild[..], &[agent.to_str().unwrap()]].concat()).run();
    assert_eq!(rebuilt.code, 0, "{}", rebuilt.transcript());
    let log = scene.callboard(&["log", "trial"]).run().stdout;
    assert!(log.contains("rebuilt from its view") && !log.contains("because of"), "{log}");
    assert_eq!(scene.document("trial")["steps"]["code"]["iteration_count"], 1);
}
