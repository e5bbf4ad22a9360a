//! Answers of people to the questions of a run. An answer is a fact: it is consumed in the commit that acts on it.

use std::sync::Arc;

use protocol::entry::{Author, Evidence, Input};
use protocol::run::{Absorbed, Fact, Run, TurnStatus, absorb};
use protocol::{Answer, StepId, Turn};

use crate::run::{Journal, RequestError};

/// Why an answer was not accepted.
#[derive(Debug, thiserror::Error)]
pub enum AnswerError {
    #[error("the run has no step `{0}`")]
    NoSuchStep(StepId),
    #[error("`{0}` asks nothing")]
    NotWaiting(StepId),
    /// The question was answered, or the step is asked again.
    #[error("the question `{step}#{turn}` is not open any more{}", now.map(|now| format!("; `{step}#{now}` is")).unwrap_or_default())]
    Closed { step: StepId, turn: Turn, now: Option<Turn> },
    #[error("{0}")]
    Invalid(String),
    #[error(transparent)]
    Commit(#[from] RequestError),
}

/// Answers the question of a step: of the given turn, or of the one that waits.
pub async fn answer(
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
