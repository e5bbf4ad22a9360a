//! Counts the instructions that the engine needs for one step, and those of a shim. Unlike times, they do not depend on the
//! load of the machine.

use std::path::Path;
use std::process::Command;

use anyhow::Context as _;

use crate::Bench;
use crate::figure::Figure;
use crate::repo::{BenchRepo, Shape};
use crate::table::Row;

/// The lengths of the two measured workflows, whose steps run one after the other. The difference of their counts is that
/// of the additional steps, without the start and end of the engine.
const STEP_COUNTS: [usize; 2] = [20, 60];

pub(crate) fn measure(bench: &Bench) -> anyhow::Result<Vec<Row>> {
    let Ok(version) = Command::new("valgrind").arg("--version").output() else {
        crate::say("  left out: valgrind is not installed")?;
        return Ok(Vec::new());
    };
    let version = String::from_utf8_lossy(&version.stdout).trim().to_owned();
    let repo = BenchRepo::new(&bench.program)?;
    let mut rows = Vec::new();
    match engine(bench, &repo)? {
        Some(step) => rows.push(Row::new("instructions of the engine, a step", Figure::Instructions(step))),
        None => crate::say(&format!("  the engine is left out: it does not run under {version}"))?,
    }
    let nothing = count(bench, &repo, &["__shim"])?.total;
    match shim(bench, &repo)? {
        Some(life) => rows.push(
            Row::new("instructions of a shim, its whole life", Figure::Instructions(life))
                .against("the binary doing nothing", Figure::Instructions(nothing)),
        ),
        None => {
            crate::say(&format!(
                "  the shim is left out: it does not run under {version} (3.19 lacks pidfd_open)"
            ))?;
            rows.push(Row::new("instructions of the binary doing nothing", Figure::Instructions(nothing)));
        }
    }
    Ok(rows)
}

/// Returns the instructions of the engine for one step; `None` if it does not run under valgrind. Its children are not
/// counted.
fn engine(bench: &Bench, repo: &BenchRepo<'_>) -> anyhow::Result<Option<f64>> {
    let mut totals = Vec::new();
    for steps in STEP_COUNTS {
        repo.workflow(Shape::Line, steps, "trivial");
        let run = format!("counted-{steps}");
        let counted = count(bench, repo, &["run", "wf.yaml", "--run-id", &run, "--jobs", "1"])?;
        if !counted.succeeded {
            return Ok(None);
        }
        totals.push(counted.total);
    }
    Ok(Some((totals[1] - totals[0]) / (STEP_COUNTS[1] - STEP_COUNTS[0]) as f64))
}

/// Returns the instructions of a shim; `None` if it does not run under valgrind. The shim runs a finished attempt again, in
/// a new directory, because a claimed attempt is not run twice.
fn shim(bench: &Bench, repo: &BenchRepo<'_>) -> anyhow::Result<Option<f64>> {
    repo.workflow(Shape::Line, 1, "trivial");
    repo.time_run("counted-shim", 1)?;
    let again = repo.test_env().agent_dir().join("again");
    std::fs::create_dir(&again)?;
    let launch = repo.test_env().attempt_dir("counted-shim", "s1", "1.1").join("launch.json");
    std::fs::copy(launch, again.join("launch.json"))?;
    let counted = count(bench, repo, &["__shim", &again.display().to_string()])?;
    Ok(counted.succeeded.then_some(counted.total))
}

struct Counted {
    total: f64,
    succeeded: bool,
}

/// Counts the instructions of one process, without the kernel's.
fn count(bench: &Bench, repo: &BenchRepo<'_>, arguments: &[&str]) -> anyhow::Result<Counted> {
    let out = repo.test_env().agent_dir().join("callgrind.out");
    let mut command = repo.command(Path::new("valgrind"), &["--tool=callgrind", "--quiet"]);
    command.arg(format!("--callgrind-out-file={}", out.display())).arg(&bench.program).args(arguments);
    let succeeded = command.status().context("cannot start valgrind")?.success();
    let text = std::fs::read_to_string(&out).context("valgrind has left no figures")?;
    std::fs::remove_file(out)?;
    let total = text.lines().find_map(|line| line.strip_prefix("totals: ")).context("there is no total")?;
    Ok(Counted { total: total.trim().parse().context("the total is no number")?, succeeded })
}
