//! A workflow, tortured until it succeeded.

mod check;
mod random;

use fastrand::Rng;

use super::killer::{Killer, found_no_server};
use super::{Tally, Torture};
use crate::command::Running;
use crate::reader::ViewReader;
use crate::scene::Scene;
use random::RandomWorkflow;

pub(super) fn torture(torture: &Torture, seed: u64, kills: u32, tally: &mut Tally) {
    let mut random = Rng::with_seed(seed);
    let workflow = RandomWorkflow::new(&mut random);
    let scene = Scene::new(&torture.program);
    workflow.write(&scene);
    let reader = ViewReader::start(&scene.view("trial"));
    let mut trial = Trial { killer: Killer::new(&scene, random, kills), seed, resumes: 0, retries: 0 };
    trial.until_succeeded();
    let seen = reader.finish();
    let journal = check::check(&scene, &workflow, &trial.killer.shims, &seen, seed);
    tally.add(&trial.killer);
    tally.add_lives(&journal);
    tally.workflows += 1;
    tally.steps += workflow.steps.len();
    tally.resumes += trial.resumes;
    tally.retries += trial.retries;
    tally.seen.reads += seen.reads;
    tally.seen.versions += seen.versions;
    tally.seen.bad.extend(seen.bad);
}

struct Trial<'s> {
    killer: Killer<'s>,
    seed: u64,
    resumes: u32,
    retries: u32,
}

impl<'s> Trial<'s> {
    /// Starts and kills until an engine comes to its end unharmed.
    fn until_succeeded(&mut self) {
        let (scene, seed): (&'s Scene, _) = (self.killer.scene, self.seed);
        let mut engine = scene.run(&["--jobs", "3"]).start();
        loop {
            if self.killer.torment(&engine) {
                self.killer.bury(engine, seed);
                engine = self.next_engine();
                continue;
            }
            let session = engine.wait();
            // The one before may have been killed when all was done but the farewell: then there is nothing to resume.
            let refused = |because: &str| session.code == 3 && session.stderr.contains(because);
            if session.code == 0 || refused("it succeeded") {
                return;
            }
            if found_no_server(&session) {
                engine = self.next_engine();
                continue;
            }
            // A step has died for good, as planned: now or before the engine that told it was killed.
            let died = session.code == 1 || refused("it failed");
            assert!(died, "seed {seed}: failed:\n{}", session.transcript());
            self.retries += 1;
            assert!(self.retries < 20, "seed {seed}: retried for ever:\n{}", session.transcript());
            engine = scene.callboard(&["retry", "trial", "--jobs", "3"]).start();
        }
    }

    /// `resume`, or `run` again if the first one was killed before there was a run.
    fn next_engine(&mut self) -> Running<'s> {
        self.resumes += 1;
        let scene: &'s Scene = self.killer.scene;
        if self.killer.runs(self.seed).is_empty() {
            scene.run(&["--jobs", "3"]).start()
        } else {
            scene.callboard(&["resume", "trial", "--jobs", "3"]).start()
        }
    }
}
