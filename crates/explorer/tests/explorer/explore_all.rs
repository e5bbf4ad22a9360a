//! Explores several models in parallel, and renders their counts.

use std::fmt::Write;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use explorer::{CounterExample, Exploration, Explored, Limits, Model};

/// Explores on all processors. Fails with the first violation.
pub(crate) fn explore_all<P: Explored>(models: &[(Model<P>, Limits)]) -> Vec<Exploration>
where
    Model<P>: Sync,
{
    let next = AtomicUsize::new(0);
    let results = Mutex::new(Vec::new());
    let workers = std::thread::available_parallelism().map_or(1, usize::from);
    std::thread::scope(|scope| {
        for _ in 0..workers {
            scope.spawn(|| {
                loop {
                    let at = next.fetch_add(1, Ordering::SeqCst);
                    let Some((model, limits)) = models.get(at) else { break };
                    let explored = model.explore(*limits);
                    results.lock().expect("no thread panics while it holds the lock").push((at, explored));
                }
            });
        }
    });
    let mut results = results.into_inner().expect("no thread panics while it holds the lock");
    results.sort_by_key(|(at, _)| *at);
    let failed = results.iter().filter(|(_, explored)| explored.is_err()).count();
    let result = |(_, explored): (usize, Result<Exploration, CounterExample>)| {
        explored.unwrap_or_else(|found| panic!("{failed} of {} explorations failed:\n{found}", models.len()))
    };
    results.into_iter().map(result).collect()
}

/// Returns a table of what each exploration has found. `about` is the heading of the column with the names.
pub(crate) fn counts<P: Explored>(
    about: &str,
    models: &[(Model<P>, Limits)],
    explored: &[Exploration],
) -> String {
    let mut text = format!(
        "| {about} | requests | states | transitions | refusals | longest |\n|---|--:|--:|--:|--:|--:|\n"
    );
    let (mut states, mut transitions, mut refusals) = (0, 0, 0);
    for ((_, limits), seen) in models.iter().zip(explored) {
        let requests = limits.describe_requests();
        states += seen.states;
        transitions += seen.transitions;
        refusals += seen.refusals;
        let _ = writeln!(
            text,
            "| {} | {requests} | {} | {} | {} | {} |",
            seen.model, seen.states, seen.transitions, seen.refusals, seen.longest_path
        );
    }
    let _ = writeln!(text, "| **all** | | **{states}** | **{transitions}** | **{refusals}** | |");
    text
}

/// Returns the totals in one line, for `docs/exploration.md`.
pub(crate) fn totals(about: &str, explored: &[Exploration]) -> String {
    let of = |count: fn(&Exploration) -> usize| with_commas(explored.iter().map(count).sum());
    format!(
        "| {about}: {} definitions | states | transitions | refusals |\n|---|--:|--:|--:|\n| | {} | {} | {} |\n",
        explored.len(),
        of(|seen| seen.states),
        of(|seen| seen.transitions),
        of(|seen| seen.refusals)
    )
}

/// Formats a number with commas: `40,722`.
fn with_commas(number: usize) -> String {
    let digits = number.to_string();
    let length = digits.len();
    let digit = |(at, digit): (usize, char)| {
        let comma = (at > 0 && (length - at).is_multiple_of(3)).then_some(',');
        comma.into_iter().chain([digit])
    };
    digits.chars().enumerate().flat_map(digit).collect()
}
