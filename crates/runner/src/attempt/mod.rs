//! One attempt, seen from the engine: what it needs ([`AttemptSpec`]), what its agent is told ([`PromptFiles`]), the task that
//! watches it, and how its end becomes a fact ([`Classifier`]). The attempt of an [effect](PerformEffect) has no process.

mod artifacts;
mod effect;
mod items;
mod log_tail;
mod memory;
mod merge;
mod prompt;
mod result;
mod spec;
mod task;

pub use artifacts::FindArtifacts;
pub(crate) use effect::{EffectEnd, fail_effect, spawn_effect};
pub use effect::{Effects, PendingEffect, PerformEffect};
pub use items::ReadItems;
pub use log_tail::{last_line, last_lines};
pub use merge::{FastForwardBase, Merge};
pub use prompt::{PromptFiles, preview_prompt};
pub(crate) use result::{AttemptResult, Classifier};
pub(crate) use spec::{AttemptOrigin, AttemptSpec};
pub use task::WatchFailed;
pub(crate) use task::{AttemptEvent, ProcessOutcome, TaskHandle, spawn_task};
