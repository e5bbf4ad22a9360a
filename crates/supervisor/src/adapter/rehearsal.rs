//! The built-in scripted agent: our own program runs a step, with or without a script. No agent is started and no token
//! is spent.
//!
//! The script is stored with the run. The attempt's data determine what the agent does, so a start that is repeated
//! after a crash does the same.

use std::collections::BTreeMap;
use std::num::NonZeroU32;
use std::time::Duration;

use protocol::checks::{CHECKS_FIELD, CheckSpec};
use protocol::report::ReportFields;
use protocol::{AttemptId, StepId, Turn};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::assignment::Assignment;
use crate::checks::rehearsed;

/// The argument that makes our program the scripted agent. A [`ScriptedAttempt`] follows it, as JSON.
pub const AGENT_ARGUMENT: &str = "__rehearse";
/// The longest [`ScriptedAttempt`] as an argument, in bytes. The kernel's limit for one argument is 128 KiB.
pub const MAX_SCRIPTED_ATTEMPT: usize = 120 * 1024;

/// What the scripted agent does in each step. In a step that is not named, every attempt succeeds.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct RehearsalScript {
    /// One entry per attempt of an iteration; the last one repeats.
    pub steps: BTreeMap<StepId, Vec<ScriptedAttempt>>,
    /// In protocols whose steps appear during a run: one list of attempts per turn; the last list repeats, and in a list the
    /// last attempt.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub turns: BTreeMap<StepId, Vec<Vec<ScriptedAttempt>>>,
    /// Report fields of a step that its script does not set.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub default_fields: BTreeMap<StepId, Fields>,
}

/// Report fields that only some protocols ask for.
pub type Fields = Map<String, Value>;

/// What the scripted agent does in one attempt.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct ScriptedAttempt {
    /// How long it waits first.
    pub delay: Option<Duration>,
    /// The partial reports that it submits meanwhile.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub partial: Vec<Value>,
    pub behaviour: Behaviour,
    /// Additional fields of a successful report.
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    pub fields: Fields,
    /// Files that a successful attempt writes in the repository if its script names none.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub default_files: BTreeMap<String, String>,
}

/// How one attempt ends.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Behaviour {
    /// Reports success.
    Ok(ScriptedOutput),
    /// Reports failure.
    Fail { why: String },
    /// Reports a gate failure in the first `times` iterations, then [`Behaviour::Ok`].
    GateFail { times: NonZeroU32, why: String },
    /// Does not report and does not end.
    Hang,
    /// Does not report and ends by a signal.
    Crash,
    /// Does not report and ends with this exit code.
    Exit { code: u8 },
    /// Writes this much output, then [`Behaviour::Ok`].
    Flood { bytes: u64 },
    /// Writes an invalid report.
    Rubbish,
    /// [`Behaviour::Ok`], but leaves a process in a session of its own.
    LeaveChild,
    /// [`Behaviour::Ok`], but does not end.
    ReportThenHang,
}

/// What a successful attempt produces.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct ScriptedOutput {
    /// The logs of the report.
    pub logs: Vec<String>,
    /// Small files to create in the run's `artifacts/`; if empty, one is created in any case.
    pub artifacts: Vec<String>,
    /// Files to write in the repository, by their path in it.
    pub write: BTreeMap<String, String>,
}

impl Default for Behaviour {
    fn default() -> Self {
        Self::Ok(ScriptedOutput::default())
    }
}

impl RehearsalScript {
    /// Returns what an attempt does. Turns, iterations and attempts count from 1, as in the agent's environment.
    pub fn attempt(
        &self,
        step: &StepId,
        turn: Turn,
        iteration: u32,
        counted_attempt: u32,
    ) -> ScriptedAttempt {
        let attempts = match self.turns.get(step) {
            Some(turns) => nth_or_last(turns, turn.0).map_or(&[][..], Vec::as_slice),
            None => self.steps.get(step).or_else(|| self.script_of_item(step)).map_or(&[][..], Vec::as_slice),
        };
        let mut attempt = nth_or_last(attempts, counted_attempt).cloned().unwrap_or_default();
        for (field, value) in self.default_fields.get(step).into_iter().flatten() {
            attempt.fields.entry(field.clone()).or_insert_with(|| value.clone());
        }
        match &attempt.behaviour {
            Behaviour::GateFail { times, .. } if iteration > times.get() => {
                ScriptedAttempt { behaviour: Behaviour::default(), ..attempt }
            }
            Behaviour::Ok(_)
            | Behaviour::Fail { .. }
            | Behaviour::GateFail { .. }
            | Behaviour::Hang
            | Behaviour::Crash
            | Behaviour::Exit { .. }
            | Behaviour::Flood { .. }
            | Behaviour::Rubbish
            | Behaviour::LeaveChild
            | Behaviour::ReportThenHang => attempt,
        }
    }

