//! The command line: one file per command.

mod answer;
mod argument_rewriting;
mod ask;
mod check;
mod check_signals;
mod checks;
mod completions;
mod config;
mod cycle;
mod demo;
mod diff;
mod doctor;
mod escalate;
mod explain;
mod export;
mod extend;
mod graph;
mod help;
mod import;
mod inbox;
mod issue;
mod log;
mod ls;
mod man;
mod panic_hook;
mod pause;
mod peer;
mod prompt;
mod recover;
mod rehearse_script;
mod report;
mod resume;
mod retry;
mod rm;
mod run;
mod schema;
mod show;
mod skip;
mod state;
pub(crate) mod step_status;
mod stop;
mod team;
mod watch;

use std::process::ExitCode;

use clap::{ArgMatches, FromArgMatches as _, Parser, Subcommand};

use crate::failure::{Exit, Failure};
use crate::output;
use crate::rehearsal;

/// Runs teams of command-line coding agents and keeps their state safe across crashes
#[derive(Debug, Parser)]
#[command(
    name = "callboard",
    version,
    max_term_width = 100,
    after_help = "Examples:
  callboard demo                            # see a run survive `kill -9`
  callboard run wf.yaml --wrapper ./agent.sh
  callboard resume                          # continue the unfinished run
  callboard doctor                          # check the setup
  callboard explain E004                    # explain error[E004]

Exit codes: 0 succeeded, 1 failed or incomplete, 2 usage error or bad input, 3 refused,
  4 waiting for a person, 5 store unreachable or locked, 70 bug in callboard, 130 interrupted"
)]
pub(crate) struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Demo(demo::Arguments),
    Run(Box<run::Arguments>),
    Peer(peer::Arguments),
    Issue(issue::Arguments),
    Cycle(cycle::Arguments),
    Team(Box<team::Arguments>),
    Resume(resume::Arguments),
    Pause(pause::Arguments),
    Stop(stop::Arguments),
    Retry(retry::Arguments),
    Skip(skip::Arguments),
    Extend(extend::Arguments),
    Rm(rm::Arguments),
    Inbox(inbox::Arguments),
    Answer(answer::Arguments),
    Ls(ls::Arguments),
    Show(show::Arguments),
    Watch(watch::Arguments),
    Log(log::Arguments),
    Diff(diff::Arguments),
    Prompt(prompt::Arguments),
    Graph(graph::Arguments),
    State(state::Arguments),
    Report(report::Arguments),
    Ask(ask::Arguments),
    Escalate(escalate::Arguments),
    CheckSignals(check_signals::Arguments),
    Recover(recover::Arguments),
    Export(export::Arguments),
    Import(import::Arguments),
    RehearseScript(rehearse_script::Arguments),
    Check(check::Arguments),
    Checks(checks::Arguments),
    Schema(schema::Arguments),
    Config(config::Arguments),
    Doctor(doctor::Arguments),
    Explain(explain::Arguments),
    Completions(completions::Arguments),
    Man(man::Arguments),
}

/// Parses the command line and runs the command.
pub(crate) fn main() -> ExitCode {
    panic_hook::install();
    let parsed = match state::parse_get(std::env::args_os()) {
        Some((json, arguments)) => Ok((json, Command::State(arguments))),
        None => help::command()
            .try_get_matches_from(argument_rewriting::rewrite(std::env::args_os()))
            .and_then(|matches| Ok((prints_json(&matches), Cli::from_arg_matches(&matches)?.command))),
    };
    let (prints_json, command) = match parsed {
        Ok(parsed) => parsed,
        Err(error) => {
            let exit = if error.use_stderr() { Exit::Usage } else { Exit::Success };
            // A closed pipe is not an error.
            let _ = error.print();
            let arguments: Vec<_> = std::env::args_os().collect();
            if let Some(hint) = rehearsal::hint(&arguments, &error) {
                output::message(format_args!("\nhint: {hint}"));
            }
            return exit.into();
        }
    };
    start_logging(None);
    match dispatch(command) {
        Ok(exit) => exit.into(),
        Err(failure) => {
            if prints_json {
                output::json(&failure.event());
            }
            output::failure(&failure);
            failure.exit.into()
        }
    }
}

