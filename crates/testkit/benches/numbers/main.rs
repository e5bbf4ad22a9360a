//! The benchmarks of `scripts/bench`, explained in `docs/performance.md`.
//!
//! They drive the built binary in temporary repositories. Each value is compared with a floor: the least that the same work
//! can cost, such as a write with bare SQLite. Both are measured in turns in the same run, so that the load of the machine
//! affects both. This is not a test: nothing fails because a machine is slow.

mod figure;
mod floor;
mod measures;
mod nats;
mod repo;
mod table;

use std::ffi::OsString;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context as _, bail, ensure};

use measures::{commands, commits, engine, instructions, resume, state, steps, storage};
use table::{Row, Table};

/// A subject's name, its description, and its measurement.
type Subject = (&'static str, &'static str, fn(&Bench) -> anyhow::Result<Vec<Row>>);

const SUBJECTS: [Subject; 9] = [
    ("steps", "steps in line and at once, against the floor; growth", steps::measure),
    ("store", "a read, against bare SQLite", storage::measure),
    ("commits", "commits per second on both stores, against bare SQLite and bare NATS", commits::measure),
    ("commands", "`show` and `ls` as processes", commands::measure),
    ("state", "`state get` as a process, and many that patch one document", state::measure),
    ("resume", "from `resume` to the next attempt", resume::measure),
    ("memory", "the engine with agents at work", engine::memory),
    ("idle", "what happens while an agent sleeps", engine::idle),
    ("instructions", "one step under callgrind", instructions::measure),
];

const USAGE: &str = "\
usage: scripts/bench [--quick] [--json FILE] [SUBJECT…]

  --quick      small sizes, for trying out; the figures mean little
  --json FILE  write the table as JSON as well
  --list       name the subjects

Without a subject all are measured. `commits` starts a NATS server of its own, the program that NATS_SERVER names.
";

/// What all measurements need.
struct Bench {
    /// The `callboard` to measure.
    program: PathBuf,
    sizes: Sizes,
}

/// How much is measured.
struct Sizes {
    /// How often short measurements are repeated; medians are shown.
    rounds: usize,
    /// Steps of the short and the long workflow whose steps run one after the other.
    short_line: usize,
    long_line: usize,
    /// Steps of the workflow whose steps run in parallel.
    at_once: usize,
    /// Reads of the store.
    reads: usize,
    /// Runs that are written to.
    written_runs: usize,
    /// Commits of a writer before the other side, store or floor, takes its turn.
    commits: usize,
    /// How often the two sides alternate, if each has a single writer.
    alternations: usize,
    /// Calls of a short command.
    command_calls: usize,
    /// Patches of each process, where several write to one document.
    patches: usize,
    /// Runs in the store when they are listed.
    runs: usize,
    /// Steps of the run that is resumed.
    resumed: usize,
    /// Agents that one engine runs at the same time.
    agents: usize,
    /// How long an idle engine is observed.
    idle: Duration,
}

impl Sizes {
    const FULL: Self = Self {
        rounds: 5,
        short_line: 100,
        long_line: 5_000,
        at_once: 500,
        reads: 400,
        written_runs: 1_000,
        commits: 240,
        alternations: 151,
        command_calls: 200,
        patches: 100,
        runs: 10_000,
        resumed: 1_000,
        agents: 50,
        idle: Duration::from_secs(10),
    };

    const QUICK: Self = Self {
        rounds: 2,
        short_line: 20,
        long_line: 200,
        at_once: 50,
        reads: 50,
        written_runs: 100,
        commits: 80,
        alternations: 11,
        command_calls: 20,
        patches: 5,
        runs: 300,
        resumed: 50,
        agents: 10,
        idle: Duration::from_secs(2),
    };
}

struct Arguments {
    sizes: Sizes,
    json: Option<PathBuf>,
    subjects: Vec<Subject>,
}

fn main() -> ExitCode {
    let mut arguments = std::env::args_os().skip(1);
    // Some of the runs that are measured have this program as their agent.
    if arguments.next().is_some_and(|first| first == repo::STAMP) {
        return repo::stamp(arguments.next());
    }
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            let _ = writeln!(std::io::stderr(), "error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run() -> anyhow::Result<()> {
    let Some(arguments) = parse(std::env::args_os().skip(1))? else { return Ok(()) };
    let bench = Bench { program: program()?, sizes: arguments.sizes };
    let mut table = Table::begin();
    let mut failed = Vec::new();
    for (name, about, measure) in arguments.subjects {
        say(&format!("{name}: {about} …"))?;
        match measure(&bench) {
            Ok(rows) => table.rows.extend(rows),
            // The other subjects are measured all the same.
            Err(error) => {
                say(&format!("could not measure `{name}`: {error:#}"))?;
                failed.push(name);
            }
        }
    }
    let mut out = std::io::stdout().lock();
    write!(out, "{table}")?;
    if let Some(file) = arguments.json {
        let text = serde_json::to_string_pretty(&table)? + "\n";
        std::fs::write(&file, text).with_context(|| format!("cannot write `{}`", file.display()))?;
    }
    ensure!(failed.is_empty(), "not measured: {}", failed.join(", "));
    Ok(())
}

/// Parses the arguments. Returns `None` if there is nothing to measure.
fn parse(given: impl Iterator<Item = OsString>) -> anyhow::Result<Option<Arguments>> {
    let mut arguments = Arguments { sizes: Sizes::FULL, json: None, subjects: Vec::new() };
    let mut given = given;
    while let Some(word) = given.next() {
        match word.to_str().context("an argument is not UTF-8")? {
            // Cargo passes this to every benchmark.
            "--bench" => {}
            "--quick" => arguments.sizes = Sizes::QUICK,
            "--json" => {
                arguments.json = Some(given.next().context("`--json` needs the name of a file")?.into());
            }
            "--list" => {
                for (name, about, _) in SUBJECTS {
                    say(&format!("{name:<14}{about}"))?;
                }
                return Ok(None);
            }
            "--help" | "-h" => {
                say(USAGE.trim_end())?;
                return Ok(None);
            }
            name => match SUBJECTS.iter().find(|(subject, ..)| *subject == name) {
                Some(subject) => arguments.subjects.push(*subject),
                None => bail!("there is no subject `{name}`; `--list` names them\n\n{USAGE}"),
            },
        }
    }
    if arguments.subjects.is_empty() {
        arguments.subjects = SUBJECTS.to_vec();
    }
    Ok(Some(arguments))
}

/// Returns the release build next to this program, or the one that `CALLBOARD_PROGRAM` names.
fn program() -> anyhow::Result<PathBuf> {
    let program = match std::env::var_os("CALLBOARD_PROGRAM") {
        Some(program) => PathBuf::from(program),
        None => {
            let this_program = std::env::current_exe()?;
            let profile = this_program
                .parent()
                .and_then(Path::parent)
                .context("this program is not in a target directory")?;
            profile.join("callboard")
        }
    };
    program
        .canonicalize()
        .with_context(|| format!("there is no `{}`: build it first, or use scripts/bench", program.display()))
}

/// A single-threaded runtime, as in an engine.
fn runtime() -> std::io::Result<tokio::runtime::Runtime> {
    tokio::runtime::Builder::new_current_thread().enable_all().build()
}

fn say(line: &str) -> std::io::Result<()> {
    writeln!(std::io::stderr(), "{line}")
}
