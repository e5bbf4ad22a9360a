//! How the agents of a random cycle behave.

use fastrand::Rng;
use protocol::peer::Phase;

use crate::scene::Scene;

/// How a first attempt may fail.
const FAILURES: [&str; 4] = [
    "note end \"$CALLBOARD_ATTEMPT\"; exit 1",
    "hand_in FAILED \"$STEP_ID did not work out\"",
    "note end \"$CALLBOARD_ATTEMPT\"; printf '{ \"schema\": ' >\"$REPORT_PATH\"",
    "more=; hand_in COMPLETED \"did $STEP_ID, and has nothing to show for it\"",
];

#[derive(Debug)]
pub(super) struct RandomCycle {
    /// In the order of the phases.
    pub(super) parts: [Part; 4],
    /// The review finds fault: the cycle is completed, and not succeeded.
    pub(super) finds_fault: bool,
}

/// What a step's agent does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Part {
    /// Works so many milliseconds, and tells before how far it is.
    Works { milliseconds: u32, tells: Telling },
    /// Fails the first attempt of every turn in this way, then works.
    Stumbles { how: usize },
    /// Uses up its attempts once; in the next cycle it works.
    Dies,
}

/// How a step's agent tells how far it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Telling {
    Nothing,
    /// `callboard report --partial`: the engine writes it.
    Partial,
    /// `callboard state patch`: it writes itself.
    Patch,
}

impl RandomCycle {
    pub(super) fn new(random: &mut Rng) -> Self {
        let mut part = |_| match random.u8(..8) {
            0 | 1 => Part::Stumbles { how: random.usize(..FAILURES.len()) },
            2 => Part::Dies,
            drawn => {
                let tells = [Telling::Nothing, Telling::Partial, Telling::Patch][usize::from(drawn % 3)];
                Part::Works { milliseconds: random.u32(1..80), tells }
            }
        };
        let parts = Phase::ALL.map(&mut part);
        Self { parts, finds_fault: random.u8(..5) == 0 }
    }

    pub(super) fn write(&self, scene: &Scene) {
        let lines: Vec<_> = Phase::ALL.into_iter().zip(self.parts).flat_map(|(phase, part)| {
            let fault = if self.finds_fault && phase == Phase::Review { FAULT } else { "" };
            plan(phase, part).into_iter().map(move |(attempt, line)| {
                // Attempts of different cycles have the same names: this tells them apart.
                format!("{phase} {attempt} do echo \"$RUN_ID $CALLBOARD_ATTEMPT\" >>\"$kit/played\"; {fault}{line}")
            })
        }).collect();
        scene.plan(&lines.iter().map(String::as_str).collect::<Vec<_>>());
    }

    pub(super) fn part(&self, phase: Phase) -> Part {
        self.parts[phase as usize]
    }
}

const FAULT: &str = "more=', \"output\": {\"quality_score\": 40}'; ";
const WORK: &str = "hand_in COMPLETED \"did $STEP_ID\"";

/// For which try, and a line of shell.
fn plan(phase: Phase, part: Part) -> Vec<(&'static str, String)> {
    match part {
        Part::Works { milliseconds, tells } => {
            let tells = tell(phase, tells);
            vec![("*", format!("{tells}sleep 0.{milliseconds:03}; {WORK}"))]
        }
        Part::Stumbles { how } => {
            vec![("1", FAILURES[how].to_owned()), ("*", format!("sleep 0.010; {WORK}"))]
        }
        Part::Dies => vec![(
            "*",
            format!(
                "if [ -f \"$kit/died-$STEP_ID\" ]; then {WORK}; else [ \"$STEP_ATTEMPT\" = 1 ] || \
                 : >\"$kit/died-$STEP_ID\"; note end \"$CALLBOARD_ATTEMPT\"; exit 1; fi"
            ),
        )],
    }
}

/// What goes wrong with it is no reason to fail.
fn tell(phase: Phase, telling: Telling) -> String {
    let so_far = format!("{{\"progress\": \"{phase}, half\"}}");
    match telling {
        Telling::Nothing => String::new(),
        Telling::Partial => format!("echo '{so_far}' | \"$kit/callboard\" report --partial; "),
        Telling::Patch => format!(
            "\"$kit/callboard\" state patch --expect \"$(\"$kit/callboard\" state get --path /sequence)\" \
             --set '/phases/{phase}/output={so_far}'; "
        ),
    }
}
