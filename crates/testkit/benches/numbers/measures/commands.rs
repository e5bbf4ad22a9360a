//! Read-only commands as processes: from the spawn to the exit.

use std::collections::BTreeMap;
use std::process::Command;

use protocol::entry::Author;
use protocol::steps::{DEFAULT_MAX_ITERATIONS, Definition, OnFailure, Steps, StoredDefinition};
use protocol::{RunId, RunLocation, protocol_kind};
use runner::{Clock, RunOptions, RunSpec};
use store::{AnyStore, Location, SqliteStore};

use crate::Bench;
use crate::figure::{Figure, median};
use crate::floor::time_process;
use crate::repo::{BenchRepo, Shape};
use crate::table::{Bar, Row};

/// The bar (the promised limit) of `ls`, also with `--json`.
const LS_BAR: Figure = Figure::Seconds(0.1);

pub(crate) fn measure(bench: &Bench) -> anyhow::Result<Vec<Row>> {
    let repo = BenchRepo::new(&bench.program)?;
    repo.workflow(Shape::Line, 5, "trivial");
    repo.time_run("small", 1)?;
    let (mut show, mut baseline) = (Vec::new(), Vec::new());
    for _ in 0..bench.sizes.command_calls {
        show.push(repo.time(&["show", "small", "--json"])?);
        baseline.push(time_process(&mut Command::new("/bin/true"))?);
    }
    open_runs(&repo, bench.sizes.runs)?;
    let (mut ls, mut ls_json, mut show_among) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..bench.sizes.rounds * 2 {
        ls.push(repo.time(&["ls"])?);
        ls_json.push(repo.time(&["ls", "--json"])?);
        show_among.push(repo.time(&["show", "small", "--json"])?);
    }
    let (runs, baseline) = (bench.sizes.runs, median(baseline));
    Ok(vec![
        Row::new("`show --json`, 5 steps", median(show)).against("`/bin/true`", baseline),
        Row::new(format!("the same among {runs} runs"), median(show_among)).against("`/bin/true`", baseline),
        Row::new(format!("`ls`, {runs} runs"), median(ls)).bar(Bar::AtMost(LS_BAR)),
        Row::new(format!("`ls --json`, {runs} runs"), median(ls_json)).bar(Bar::AtMost(LS_BAR)),
    ])
}

/// Opens this many runs in the repository's store, as `run` does.
fn open_runs(repo: &BenchRepo<'_>, runs: usize) -> anyhow::Result<()> {
    let repo_dir = repo.test_env().repo().display().to_string();
    let source = std::fs::read_to_string(repo.test_env().repo().join("wf.yaml"))?;
    let workflow = protocol::steps::load::analyze(&source).workflow.expect("we wrote it ourselves");
    let prompts =
        workflow.steps.iter().map(|step| (step.id.clone(), "Do what the step says.\n".to_owned())).collect();
    let definition: Definition = StoredDefinition {
        workflow,
        source,
        prompts,
        max_attempts: std::num::NonZeroU32::MIN,
        max_iterations: DEFAULT_MAX_ITERATIONS,
        on_failure: OnFailure::default(),
        gate_state_file: None,
        report_schema: None,
        memory: Default::default(),
    }
    .into();
    let store = AnyStore::from(SqliteStore::open(&Location::find(repo.test_env().repo(), None)?)?);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        for number in 0..runs {
            let location = RunLocation::new(RunId::new(format!("bench-{number:05}"))?, repo_dir.clone());
            let options = RunOptions {
                location,
                workdir: repo.test_env().repo().to_owned(),
                profile: None,
                env: Vec::new(),
                worktrees: None,
                checks: Vec::new(),
                roles: BTreeMap::new(),
            };
            let spec = RunSpec::new("bench".to_owned(), &definition, options);
            let by = Author::Person { name: "bench".to_owned(), host: linux::host_name() };
            runner::open(&store, &Clock::system(), protocol_kind::<Steps>(), by, spec).await?;
        }
        anyhow::Ok(())
    })
}
