//! What the keys of a cycle say, fact by fact: who says it, where, and how much that counts.

use serde_json::Value;

use super::key::Piece;
use crate::peer::document::Phase;

/// A fact that a cycle's document has a place for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Slot {
    Instruction,
    Spec,
    Number,
    Created,
    Updated,
    /// When the cycle was completed or failed; version 2 has it in the history only.
    Ended,
    Status,
    Current,
    /// Why the cycle failed, whichever phase it was.
    Error,
    ErrorPhase,
    Mode,
    Aware,
    Arguments,
    Requirements,
    Summary,
    Insights,
    Phase(Phase, Of),
}

/// A fact about a phase.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Of {
    Status,
    Started,
    Completed,
    Output,
    /// Where an output is that was too large for its key.
    Reference,
    Error,
    Errors,
}

/// Which generation of the format a key belongs to. Later ones count more.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, serde::Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Generation {
    /// `meta` and one document per cycle.
    G0,
    /// One key per fact, and the temp files of that time.
    G1,
    /// The designs that became version 2.
    G2,
    /// Versions 1 and 1.1, which came after them.
    G3,
}

/// How much a claim counts. In this order: what is live before copies, later generations before earlier, what was written
/// last before what was written at the start, dots before colons.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Rank {
    pub(super) live: bool,
    pub(super) generation: Generation,
    pub(super) precision: u8,
    pub(super) dots: bool,
}

/// One key of a cycle, or the part of a shared one that is about it.
#[derive(Debug, Clone)]
pub(super) struct Fragment {
    pub(super) key: String,
    pub(super) value: Value,
    pub(super) piece: Piece,
    pub(super) rank: Rank,
}

/// What somebody says about a fact.
#[derive(Debug, Clone)]
pub(super) struct Claim {
    pub(super) slot: Slot,
    pub(super) value: Value,
    pub(super) key: String,
    /// Where in the key's value it stands; none for what follows from something else there.
    pub(super) place: Option<String>,
    pub(super) rank: Rank,
}

impl Slot {
    /// Where version 2 has it.
    pub(super) fn pointer(self) -> String {
        let fixed = match self {
            Self::Instruction => "/metadata/instruction",
            Self::Spec => "/metadata/spec_name",
            Self::Number => "/metadata/cycle_number",
            Self::Created => "/metadata/created_at",
            // The document was changed since: it is migrated. When what happened is in the history.
            Self::Updated | Self::Ended => "/history",
            Self::Status => "/metadata/status",
            Self::Current => "/metadata/current_phase",
            Self::Error | Self::ErrorPhase => "/phases",
            Self::Mode => "/context/peer_mode",
            Self::Aware => "/context/spec_aware",
            Self::Arguments => "/context/instruction_args",
            Self::Requirements => "/context/user_requirements",
            Self::Summary => "/cycle_summary",
            Self::Insights => "/insights",
            Self::Phase(phase, of) => {
                let field = match of {
                    Of::Status => "status",
                    Of::Started => "started_at",
                    Of::Completed => "completed_at",
                    Of::Output => "output",
                    Of::Reference => "output/output_ref",
                    Of::Error => "errors/0",
                    Of::Errors => "errors",
                };
                return format!("/phases/{phase}/{field}");
            }
        };
        fixed.to_owned()
    }
}

/// Gathers the claims of one fragment.
#[derive(Debug)]
pub(super) struct Claims<'a> {
    fragment: &'a Fragment,
    found: Vec<Claim>,
}

impl<'a> Claims<'a> {
    pub(super) fn of(fragment: &'a Fragment) -> Self {
        Self { fragment, found: Vec::new() }
    }

    pub(super) fn into_vec(self) -> Vec<Claim> {
        self.found
    }

    pub(super) fn value(&self) -> &'a Value {
        &self.fragment.value
    }

    /// That what stands at this place says so. Nothing, if nothing stands there.
    pub(super) fn claim(&mut self, slot: Slot, place: &str) {
        if let Some(value) = self.value().pointer(place).filter(|value| !value.is_null()) {
            self.push(slot, value.clone(), Some(place.to_owned()), self.fragment.rank.precision);
        }
    }

    /// The same for whichever of these places is filled; earlier ones count more.
    pub(super) fn claim_any(&mut self, slot: Slot, places: &[&str]) {
        let before = self.found.len();
        places.iter().for_each(|place| self.claim(slot, place));
        for (claim, more) in self.found[before..].iter_mut().rev().zip(0..) {
            claim.rank.precision += more;
        }
    }

    /// That this follows from what stands in the fragment. What says it outright counts more.
    pub(super) fn infer(&mut self, slot: Slot, value: impl Into<Value>) {
        self.push(slot, value.into(), None, self.fragment.rank.precision.saturating_sub(1));
    }

    fn push(&mut self, slot: Slot, value: Value, place: Option<String>, precision: u8) {
        let rank = Rank { precision, ..self.fragment.rank };
        self.found.push(Claim { slot, value, key: self.fragment.key.clone(), place, rank });
    }
}
