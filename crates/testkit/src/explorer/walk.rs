//! Long random walks, for definitions with too many states to visit.

use protocol::Outcome;
use protocol::run::{Ending, Fact, Request, RunStatus};

use super::input::{Interruptions, requests, without_requests};
use super::scene::{Scene, Taken};
use super::{Broken, CounterExample, Explored, Input};

/// How to walk.
#[derive(Debug, Clone, Copy)]
pub struct Walks {
    pub seed: u64,
    pub count: usize,
    /// Requests on one walk, besides those without which it would not go on.
    pub requests: usize,
    /// Writings on one walk.
    pub writings: usize,
    /// A walk of more inputs than this does not end.
    pub longest: usize,
}

/// What was met on the walks.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Walked {
    pub inputs: usize,
    pub succeeded: usize,
    pub incomplete: usize,
    pub failed: usize,
}

impl<P: Explored> Scene<P> {
    /// Walks at random, always the same way for the same seed. Every transition is held against the rules, and every
    /// walk ends.
    pub fn walk(&self, walks: Walks) -> Result<Walked, CounterExample> {
        let mut random = fastrand::Rng::with_seed(walks.seed);
        let mut walked = Walked::default();
        for _ in 0..walks.count {
            match self.walk_once(walks, &mut random, &mut walked.inputs)? {
                Outcome::Succeeded => walked.succeeded += 1,
                Outcome::Incomplete => walked.incomplete += 1,
                Outcome::Failed => walked.failed += 1,
            }
        }
        Ok(walked)
    }

    fn walk_once(
        &self,
        walks: Walks,
        random: &mut fastrand::Rng,
        inputs: &mut usize,
    ) -> Result<Outcome, CounterExample> {
        let mut path = Vec::new();
        let (mut left, mut writings) = (walks.requests, walks.writings);
        let (mut run_at, entry) = self.open().map_err(|fault| self.tell(fault.broken, &[]))?;
        self.settle(&mut run_at, &entry).map_err(|broken| self.tell(broken, &[]))?;
        loop {
            let outcome = match run_at.state.run.status {
                RunStatus::Finished(outcome) => Some(outcome),
                RunStatus::Running
                | RunStatus::Paused
                | RunStatus::Stopping(_)
                | RunStatus::Stopped(_)
                | RunStatus::Draining(_)
                | RunStatus::Finishing(_) => None,
            };
            if let Some(outcome) = outcome.filter(|outcome| left == 0 || *outcome == Outcome::Succeeded) {
                return Ok(outcome);
            }
            if path.len() >= walks.longest {
                let broken = Broken::new("every run ends", format!("not after {} inputs", path.len()));
                return Err(self.tell(vec![broken], &path));
            }
            let mut possible = without_requests(self, &run_at.state.run, Interruptions::Any);
            let input = if writings > 0 && random.u8(..4) > 0 {
                writings -= 1;
                let mut writings = P::writings(&run_at.state.run, &run_at.document);
                Input::Write(writings.swap_remove(random.usize(..writings.len())))
            } else if possible.is_empty() && left == 0 {
                Input::Ask(Request::Resume)
            } else if possible.is_empty() || (left > 0 && random.u8(..) < 20) {
                left -= 1;
                let mut requests = requests(self);
                Input::Ask(requests.swap_remove(random.usize(..requests.len())))
            } else {
                // Bad news is drawn twice: otherwise hardly a walk would come far.
                let drawn = random.usize(..possible.len());
                let again = if is_bad(&possible[drawn]) { random.usize(..possible.len()) } else { drawn };
                possible.swap_remove(again)
            };
            *inputs += 1;
            path.push(input);
            let taken = self.take(&run_at, &path[path.len() - 1]);
            match taken.map_err(|fault| self.tell(fault.broken, &path))? {
                Taken::Refused(_) | Taken::Nothing => {
                    path.pop();
                }
                Taken::Moved(mut next, entry) => {
                    self.settle(&mut next, &entry).map_err(|broken| self.tell(broken, &path))?;
                    run_at = *next;
                }
            }
        }
    }
}

fn is_bad<P: Explored>(input: &Input<P>) -> bool {
    match input {
        Input::Fact(Fact::Ended { ending: Ending::Reported(_), .. } | Fact::BackoffElapsed { .. }) => false,
        Input::Fact(Fact::Ended { .. }) => true,
        Input::Deferred | Input::Slots | Input::Ask(_) | Input::Write(_) => false,
    }
}
