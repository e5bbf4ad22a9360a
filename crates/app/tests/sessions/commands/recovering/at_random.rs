//! `recover` after random bytes or pages of the database were overwritten, or its end was cut off.

use std::fs;
use std::path::Path;

use protocol::RunId;
use store::Store as _;
use testkit::harness::block_on;

use super::{PAGE, entries, env_with_four_runs, open_store};

/// Tries 6 seeds. For more: `CALLBOARD_SEEDS=300 cargo nextest run -p callboard whatever_is_damaged`.
#[test]
fn embedded_undamaged_entries_come_back_whatever_is_damaged() {
    let seeds: u64 = std::env::var("CALLBOARD_SEEDS").ok().and_then(|n| n.parse().ok()).unwrap_or(6);
    let test_env = env_with_four_runs();
    for number in 0..12 {
        let run = format!("more-{number}");
        assert_eq!(test_env.run_named(&run).run().code, 0);
    }
    let intact_store = test_env.store_dir();
    let runs: Vec<RunId> =
        block_on(open_store(&intact_store).runs()).unwrap().into_iter().map(|row| row.run).collect();
    let entries_by_run: Vec<(RunId, Vec<String>)> =
        runs.into_iter().map(|run| (run.clone(), entries(&intact_store, run.as_str()))).collect();
    let original = fs::read(intact_store.join("callboard.db")).unwrap();
    let definition = |entries: &[String]| {
        let first: serde_json::Value = serde_json::from_str(&entries[0]).unwrap();
        let digest = first["input"]["opened"]["spec_digest"].as_str().unwrap().parse().unwrap();
        block_on(open_store(&intact_store).blob(&digest)).unwrap().unwrap()
    };
    // For each run: where its entries and its definition are in the database file. Each of them is small enough to lie on
    // one page, so a search for its bytes finds it.
    let ranges: Vec<Vec<_>> = entries_by_run
        .iter()
        .map(|(_, entries)| {
            let texts = entries.iter().map(|entry| entry.as_bytes().to_vec()).chain([definition(entries)]);
            texts.map(|text| find_all(&original, &text)).collect::<Vec<_>>().concat()
        })
        .collect();
    let (mut whole_runs, mut all_runs) = (0, 0);
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
        let damaged_store = test_env.agent_dir().join(format!("store-{seed}"));
        fs::create_dir(&damaged_store).unwrap();
        copy_dir(&intact_store.join("attempts"), &damaged_store.join("attempts"));
        fs::write(damaged_store.join("callboard.db"), &bytes).unwrap();
        let damaged_store_arg = damaged_store.to_str().unwrap();
        let recovered = test_env.callboard(&["recover", "--json", "--store", damaged_store_arg]).run();
        let recovery = match recovered.code {
            0 | 1 => recovered.json(),
            // Nothing could be read, and `recover` said so.
            5 => continue,
            _ => panic!("seed {seed}: {}", recovered.transcript()),
        };
        for ((run, entries_before), run_ranges) in entries_by_run.iter().zip(&ranges) {
            let outcome = recovery["runs"]
                .as_array()
                .unwrap()
                .iter()
                .find(|recovered_run| recovered_run["run"] == run.as_str());
            let outcome = outcome.map_or("gone", |recovered_run| recovered_run["outcome"].as_str().unwrap());
            all_runs += 1;
            whole_runs += u32::from(outcome == "whole");
            let untouched = pages_only
                && run_ranges.iter().all(|range| bytes.get(range.clone()) == original.get(range.clone()));
            assert!(!untouched || outcome == "whole", "seed {seed}: {run} was not hit, and is {outcome}");
            if matches!(outcome, "gone" | "unreadable") {
                continue;
            }
            let mut after = entries(&damaged_store, run.as_str());
            if outcome == "cut" {
                after.pop(); // the entry by which `recover` records the cut
            } else if untouched {
                assert_eq!(after.len(), entries_before.len(), "seed {seed}: {run}");
            }
            assert!(
                entries_before.starts_with(&after),
                "seed {seed}: {run} has entries that were never written"
            );
        }
        let again = test_env.callboard(&["recover", "--store", damaged_store_arg]).run();
        assert!(again.stdout.contains("is intact"), "seed {seed}: {}", again.transcript());
        let trial_is_readable = recovery["runs"]
            .as_array()
            .unwrap()
            .iter()
            .any(|run| run["run"] == "trial" && matches!(run["outcome"].as_str(), Some("whole" | "cut")));
        if trial_is_readable {
            let resumed = test_env.callboard(&["resume", "trial", "--store", damaged_store_arg]).run();
            assert_eq!(resumed.code, 0, "seed {seed}: {}", resumed.transcript());
        }
        testkit::expect_no_orphans(&damaged_store);
        fs::remove_dir_all(&damaged_store).unwrap();
    }
    assert!(whole_runs > 0, "of {all_runs} runs, none was ever whole");
}

fn find_all(bytes: &[u8], needle: &[u8]) -> Vec<std::ops::Range<usize>> {
    let matches = bytes.windows(needle.len()).enumerate().filter(|(_, window)| *window == needle);
    matches.map(|(at, _)| at..at + needle.len()).collect()
}

fn copy_dir(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let target = to.join(entry.file_name());
        if entry.file_type().unwrap().is_dir() {
            copy_dir(&entry.path(), &target);
        } else {
            fs::copy(entry.path(), target).unwrap();
        }
    }
}
