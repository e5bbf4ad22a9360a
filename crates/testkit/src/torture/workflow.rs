//! A random small workflow, and how its agents behave.

use fastrand::Rng;

use crate::scene::Scene;

/// How a first try may fail.
const FAILURES: [&str; 3] = ["exit 1", "failed", "garbage"];

/// Two to seven steps with random needs.
#[derive(Debug)]
pub(super) struct RandomWorkflow {
    pub(super) steps: Vec<Step>,
}

#[derive(Debug)]
pub(super) struct Step {
    pub(super) id: String,
    needs: Vec<String>,
    /// How its first try fails, if it is to.
    pub(super) fails: Option<&'static str>,
    /// How long it works.
    milliseconds: u32,
    /// Whether it leaves a process behind.
    leaves: bool,
}

impl RandomWorkflow {
    pub(super) fn new(random: &mut Rng) -> Self {
        let count = random.usize(2..=7);
        let step = |i: usize| Step {
            id: format!("s{i}"),
            needs: (0..i).filter(|_| random.u8(..3) == 0).map(|needed| format!("s{needed}")).collect(),
            fails: [None, None, None, Some(FAILURES[random.usize(..FAILURES.len())])][random.usize(..4)],
            milliseconds: random.u32(1..80),
            leaves: random.u8(..4) == 0,
        };
        Self { steps: (0..count).map(step).collect() }
    }

    pub(super) fn write(&self, scene: &Scene) {
        let steps: Vec<_> =
            self.steps.iter().map(|step| format!("{}: {}", step.id, step.needs.join(" "))).collect();
        scene.workflow(&steps.iter().map(String::as_str).collect::<Vec<_>>());
        let mut plan = Vec::new();
        for Step { id, fails, milliseconds, leaves, .. } in &self.steps {
            plan.extend(fails.map(|how| format!("{id} 1 {how}")));
            let leaving = if *leaves { " leaving" } else { "" };
            plan.push(format!("{id} * work 0.{milliseconds:03}{leaving}"));
        }
        scene.plan(&plan.iter().map(String::as_str).collect::<Vec<_>>());
    }
}