    /// Returns the script of the step that an item of a data loop belongs to: `code` for `code.2`.
    fn script_of_item(&self, item: &StepId) -> Option<&Vec<ScriptedAttempt>> {
        let (step, number) = item.as_str().rsplit_once('.')?;
        number.parse::<u32>().ok()?;
        self.steps.get(&StepId::new(step).ok()?)
    }

    /// Returns this rehearsal with the checks of a command step: all have passed, unless the script sets their results.
    #[must_use]
    pub fn with_checks(&self, step: &StepId, specs: &[CheckSpec]) -> Self {
        let mut rehearsal = self.clone();
        let results = serde_json::to_value(rehearsed(specs)).expect("BUG: a result is plain data");
        let fields = rehearsal.default_fields.entry(step.clone()).or_default();
        fields.entry(CHECKS_FIELD).or_insert(results);
        rehearsal
    }

    pub(super) fn argv(&self, assignment: &Assignment) -> Vec<String> {
        let AttemptId { step, turn, .. } = &assignment.attempt;
        let mut attempt = self.attempt(step, *turn, assignment.iteration, assignment.counted_attempt);
        if let Some(fields) = assignment.form.fields() {
            attempt.complete(fields);
        }
        vec![linux::OWN_PROGRAM.to_owned(), AGENT_ARGUMENT.to_owned(), attempt.to_argument()]
    }
}

/// Returns the entry of this number, counted from 1, or else the last one.
fn nth_or_last<T>(entries: &[T], number: u32) -> Option<&T> {
    let index = usize::try_from(number.saturating_sub(1)).unwrap_or(usize::MAX);
    entries.get(index).or(entries.last())
}

impl ScriptedAttempt {
    /// Adds the fields and files of the example that the script does not set.
    fn complete(&mut self, ReportFields { example, rehearsed_files, .. }: &ReportFields) {
        for (field, value) in example {
            self.fields.entry(field.clone()).or_insert_with(|| value.clone());
        }
        self.default_files.clone_from(rehearsed_files);
    }

    /// Encodes it as an argument of the scripted agent.
    pub fn to_argument(&self) -> String {
        serde_json::to_string(self).expect("BUG: it is plain data")
    }

    /// Decodes the argument of the scripted agent.
    pub fn from_argument(text: &str) -> serde_json::Result<Self> {
        serde_json::from_str(text)
    }
}

#[cfg(test)]
mod tests {
    use super::super::assignment::example;
    use super::*;

    fn fail(why: &str) -> ScriptedAttempt {
        ScriptedAttempt { behaviour: Behaviour::Fail { why: why.to_owned() }, ..ScriptedAttempt::default() }
    }

    fn step() -> StepId {
        example().attempt.step
    }

    fn rehearsal(attempts: Vec<ScriptedAttempt>) -> RehearsalScript {
        RehearsalScript { steps: BTreeMap::from([(step(), attempts)]), ..RehearsalScript::default() }
    }

    #[test]
    fn each_attempt_has_its_entry_the_last_repeats_and_each_iteration_starts_over() {
        let rehearsal = rehearsal(vec![fail("first"), fail("second")]);
        for iteration in [1, 4] {
            let attempts: Vec<_> =
                [1, 2, 3, 9].map(|number| rehearsal.attempt(&step(), Turn(1), iteration, number)).into();
            assert_eq!(attempts, [fail("first"), fail("second"), fail("second"), fail("second")]);
        }
        assert_eq!(RehearsalScript::default().attempt(&step(), Turn(1), 1, 1), ScriptedAttempt::default());
    }

