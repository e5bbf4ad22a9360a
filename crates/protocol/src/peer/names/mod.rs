//! The names of peer cycles: instructions (such as `create-spec`), specs, scopes, cycle ids and store keys.
//!
//! A name is validated when it is parsed. Ids are for users and documents, and have colons. Keys are for stores, and have dots
//! and a restricted character set. Each id has exactly one key.

mod derive;
mod instruction;
mod key;
mod spec;

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

pub use derive::derive;
pub use instruction::{Instruction, NoScope, ScopeSource, UnknownInstruction};
pub use key::BadKey;
pub use spec::{BadSpecName, MAX_SPEC_KEY_BYTES, SpecName};

/// The largest integer that every JSON parser represents exactly (2^53 − 1).
pub const MAX_SAFE_INTEGER: u64 = (1 << 53) - 1;

/// What a peer cycle is about. The cycles of a scope are numbered together.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum Scope {
    Spec(SpecName),
    /// No spec: the repository as a whole.
    Global,
}

/// One peer cycle: `peer:spec:feature-name:cycle:1`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct PeerCycleId {
    pub scope: Scope,
    /// From 1 to [`MAX_SAFE_INTEGER`].
    pub number: u64,
}

/// Why a text is not a scope or a cycle id.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BadId {
    #[error("it is neither `peer:spec:<name>` nor `peer:global`")]
    NoScope,
    #[error("it does not end in `:cycle:<number>`")]
    NoNumber,
    #[error("its number is `{0}`; numbers are whole, from 1, without leading zeros")]
    BadNumber(String),
    #[error("its spec name is invalid: {0}")]
    BadSpec(#[from] BadSpecName),
}

impl Scope {
    pub fn spec(&self) -> Option<&SpecName> {
        match self {
            Self::Spec(name) => Some(name),
            Self::Global => None,
        }
    }

    /// The cycle of this scope with this number.
    pub fn cycle(self, number: u64) -> PeerCycleId {
        PeerCycleId { scope: self, number }
    }
}

impl fmt::Display for Scope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Spec(name) => write!(f, "peer:spec:{name}"),
            Self::Global => f.write_str("peer:global"),
        }
    }
}

impl FromStr for Scope {
    type Err = BadId;

    fn from_str(text: &str) -> Result<Self, BadId> {
        match text.strip_prefix("peer:spec:") {
            Some(name) => Ok(Self::Spec(SpecName::new(name)?)),
            None if text == "peer:global" => Ok(Self::Global),
            None => Err(BadId::NoScope),
        }
    }
}

impl fmt::Display for PeerCycleId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:cycle:{}", self.scope, self.number)
    }
}

impl FromStr for PeerCycleId {
    type Err = BadId;

    /// Parses from the right: the name of a spec may contain `:cycle:9`.
    fn from_str(text: &str) -> Result<Self, BadId> {
        let (scope, number) = text.rsplit_once(":cycle:").ok_or(BadId::NoNumber)?;
        let number = cycle_number(number).ok_or_else(|| BadId::BadNumber(number.to_owned()))?;
        Ok(Self { scope: scope.parse()?, number })
    }
}

/// Parses a number in its only spelling, so that one cycle has one name.
fn cycle_number(digits: &str) -> Option<u64> {
    let number = digits.parse::<u64>().ok()?;
    ((1..=MAX_SAFE_INTEGER).contains(&number) && number.to_string() == digits).then_some(number)
}

impl TryFrom<String> for Scope {
    type Error = BadId;
    fn try_from(text: String) -> Result<Self, BadId> {
        text.parse()
    }
}

impl From<Scope> for String {
    fn from(scope: Scope) -> Self {
        scope.to_string()
    }
}

impl TryFrom<String> for PeerCycleId {
    type Error = BadId;
    fn try_from(text: String) -> Result<Self, BadId> {
        text.parse()
    }
}

impl From<PeerCycleId> for String {
    fn from(id: PeerCycleId) -> Self {
        id.to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_prints_as_it_parses() {
        for (text, spec, number) in [
            ("peer:spec:feature-name:cycle:1", Some("feature-name"), 1),
            ("peer:spec:a:cycle:9:cycle:10", Some("a:cycle:9"), 10),
            ("peer:spec:日本:cycle:9007199254740991", Some("日本"), MAX_SAFE_INTEGER),
            ("peer:spec:global:cycle:2", Some("global"), 2),
            ("peer:global:cycle:3", None, 3),
        ] {
            let id: PeerCycleId = text.parse().unwrap();
            assert_eq!((id.scope.spec().map(SpecName::as_str), id.number), (spec, number));
            assert_eq!(id.to_string(), text);
        }
    }

    #[test]
    fn an_invalid_id_is_refused_with_the_reason() {
        for (text, reason) in [
            ("peer:spec:a", BadId::NoNumber),
            ("peer:spec:a:cycle:", BadId::BadNumber(String::new())),
            ("peer:spec:a:cycle:0", BadId::BadNumber("0".to_owned())),
            ("peer:spec:a:cycle:01", BadId::BadNumber("01".to_owned())),
            ("peer:spec:a:cycle:+1", BadId::BadNumber("+1".to_owned())),
            ("peer:spec:a:cycle:9007199254740992", BadId::BadNumber("9007199254740992".to_owned())),
            ("peer:spec::cycle:1", BadId::BadSpec(BadSpecName::Empty)),
            ("peer:globally:cycle:1", BadId::NoScope),
            ("peer.spec.a:cycle:1", BadId::NoScope),
        ] {
            assert_eq!(text.parse::<PeerCycleId>(), Err(reason), "{text}");
        }
    }
}
