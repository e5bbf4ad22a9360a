//! An engine with running agents: its memory, and its activity while nothing happens. The agent `stamper` waits until
//! it is killed.

use std::collections::BTreeMap;
use std::fs;
use std::time::Duration;

use anyhow::Context as _;

use crate::Bench;
use crate::figure::Figure;
use crate::repo::{BenchRepo, Shape};
use crate::table::{Bar, Row};

/// The time until an engine is idle after the last event, because views are written at a limited rate.
const SETTLE_TIME: Duration = Duration::from_millis(1500);

pub(crate) fn memory(bench: &Bench) -> anyhow::Result<Vec<Row>> {
    let agents = bench.sizes.agents;
    let repo = BenchRepo::new(&bench.program)?;
    repo.workflow(Shape::Wide, agents, "stamper");
    let steps: Vec<_> = (1..=agents).map(|number| format!("s{number}")).collect();
    let jobs = agents.to_string();
    let engine = repo.engine(&["run", "wf.yaml", "--run-id", "wide", "--jobs", &jobs], &steps)?;
    std::thread::sleep(SETTLE_TIME);
    let peak = bytes_of(engine.pid(), "status", "VmHWM:")?;
    let share = bytes_of(engine.pid(), "smaps_rollup", "Pss:")?;
    let shims = children(engine.pid())?;
    let shim_shares: Result<Vec<_>, _> =
        shims.iter().map(|shim| bytes_of(*shim, "smaps_rollup", "Pss:")).collect();
    let shim = shim_shares?.iter().sum::<f64>() / shims.len().max(1) as f64;
    engine.end()?;
    let bar = Bar::AtMost(Figure::mib(50.0));
    Ok(vec![
        Row::new(format!("engine memory, {agents} agents: peak"), Figure::Bytes(peak)).bar(bar),
        Row::new(format!("engine memory, {agents} agents: share (Pss)"), Figure::Bytes(share)).bar(bar),
        Row::new("memory of one shim: share (Pss)", Figure::Bytes(shim)),
    ])
}

pub(crate) fn idle(bench: &Bench) -> anyhow::Result<Vec<Row>> {
    let repo = BenchRepo::new(&bench.program)?;
    repo.workflow(Shape::Line, 1, "stamper");
    let engine = repo.engine(&["run", "wf.yaml", "--run-id", "idle"], &["s1".to_owned()])?;
    std::thread::sleep(SETTLE_TIME);
    let shim = *children(engine.pid())?.first().context("the engine has no shim")?;
    let before = [Activity::of(engine.pid())?, Activity::of(shim)?];
    std::thread::sleep(bench.sizes.idle);
    let after = [Activity::of(engine.pid())?, Activity::of(shim)?];
    engine.end()?;
    let seconds = bench.sizes.idle.as_secs();
    let mut rows = Vec::new();
    for (process, (before, after)) in ["engine", "shim"].iter().zip(before.iter().zip(&after)) {
        let zero = Bar::AtMost(Figure::Count(0.0));
        let wakes = Figure::Count(before.wakes_until(after) as f64);
        let writes = Figure::Count((after.writes - before.writes) as f64);
        rows.push(Row::new(format!("idle for {seconds} s: wake-ups of the {process}"), wakes).bar(zero));
        rows.push(Row::new(format!("idle for {seconds} s: writes of the {process}"), writes).bar(zero));
    }
    Ok(rows)
}

/// The activity of a process so far.
struct Activity {
    /// Context switches of each thread.
    switches: BTreeMap<String, u64>,
    /// System calls that write.
    writes: u64,
}

impl Activity {
    fn of(pid: u32) -> anyhow::Result<Self> {
        let mut switches = BTreeMap::new();
        for thread in fs::read_dir(format!("/proc/{pid}/task"))? {
            let thread = thread?;
            let status = fs::read_to_string(thread.path().join("status"))?;
            let count =
                field(&status, "voluntary_ctxt_switches:") + field(&status, "nonvoluntary_ctxt_switches:");
            switches.insert(thread.file_name().to_string_lossy().into_owned(), count);
        }
        let io = fs::read_to_string(format!("/proc/{pid}/io")).context("cannot read what it has written")?;
        Ok(Self { switches, writes: field(&io, "syscw:") })
    }

    /// Counts each context switch as a wake-up, and the start and the end of a thread as one more each.
    fn wakes_until(&self, later: &Self) -> u64 {
        let of_thread = |(thread, before): (&String, &u64)| match later.switches.get(thread) {
            Some(after) => after - before,
            None => 1,
        };
        let new_threads = later.switches.iter().filter(|(thread, _)| !self.switches.contains_key(*thread));
        self.switches.iter().map(of_thread).sum::<u64>()
            + new_threads.map(|(_, count)| count + 1).sum::<u64>()
    }
}

fn field(text: &str, name: &str) -> u64 {
    let value = text.lines().find_map(|line| line.strip_prefix(name));
    value.and_then(|value| value.split_whitespace().next()?.parse().ok()).unwrap_or(0)
}

/// Returns a field of `/proc/PID/FILE`, which is in kilobytes, in bytes.
fn bytes_of(pid: u32, file: &str, name: &str) -> anyhow::Result<f64> {
    let path = format!("/proc/{pid}/{file}");
    let text = fs::read_to_string(&path).with_context(|| format!("cannot read `{path}`"))?;
    Ok(field(&text, name) as f64 * 1024.0)
}

/// Returns the children of all threads.
fn children(pid: u32) -> anyhow::Result<Vec<u32>> {
    let mut children = Vec::new();
    for thread in fs::read_dir(format!("/proc/{pid}/task"))? {
        let text = fs::read_to_string(thread?.path().join("children"))?;
        children.extend(text.split_whitespace().filter_map(|pid| pid.parse::<u32>().ok()));
    }
    Ok(children)
}
