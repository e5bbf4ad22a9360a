//! The name of a spec: any text in Unicode's composed form (NFC).

use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use unicode_normalization::{UnicodeNormalization as _, is_nfc};

use super::key;

/// The maximum length of an escaped name in bytes. The whole key stays far below the limit of any store.
pub const MAX_SPEC_KEY_BYTES: usize = 200;

/// The name of a spec, always in NFC, so that names that look the same are the same.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct SpecName(Arc<str>);

/// Why a text cannot be the name of a spec.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BadSpecName {
    #[error("it is empty")]
    Empty,
    #[error("it takes {0} bytes as a key, the limit is {MAX_SPEC_KEY_BYTES}")]
    TooLong(usize),
    #[error("it is not in Unicode's composed form (NFC), in which it reads `{0}`")]
    NotComposed(String),
}

impl SpecName {
    /// Accepts a name in an id, a key or a document. Refuses one that is not in NFC: normalized, it would give two documents
    /// whose names differ only in their Unicode form the same key.
    pub fn new(text: &str) -> Result<Self, BadSpecName> {
        if text.trim().is_empty() {
            return Err(BadSpecName::Empty);
        }
        if !is_nfc(text) {
            return Err(BadSpecName::NotComposed(text.nfc().collect()));
        }
        match key::escaped_length(text) {
            length if length > MAX_SPEC_KEY_BYTES => Err(BadSpecName::TooLong(length)),
            _ => Ok(Self(text.into())),
        }
    }

    /// Accepts a name that a user typed or that a file system returned, and normalizes it to NFC.
    pub fn normalized(text: &str) -> Result<Self, BadSpecName> {
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
    fn a_decomposed_name_is_refused_or_normalized() {
        assert_eq!(SpecName::new(DECOMPOSED), Err(BadSpecName::NotComposed(COMPOSED.to_owned())));
        assert_eq!(SpecName::normalized(DECOMPOSED), SpecName::new(COMPOSED));
    }

    #[test]
    fn empty_and_overlong_names_are_refused() {
        for text in ["", " ", "\t\n"] {
            assert_eq!(SpecName::new(text), Err(BadSpecName::Empty));
        }
        assert!(SpecName::new(&"x".repeat(200)).is_ok());
        assert_eq!(SpecName::new(&"x".repeat(300)), Err(BadSpecName::TooLong(300)));
        // Nine bytes each when escaped.
        assert_eq!(SpecName::new(&"日".repeat(23)), Err(BadSpecName::TooLong(207)));
        assert!(SpecName::new(&"日".repeat(22)).is_ok());
    }
}
