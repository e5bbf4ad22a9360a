//! Counts tests in the output of a test command, in the words that most test runners use: `3 passed; 1 failed`.

use serde_json::Number;

use super::fields::{is_rate, parse_rate};
use crate::checks::CheckResult;

/// How many tests a run had.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(in crate::cycle) struct TestCounts {
    pub(in crate::cycle) passed: u64,
    pub(in crate::cycle) failed: u64,
    pub(in crate::cycle) skipped: u64,
}

impl TestCounts {
    pub(in crate::cycle) fn total(self) -> u64 {
        self.passed + self.failed
    }
}

/// The check whose output has the coverage. Its tests are those of the other checks, run once more.
const COVERAGE: &str = "coverage";

/// Counts the tests of all checks. A check whose output names no numbers counts as one test.
pub(in crate::cycle) fn count_tests(results: &[CheckResult]) -> TestCounts {
    let mut counts = TestCounts::default();
    for result in results.iter().filter(|result| results.len() == 1 || result.name != COVERAGE) {
        let found = count(&result.output);
        let found = match (found.total(), result.passed()) {
            (0, true) => TestCounts { passed: 1, ..found },
            (0, false) => TestCounts { failed: 1, ..found },
            // The exit code counts: a command that fails without a failed test is a failure of its own.
            (_, false) if found.failed == 0 => TestCounts { failed: 1, ..found },
            (_, true | false) => found,
        };
        counts.passed += found.passed;
        counts.failed += found.failed;
        counts.skipped += found.skipped;
    }
    counts
}

fn count(output: &str) -> TestCounts {
    let mut counts = TestCounts::default();
    // Jest and Vitest also count files and snapshots.
    let counts_no_tests = |line: &&str| {
        let others = ["Test Suites:", "Test Files ", "Snapshots:", "Snapshots "];
        others.iter().any(|word| line.trim_start().starts_with(word))
    };
    for line in output.lines().filter(|line| !counts_no_tests(line)) {
        let words: Vec<_> = line.split(|c: char| c.is_whitespace() || ",;()=".contains(c)).collect();
        let words: Vec<_> = words.into_iter().filter(|word| !word.is_empty()).collect();
        for pair in words.windows(2) {
            let Ok(number) = pair[0].parse::<u64>() else { continue };
            match pair[1].trim_end_matches('.') {
                "passed" | "passing" => counts.passed += number,
                "failed" | "failing" => counts.failed += number,
                "skipped" | "ignored" | "pending" => counts.skipped += number,
                _ => {}
            }
        }
    }
    counts
}

/// Returns the line coverage that the check `coverage` has printed: the last percentage in a line with the word
/// `lines`, else with `total`, else in any line.
pub(in crate::cycle) fn coverage(results: &[CheckResult]) -> Option<Number> {
    let output = &results.iter().find(|result| result.name == COVERAGE)?.output;
    let last_rate = |word: &str| {
        let is_word = |part: &str| part.eq_ignore_ascii_case(word);
        // Not a part of a file name, such as `src/lines.rs`.
        let has_word = |line: &&str| {
            word.is_empty() || line.split(|c: char| c.is_whitespace() || "|:".contains(c)).any(is_word)
        };
        let lines = output.lines().filter(has_word);
        let rates = lines.flat_map(|line| line.split(|c: char| c.is_whitespace() || "|:()".contains(c)));
        rates.filter(|text| text.ends_with('%')).filter_map(parse_rate).next_back()
    };
    last_rate("lines").or_else(|| last_rate("total")).or_else(|| last_rate("")).filter(is_rate)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_coverage_is_that_of_lines() {
        let result = |name: &str, output: &str| CheckResult {
            name: name.to_owned(),
            command: Vec::new(),
            exit_code: Some(0),
            error: None,
            duration_ms: 1,
            tree: None,
            output_digest: String::new(),
            output: output.to_owned(),
            log: None,
        };
        let found = |output: &str| coverage(&[result("test", "1%"), result("coverage", output)]);
        assert_eq!(
            found("a.rs 10 50.00%\nTOTAL 20 2 90.00% 7 1 85.71% 40 2 95.00% 0 0 -"),
            Number::from_f64(95.0)
        );
        assert_eq!(found("Name Stmts Miss Cover\nTOTAL 20 2 90%\n3 passed (100%)"), Some(90.into()));
        assert_eq!(
            found("Branches : 50% ( 1/2 )\nLines : 87.5% ( 7/8 )\nFunctions : 10%"),
            Number::from_f64(87.5)
        );
        assert_eq!(found("src/lines.rs 10 50.00%\nsubtotal.py 1 20%\nTOTAL 20 90%"), Some(90.into()));
        assert_eq!(found("ok pkg 0.1s coverage: 61.3% of statements"), Number::from_f64(61.3));
        assert_eq!((found("3 passed"), found("250%")), (None, None));
        let both = [result("test", "3 passed"), result("coverage", "3 passed, 80%")];
        assert_eq!((count_tests(&both).passed, count_tests(&both[1..]).passed), (3, 3));
    }

    #[test]
    fn the_words_of_common_test_runners_are_counted() {
        let counts = |text: &str| {
            let TestCounts { passed, failed, skipped } = count(text);
            (passed, failed, skipped)
        };
        assert_eq!(
            counts(
                "test result: FAILED. 3 passed; 1 failed; 2 ignored; 0 measured\ntest result: ok. 4 passed; 0 failed"
            ),
            (7, 1, 2)
        );
        assert_eq!(counts("==== 1 failed, 12 passed, 3 skipped in 0.12s ===="), (12, 1, 3));
        assert_eq!(
            counts("Test Suites: 1 failed, 1 passed, 2 total\nTests: 1 failed, 5 passed, 6 total"),
            (5, 1, 0)
        );
        assert_eq!(
            counts(
                "Tests:       5 passed, 5 total\nSnapshots:   1 failed, 2 passed, 3 total\n  Snapshots  2 failed"
            ),
            (5, 0, 0)
        );
        assert_eq!(
            counts(" Test Files  1 failed | 1 passed (2)\n      Tests  1 failed | 5 passed (6)"),
            (5, 1, 0)
        );
        assert_eq!(counts("  7 passing (20ms)\n  2 failing"), (7, 2, 0));
    }
}
