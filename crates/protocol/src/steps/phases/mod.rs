//! The phases of a step: what the engine does with it, one after the other, from `when` to the approval.
//!
//! Each phase is a turn of the step, and the phase decides what works on that turn. Two phases have no turn:
//! [`Phase::WorkOnItems`], because each item has turns of its own, and [`Phase::Approved`], because nothing is left to do.
//! A step with nothing but an agent has one phase. In a step with a data loop the items are worked on, not the step.

pub(super) mod items;
pub(super) mod loops;
pub(super) mod people;
pub(super) mod when;

use serde::{Deserialize, Serialize};

use crate::StepId;
use crate::protocol_trait::StepKind;
use crate::steps::definition::Definition;
use crate::steps::workflow::ItemsSource;

/// The phase of a step, from the time when its needs are done until its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Phase {
    /// The engine finds out whether the step is to run (`when`).
    When,
    /// It waits until the conditions in `gates` hold.
    Conditions,
    /// The engine reads the items of its data loop.
    ReadItems,
    /// Its items are worked on. It has no turn.
    WorkOnItems,
    /// Its agent works on it; or a person, or the engine.
    Work,
    /// The engine runs its checks.
    Checks,
    /// A person is asked about the agent's work (`human_in_the_loop`).
    Approval,
    /// A person has approved. A deferred transition completes the step.
    Approved,
}

impl Definition {
    /// Returns the phases of a step or an item in their order.
    fn phases(&self, id: &StepId) -> impl Iterator<Item = Phase> {
        let step = self.step(id);
        let is_item = self.item_of(id).is_some();
        let source = step.data_loop.as_ref().filter(|_| !is_item).map(|data_loop| &data_loop.source);
        let repeats = source.is_some();
        // The items of another step, which has read them.
        let is_paired = matches!(source, Some(ItemsSource::With(_)));
        let all = [
            (!is_item && !step.when.is_empty(), Phase::When),
            (!is_item && !step.gates.is_empty(), Phase::Conditions),
            (repeats && !is_paired, Phase::ReadItems),
            (repeats, Phase::WorkOnItems),
            (!repeats, Phase::Work),
            (!repeats && !step.checks.is_empty(), Phase::Checks),
            (!repeats && step.human_in_the_loop, Phase::Approval),
            (!repeats && (step.human_in_the_loop || step.is_for_person()), Phase::Approved),
        ];
        all.into_iter().filter(|(has, _)| *has).map(|(_, phase)| phase)
    }

    /// Returns the phase that begins when all needs are done.
    pub fn first_phase(&self, id: &StepId) -> Phase {
        self.phases(id).next().expect("BUG: every step has a phase")
    }

    /// Returns the phase after this one; `None` if the step is done then.
    pub fn phase_after(&self, id: &StepId, phase: Phase) -> Option<Phase> {
        self.phases(id).find(|other| *other > phase)
    }

    /// Returns what works on the step in this phase. Waiting for conditions is like waiting for a person's approval, because
    /// a person may answer in place of the file that says whether they hold.
    pub fn kind_in(&self, id: &StepId, phase: Phase) -> StepKind {
        match phase {
            Phase::Conditions | Phase::Approval | Phase::Approved => StepKind::Person,
            Phase::When | Phase::ReadItems | Phase::WorkOnItems => StepKind::Effect,
            Phase::Work => self.step(id).kind(),
            Phase::Checks => StepKind::Command,
        }
    }
}
