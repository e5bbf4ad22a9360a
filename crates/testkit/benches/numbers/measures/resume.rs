//! Measures the time from the start of `resume` until the next agent runs.

use std::time::{Duration, SystemTime};

use crate::Bench;
use crate::figure::{Figure, median};
use crate::repo::{BenchRepo, Shape};
use crate::table::{Bar, Row};

/// The limit that the figure must keep.
const BAR: Figure = Figure::Seconds(0.1);

pub(crate) fn measure(bench: &Bench) -> anyhow::Result<Vec<Row>> {
    let steps = bench.sizes.resumed;
    let repo = BenchRepo::new(&bench.program)?;
    // `trivial` exits at once. `stamper` records its start time and runs until it is stopped.
    let agents: Vec<_> =
        (1..=steps).map(|number| if number < steps { "trivial" } else { "stamper" }).collect();
    repo.workflow_with_agents(Shape::Line, &agents);
    let last_step = format!("s{steps}");
    // The engine is ended while the last step runs, so every `resume` starts that step again.
    repo.engine(&["run", "wf.yaml", "--run-id", "long", "--jobs", "1"], std::slice::from_ref(&last_step))?
        .end()?;
    repo.take_stamp(&last_step)?;
    let mut durations = Vec::new();
    for _ in 0..bench.sizes.rounds {
        let started_at = SystemTime::now();
        let engine = repo.engine(&["resume", "long"], std::slice::from_ref(&last_step))?;
        durations.push(repo.take_stamp(&last_step)?.duration_since(started_at).unwrap_or(Duration::ZERO));
        engine.end()?;
    }
    let name = format!("`resume` to the next attempt, {} of {steps} done", steps - 1);
    Ok(vec![Row::new(name, median(durations)).bar(Bar::AtMost(BAR))])
}
