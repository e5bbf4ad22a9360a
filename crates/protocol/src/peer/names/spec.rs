//! The name of a spec: any text, in one spelling.

use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use unicode_normalization::{UnicodeNormalization as _, is_nfc};

use super::key;

/// How long a name may be in a key, in bytes. With prefix and number it stays far below what any store takes.
pub const LONGEST_ESCAPED: usize = 200;

/// A spec, by name. Always in Unicode's composed form (NFC): two names that look the same are the same.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct SpecName(Arc<str>);

/// Why a text cannot be the name of a spec.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BadSpecName {
    #[error("it is empty")]
    Empty,
    #[error("it takes {0} bytes as a key, the limit is {LONGEST_ESCAPED}")]
    TooLong(usize),
    #[error("it is not in Unicode's composed form (NFC), in which it reads `{0}`")]
    NotComposed(String),
}

impl SpecName {
    /// Accepts a name as it is written in ids, keys and documents: in composed form, or not at all. To mend it in silence
    /// would let two documents claim one key.
    pub fn new(text: &str) -> Result<Self, BadSpecName> {
        if text.trim().is_empty() {
            return Err(BadSpecName::Empty);
        }
        if !is_nfc(text) {
            return Err(BadSpecName::NotComposed(text.nfc().collect()));
        }
        match key::escaped_length(text) {
            length if length > LONGEST_ESCAPED => Err(BadSpecName::TooLong(length)),
            _ => Ok(Self(text.into())),
        }
    }

    /// Accepts a name as people type it, and brings it into composed form first: some keyboards and file systems
    /// decompose.
    pub fn typed(text: &str) -> Result<Self, BadSpecName> {
        Self::new(&text.nfc().collect::<String>())
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for SpecName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0)
    }
}

impl fmt::Debug for SpecName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "`{}`", self.0)
    }
}

impl TryFrom<String> for SpecName {
    type Error = BadSpecName;
    fn try_from(text: String) -> Result<Self, BadSpecName> {
        Self::new(&text)
    }
}

impl From<SpecName> for String {
    fn from(name: SpecName) -> Self {
        name.0.as_ref().to_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const COMPOSED: &str = "caf\u{e9}";
    const DECOMPOSED: &str = "cafe\u{301}";

    #[test]
    fn a_decomposed_twin_is_refused_in_documents_and_the_same_name_when_typed() {
        assert_eq!(SpecName::new(DECOMPOSED), Err(BadSpecName::NotComposed(COMPOSED.to_owned())));
        assert_eq!(SpecName::typed(DECOMPOSED), SpecName::new(COMPOSED));
    }

    #[test]
    fn empty_and_overlong_names_are_refused() {
        for text in ["", " ", "\t\n"] {
            assert_eq!(SpecName::new(text), Err(BadSpecName::Empty));
        }
        assert!(SpecName::new(&"x".repeat(200)).is_ok());
        assert_eq!(SpecName::new(&"x".repeat(300)), Err(BadSpecName::TooLong(300)));
        // Nine bytes each once escaped: what counts is the length as a key.
        assert_eq!(SpecName::new(&"日".repeat(23)), Err(BadSpecName::TooLong(207)));
        assert!(SpecName::new(&"日".repeat(22)).is_ok());
    }
}
