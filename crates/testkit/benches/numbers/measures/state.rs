//! `state get` as a process, and many processes that patch one document.

use std::process::{Command, Stdio};
use std::thread;
use std::time::Instant;

use anyhow::{Context as _, ensure};
use protocol::peer::Peer;
use protocol::protocol_kind;
use runner::Clock;
use serde_json::Value;
use testkit::harness;

use crate::Bench;
use crate::figure::{Figure, median};
use crate::floor::time_process;
use crate::repo::{BenchRepo, STAMP};
use crate::table::{Bar, Row};

/// The id of a peer cycle.
const CYCLE: &str = "peer:spec:bench:cycle:1";

/// The promised limit of `state get`, in times of `/bin/true`.
const GET_BAR: f64 = 3.0;

const WRITERS: usize = 16;

pub(crate) fn measure(bench: &Bench) -> anyhow::Result<Vec<Row>> {
    let repo = BenchRepo::new(&bench.program)?;
    open(&repo)?;
    let this_program = std::env::current_exe()?;
    // The planner is this program, which records its start and then keeps the attempt alive.
    let planner =
        format!("{:?} {STAMP} {:?}", this_program.display(), repo.stamps().join("{step_id}").display());
    let engine = repo.engine(&["resume", CYCLE, "--command-template", &planner], &["plan".to_owned()])?;
    let (mut get, mut part, mut nothing, mut bare) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    for _ in 0..bench.sizes.command_calls {
        get.push(repo.time(&["state", "get", CYCLE])?);
        part.push(repo.time(&["state", "get", CYCLE, "--path", "/phases/plan/status"])?);
        nothing.push(time_process(Command::new(&bench.program).arg("__shim"))?);
        bare.push(time_process(&mut Command::new("/bin/true"))?);
    }
    let begun = Instant::now();
    let before = sequence(&repo)?;
    let calls = write(&repo, bench.sizes.patches)?;
    let took = begun.elapsed();
    let wanted = WRITERS * bench.sizes.patches;
    let applied = usize::try_from(sequence(&repo)? - before)?;
    engine.end()?;
    let bare = median(bare);
    let each = bench.sizes.patches;
    Ok(vec![
        Row::new("`state get`", median(get)).against("`/bin/true`", bare).bar(Bar::AtMostTimes(GET_BAR)),
        Row::new("`state get --path`", median(part))
            .against("`/bin/true`", bare)
            .bar(Bar::AtMostTimes(GET_BAR)),
        Row::new("our binary doing nothing", median(nothing)).against("`/bin/true`", bare),
        Row::new(
            format!("{WRITERS} processes × {each} patches of one phase: lost or doubled"),
            Figure::Count(applied.abs_diff(wanted) as f64),
        )
        .bar(Bar::AtMost(Figure::Count(0.0))),
        Row::new("an applied patch among them", Figure::per(took, wanted)),
        Row::new("calls for each of them", Figure::Count(calls as f64 / wanted as f64)),
    ])
}

/// Opens a peer cycle, as `callboard peer` does.
fn open(repo: &BenchRepo<'_>) -> anyhow::Result<()> {
    let definition = harness::new_peer_cycle(CYCLE);
    let run = harness::run_of(&definition);
    let spec = harness::run_spec(&definition, &run, repo.test_env().repo(), None);
    let store = repo.test_env().open_store();
    harness::block_on(runner::open(
        &store,
        &Clock::system(),
        protocol_kind::<Peer>(),
        harness::test_author(),
        spec,
    ))?;
    Ok(())
}

/// Starts the writers, each of which repeats a patch until it is applied. Returns the number of calls.
fn write(repo: &BenchRepo<'_>, each: usize) -> anyhow::Result<usize> {
    let calls = thread::scope(|scope| {
        let writers: Vec<_> =
            (0..WRITERS).map(|writer| scope.spawn(move || write_as(repo, writer, each))).collect();
        writers.into_iter().map(|writer| writer.join().expect("a writer does not panic")).collect::<Vec<_>>()
    });
    calls.into_iter().sum()
}

fn write_as(repo: &BenchRepo<'_>, writer: usize, each: usize) -> anyhow::Result<usize> {
    let mut known_sequence = sequence(repo)?;
    let mut calls = 0;
    for number in 0..each {
        loop {
            calls += 1;
            let set = format!("/phases/plan/output/writer-{writer}={number}");
            let (applied, answer) = run_state_command(
                repo,
                &["patch", CYCLE, "--json", "--expect", &known_sequence.to_string(), "--set", &set],
            )?;
            known_sequence =
                answer["sequence"].as_u64().or(answer["found"].as_u64()).context("it says neither")?;
            if applied {
                break;
            }
            ensure!(answer["kind"] == "sequence_conflict", "{answer}");
        }
    }
    Ok(calls)
}

fn sequence(repo: &BenchRepo<'_>) -> anyhow::Result<u64> {
    let (_, answer) = run_state_command(repo, &["get", CYCLE, "--json"])?;
    answer["sequence"].as_u64().with_context(|| format!("it has no sequence: {answer}"))
}

/// Returns whether a `state` command succeeded, and its answer.
fn run_state_command(repo: &BenchRepo<'_>, arguments: &[&str]) -> anyhow::Result<(bool, Value)> {
    let mut command = repo.callboard(&[&["state"], arguments].concat())?;
    let output = command.stdout(Stdio::piped()).output()?;
    let answer = serde_json::from_slice(&output.stdout).with_context(|| format!("{command:?}"))?;
    Ok((output.status.success(), answer))
}
