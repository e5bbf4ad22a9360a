//! Long random walks, for definitions with too many states.

use protocol::Outcome;
use protocol::run::{Ending, Fact, Request, RunStatus};

use super::input::{Interruptions, facts, requests};
use super::model::{InputResult, Model};
use super::{CounterExample, Explored, Input, Violation, typed};

/// The parameters of walks.
#[derive(Debug, Clone, Copy)]
pub struct WalkParams {
    pub seed: u64,
    pub count: usize,
    /// Requests on one walk, not counting a resume without which it could not continue.
    pub requests: usize,
    /// Writes to the document on one walk. Must be 0 if only the engine writes.
    pub writes: usize,
    /// A walk that needs more inputs than this is a violation. Refused inputs do not count.
    pub max_inputs: usize,
}

/// The results of walks.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct WalkStats {
    pub inputs: usize,
    pub succeeded: usize,
    pub incomplete: usize,
    pub failed: usize,
}

impl<P: Explored> Model<P> {
    /// Walks at random, always the same way for the same seed. Checks the rules in every transition, and that every
    /// walk ends.
    pub fn walk(&self, walks: WalkParams) -> Result<WalkStats, CounterExample> {
        let mut random = fastrand::Rng::with_seed(walks.seed);
        let mut stats = WalkStats::default();
        for _ in 0..walks.count {
            match self.walk_once(walks, &mut random, &mut stats.inputs)? {
                Outcome::Succeeded => stats.succeeded += 1,
                Outcome::Incomplete => stats.incomplete += 1,
                Outcome::Failed => stats.failed += 1,
            }
        }
        Ok(stats)
    }

    fn walk_once(
        &self,
        walks: WalkParams,
        random: &mut fastrand::Rng,
        inputs: &mut usize,
    ) -> Result<Outcome, CounterExample> {
        let mut path = Vec::new();
        let (mut requests_left, mut writes_left) = (walks.requests, walks.writes);
        let mut node = self.open().map_err(|failure| self.counter_example(failure.violations, &[]))?;
        self.check_state(&mut node).map_err(|violations| self.counter_example(violations, &[]))?;
        loop {
            let outcome = match node.state.run.status {
                RunStatus::Finished(outcome) => Some(outcome),
                RunStatus::Running
                | RunStatus::Paused
                | RunStatus::Stopping(_)
                | RunStatus::Stopped(_)
                | RunStatus::Draining(_)
                | RunStatus::Finishing(_) => None,
            };
            // A request of the protocol's own may reopen a run that has succeeded.
            let machine = typed::<P>(&node.state.run);
            let reopens = !P::requests(&machine.definition, &machine.state).is_empty();
            let is_over =
                |outcome: &Outcome| requests_left == 0 || (*outcome == Outcome::Succeeded && !reopens);
            if let Some(outcome) = outcome.filter(is_over) {
                return Ok(outcome);
            }
            if path.len() >= walks.max_inputs {
                let violation = Violation::new("every run ends", format!("not after {} inputs", path.len()));
                return Err(self.counter_example(vec![violation], &path));
            }
            let mut facts = facts(self, &node.state.run, Interruptions::Any);
            let input = if writes_left > 0 && random.u8(..4) > 0 {
                writes_left -= 1;
                let mut writes = P::writes(&node.state.run, &typed::<P>(&node.state.run).document);
                Input::Write(writes.swap_remove(random.usize(..writes.len())))
            } else if facts.is_empty() && requests_left == 0 {
                Input::Request(Request::Resume)
            } else if facts.is_empty() || (requests_left > 0 && random.u8(..) < 20) {
                requests_left -= 1;
                let mut requests = requests::<P>(&node.state.run);
                Input::Request(requests.swap_remove(random.usize(..requests.len())))
            } else {
                // If a failure is drawn, draw once more: otherwise most walks would fail early.
                let drawn = random.usize(..facts.len());
                let chosen = if is_failure(&facts[drawn]) { random.usize(..facts.len()) } else { drawn };
                facts.swap_remove(chosen)
            };
            *inputs += 1;
            path.push(input);
            let result = self.apply(&node, &path[path.len() - 1]);
            match result.map_err(|failure| self.counter_example(failure.violations, &path))? {
                InputResult::Refused(_) | InputResult::Unchanged => {
                    path.pop();
                }
                InputResult::Moved(mut next, _) => {
                    self.check_state(&mut next)
                        .map_err(|violations| self.counter_example(violations, &path))?;
                    node = *next;
                }
            }
        }
    }
}

fn is_failure(input: &Input) -> bool {
    match input {
        Input::Fact(
            Fact::Ended { ending: Ending::Reported(_), .. }
            | Fact::BackoffElapsed { .. }
            | Fact::Answered { .. },
        ) => false,
        Input::Fact(Fact::Ended { .. }) => true,
        Input::Deferred | Input::StartQueued | Input::Request(_) | Input::Write(_) => false,
    }
}
