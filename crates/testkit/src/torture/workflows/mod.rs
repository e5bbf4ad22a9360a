//! A workflow, tortured until it has succeeded.

mod check;
pub(super) mod data_loops;
mod random;
pub(super) mod worktrees;

use fastrand::Rng;

use super::chaos::{Chaos, server_was_down};
use super::{Tally, Torture};
use crate::test_env::Running;
use crate::test_env::TestEnv;
use crate::view_reader::ViewReader;
use random::RandomWorkflow;

pub(super) fn torture(torture: &Torture, seed: u64, kills: u32, tally: &mut Tally) {
    let mut random = Rng::with_seed(seed);
    let workflow = RandomWorkflow::new(&mut random);
    let test_env = TestEnv::new(&torture.program);
    workflow.write(&test_env);
    let reader = ViewReader::start(&test_env.view_path("trial"));
    let mut trial =
        Trial { chaos: Chaos::new(&test_env, random, kills), flags: &[], seed, resumes: 0, retries: 0 };
    trial.run_to_success();
    let reads = reader.finish();
    let run_history = check::check(&test_env, &workflow, &trial.chaos.shim_kills, &reads, seed);
    tally.add(&trial.chaos);
    tally.add_history(&run_history);
    tally.workflows += 1;
    tally.steps += workflow.steps.len();
    tally.resumes += trial.resumes;
    tally.retries += trial.retries;
    tally.reads.reads += reads.reads;
    tally.reads.versions += reads.versions;
    tally.reads.bad.extend(reads.bad);
}

struct Trial<'s> {
    chaos: Chaos<'s>,
    /// More flags for `run`.
    flags: &'static [&'static str],
    seed: u64,
    resumes: u32,
    retries: u32,
}

impl<'s> Trial<'s> {
    /// Starts and kills engines until one exits by itself and the run has succeeded.
    fn run_to_success(&mut self) {
        let (test_env, seed): (&'s TestEnv, _) = (self.chaos.test_env, self.seed);
        let mut engine = self.start();
        loop {
            if self.chaos.disturb(&engine) {
                self.chaos.wait_killed(engine, seed);
                engine = self.next_engine();
                continue;
            }
            let session = engine.wait();
            // Code 3 is a refusal: the run has ended already, and the engine before was killed after its last commit.
            let ended = if session.code == 3 { self.chaos.newest_status(seed) } else { None };
            if session.code == 0 || ended.as_deref() == Some("succeeded") {
                return;
            }
            if server_was_down(&session) {
                engine = self.next_engine();
                continue;
            }
            // A step had no attempts left, as the random workflow may plan, now or before the last engine was killed.
            let exhausted = session.code == 1 || ended.as_deref() == Some("failed");
            assert!(exhausted, "seed {seed}: failed:\n{}", session.transcript());
            self.retries += 1;
            assert!(self.retries < 20, "seed {seed}: retried too often:\n{}", session.transcript());
            engine = test_env.callboard(&["retry", "trial", "--jobs", "3"]).start();
        }
    }

    fn start(&self) -> Running<'s> {
        let test_env: &'s TestEnv = self.chaos.test_env;
        test_env.run(&[&["--jobs", "3"][..], self.flags].concat()).start()
    }

    /// `resume`, or `run` again if the first one was killed before there was a run.
    fn next_engine(&mut self) -> Running<'s> {
        self.resumes += 1;
        let test_env: &'s TestEnv = self.chaos.test_env;
        if self.chaos.runs(self.seed).is_empty() {
            self.start()
        } else {
            test_env.callboard(&["resume", "trial", "--jobs", "3"]).start()
        }
    }
}
