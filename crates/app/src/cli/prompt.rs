//! `callboard prompt RUN STEP`.

use protocol::{AttemptId, AttemptNo, ProtocolKind, StepId, StepKind, Turn};
use runner::{AttemptRecord, History, RunAtRevision, preview_prompt};

use super::block_on;
use crate::failure::{Exit, Failure};
use crate::output;
use crate::present::wording;
use crate::query::RunHandle;
use crate::query::attempts::files::{self, FileText};
use crate::workspace::LocationArgs;

/// Print the prompt of a step's attempt, or the prompt it would get now
///
/// By default, this is the prompt file of the step's newest attempt. For a step without attempts, the prompt is generated as
/// it would be now.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  callboard prompt f8c1a491 review
  callboard prompt f8c1a491 review --attempt 2.1
  callboard prompt f8c1a491 review --next
  callboard prompt f8c1a491 review --context | jq .upstream")]
pub(super) struct Arguments {
    /// The run: its name, a unique prefix of it, or the id of a peer cycle
    run: String,

    /// The step, or the phase of a peer cycle
    step: String,

    /// The attempt, as turn and attempt [default: the newest]
    #[arg(long, value_name = "TURN.ATTEMPT", value_parser = parse_attempt)]
    attempt: Option<(Option<String>, Turn, AttemptNo)>,

    /// Generate the prompt that the next attempt would get now
    #[arg(long, conflicts_with = "attempt")]
    next: bool,

    /// Print the context (context.json) instead of the prompt
    #[arg(long)]
    context: bool,

    #[command(flatten)]
    location: LocationArgs,
}

/// Parses `TURN.ATTEMPT`. The step before it is `None` unless it is written `STEP#TURN.ATTEMPT`.
fn parse_attempt(text: &str) -> Result<(Option<String>, Turn, AttemptNo), String> {
    let (step, number) = text.rsplit_once('#').map_or((None, text), |(step, number)| (Some(step), number));
    let attempt: Result<AttemptId, _> = format!("step#{number}").parse();
    attempt
        .map(|attempt| (step.map(str::to_owned), attempt.turn, attempt.attempt_no))
        .map_err(|_| "expected TURN.ATTEMPT, such as 2.1".to_owned())
}

pub(super) fn run(arguments: Arguments) -> Result<Exit, Failure> {
    block_on(async {
        let handle = RunHandle::of(&arguments.location, &arguments.run).await?;
        let run_at = handle.run_at(None).await?;
        let step = handle.step(&run_at, &arguments.step)?;
        let history = handle.history(&run_at).await?;
        let attempt = match arguments.attempt {
            Some((Some(other), turn, number)) if other != arguments.step && other != step.as_str() => {
                let what = format_args!("`{other}#{turn}.{number}` is no attempt of step `{step}`");
                return Err(Failure::usage(what).hint(format_args!(
                    "run `callboard prompt {} {other} --attempt {turn}.{number}` to see its prompt",
                    handle.run
                )));
            }
            Some((_, turn, number)) => {
                Some(find_attempt(&handle, run_at.kind(), &history, &step, (turn, number))?)
            }
            None if arguments.next => None,
            None => newest(&history, &step).map(|record| record.id.clone()),
        };
        let text = match attempt {
            Some(attempt) => read_prompt_or_context(&handle, &history, &attempt, arguments.context)?,
            None => {
                refuse_checks(&run_at, &history, &step, arguments.context)?;
                note_what_is_missing(&run_at, &history, &step);
                let preview = preview_prompt(&run_at, &step, &handle.store.local_dir().attempts_dir());
                if arguments.context { preview.context } else { preview.prompt }
            }
        };
        output::raw(&text);
        Ok(Exit::Success)
    })
}

/// Returns the newest attempt of the step's agent, or of its command if no agent works on it.
fn newest<'h>(history: &'h History, step: &StepId) -> Option<&'h AttemptRecord> {
    let newest = |kind: StepKind| {
        history.attempts.iter().rev().find(|record| record.id.step == *step && record.kind == kind)
    };
    newest(StepKind::Agent).or_else(|| newest(StepKind::Command))
}

/// Fails if the next turn of the step runs its checks, which have no prompt.
fn refuse_checks(
    run_at: &RunAtRevision,
    history: &History,
    step: &StepId,
    context: bool,
) -> Result<(), Failure> {
    let machine = run_at.machine();
    if !wording::runs_checks(run_at.kind(), machine.step_kind(step)) {
        return Ok(());
    }
    let what = format_args!("the next turn of `{step}` runs its checks and has no prompt");
    let failure = Failure::usage(what);
    if newest(history, step).is_none() {
        return Err(failure);
    }
    let (noun, flag) = noun_and_flag(context);
    Err(failure.hint(format_args!(
        "run `callboard prompt {} {step}{flag}` to see the {noun} that its agent was given",
        run_at.run
    )))
}