    #[test]
    fn a_gate_fails_for_the_given_iterations_and_then_passes() {
        let times = NonZeroU32::new(2).unwrap();
        let gate = ScriptedAttempt {
            behaviour: Behaviour::GateFail { times, why: "P0".to_owned() },
            ..ScriptedAttempt::default()
        };
        let rehearsal = rehearsal(vec![gate.clone()]);
        let attempts = [1, 2, 3, 4].map(|iteration| rehearsal.attempt(&step(), Turn(1), iteration, 1));
        assert_eq!(attempts, [gate.clone(), gate, ScriptedAttempt::default(), ScriptedAttempt::default()]);
    }

    #[test]
    fn default_fields_of_a_step_apply_unless_the_script_sets_them() {
        let fields = |fields: Value| serde_json::from_value::<Fields>(fields).unwrap();
        let without_output = ScriptedAttempt {
            fields: fields(serde_json::json!({"output": null})),
            ..ScriptedAttempt::default()
        };
        let mut rehearsal = rehearsal(vec![without_output, fail("late")]);
        let by_default = fields(serde_json::json!({"output": {"done": true}, "insights": {}}));
        rehearsal.default_fields.insert(step(), by_default.clone());
        let first = rehearsal.attempt(&step(), Turn(1), 1, 1).fields;
        assert_eq!(first, fields(serde_json::json!({"output": null, "insights": {}})));
        assert_eq!(
            rehearsal.attempt(&step(), Turn(1), 1, 2),
            ScriptedAttempt { fields: by_default, ..fail("late") }
        );
    }

    #[test]
    fn each_turn_has_its_list_and_the_last_repeats() {
        let turns = vec![vec![fail("first"), fail("again")], vec![ScriptedAttempt::default()]];
        let rehearsal =
            RehearsalScript { turns: BTreeMap::from([(step(), turns)]), ..RehearsalScript::default() };
        let attempt = |turn, attempt| rehearsal.attempt(&step(), Turn(turn), 1, attempt);
        assert_eq!(
            [attempt(1, 1), attempt(1, 2), attempt(1, 3)],
            [fail("first"), fail("again"), fail("again")]
        );
        assert_eq!([attempt(2, 1), attempt(7, 2)], [ScriptedAttempt::default(), ScriptedAttempt::default()]);
    }

    #[test]
    fn the_example_of_a_step_is_reported_unless_the_script_says_otherwise() {
        let object = |value: Value| value.as_object().unwrap().clone();
        let fields = ReportFields {
            example: object(serde_json::json!({"status_word": "PASS", "tests": 3})),
            rehearsed_files: BTreeMap::from([("a.txt".to_owned(), "a".to_owned())]),
            ..ReportFields::default()
        };
        let mut attempt = ScriptedAttempt {
            fields: object(serde_json::json!({"status_word": "FAIL"})),
            ..ScriptedAttempt::default()
        };
        attempt.complete(&fields);
        assert_eq!(attempt.fields, object(serde_json::json!({"status_word": "FAIL", "tests": 3})));
        assert_eq!(attempt.default_files, fields.rehearsed_files);
    }

    #[test]
    fn checks_have_passed_unless_the_script_sets_their_results() {
        let timeout = Duration::from_secs(1);
        let spec = CheckSpec { name: "test".to_owned(), command: vec!["false".to_owned()], timeout };
        let results = |rehearsal: &RehearsalScript| {
            let rehearsal = rehearsal.with_checks(&step(), std::slice::from_ref(&spec));
            rehearsal.attempt(&step(), Turn(1), 1, 1).fields[CHECKS_FIELD].clone()
        };
        let passed = results(&RehearsalScript::default());
        assert_eq!((&passed[0]["name"], &passed[0]["exit_code"]), (&"test".into(), &0.into()), "{passed}");
        let red = Fields::from_iter([(CHECKS_FIELD.to_owned(), "red".into())]);
        let scripted = rehearsal(vec![ScriptedAttempt { fields: red, ..ScriptedAttempt::default() }]);
        assert_eq!(results(&scripted), "red");
    }

    #[test]
    fn the_scripted_agent_gets_the_entry_of_its_attempt() {
        let rehearsal = rehearsal(vec![fail("first"), fail("second"), fail("third"), fail("fourth")]);
        let argv = rehearsal.argv(&example());
        assert_eq!(argv[..2], [linux::OWN_PROGRAM, AGENT_ARGUMENT]);
        assert_eq!(
            ScriptedAttempt::from_argument(&argv[2]).unwrap(),
            fail("third"),
            "the example is the third attempt"
        );
    }
}
