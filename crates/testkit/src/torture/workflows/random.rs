//! A small random workflow, and the behaviour of its agents.

use fastrand::Rng;

use crate::test_env::TestEnv;

/// How a first attempt may fail, in the words of `test_env/agent.sh`.
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
    pub(super) behaviour: Behaviour,
}

/// The behaviour of a step's agent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Behaviour {
    /// Works for this time, and may leave a process behind.
    Works { milliseconds: u32, leaves_process: bool },
    /// Fails the first attempt of every turn in this way, then works.
    FailsFirst { how: &'static str },
    /// Exhausts its attempts once; after that it works.
    ExhaustsOnce,
    /// A gate that fails its first `times` iterations.
    Gate { back_to: usize, times: u32 },
}

impl RandomWorkflow {
    pub(super) fn new(random: &mut Rng) -> Self {
        let count = random.usize(2..=7);
        let mut steps: Vec<Step> = Vec::new();
        for i in 0..count {
            let needs: Vec<_> = (0..i).filter(|_| random.u8(..3) == 0).collect();
            let behaviour = match random.u8(..16) {
                0..4 if !needs.is_empty() => {
                    let ancestors = ancestors(&steps, &needs);
                    Behaviour::Gate {
                        back_to: ancestors[random.usize(..ancestors.len())],
                        times: random.u32(1..=2),
                    }
                }
                4..7 => Behaviour::FailsFirst { how: FAILURES[random.usize(..FAILURES.len())] },
                7 => Behaviour::ExhaustsOnce,
                _ => {
                    Behaviour::Works { milliseconds: random.u32(1..80), leaves_process: random.u8(..4) == 0 }
                }
            };
            steps.push(Step { id: format!("s{i}"), needs, behaviour });
        }
        Self { steps }
    }

    /// Writes the workflow and the behaviour of its agents.
    pub(super) fn write(&self, test_env: &TestEnv) {
        let step = |step: &Step| {
            let needs: Vec<_> = step.needs.iter().map(|need| self.steps[*need].id.as_str()).collect();
            let loop_back = match step.behaviour {
                Behaviour::Gate { back_to, .. } => format!(", loop_back_to: {}", self.steps[back_to].id),
                Behaviour::Works { .. } | Behaviour::FailsFirst { .. } | Behaviour::ExhaustsOnce => {
                    String::new()
                }
            };
            format!("id: {}, needs: [{}]{loop_back}", step.id, needs.join(", "))
        };
        let steps: Vec<_> = self.steps.iter().map(step).collect();
        test_env.workflow_yaml(&steps.iter().map(String::as_str).collect::<Vec<_>>());
        let lines: Vec<_> = self.steps.iter().map(behaviour_lines).collect();
        test_env.script_agent(&lines.iter().map(String::as_str).collect::<Vec<_>>());
    }
}

/// Returns these steps and all that they depend on, directly or not.
fn ancestors(steps: &[Step], needs: &[usize]) -> Vec<usize> {
    let mut found: Vec<usize> = needs.to_vec();
    let mut next = 0;
    while let Some(step) = found.get(next).copied() {
        next += 1;
        for need in &steps[step].needs {
            if !found.contains(need) {
                found.push(*need);
            }
        }
    }
    found
}

/// Returns the behaviour of a step's agent: lines of `STEP ATTEMPT BEHAVIOUR` for `test_env/agent.sh`.
fn behaviour_lines(step: &Step) -> String {
    let id = &step.id;
    match step.behaviour {
        Behaviour::Works { milliseconds, leaves_process } => {
            let leaving = if leaves_process { " leaving" } else { "" };
            format!("{id} * work 0.{milliseconds:03}{leaving}")
        }
        Behaviour::FailsFirst { how } => format!("{id} 1 {how}\n{id} * work 0.010"),
        // Fails attempts 1 and 2, which are all that a turn has, leaves a file, and succeeds once that file exists.
        Behaviour::ExhaustsOnce => format!(
            "{id} * do if [ -f \"$shared/died-$STEP_ID\" ]; then write_report COMPLETED \"did $STEP_ID\"; \
             else [ \"$STEP_ATTEMPT\" = 1 ] || : >\"$shared/died-$STEP_ID\"; log_event end \"$CALLBOARD_ATTEMPT\"; exit 1; fi"
        ),
        Behaviour::Gate { times, .. } => format!("{id} * gate-failure {times}"),
    }
}
