//! A random small workflow, and how its agents behave.

use fastrand::Rng;

use crate::scene::Scene;

/// How a first attempt may fail.
const FAILURES: [&str; 3] = ["exit 1", "failed", "garbage"];

/// Two to seven steps with random needs.
#[derive(Debug)]
pub(super) struct RandomWorkflow {
    pub(super) steps: Vec<Step>,
}

#[derive(Debug)]
pub(super) struct Step {
    pub(super) id: String,
    needs: Vec<usize>,
    pub(super) part: Part,
}

/// What a step's agent does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Part {
    /// Works so many milliseconds, and may leave a process behind.
    Works { milliseconds: u32, leaves: bool },
    /// Fails the first attempt of every turn in this way, then works.
    Stumbles { how: &'static str },
    /// Uses up its attempts once; after that it works.
    Dies,
    /// Sends the work back to an earlier step until it was done again so often.
    Gate { back_to: usize, times: u32 },
}

impl RandomWorkflow {
    pub(super) fn new(random: &mut Rng) -> Self {
        let count = random.usize(2..=7);
        let mut steps: Vec<Step> = Vec::new();
        for i in 0..count {
            let needs: Vec<_> = (0..i).filter(|_| random.u8(..3) == 0).collect();
            let part = match random.u8(..16) {
                0..4 if !needs.is_empty() => {
                    let ancestors = ancestors(&steps, &needs);
                    Part::Gate {
                        back_to: ancestors[random.usize(..ancestors.len())],
                        times: random.u32(1..=2),
                    }
                }
                4..7 => Part::Stumbles { how: FAILURES[random.usize(..FAILURES.len())] },
                7 => Part::Dies,
                _ => Part::Works { milliseconds: random.u32(1..80), leaves: random.u8(..4) == 0 },
            };
            steps.push(Step { id: format!("s{i}"), needs, part });
        }
        Self { steps }
    }

    pub(super) fn write(&self, scene: &Scene) {
        let step = |step: &Step| {
            let needs: Vec<_> = step.needs.iter().map(|need| self.steps[*need].id.as_str()).collect();
            let back = match step.part {
                Part::Gate { back_to, .. } => format!(", loop_back_to: {}", self.steps[back_to].id),
                Part::Works { .. } | Part::Stumbles { .. } | Part::Dies => String::new(),
            };
            format!("id: {}, needs: [{}]{back}", step.id, needs.join(", "))
        };
        let steps: Vec<_> = self.steps.iter().map(step).collect();
        scene.workflow_of(&steps.iter().map(String::as_str).collect::<Vec<_>>());
        let plan: Vec<_> = self.steps.iter().map(plan).collect();
        scene.plan(&plan.iter().map(String::as_str).collect::<Vec<_>>());
    }
}

/// The steps that these stand on, themselves included.
fn ancestors(steps: &[Step], needs: &[usize]) -> Vec<usize> {
    let mut found: Vec<usize> = needs.to_vec();
    let mut looked = 0;
    while let Some(step) = found.get(looked).copied() {
        looked += 1;
        for need in &steps[step].needs {
            if !found.contains(need) {
                found.push(*need);
            }
        }
    }
    found
}

fn plan(step: &Step) -> String {
    let id = &step.id;
    match step.part {
        Part::Works { milliseconds, leaves } => {
            let leaving = if leaves { " leaving" } else { "" };
            format!("{id} * work 0.{milliseconds:03}{leaving}")
        }
        Part::Stumbles { how } => format!("{id} 1 {how}\n{id} * work 0.010"),
        Part::Dies => format!(
            "{id} * do if [ -f \"$kit/died-$STEP_ID\" ]; then hand_in COMPLETED \"did $STEP_ID\"; \
             else [ \"$STEP_ATTEMPT\" = 1 ] || : >\"$kit/died-$STEP_ID\"; note end \"$CALLBOARD_ATTEMPT\"; exit 1; fi"
        ),
        Part::Gate { times, .. } => format!("{id} * gate-failure {times}"),
    }
}
