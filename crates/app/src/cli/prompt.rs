//! `callboard prompt RUN STEP`.

use protocol::{AttemptId, AttemptNo, StepId, Turn};
use runner::{History, RunAt, would_be_told};

use super::block_on;
use crate::failure::{Exit, Failure};
use crate::output;
use crate::present::{Deed, Presentation};
use crate::query::RunHandle;
use crate::query::attempt_io::{self, FileText};
use crate::workspace::LocationArgs;

/// Print the prompt that a step was given, or would be given now
///
/// Without a flag it is the prompt of the step's newest attempt, from the file the agent was given. A step that has not
/// been asked yet has none: then it is made now, by the code that would make it.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  callboard prompt f8c1a491 review
  callboard prompt f8c1a491 review --attempt 2.1
  callboard prompt f8c1a491 review --next
  callboard prompt f8c1a491 review --context | jq .upstream")]
pub(super) struct Arguments {
    /// The run: its name, a beginning of it, or the id of its cycle
    run: String,

    /// The step: the name of a step, or of a status of a cycle
    step: String,

    /// That attempt instead of the newest one, as turn and try
    #[arg(long, value_name = "TURN.ATTEMPT", value_parser = turn_and_attempt)]
    attempt: Option<(Turn, AttemptNo)>,

    /// What its next attempt would be given now
    #[arg(long, conflicts_with = "attempt")]
    next: bool,

    /// The same as data: context.json
    #[arg(long)]
    context: bool,

    #[command(flatten)]
    place: LocationArgs,
}

fn turn_and_attempt(text: &str) -> Result<(Turn, AttemptNo), String> {
    let attempt = text.rsplit('#').next().unwrap_or(text);
    let attempt: Result<AttemptId, _> = format!("step#{attempt}").parse();
    attempt
        .map(|attempt| (attempt.turn, attempt.attempt_no))
        .map_err(|_| "expected TURN.ATTEMPT, as 2.1".to_owned())
}

pub(super) fn run(arguments: Arguments) -> Result<Exit, Failure> {
    block_on(async {
        let handle = RunHandle::of(&arguments.place, &arguments.run).await?;
        handle.with(Prompting { handle: &handle, arguments: &arguments }).await
    })
}

struct Prompting<'a> {
    handle: &'a RunHandle,
    arguments: &'a Arguments,
}

impl Deed for Prompting<'_> {
    type Done = Exit;

    async fn with<P: Presentation>(self) -> Result<Exit, Failure> {
        let Self { handle, arguments } = self;
        let run_at = handle.run_at::<P>(None).await?;
        let step = handle.step(&run_at, &arguments.step)?;
        let name = P::step_id(&step);
        let history = handle.history(&run_at).await?;
        let attempt = match arguments.attempt {
            Some((turn, attempt_no)) => Some(named(handle, &history, &name, turn, attempt_no)?),
            None if arguments.next => None,
            None => history.newest_of(&name).map(|attempted| attempted.id.clone()),
        };
        let text = match attempt {
            Some(attempt) => given(handle, &history, &attempt, arguments.context)?,
            None => {
                tell_what_is_missing(&run_at, &history, &step);
                let told = would_be_told(&run_at, &step, &handle.store.local_dir().attempts_dir());
                if arguments.context { told.context } else { told.prompt }
            }
        };
        output::raw(&text);
        Ok(Exit::Success)
    }
}

/// That attempt of the step, if there was one.
fn named(
    handle: &RunHandle,
    history: &History,
    step: &StepId,
    turn: Turn,
    attempt_no: AttemptNo,
) -> Result<AttemptId, Failure> {
    let id = AttemptId { step: step.clone(), turn, attempt_no };
    if history.attempts.iter().any(|attempted| attempted.id == id) {
        return Ok(id);
    }
    let failure = Failure::usage(format!("run `{}` has no attempt `{id}`", handle.run));
    let known: Vec<_> = history.attempts.iter().filter(|attempted| attempted.id.step == *step).collect();
    Err(match (known.first(), known.last()) {
        (Some(first), Some(last)) if known.len() > 1 => {
            failure.hint(format!("there are {} of them, from `{}` to `{}`", known.len(), first.id, last.id))
        }
        (Some(only), _) => failure.hint(format!("there is only `{}`", only.id)),
        (None, _) => failure.hint(format!(
            "`{step}` has not been asked yet; without `--attempt` it shows what it would be given"
        )),
    })
}

/// What the attempt was given.
fn given(
    handle: &RunHandle,
    history: &History,
    attempt: &AttemptId,
    context: bool,
) -> Result<String, Failure> {
    let AttemptId { step, turn, attempt_no } = attempt;
    let now = format!("`callboard prompt {} {step} --next` makes what it would be given now", handle.run);
    let attempted = history.attempts.iter().find(|attempted| attempted.id == *attempt);
    if let Some(host) = attempted.and_then(|attempted| handle.host_of_files(attempt, &attempted.host)) {
        let there =
            format!("`callboard prompt {} {step} --attempt {turn}.{attempt_no}` there prints it", handle.run);
        let what = format!("what `{attempt}` was given is on `{host}`, where it was begun");
        return Err(Failure::new(Exit::Store, what).hint(there).hint(now));
    }
    let dir = handle.dir(attempt);
    let path = if context { dir.context() } else { dir.prompt() };
    let why = match attempt_io::whole(&path) {
        FileText::Read { text, .. } => return Ok(text),
        FileText::Missing if !dir.path().is_dir() => "its directory is gone".to_owned(),
        FileText::Missing => "the file is gone, or the attempt was never prepared".to_owned(),
        FileText::Unreadable(why) => why,
    };
    let what = format!("cannot read `{}`, which `{attempt}` was given: {why}", path.display());
    Err(Failure::new(Exit::Store, what).hint(now))
}

/// What is made now may lack what is not done yet.
fn tell_what_is_missing<P: Presentation>(run_at: &RunAt<P>, history: &History, step: &P::Step) {
    let name = P::step_id(step);
    if history.newest_of(&name).is_none() {
        output::note(format_args!("`{name}` has not been asked yet; this is what it would be given now"));
    }
    let (definition, state) = (&run_at.spec.definition, &run_at.state.run.state);
    let needs = P::needs(definition, step).into_iter();
    let missing = needs.filter(|need| !P::unblocks_dependents(definition, state, need));
    let missing: Vec<_> = missing.map(|need| format!("`{}`", P::step_id(&need))).collect();
    if !missing.is_empty() {
        output::note(format_args!(
            "not done yet, and so without what they will hand over: {}",
            missing.join(", ")
        ));
    }
}
