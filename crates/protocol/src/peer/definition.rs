//! What a peer cycle is started with.

use std::collections::BTreeMap;
use std::num::NonZeroU32;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::change::NewCycle;
use super::document::{Mode, Phase};
use super::names::PeerCycleId;
use super::prompts;

/// What a peer cycle is started with. It never changes.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Definition {
    pub cycle: PeerCycleId,
    /// An [`Instruction`](super::Instruction). An imported cycle may have any text.
    pub instruction: String,
    /// Whether the cycle is new or continues a failed one: `peer_mode` of the document.
    pub mode: Mode,
    /// The arguments of the instruction, as they were typed.
    pub instruction_args: String,
    /// The user's text, unchanged.
    pub user_requirements: String,
    /// The failed cycle that this one continues.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub continues: Option<Continued>,
    /// What the review of an earlier cycle recommends.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub earlier_review: Option<EarlierReview>,
    pub max_attempts: NonZeroU32,
    /// The timeout of an attempt; `None` for the adapter's own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout: Option<Duration>,
    /// The prompt templates of the repository, by agent. An agent without one gets the built-in template.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub prompts: BTreeMap<String, String>,
}

/// A failed cycle that another one continues.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Continued {
    pub cycle: PeerCycleId,
    /// The outputs of its completed phases, from the first on.
    pub outputs: Vec<Value>,
}

/// The recommendations of a completed cycle's review.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct EarlierReview {
    pub cycle: PeerCycleId,
    pub recommendations: Value,
}

impl Definition {
    /// The template of a phase's prompt: that of the repository, or the built-in one.
    pub fn template(&self, phase: Phase) -> &str {
        self.prompts.get(phase.agent()).map_or_else(|| prompts::template(phase), String::as_str)
    }

    /// Returns the output that a phase takes from the continued cycle instead of running, or `None` if the phase runs.
    pub fn reused_output(&self, phase: Phase) -> Option<&Value> {
        self.continues.as_ref()?.outputs.get(phase as usize)
    }

    pub(super) fn new_cycle(&self) -> NewCycle {
        NewCycle {
            cycle: self.cycle.clone(),
            instruction: self.instruction.clone(),
            mode: self.mode,
            instruction_args: self.instruction_args.clone(),
            user_requirements: self.user_requirements.clone(),
            continues: self.continues.as_ref().map(|continued| continued.cycle.clone()),
        }
    }
}
