//! Names and values of an environment. They are bytes to the kernel, and nearly always text: so they are written as text
//! where they are, and as a list of bytes where they are not. Nobody's variable is lost for its encoding.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};

use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// A name or a value.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct OsText(OsString);

impl OsText {
    pub fn as_os_str(&self) -> &OsStr {
        &self.0
    }
}

impl From<OsString> for OsText {
    fn from(text: OsString) -> Self {
        Self(text)
    }
}

impl From<String> for OsText {
    fn from(text: String) -> Self {
        Self(text.into())
    }
}

impl From<&str> for OsText {
    fn from(text: &str) -> Self {
        Self(text.into())
    }
}

impl AsRef<OsStr> for OsText {
    fn as_ref(&self) -> &OsStr {
        &self.0
    }
}

impl Serialize for OsText {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self.0.to_str() {
            Some(text) => serializer.serialize_str(text),
            None => serializer.collect_seq(self.0.as_bytes()),
        }
    }
}

impl<'de> Deserialize<'de> for OsText {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        #[serde(untagged)]
        enum Written {
            Text(String),
            Bytes(Vec<u8>),
        }
        Ok(match Written::deserialize(deserializer)? {
            Written::Text(text) => text.into(),
            Written::Bytes(bytes) => Self(OsString::from_vec(bytes)),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_written_as_text_and_other_bytes_come_back_as_they_were() {
        let odd = OsText(OsString::from_vec(vec![b'a', 0xff]));
        for (value, written) in [("naïve".into(), r#""naïve""#), (odd, "[97,255]")] {
            assert_eq!(serde_json::to_string::<OsText>(&value).unwrap(), written);
            assert_eq!(serde_json::from_str::<OsText>(written).unwrap(), value);
        }
    }
}