/// Returns whether the command runs an engine or works on a document, and prints JSON: then a failure is printed as JSON, too.
fn prints_json(matches: &ArgMatches) -> bool {
    let starts_engine =
        |name: &str| ["run", "peer", "team", "cycle", "issue", "resume", "retry", "extend"].contains(&name);
    matches.subcommand().is_some_and(|(name, given)| {
        (starts_engine(name) && given.get_flag("json")) || (name == "state" && state::prints_json(given))
    })
}

/// Returns whether the command of this name takes the flags of `LocationArgs`.
pub(crate) fn accepts_location(name: &str) -> bool {
    use clap::CommandFactory as _;
    let accepts =
        |command: &clap::Command| command.get_arguments().any(|argument| argument.get_id() == "store");
    let command = Cli::command();
    let found = command.find_subcommand(name);
    found.is_some_and(|found| accepts(found) || found.get_subcommands().any(accepts))
}

fn dispatch(command: Command) -> Result<Exit, Failure> {
    match command {
        Command::Demo(arguments) => demo::run(arguments),
        Command::Run(arguments) => run::run(*arguments),
        Command::Peer(arguments) => peer::run(arguments),
        Command::Issue(arguments) => issue::run(arguments),
        Command::Cycle(arguments) => cycle::run(arguments),
        Command::Team(arguments) => team::run(*arguments),
        Command::Resume(arguments) => resume::run(arguments),
        Command::Pause(arguments) => pause::run(arguments),
        Command::Stop(arguments) => stop::run(arguments),
        Command::Retry(arguments) => retry::run(arguments),
        Command::Skip(arguments) => skip::run(arguments),
        Command::Extend(arguments) => extend::run(arguments),
        Command::Rm(arguments) => rm::run(arguments),
        Command::Inbox(arguments) => inbox::run(arguments),
        Command::Answer(arguments) => answer::run(arguments),
        Command::Ls(arguments) => ls::run(arguments),
        Command::Show(arguments) => show::run(arguments),
        Command::Watch(arguments) => watch::run(arguments),
        Command::Log(arguments) => log::run(arguments),
        Command::Diff(arguments) => diff::run(arguments),
        Command::Prompt(arguments) => prompt::run(arguments),
        Command::Graph(arguments) => graph::run(arguments),
        Command::State(arguments) => state::run(arguments),
        Command::Report(arguments) => report::run(arguments),
        Command::Ask(arguments) => ask::run(arguments),
        Command::Escalate(arguments) => escalate::run(arguments),
        Command::CheckSignals(arguments) => check_signals::run(arguments),
        Command::Recover(arguments) => recover::run(arguments),
        Command::Export(arguments) => export::run(arguments),
        Command::Import(arguments) => import::run(arguments),
        Command::RehearseScript(arguments) => rehearse_script::run(arguments),
        Command::Check(arguments) => check::run(arguments),
        Command::Checks(arguments) => checks::run(arguments),
        Command::Schema(arguments) => schema::run(arguments),
        Command::Config(arguments) => config::run(arguments),
        Command::Doctor(arguments) => doctor::run(arguments),
        Command::Explain(arguments) => explain::run(arguments),
        Command::Completions(arguments) => completions::run(arguments),
        Command::Man(arguments) => man::run(arguments),
    }
}

/// Writes logs to stderr with the filter in CALLBOARD_LOG, or else with `filter`. Without either, logs nothing.
fn start_logging(filter: Option<&str>) {
    let variable = std::env::var("CALLBOARD_LOG").ok();
    let Some(filter) = variable.as_deref().or(filter) else { return };
    let logs = tracing_subscriber::fmt()
        .with_env_filter(tracing_subscriber::EnvFilter::new(filter))
        .with_ansi(output::can_draw())
        .with_writer(std::io::stderr);
    // Fails if logging was started before, because of CALLBOARD_LOG.
    let _ = logs.try_init();
}

/// Runs the async part of a command on a runtime of its own.
fn block_on<T>(work: impl Future<Output = Result<T, Failure>>) -> Result<T, Failure> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        // Blocking threads end soon after a commit, so that an idle engine is not woken later to end them.
        .thread_keep_alive(std::time::Duration::from_secs(1))
        .build()
        .map_err(|error| Failure::new(Exit::Bug, "cannot start the runtime").because(Some(&error)))?;
    runtime.block_on(work)
}
