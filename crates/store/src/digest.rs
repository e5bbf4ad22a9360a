//! The name of a blob: the SHA-256 of its bytes.

use std::fmt;
use std::io::{self, Read};
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

/// SHA-256 in lower-case hexadecimal.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Digest(String);

impl Digest {
    #[must_use]
    pub fn of(bytes: impl AsRef<[u8]>) -> Self {
        Self::from_bytes(&Sha256::digest(bytes.as_ref()))
    }

    /// Computes the digest of the concatenated pieces.
    pub(crate) fn of_all(pieces: &[&str]) -> Self {
        let mut hash = Sha256::new();
        pieces.iter().for_each(|piece| hash.update(piece));
        Self::from_bytes(&hash.finalize())
    }

    /// Computes the digest of everything that can be read, without holding it in memory.
    pub fn of_reader(mut reader: impl Read) -> io::Result<Self> {
        let mut reader = DigestReader::new(&mut reader);
        io::copy(&mut reader, &mut io::sink())?;
        Ok(reader.digest())
    }

    fn from_bytes(bytes: &[u8]) -> Self {
        const DIGITS: &[u8; 16] = b"0123456789abcdef";
        let mut text = String::with_capacity(2 * bytes.len());
        for byte in bytes {
            for half in [byte >> 4, byte & 15] {
                text.push(char::from(DIGITS[usize::from(half)]));
            }
        }
        Self(text)
    }

    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// A reader that computes the digest of what it reads.
pub struct DigestReader<R> {
    reader: R,
    hash: Sha256,
}

impl<R> DigestReader<R> {
    pub fn new(reader: R) -> Self {
        Self { reader, hash: Sha256::new() }
    }

    /// Returns the digest of everything that was read.
    pub fn digest(self) -> Digest {
        Digest::from_bytes(&self.hash.finalize())
    }
}

impl<R: Read> Read for DigestReader<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let length = self.reader.read(buffer)?;
        self.hash.update(&buffer[..length]);
        Ok(length)
    }
}

impl<R: fmt::Debug> fmt::Debug for DigestReader<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("DigestReader").field(&self.reader).finish()
    }
}

/// A text that is not 64 lower-case hexadecimal digits.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not a SHA-256 in lower-case hexadecimal")]
pub struct BadDigest(String);

impl TryFrom<String> for Digest {
    type Error = BadDigest;
    fn try_from(text: String) -> Result<Self, BadDigest> {
        let hex = |byte: u8| matches!(byte, b'0'..=b'9' | b'a'..=b'f');
        if text.len() == 64 && text.bytes().all(hex) { Ok(Self(text)) } else { Err(BadDigest(text)) }
    }
}

impl FromStr for Digest {
    type Err = BadDigest;
    fn from_str(text: &str) -> Result<Self, BadDigest> {
        Self::try_from(text.to_owned())
    }
}

impl From<Digest> for String {
    fn from(digest: Digest) -> String {
        digest.0
    }
}

impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0)
    }
}

impl fmt::Debug for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "`{}`", self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_digest_is_the_sha256_in_lower_case() {
        let abc = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
        assert_eq!(Digest::of("abc").as_str(), abc);
        assert_eq!(abc.parse(), Ok(Digest::of("abc")));
        assert_eq!(Digest::of_all(&["a", "", "bc"]), Digest::of("abc"));
        assert_eq!(serde_json::to_string(&Digest::of("abc")).unwrap(), format!("\"{abc}\""));
    }

    #[test]
    fn a_text_that_is_not_a_digest_is_refused() {
        for text in ["", "abc", &"A".repeat(64), &"g".repeat(64), &"a".repeat(65)] {
            assert!(text.parse::<Digest>().is_err(), "{text:?} should be refused");
        }
    }
}
