//! Measures steps with a trivial agent: in a short line, in a long line, in parallel.
//!
//! They are compared with the floor: the least that a step needs (two processes and two commits), done without the engine.

use std::time::Duration;

use crate::Bench;
use crate::figure::{Figure, median};
use crate::floor::{self, Floor};
use crate::repo::{BenchRepo, Shape};
use crate::table::{Bar, Row};

/// The highest accepted ratio of a step to the floor, and of a step of a long line to one of a short line.
const BAR: f64 = 1.5;
/// How often the floor is measured between two runs.
const FLOOR_ROUNDS: usize = 20;

pub(crate) fn measure(bench: &Bench) -> anyhow::Result<Vec<Row>> {
    let sizes = &bench.sizes;
    // The first run creates the store and shows how large a step's texts are. It is not measured.
    let repo = BenchRepo::new(&bench.program)?;
    repo.workflow(Shape::Line, sizes.short_line, "trivial");
    repo.time_run("first", 1)?;
    let payload = floor::payload(&repo.test_env().store_dir().join("callboard.db"), sizes.short_line)?;
    let mut floor = Floor::new(&bench.program, &repo.test_env().agent_dir().join("floor.db"), &payload)?;
    floor.measure(FLOOR_ROUNDS)?;

    let (mut short, mut wide) = (Vec::new(), Vec::new());
    for round in 0..sizes.rounds {
        repo.workflow(Shape::Line, sizes.short_line, "trivial");
        short.push(repo.time_run(&format!("line-{round}"), 1)?);
        floor.measure(FLOOR_ROUNDS)?;
        repo.workflow(Shape::Wide, sizes.at_once, "trivial");
        wide.push(repo.time_run(&format!("wide-{round}"), sizes.at_once)?);
        floor.measure(FLOOR_ROUNDS)?;
    }
    repo.workflow(Shape::Line, sizes.long_line, "trivial");
    let long = repo.time_run("long", 1)?;
    floor.measure(FLOOR_ROUNDS)?;

    let short = Figure::per(median(short), sizes.short_line);
    let wide = Figure::per(median(wide), sizes.at_once);
    let long = Figure::per(long, sizes.long_line);
    let against_floor =
        |name: String, step: Figure, floor: Duration, what: &str| Row::new(name, step).against(what, floor);
    let in_line = format!("a step, {} in line", sizes.short_line);
    Ok(vec![
        against_floor(in_line.clone(), short, floor.with_our_exec(), &format!("floor: {}", floor.parts()))
            .bar(Bar::AtMostTimes(BAR)),
        against_floor(in_line, short, floor.bare(), "bare floor: without our exec"),
        against_floor(format!("a step, {} in line", sizes.long_line), long, floor.with_our_exec(), "floor")
            .bar(Bar::AtMostTimes(BAR)),
        Row::new("growth", long)
            .against(format!("a step of {}", sizes.short_line), short)
            .bar(Bar::AtMostTimes(BAR)),
        against_floor(format!("a step, {} at once", sizes.at_once), wide, floor.with_our_exec(), "floor")
            .bar(Bar::AtMostTimes(BAR)),
    ])
}