/// Returns what is printed, and the flag to get it, for hints.
fn noun_and_flag(context: bool) -> (&'static str, &'static str) {
    if context { ("context", " --context") } else { ("prompt", "") }
}

/// Returns the attempt of the step, or an error that names the existing ones.
fn find_attempt(
    handle: &RunHandle,
    kind: &dyn ProtocolKind,
    history: &History,
    step: &StepId,
    (turn, attempt_no): (Turn, AttemptNo),
) -> Result<AttemptId, Failure> {
    let id = AttemptId { step: step.clone(), turn, attempt_no };
    // Where checks are turns (`steps`), a command attempt runs the checks of a step and has no prompt.
    if let Some(record) = history.attempts.iter().find(|record| record.id == id) {
        return match record.kind {
            StepKind::Agent => Ok(id),
            StepKind::Command if !kind.info().checks_are_turns => Ok(id),
            StepKind::Command => Err(Failure::usage(format_args!(
                "attempt `{id}` has no prompt: it runs the checks of `{step}`"
            ))),
            StepKind::Effect | StepKind::Person => Err(Failure::usage(format_args!(
                "attempt `{id}` has no prompt: the engine or a person works in this turn"
            ))),
        };
    }
    let failure = Failure::usage(format!("run `{}` has no attempt `{id}`", handle.run));
    let has_prompt = |record: &&AttemptRecord| match record.kind {
        StepKind::Agent => true,
        StepKind::Command => !kind.info().checks_are_turns,
        StepKind::Effect | StepKind::Person => false,
    };
    let of_step = history.attempts.iter().filter(|record| record.id.step == *step);
    let known: Vec<_> = of_step.filter(has_prompt).collect();
    Err(match (known.first(), known.last()) {
        (Some(first), Some(last)) if known.len() > 1 => failure.hint(format!(
            "choose one of its {} attempts with a prompt, from `{}` to `{}`",
            known.len(),
            first.id,
            last.id
        )),
        (Some(only), _) => failure.hint(format!("its only attempt with a prompt is `{}`", only.id)),
        (None, _) => failure.hint(format!(
            "`{step}` has no attempt with a prompt yet; leave out `--attempt` to see the prompt it would get"
        )),
    })
}

/// Reads the file that the attempt was given.
fn read_prompt_or_context(
    handle: &RunHandle,
    history: &History,
    attempt: &AttemptId,
    context: bool,
) -> Result<String, Failure> {
    let AttemptId { step, turn, attempt_no } = attempt;
    let (noun, flag) = noun_and_flag(context);
    let hint_next = format!(
        "run `callboard prompt {} {step} --next{flag}` to see the {noun} it would get now",
        handle.run
    );
    let record = history.attempts.iter().find(|record| record.id == *attempt);
    if let Some(host) = record.and_then(|record| handle.host_of_files(attempt, &record.host)) {
        let hint_there =
            format!("run `callboard prompt {} {step} --attempt {turn}.{attempt_no}{flag}` there", handle.run);
        let what = format!("the files of attempt `{attempt}` are on `{host}`");
        return Err(Failure::new(Exit::Store, what).hint(hint_there).hint(hint_next));
    }
    let dir = handle.dir(attempt);
    let path = if context { dir.context() } else { dir.prompt() };
    let why = match files::read_whole_file(&path) {
        FileText::Read { text, .. } => return Ok(text),
        FileText::Missing if !dir.path().is_dir() => "the directory of the attempt is gone".to_owned(),
        FileText::Missing => "the file is gone, or the attempt was never prepared".to_owned(),
        FileText::Unreadable(why) => why,
    };
    let what = format!("cannot read `{}` of attempt `{attempt}`: {why}", path.display());
    Err(Failure::new(Exit::Store, what).hint(hint_next))
}

/// Says that the generated prompt is preliminary, and which results it lacks.
fn note_what_is_missing(run_at: &RunAtRevision, history: &History, step: &StepId) {
    if newest(history, step).is_none() {
        output::note(format_args!("`{step}` has no attempt yet; this is the prompt it would get now"));
    }
    let machine = run_at.machine();
    let missing = machine.needs(step).into_iter().filter(|need| !machine.unblocks_dependents(need));
    let missing: Vec<_> = missing.map(|need| format!("`{need}`")).collect();
    if !missing.is_empty() {
        output::note(format_args!(
            "the prompt lacks the results of steps that have not succeeded yet: {}",
            missing.join(", ")
        ));
    }
}
