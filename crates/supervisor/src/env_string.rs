//! Names and values of environment variables. They are serialised as text if they are UTF-8, and otherwise as a list of
//! bytes, so that no variable is lost because of its encoding.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};

use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// A name or value of an environment variable.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct EnvString(OsString);

impl EnvString {
    pub fn as_os_str(&self) -> &OsStr {
        &self.0
    }
}

impl From<OsString> for EnvString {
    fn from(text: OsString) -> Self {
        Self(text)
    }
}

impl From<String> for EnvString {
    fn from(text: String) -> Self {
        Self(text.into())
    }
}

impl From<&str> for EnvString {
    fn from(text: &str) -> Self {
        Self(text.into())
    }
}

impl AsRef<OsStr> for EnvString {
    fn as_ref(&self) -> &OsStr {
        &self.0
    }
}

impl Serialize for EnvString {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self.0.to_str() {
            Some(text) => serializer.serialize_str(text),
            None => serializer.collect_seq(self.0.as_bytes()),
        }
    }
}

impl<'de> Deserialize<'de> for EnvString {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        #[serde(untagged)]
        enum Serialised {
            Text(String),
            Bytes(Vec<u8>),
        }
        Ok(match Serialised::deserialize(deserializer)? {
            Serialised::Text(text) => text.into(),
            Serialised::Bytes(bytes) => Self(OsString::from_vec(bytes)),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_serialised_as_text_and_other_bytes_survive_a_round_trip() {
        let odd = EnvString(OsString::from_vec(vec![b'a', 0xff]));
        for (value, json) in [("naïve".into(), r#""naïve""#), (odd, "[97,255]")] {
            assert_eq!(serde_json::to_string::<EnvString>(&value).unwrap(), json);
            assert_eq!(serde_json::from_str::<EnvString>(json).unwrap(), value);
        }
    }
}
