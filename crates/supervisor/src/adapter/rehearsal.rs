//! The built-in player: a step is played by our own program, from a script or without one. No agent, no token spent.
//!
//! The script is frozen with the run, as data. Which part is played follows from what the attempt is told, so a start
//! that is repeated after a crash plays the same part.

use std::collections::BTreeMap;
use std::num::NonZeroU32;
use std::time::Duration;

use protocol::StepId;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::assignment::Assignment;

/// The program that plays: whatever the shim is. The link is followed between fork and exec, by a child of the shim,
/// so it names our own program even if a newer one has taken its place on disk, and nothing has to be frozen.
pub const AGENT_PROGRAM: &str = "/proc/self/exe";
/// The argument that makes our program the player; the part follows it.
pub const AGENT_ARGUMENT: &str = "__rehearse";
/// The longest part as an argument, in bytes. The kernel's limit is 128 KiB for one argument.
pub const LONGEST_PART: usize = 120 * 1024;

/// What each step plays. A step that is not named plays the default part in every attempt.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Rehearsal {
    /// One part for each attempt of an iteration; the last one repeats.
    #[serde(default)]
    pub steps: BTreeMap<StepId, Vec<Part>>,
    /// What a step says when its part is done and does not say it itself.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub by_default: BTreeMap<StepId, Fields>,
}

/// Fields of a report beyond those that every report has: a protocol may ask for them.
pub type Fields = Map<String, Value>;

/// What is played in one attempt.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Part {
    /// How long it takes before anything else happens.
    #[serde(default)]
    pub take: Option<Duration>,
    /// What it hands in as progress before that, one after the other.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub partial: Vec<Value>,
    pub play: Play,
    /// What a report that the work is done says besides.
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    pub says: Fields,
}

/// How one attempt goes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Play {
    /// A report that the work is done.
    Ok(Delivery),
    /// A report that it is not.
    Fail { why: String },
    /// A report that the work before must be done again, in the first `times` iterations; then [`Play::Ok`].
    GateFail { times: NonZeroU32, why: String },
    /// No report and no end.
    Hang,
    /// No report, and an end by a signal.
    Crash,
    /// No report, and this exit code.
    Exit { code: u8 },
    /// So much output, then [`Play::Ok`].
    Flood { bytes: u64 },
    /// A report that nobody can read.
    Rubbish,
    /// [`Play::Ok`], but a process in a session of its own stays behind.
    LeaveChild,
    /// [`Play::Ok`], but no end.
    ReportThenHang,
}

/// What a done part leaves behind.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Delivery {
    /// What the report says was done.
    pub logs: Vec<String>,
    /// Small files to be made in the run's `artifacts/`; without any, there is one all the same.
    pub artifacts: Vec<String>,
    /// Files to be written in the repository, by their path in it.
    pub write: BTreeMap<String, String>,
}

impl Default for Play {
    fn default() -> Self {
        Self::Ok(Delivery::default())
    }
}

impl Rehearsal {
    /// The part for an attempt, both numbers as the attempt is told them: the iteration from 0, the attempt from 1.
    pub fn part(&self, step: &StepId, iteration: u32, step_attempt: u32) -> Part {
        let parts = self.steps.get(step).map_or(&[][..], Vec::as_slice);
        let place = usize::try_from(step_attempt.saturating_sub(1)).unwrap_or(usize::MAX);
        let mut part = parts.get(place).or(parts.last()).cloned().unwrap_or_default();
        for (field, value) in self.by_default.get(step).into_iter().flatten() {
            part.says.entry(field.clone()).or_insert_with(|| value.clone());
        }
        match &part.play {
            Play::GateFail { times, .. } if iteration >= times.get() => {
                Part { play: Play::default(), ..part }
            }
            Play::Ok(_)
            | Play::Fail { .. }
            | Play::GateFail { .. }
            | Play::Hang
            | Play::Crash
            | Play::Exit { .. }
            | Play::Flood { .. }
            | Play::Rubbish
            | Play::LeaveChild
            | Play::ReportThenHang => part,
        }
    }

    pub(super) fn argv(&self, assignment: &Assignment) -> Vec<String> {
        let part = self.part(&assignment.attempt.step, assignment.iteration, assignment.step_attempt);
        vec![AGENT_PROGRAM.to_owned(), AGENT_ARGUMENT.to_owned(), part.to_argument()]
    }
}

impl Part {
    /// The part as the player gets it.
    pub fn to_argument(&self) -> String {
        serde_json::to_string(self).expect("BUG: a part is plain data")
    }

    /// The way back.
    pub fn from_argument(text: &str) -> serde_json::Result<Self> {
        serde_json::from_str(text)
    }
}

#[cfg(test)]
mod tests {
    use super::super::assignment::example;
    use super::*;

    fn fail(why: &str) -> Part {
        Part { play: Play::Fail { why: why.to_owned() }, ..Part::default() }
    }

    fn step() -> StepId {
        example().attempt.step
    }

    fn rehearsal(parts: Vec<Part>) -> Rehearsal {
        Rehearsal { steps: BTreeMap::from([(step(), parts)]), ..Rehearsal::default() }
    }

    #[test]
    fn each_try_has_its_part_the_last_repeats_and_each_iteration_begins_anew() {
        let rehearsal = rehearsal(vec![fail("first"), fail("second")]);
        for iteration in [0, 3] {
            let played: Vec<_> = [1, 2, 3, 9].map(|number| rehearsal.part(&step(), iteration, number)).into();
            assert_eq!(played, [fail("first"), fail("second"), fail("second"), fail("second")]);
        }
        assert_eq!(Rehearsal::default().part(&step(), 0, 1), Part::default());
    }

    #[test]
    fn a_gate_fails_so_many_iterations_and_passes_then() {
        let times = NonZeroU32::new(2).unwrap();
        let gate = Part { play: Play::GateFail { times, why: "P0".to_owned() }, ..Part::default() };
        let rehearsal = rehearsal(vec![gate.clone()]);
        let played = [0, 1, 2, 3].map(|iteration| rehearsal.part(&step(), iteration, 1));
        assert_eq!(played, [gate.clone(), gate, Part::default(), Part::default()]);
    }

    #[test]
    fn a_part_says_what_its_step_says_by_default_unless_it_says_it_itself() {
        let fields = |fields: Value| serde_json::from_value::<Fields>(fields).unwrap();
        let says = fields(serde_json::json!({"output": null}));
        let silent = Part { says, ..Part::default() };
        let mut rehearsal = rehearsal(vec![silent, fail("late")]);
        let said = fields(serde_json::json!({"output": {"done": true}, "insights": {}}));
        rehearsal.by_default.insert(step(), said.clone());
        let first = rehearsal.part(&step(), 0, 1).says;
        assert_eq!(first, fields(serde_json::json!({"output": null, "insights": {}})));
        assert_eq!(rehearsal.part(&step(), 0, 2), Part { says: said, ..fail("late") });
    }

    #[test]
    fn the_player_gets_the_part_of_its_attempt_and_no_other() {
        let rehearsal = rehearsal(vec![fail("first"), fail("second"), fail("third"), fail("fourth")]);
        let argv = rehearsal.argv(&example());
        assert_eq!(argv[..2], [AGENT_PROGRAM, AGENT_ARGUMENT]);
        assert_eq!(Part::from_argument(&argv[2]).unwrap(), fail("third"), "the example is the third attempt");
    }
}
