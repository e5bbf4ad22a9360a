//! Random damage.

use std::fs;
use std::path::Path;

use protocol::RunId;
use store::Store as _;
use testkit::harness::wait;

use super::{PAGE, entries, open, played};

/// Long: `CALLBOARD_SEEDS=300 cargo nextest run -p callboard whatever_is_damaged`.
#[test]
fn embedded_undamaged_entries_come_back_whatever_is_damaged() {
    let seeds: u64 = std::env::var("CALLBOARD_SEEDS").ok().and_then(|n| n.parse().ok()).unwrap_or(6);
    let test_env = played();
    for number in 0..12 {
        let run = format!("more-{number}");
        assert_eq!(test_env.run_named(&run).run().code, 0);
    }
    let sound = test_env.store();
    let runs: Vec<RunId> = wait(open(&sound).runs()).unwrap().into_iter().map(|row| row.run).collect();
    let written: Vec<(RunId, Vec<String>)> =
        runs.into_iter().map(|run| (run.clone(), entries(&sound, run.as_str()))).collect();
    let original = fs::read(sound.join("callboard.db")).unwrap();
    let definition = |entries: &[String]| {
        let first: serde_json::Value = serde_json::from_str(&entries[0]).unwrap();
        let digest = first["input"]["opened"]["definition"].as_str().unwrap().parse().unwrap();
        wait(open(&sound).blob(&digest)).unwrap().unwrap()
    };
    // The byte ranges of each entry, all on one page.
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
        let place = test_env.shared_dir().join(format!("store-{seed}"));
        fs::create_dir(&place).unwrap();
        copy(&sound.join("attempts"), &place.join("attempts"));
        fs::write(place.join("callboard.db"), &bytes).unwrap();
        let place_text = place.to_str().unwrap();
        let recovered = test_env.callboard(&["recover", "--json", "--store", place_text]).run();
        let told = match recovered.code {
            0 | 1 => recovered.json(),
            // Nothing could be read, and `recover` said so.
            5 => continue,
            _ => panic!("seed {seed}: {}", recovered.transcript()),
        };
        for ((run, entries_before), places) in written.iter().zip(&places) {
            let fate = told["runs"].as_array().unwrap().iter().find(|told| told["run"] == run.as_str());
            let fate = fate.map_or("gone", |told| told["outcome"].as_str().unwrap());
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
            assert!(
                entries_before.starts_with(&after),
                "seed {seed}: {run} has entries that were never written"
            );
        }
        let again = test_env.callboard(&["recover", "--store", place_text]).run();
        assert!(again.stdout.contains("is intact"), "seed {seed}: {}", again.transcript());
        let trial = told["runs"]
            .as_array()
            .unwrap()
            .iter()
            .any(|run| run["run"] == "trial" && matches!(run["outcome"].as_str(), Some("whole" | "cut")));
        if trial {
            let resumed = test_env.callboard(&["resume", "trial", "--store", place_text]).run();
            assert_eq!(resumed.code, 0, "seed {seed}: {}", resumed.transcript());
        }
        testkit::expect_no_orphans(&place);
        fs::remove_dir_all(&place).unwrap();
    }
    assert!(all == 0 || whole > 0, "nothing was ever whole");
}

fn find_all(bytes: &[u8], what: &[u8]) -> Vec<std::ops::Range<usize>> {
    let places = bytes.windows(what.len()).enumerate().filter(|(_, window)| *window == what);
    places.map(|(at, _)| at..at + what.len()).collect()
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
