//! How far a step is, said: a sign, a word and a colour, so that none of them is needed to tell it.

use super::picture::{Iteration, Reached, Step};
use crate::face::Light;
use crate::render;

/// Which characters may be used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Charset {
    Unicode,
    Ascii,
}

pub(super) fn sign(light: Light, charset: Charset) -> char {
    let (unicode, ascii) = match light {
        Light::Pending => ('·', '.'),
        Light::Running => ('▸', '>'),
        Light::Waits => ('?', '?'),
        Light::Done => ('✓', '+'),
        Light::Failed => ('✗', 'x'),
        Light::Skipped => ('»', '-'),
    };
    match charset {
        Charset::Unicode => unicode,
        Charset::Ascii => ascii,
    }
}

pub(super) const fn word(light: Light) -> &'static str {
    match light {
        Light::Pending => "pending",
        Light::Running => "running",
        Light::Waits => "waits",
        Light::Done => "done",
        Light::Failed => "failed",
        Light::Skipped => "skipped",
    }
}

/// What stands below a step's name: who plays it, or how far it is.
pub(super) fn particulars(step: &Step, charset: Charset) -> Vec<String> {
    let Some(reached) = &step.reached else { return vec![step.agent.clone()] };
    let Reached { light, length, attempts, iteration, .. } = reached;
    let length = length.map(|length| format!(" {}", render::duration(length))).unwrap_or_default();
    let tries = if *attempts > 1 { format!(", attempt {attempts}") } else { String::new() };
    let first = format!("{} {}{length}{tries}", sign(*light, charset), word(*light));
    let second = iteration.map(|Iteration { now, most }| format!("iteration {now} of {most}"));
    std::iter::once(first).chain(second).collect()
}
