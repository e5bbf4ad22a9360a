//! From the start of `resume` until the next agent runs.

use std::time::{Duration, SystemTime};

use crate::Bench;
use crate::figure::{Figure, median};
use crate::repo::{BenchRepo, Shape};
use crate::table::{Bar, Row};

const BAR: Figure = Figure::Seconds(0.1);

pub(crate) fn measure(bench: &Bench) -> anyhow::Result<Vec<Row>> {
    let steps = bench.sizes.resumed;
    let repo = BenchRepo::new(&bench.program)?;
    let agents: Vec<_> =
        (1..=steps).map(|number| if number < steps { "trivial" } else { "stamper" }).collect();
    repo.workflow_with_agents(Shape::Line, &agents);
    let last = format!("s{steps}");
    repo.engine(&["run", "wf.yaml", "--run-id", "long", "--jobs", "1"], std::slice::from_ref(&last))?
        .end()?;
    repo.take_stamp(&last)?;
    let mut took = Vec::new();
    for _ in 0..bench.sizes.rounds {
        let begun = SystemTime::now();
        let engine = repo.engine(&["resume", "long"], std::slice::from_ref(&last))?;
        took.push(repo.take_stamp(&last)?.duration_since(begun).unwrap_or(Duration::ZERO));
        engine.end()?;
    }
    let name = format!("`resume` to the next attempt, {} of {steps} done", steps - 1);
    Ok(vec![Row::new(name, median(took)).bar(Bar::AtMost(BAR))])
}
