//! `callboard answer RUN/STEP#TURN[:ITEM]`.

use protocol::run::RunStatus;
use protocol::{Answer, InboxItemId, Machine, RunId};
use runner::{AnswerError, FirstAnswer};

use super::block_on;
use crate::config::Flags;
use crate::control::{self, views};
use crate::failure::{Code, Exit, Failure};
use crate::learnings;
use crate::output;
use crate::present::{self, run_status};
use crate::query::entry_text;
use crate::workspace::{self, LocationArgs, Workspace};

/// Answer a question of a run: approve, reject, choose, or say it in your words
///
/// The first answer counts; a second one is refused and names the first. Agents cannot answer. `callboard inbox` lists
/// the open questions with their ids.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  callboard answer f8c1a491/approve#1 approve
  callboard answer f8c1a491/approve reject --reason 'the tests do not cover it'
  callboard answer f8c1a491/ask#2 --text 'use the second one'")]
pub(super) struct Arguments {
    /// The question, as `callboard inbox` shows it; `#TURN` may be left out
    #[arg(value_name = "RUN/STEP#TURN[:ITEM]")]
    id: String,

    /// The answer, if the question has fixed ones
    #[arg(value_name = "ANSWER", required_unless_present = "text")]
    kind: Option<AnswerKind>,

    /// What to choose
    #[arg(value_name = "OPTION")]
    option: Option<String>,

    /// Why: needed to reject, allowed to choose
    #[arg(long, value_name = "WHY")]
    reason: Option<String>,

    /// The answer in your words; or a remark to an approval; or how a problem was solved or is avoided
    #[arg(long, value_name = "TEXT")]
    text: Option<String>,

    #[command(flatten)]
    location: LocationArgs,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum AnswerKind {
    /// Accept what was done
    Approve,
    /// Refuse what was done: a gate loops back with the reason, any other step fails
    Reject,
    /// Choose one of the options
    Choose,
    /// The problem is solved
    Resolve,
    /// The problem remains; `--text` says how to go on
    Workaround,
}

impl Arguments {
    /// Reads the answer. Fails if a part is missing, or one is given that the answer does not have.
    fn answer(&self) -> Result<Answer, Failure> {
        let given = (self.kind, self.option.clone(), self.reason.clone(), self.text.clone());
        match given {
            (None, None, None, Some(text)) if !text.trim().is_empty() => Ok(Answer::Text { text }),
            (Some(AnswerKind::Approve), None, None, text) => Ok(Answer::Approve { text }),
            (Some(AnswerKind::Reject), None, Some(reason), None) if !reason.trim().is_empty() => {
                Ok(Answer::Reject { reason })
            }
            (Some(AnswerKind::Choose), Some(option), reason, None) => Ok(Answer::Choose { option, reason }),
            (Some(AnswerKind::Resolve), None, None, text) => Ok(Answer::Resolve { text }),
            (Some(AnswerKind::Workaround), None, None, Some(text)) if !text.trim().is_empty() => {
                Ok(Answer::Workaround { text })
            }
            (kind, ..) => {
                let usage = match kind {
                    None => "--text TEXT",
                    Some(AnswerKind::Approve) => "approve [--text REMARK]",
                    Some(AnswerKind::Reject) => "reject --reason WHY",
                    Some(AnswerKind::Choose) => "choose OPTION [--reason WHY]",
                    Some(AnswerKind::Resolve) => "resolve [--text HOW]",
                    Some(AnswerKind::Workaround) => "workaround --text HOW",
                };
                let hint = format!("type `callboard answer {} {usage}`", self.id);
                Err(Failure::usage("the answer is incomplete, or has a part that it cannot have").hint(hint))
            }
        }
    }
}

pub(super) fn run(arguments: Arguments) -> Result<Exit, Failure> {
    let answer = arguments.answer()?;
    let workspace = Workspace::find(&arguments.location, Flags::default())?;
    let bad_id = || {
        Failure::usage(format_args!("`{}` is not the id of a question", arguments.id))
            .hint("type it as `callboard inbox` shows it: RUN/STEP#TURN")
    };
    let (run, id) = arguments.id.rsplit_once('/').ok_or_else(bad_id)?;
    let id: InboxItemId = id.parse().map_err(|_| bad_id())?;
    block_on(async {
        let (store, run) = workspace.find_run(run).await?;
        let mut journal = workspace.load(&store, &run).await?;
        control::refuse_inside_attempt(&format!("answer a question of run `{run}`"))?;
        let step = present::find_step(&run, journal.machine(), id.step.as_str())?;
        if id.item.is_some() {
            // Not the question of a step but an item that the step raised, such as an open question of its report.
            // The item's hint says how it is dealt with.
            return Err(not_answerable(&run, &id, journal.machine()));
        }
        let answered =
            runner::answer(&mut journal, workspace::person_author(), &step, id.turn, answer.clone()).await;
        let turn = answered.map_err(|error| refused(&run, &id, error))?;
        control::report_early_answers(&mut journal);
        output::message(format_args!("answered `{run}/{step}#{turn}`: {answer}"));
        // If there is no engine, this command makes the transitions that follow, and writes the views.
        let has_engine = views::make_deferred_transitions(&workspace, &store, &run).await?;
        // If the answer ended a run of `issue`, its observations go into `learnings.json`.
        learnings::add_if_ended(&workspace, &store, &journal).await?;
        let status = workspace.load(&store, &run).await?.state.run.status;
        match status {
            RunStatus::Finished(_) => {
                output::note(format_args!("the run is over: {}", run_status::label(status).1));
            }
            _ if has_engine => output::note("its engine continues"),
            _ => output::note(format_args!("run `callboard resume {run}` to continue")),
        }
        Ok(Exit::Success)
    })
}

/// The failure for an item that the protocol lists and that is not the question of a step.
fn not_answerable(run: &RunId, item: &InboxItemId, machine: &dyn Machine) -> Failure {
    let open = machine
        .open_items()
        .into_iter()
        .find(|open| open.step == item.step && Some(&open.item) == item.item.as_ref());
    let what = format_args!("`{run}/{item}` is not the question of a step, so it cannot be answered here");
    let failure = Failure::new(Exit::Refused, what).code(Code::Refused);
    match open {
        Some(open) => failure.hint(open.hint),
        None => failure.hint("run `callboard inbox` to list the open questions"),
    }
}

fn refused(run: &RunId, item: &InboxItemId, error: AnswerError) -> Failure {
    let context = format!("cannot answer `{run}/{item}`");
    match error {
        AnswerError::Answered(first) => {
            let FirstAnswer { step, turn, by, at, answer } = *first;
            let by = entry_text::author(&by);
            Failure::new(
                Exit::Refused,
                format_args!("`{step}#{turn}` was answered by {by} at {at}: {answer}"),
            )
            .code(Code::Refused)
            .context(context)
            .hint(format_args!("run `callboard log {run} --step {step}` to see what followed"))
        }
        AnswerError::NotWaiting(_) | AnswerError::Closed { .. } => Failure::new(Exit::Refused, error)
            .code(Code::Refused)
            .context(context)
            .hint("run `callboard inbox` to list the open questions"),
        AnswerError::NoSuchStep(_) | AnswerError::Invalid(_) => Failure::usage(error).context(context),
        AnswerError::Commit(error) => Failure::from(error).context(context),
    }
}
