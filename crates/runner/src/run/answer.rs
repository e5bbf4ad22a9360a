//! Answers of people to the questions of a run. An answer is a fact: it is consumed in the commit that acts on it.

use std::sync::Arc;

use protocol::entry::{Author, Entry, Evidence, Input};
use protocol::run::{Absorbed, Fact, Run, TurnStatus, absorb};
use protocol::{Answer, Revision, StepId, Timestamp, Turn};

use crate::run::history::for_each_entry;
use crate::run::{Journal, LoadError, RequestError, decode};

/// Why an answer was not accepted.
#[derive(Debug, thiserror::Error)]
pub enum AnswerError {
    #[error("the run has no step `{0}`")]
    NoSuchStep(StepId),
    #[error("`{0}` asks nothing")]
    NotWaiting(StepId),
    /// The question was closed without an answer: the step was skipped, or the run ended.
    #[error("the question `{step}#{turn}` is not open{}", now.map(|now| format!("; `{step}#{now}` is")).unwrap_or_default())]
    Closed { step: StepId, turn: Turn, now: Option<Turn> },
    /// The first answer counts.
    #[error("`{}#{}` was answered before", .0.step, .0.turn)]
    Answered(Box<FirstAnswer>),
    #[error("{0}")]
    Invalid(String),
    #[error(transparent)]
    Commit(#[from] RequestError),
}

/// The answer that a question has.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FirstAnswer {
    pub step: StepId,
    pub turn: Turn,
    pub by: Author,
    pub at: Timestamp,
    pub answer: Answer,
}

/// Answers the question of a step. `turn` is the turn that asked; without it, the one that waits counts. A second answer
/// fails with the first one.
pub async fn answer(
    journal: &mut Journal,
    by: Author,
    step: &StepId,
    turn: Option<Turn>,
    answer: Answer,
) -> Result<Turn, AnswerError> {
    let error = match commit(journal, by, step, turn, answer).await {
        Ok(turn) => return Ok(turn),
        Err(error) => error,
    };
    let asked = match &error {
        AnswerError::Closed { turn, .. } => Some(*turn),
        AnswerError::NotWaiting(_) => journal.state.run.turns.get(step).copied(),
        AnswerError::NoSuchStep(_)
        | AnswerError::Answered(_)
        | AnswerError::Invalid(_)
        | AnswerError::Commit(_) => None,
    };
    let Some(asked) = asked else { return Err(error) };
    let first = first_answer(journal, step, asked).await.map_err(RequestError::from)?;
    Err(first.map_or(error, |first| AnswerError::Answered(Box::new(first))))
}

/// Finds the answer of a turn in the journal.
async fn first_answer(
    journal: &Journal,
    step: &StepId,
    turn: Turn,
) -> Result<Option<FirstAnswer>, LoadError> {
    let (run, last) = (&journal.run, journal.position.revision);
    let mut found = None;
    for_each_entry(journal.store.as_ref(), run, Revision(0), last, |stored| {
        let Entry { at, by, input, .. } = decode(run, &stored)?;
        if let Input::Fact {
            fact: Fact::Answered { step: answered_step, turn: answered_turn, .. },
            evidence: Some(evidence),
        } = input
            && (&answered_step, answered_turn) == (step, turn)
            && let Some(answer) = evidence.answer.clone()
        {
            found = Some(FirstAnswer { step: answered_step, turn, by, at, answer });
        }
        Ok::<_, LoadError>(())
    })
    .await?;
    Ok(found)
}

async fn commit(
    journal: &mut Journal,
    by: Author,
    step: &StepId,
    turn: Option<Turn>,
    answer: Answer,
) -> Result<Turn, AnswerError> {
    let mut answered = Turn(0);
    journal
        .decide(by, |journal| {
            let run = &mut journal.state.run;
            let turn = open_question(run, step, turn)?;
            let verdict = run.machine.parse_answer(step, &answer).map_err(AnswerError::Invalid)?;
            let fact = Fact::Answered { step: step.clone(), turn, verdict };
            let decision = match absorb(run, fact.clone()) {
                Absorbed::Decided(decision) => decision,
                Absorbed::Ignored(_) => return Err(AnswerError::NotWaiting(step.clone())),
            };
            answered = turn;
            let evidence = Evidence { answer: Some(answer.clone()), ..Evidence::default() };
            Ok(Some((Input::Fact { fact, evidence: Some(Arc::new(evidence)) }, decision)))
        })
        .await?;
    Ok(answered)
}

/// Returns the turn of the step that waits for an answer. Fails if it is not the asked one.
fn open_question(run: &Run, step: &StepId, asked: Option<Turn>) -> Result<Turn, AnswerError> {
    if !run.machine.has_step(step) {
        return Err(AnswerError::NoSuchStep(step.clone()));
    }
    let active = run.active_turns.get(step).filter(|active| active.status == TurnStatus::Waiting);
    match (asked, active.map(|active| active.turn)) {
        (None, Some(open)) => Ok(open),
        (None, None) => Err(AnswerError::NotWaiting(step.clone())),
        (Some(turn), Some(open)) if turn == open => Ok(open),
        (Some(turn), now) => Err(AnswerError::Closed { step: step.clone(), turn, now }),
    }
}
