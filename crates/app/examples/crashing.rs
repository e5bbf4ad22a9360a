//! For tests: a `callboard` that kills itself right before or right after it performs an effect. The variable `CRASH` says
//! which, such as `before-issue-push`.

use std::process::ExitCode;
use std::sync::Arc;

use callboard::Program;
use runner::{PendingEffect, PerformEffect};
use rustix::process::{Signal, getpid, kill_process};
use serde_json::{Map, Value};

/// An effect that kills this process before or after it is performed, if `CRASH` says so.
#[derive(Debug)]
struct Crashing {
    name: &'static str,
    effect: Arc<dyn PerformEffect>,
}

impl Crashing {
    /// Kills this process if `CRASH` is `when` and the name of the effect, such as `before-issue-push`.
    fn crash_if_chosen(&self, when: &str) {
        if std::env::var("CRASH").is_ok_and(|chosen| chosen == format!("{when}-{}", self.name)) {
            kill_process(getpid(), Signal::KILL).expect("a process may kill itself");
        }
    }
}

impl PerformEffect for Crashing {
    fn find(&self, pending_effect: &PendingEffect) -> Result<Option<Map<String, Value>>, String> {
        self.effect.find(pending_effect)
    }

    fn perform(&self, pending_effect: &PendingEffect) -> Result<Map<String, Value>, String> {
        self.crash_if_chosen("before");
        let performed = self.effect.perform(pending_effect);
        self.crash_if_chosen("after");
        performed
    }
}

fn main() -> ExitCode {
    let crashing = |(name, effect)| (name, Arc::new(Crashing { name, effect }) as Arc<dyn PerformEffect>);
    let effects = callboard::effects().into_iter().map(crashing).collect();
    callboard::main(Program { effects, ..Program::default() })
}
