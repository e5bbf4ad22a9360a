//! SIGSTOP, and Ctrl-Z: processes that are alive and do nothing.

use std::process::{Child, Command, Stdio};

use testkit::{Held, Scene};

use crate::scene;

/// Somebody who holds the ticket of a store and is stopped.
struct Stopped(Child);

impl Stopped {
    fn with_ticket(scene: &Scene) -> Self {
        let ticket = scene.store().join("ticket");
        let mut holder = Command::new("flock");
        holder.arg("--no-fork").arg(ticket).args(["sh", "-c", "echo held; kill -STOP $$"]);
        let child = Self(holder.stdout(Stdio::piped()).spawn().unwrap());
        testkit::wait_until_stopped(child.pid());
        child
    }

    fn pid(&self) -> i32 {
        self.0.id().try_into().unwrap()
    }
}

impl Drop for Stopped {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn a_stopped_process_that_holds_the_ticket_does_not_block_writers_for_ever() {
    let scene = scene();
    scene.workflow(&["a", "b: a"]);
    scene.plan(&["a * wait gate"]);
    let mut gate = scene.gate("gate");
    let running = scene.run(&[]).start();
    let agent = Held::of(scene.ledger().wait_for_begin("a#1.1")).expect("at work");
    let holder = Stopped::with_ticket(&scene);
    let refused = scene.callboard(&["pause", "trial"]).run();
    assert_eq!(refused.code, 5, "{}", refused.transcript());
    let named = format!("process {} (`sh -c echo held; kill -STOP $$`), which is stopped", holder.pid());
    assert!(refused.stderr.contains(&named), "{}", refused.stderr);
    assert!(refused.stderr.contains(&format!("kill -CONT {}", holder.pid())), "{}", refused.stderr);
    assert_eq!(scene.callboard(&["show", "trial"]).run().code, 0, "whoever only looks does not wait");
    // The engine cannot commit either. It says the same, and its agent's work is not lost.
    gate.open();
    let session = running.wait();
    assert_eq!(session.code, 5, "{}", session.transcript());
    assert!(session.stderr.contains(&named), "{}", session.stderr);
    assert!(agent.has_ended());
    drop(holder);
    let resumed = scene.callboard(&["resume"]).run();
    assert_eq!(resumed.code, 0, "{}", resumed.transcript());
    assert_eq!(scene.ledger().begun(), ["a#1.1", "b#1.1"], "nothing was repeated");
}
