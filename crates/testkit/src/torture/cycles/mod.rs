//! A peer cycle, tortured until one is completed: a cycle that fails, because a step died or somebody stopped it, is
//! continued by the next.

mod check;
mod random;

use fastrand::Rng;

use super::killer::{Killer, found_no_server};
use super::{Tally, Torture};
use crate::command::Running;
use crate::scene::Scene;
use random::RandomCycle;

/// As many cycles of one trial are stopped at most.
const STOPS: u32 = 2;

pub(super) fn torture(torture: &Torture, seed: u64, kills: u32, tally: &mut Tally) {
    let mut random = Rng::with_seed(seed);
    let cycle = RandomCycle::new(&mut random);
    let scene = Scene::new(&torture.program);
    cycle.write(&scene);
    // Phases come one after the other: whoever kills too soon never sees the later ones.
    let killer = Killer { longest: 0.5, may_stop: STOPS, ..Killer::new(&scene, random, kills) };
    let mut trial = Trial { killer, seed, resumes: 0 };
    trial.until_completed();
    check::check(&trial.killer, &cycle, seed, tally);
    tally.add(&trial.killer);
    tally.resumes += trial.resumes;
}

struct Trial<'s> {
    killer: Killer<'s>,
    seed: u64,
    resumes: u32,
}

impl<'s> Trial<'s> {
    /// Starts and kills until a cycle is completed.
    fn until_completed(&mut self) {
        let seed = self.seed;
        let mut engine = self.begin();
        for _ in 0..100 {
            if self.killer.torment(&engine) {
                self.killer.bury(engine, seed);
                engine = self.next_engine();
                continue;
            }
            let session = engine.wait();
            let nothing_left = session.code == 2 && session.stderr.contains("there is no incomplete cycle");
            if session.code == 0 || nothing_left {
                return;
            }
            if found_no_server(&session) {
                engine = self.next_engine();
                continue;
            }
            // Failed now, or when the engine before was killed: a step died, somebody stopped it, or the review
            // finds fault.
            // The lock of a killed engine lives on with a child that it was just starting; on a machine with too much to do that
            // takes longer than anybody waits.
            let held = session.code == 5 && session.stderr.contains("already has an engine");
            let over = session.code == 3 && session.stderr.contains("it failed");
            let succeeded = session.code == 3 && session.stderr.contains("it succeeded");
            assert!(
                session.code == 1 || over || succeeded || held,
                "seed {seed}: not completed:\n{}",
                session.transcript()
            );
            engine = self.go_on();
        }
        panic!("seed {seed}: continued for ever:\n{}", engine.wait().transcript());
    }

    fn begin(&self) -> Running<'s> {
        let agent = self.killer.scene.agent();
        let agent = agent.to_str().expect("our paths are UTF-8");
        let arguments = ["peer", "create-spec", "--spec", "trial", "what the user wants", "--wrapper", agent];
        self.callboard(&arguments)
    }

    fn go_on(&self) -> Running<'s> {
        self.callboard(&["peer", "--continue", "--spec", "trial"])
    }

    /// `resume` or `peer --continue`, or `peer` again if the first one was killed before there was a cycle.
    fn next_engine(&mut self) -> Running<'s> {
        self.resumes += 1;
        match self.killer.runs(self.seed).last().and_then(|run| run["run"].as_str()) {
            None => self.begin(),
            Some(run) if self.killer.random.bool() => self.callboard(&["resume", run]),
            Some(_) => self.go_on(),
        }
    }

    fn callboard(&self, arguments: &[&str]) -> Running<'s> {
        let scene: &'s Scene = self.killer.scene;
        scene.callboard(arguments).start()
    }
}
