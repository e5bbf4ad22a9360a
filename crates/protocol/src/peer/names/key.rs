//! Converts cycle ids to store keys and back.
//!
//! A NATS key has only letters, digits and `-/_=.`, and watches filter by token, which is the text between two dots.
//! So a spec is always one token: letters, digits, `-` and `_` are kept, every other byte of its UTF-8 becomes `=` and
//! two upper-case hexadecimal digits. The key of `peer:spec:日本:cycle:1` is `peer.spec.=E6=97=A5=E6=9C=AC.cycle.1`.

use super::{BadSpecName, PeerCycleId, Scope, SpecName, cycle_number};

/// Why a text is not the key of a cycle.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BadKey {
    #[error("it is neither `peer.spec.<name>.cycle.<number>` nor `peer.global.cycle.<number>`")]
    NotACycle,
    #[error("its token `{0}` is not escaped correctly")]
    BadEscape(String),
    #[error("its spec name is invalid: {0}")]
    BadSpec(#[from] BadSpecName),
}

impl Scope {
    /// Returns the beginning of the keys of its cycles, up to their number. It is not the `key_prefix` of the document, which is
    /// the scope with colons.
    pub fn store_key_prefix(&self) -> String {
        match self {
            Self::Spec(name) => format!("peer.spec.{}.cycle.", escape(name.as_str())),
            Self::Global => "peer.global.cycle.".to_owned(),
        }
    }
}

impl PeerCycleId {
    /// Returns the key of its document.
    pub fn key(&self) -> String {
        format!("{}{}", self.scope.store_key_prefix(), self.number)
    }

    /// Parses a key. Accepts only what [`key`](Self::key) returns, so that each cycle has only one key.
    pub fn from_key(key: &str) -> Result<Self, BadKey> {
        let tokens: Vec<_> = key.split('.').collect();
        let (scope, number) = match tokens[..] {
            ["peer", "spec", name, "cycle", number] => {
                let name = unescape(name).ok_or_else(|| BadKey::BadEscape(name.to_owned()))?;
                (Scope::Spec(SpecName::new(&name)?), number)
            }
            ["peer", "global", "cycle", number] => (Scope::Global, number),
            _ => return Err(BadKey::NotACycle),
        };
        Ok(scope.cycle(cycle_number(number).ok_or(BadKey::NotACycle)?))
    }
}

fn is_plain(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-')
}

fn escape(text: &str) -> String {
    let escaped =
        |byte: u8| if is_plain(byte) { char::from(byte).to_string() } else { format!("={byte:02X}") };
    text.bytes().map(escaped).collect()
}

pub(super) fn escaped_length(text: &str) -> usize {
    text.bytes().map(|byte| if is_plain(byte) { 1 } else { 3 }).sum()
}

/// Decodes a token; `None` if it is not correctly escaped.
fn unescape(token: &str) -> Option<String> {
    let mut bytes = Vec::new();
    let mut rest = token.as_bytes();
    while let Some((&first, after)) = rest.split_first() {
        let (byte, after) = if first == b'=' {
            let (digits, after) = after.split_at_checked(2)?;
            (u8::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok()?, after)
        } else {
            (first, after)
        };
        bytes.push(byte);
        rest = after;
    }
    // Refuses lower-case digits, a sign, and escapes that are not needed.
    String::from_utf8(bytes).ok().filter(|text| escape(text) == token)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_has_its_own_key_and_is_decoded_again() {
        let names = [
            "feature-name",
            "a.b",
            "a:b",
            "a b",
            "a",
            "a:cycle:9",
            "日本",
            "=3A",
            ":",
            "caf\u{e9}",
            "A_b-9",
            "%",
            "a/b",
            "..",
            "*",
            ">",
            "\u{1F600}",
            "a\nb",
        ];
        let mut keys = std::collections::BTreeSet::new();
        for name in names {
            let id = Scope::Spec(SpecName::new(name).unwrap()).cycle(7);
            let key = id.key();
            assert!(key.bytes().all(|byte| is_plain(byte) || matches!(byte, b'=' | b'.')), "{key}");
            assert_eq!(key.split('.').count(), 5, "a spec is one token: {key}");
            assert_eq!(PeerCycleId::from_key(&key), Ok(id.clone()), "{key}");
            assert_eq!(id.to_string().parse(), Ok(id), "{name}");
            assert!(keys.insert(key), "{name} has the key of another name");
        }
    }

    #[test]
    fn keys_are_escaped_as_documented() {
        for (id, key) in [
            ("peer:spec:feature-name:cycle:1", "peer.spec.feature-name.cycle.1"),
            ("peer:spec:日本:cycle:1", "peer.spec.=E6=97=A5=E6=9C=AC.cycle.1"),
            ("peer:spec:=3A:cycle:12", "peer.spec.=3D3A.cycle.12"),
            ("peer:global:cycle:3", "peer.global.cycle.3"),
        ] {
            assert_eq!(id.parse::<PeerCycleId>().unwrap().key(), key);
        }
    }

    #[test]
    fn a_key_in_another_spelling_is_refused() {
        for key in [
            "peer.spec.a.cycle",
            "peer.spec.a.b.cycle.1",
            "peer.spec.a.cycle.01",
            "peer.spec.a.cycle.0",
            "peer.spec..cycle.1",
            "peer.spec.=3a.cycle.1",
            "peer.spec.=41.cycle.1",
            "peer.spec.=4.cycle.1",
            "peer.spec.=+1.cycle.1",
            "peer.spec.=FF.cycle.1",
            "peer.spec.a:b.cycle.1",
            "peer.spec.cafe=CC=81.cycle.1",
            "peer.global.cycle.1.metadata",
            "peer:spec:a:cycle:1",
        ] {
            assert!(PeerCycleId::from_key(key).is_err(), "{key}");
        }
    }
}
