//! The behaviour of the agents of a random cycle.

use fastrand::Rng;
use protocol::peer::Phase;

use crate::test_env::TestEnv;

/// How a first attempt may fail, in the shell of the scripted agent.
const FAILURES: [&str; 4] = [
    "log_event end \"$CALLBOARD_ATTEMPT\"; exit 1",
    "write_report FAILED \"$STEP_ID did not work out\"",
    "log_event end \"$CALLBOARD_ATTEMPT\"; printf '{ \"schema\": ' >\"$REPORT_PATH\"",
    "extra_fields=; write_report COMPLETED \"did $STEP_ID, and has nothing to show for it\"",
];

/// The agents of one trial. They also work on the cycles that continue a failed one.
#[derive(Debug)]
pub(super) struct RandomPeerCycle {
    /// In the order of the phases.
    pub(super) behaviours: [Behaviour; 4],
    /// The review is unsuccessful: the cycle is completed, and the run does not succeed.
    pub(super) review_fails: bool,
}

/// The behaviour of a phase's agent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Behaviour {
    /// Works for this time, and reports progress before.
    Works { milliseconds: u32, progress: Progress },
    /// Fails the first attempt of every turn in this way, then works.
    FailsFirst { how: usize },
    /// Exhausts its attempts once; in the next cycle it works.
    ExhaustsOnce,
}

/// How an agent reports progress.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Progress {
    Nothing,
    /// `callboard report --partial`: the engine writes it.
    Partial,
    /// `callboard state patch`: the agent writes it.
    Patch,
}

impl RandomPeerCycle {
    pub(super) fn new(random: &mut Rng) -> Self {
        let mut behaviour = |_| match random.u8(..8) {
            0 | 1 => Behaviour::FailsFirst { how: random.usize(..FAILURES.len()) },
            2 => Behaviour::ExhaustsOnce,
            drawn => {
                let progress =
                    [Progress::Nothing, Progress::Partial, Progress::Patch][usize::from(drawn % 3)];
                Behaviour::Works { milliseconds: random.u32(1..80), progress }
            }
        };
        let behaviours = Phase::ALL.map(&mut behaviour);
        Self { behaviours, review_fails: random.u8(..5) == 0 }
    }

    /// Writes the behaviour of the agents. The cycle itself is opened by its command.
    pub(super) fn write(&self, test_env: &TestEnv) {
        let lines: Vec<_> = Phase::ALL.into_iter().zip(self.behaviours).flat_map(|(phase, behaviour)| {
            let low_score = if self.review_fails && phase == Phase::Review { LOW_SCORE } else { "" };
            behaviour_lines(phase, behaviour).into_iter().map(move |(attempt, line)| {
                // With the run, because attempts of different cycles have the same ids.
                format!("{phase} {attempt} do echo \"$RUN_ID $CALLBOARD_ATTEMPT\" >>\"$shared/started\"; {low_score}{line}")
            })
        }).collect();
        test_env.script_agent(&lines.iter().map(String::as_str).collect::<Vec<_>>());
    }

    pub(super) fn behaviour(&self, phase: Phase) -> Behaviour {
        self.behaviours[phase as usize]
    }
}

/// Makes the agent report a low score, so that the review is unsuccessful.
const LOW_SCORE: &str = "extra_fields=', \"output\": {\"quality_score\": 40}'; ";
/// Makes the agent report success.
const WORK: &str = "write_report COMPLETED \"did $STEP_ID\"";

/// Returns lines of shell, each with the attempt it is for. A turn has two attempts.
fn behaviour_lines(phase: Phase, behaviour: Behaviour) -> Vec<(&'static str, String)> {
    match behaviour {
        Behaviour::Works { milliseconds, progress } => {
            let progress = progress_commands(phase, progress);
            vec![("*", format!("{progress}sleep 0.{milliseconds:03}; {WORK}"))]
        }
        Behaviour::FailsFirst { how } => {
            vec![("1", FAILURES[how].to_owned()), ("*", format!("sleep 0.010; {WORK}"))]
        }
        Behaviour::ExhaustsOnce => vec![(
            "*",
            format!(
                "if [ -f \"$shared/died-$STEP_ID\" ]; then {WORK}; else [ \"$STEP_ATTEMPT\" = 1 ] || \
                 : >\"$shared/died-$STEP_ID\"; log_event end \"$CALLBOARD_ATTEMPT\"; exit 1; fi"
            ),
        )],
    }
}

/// Returns the shell commands that report progress. Their failure is ignored.
fn progress_commands(phase: Phase, progress: Progress) -> String {
    let so_far = format!("{{\"progress\": \"{phase}, half\"}}");
    match progress {
        Progress::Nothing => String::new(),
        Progress::Partial => format!("echo '{so_far}' | \"$shared/callboard\" report --partial; "),
        Progress::Patch => format!(
            "\"$shared/callboard\" state patch --expect \"$(\"$shared/callboard\" state get --path /sequence)\" \
             --set '/phases/{phase}/output={so_far}'; "
        ),
    }
}
