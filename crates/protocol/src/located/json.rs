//! JSON text → a tree of [`Node`]s.
//!
//! serde_json does the parsing. It returns each value as a slice of the text, whose address gives the position.

use std::fmt;
use std::rc::Rc;

use serde::de::{Deserialize, Deserializer, MapAccess, Visitor};
use serde_json::value::RawValue;

use super::{Located, MappingEntry, Node, SourcePos, Value};

/// How deep values are read, which is as deep as serde_json deserializes. Deeper values are left out of the tree.
const MAX_DEPTH: usize = 128;

impl Node {
    /// Reads a JSON text. Fails if it is not valid JSON.
    pub fn from_json(text: &str) -> Result<Self, serde_json::Error> {
        let root = serde_json::from_str(text)?;
        Reader { text, offset: 0, pos: SourcePos::START }.node(root, MAX_DEPTH)
    }
}

struct Reader<'a> {
    text: &'a str,
    /// Values are read in the order of the text, so each position is counted from the previous one.
    offset: usize,
    pos: SourcePos,
}

impl<'a> Reader<'a> {
    fn node(&mut self, raw: &'a RawValue, levels_left: usize) -> Result<Node, serde_json::Error> {
        let pos = self.locate(raw);
        let text = raw.get();
        let value = match text.as_bytes().first() {
            Some(b'"') => Value::Text(serde_json::from_str(text)?),
            Some(b'[' | b'{') if levels_left == 0 => Value::List(Vec::new()),
            Some(b'[') => {
                let items: Vec<&RawValue> = serde_json::from_str(text)?;
                let items = items.into_iter().map(|item| Ok(Rc::new(self.node(item, levels_left - 1)?)));
                Value::List(items.collect::<Result<_, serde_json::Error>>()?)
            }
            Some(b'{') => {
                let Members(members) = serde_json::from_str(text)?;
                let entries = members.into_iter().map(|(key, value)| {
                    let pos = self.locate(key);
                    let key = Located { value: serde_json::from_str(key.get())?, pos };
                    Ok(MappingEntry { key, value: Rc::new(self.node(value, levels_left - 1)?) })
                });
                Value::Mapping(entries.collect::<Result<_, serde_json::Error>>()?)
            }
            _ => Value::from_plain_scalar(text.to_owned()),
        };
        Ok(Node { pos, value })
    }

    /// Returns the position of a slice of the text that comes after all slices located before.
    fn locate(&mut self, raw: &RawValue) -> SourcePos {
        let offset = raw.get().as_ptr().addr() - self.text.as_ptr().addr();
        for character in self.text[self.offset..offset].chars() {
            if character == '\n' {
                self.pos = SourcePos { line: self.pos.line + 1, column: 1 };
            } else {
                self.pos.column += 1;
            }
        }
        self.offset = offset;
        self.pos
    }
}

/// The members of an object, in the order of the text.
struct Members<'a>(Vec<(&'a RawValue, &'a RawValue)>);

impl<'de: 'a, 'a> Deserialize<'de> for Members<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct MembersVisitor;

        impl<'de> Visitor<'de> for MembersVisitor {
            type Value = Members<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                let mut members = Vec::new();
                while let Some(member) = map.next_entry()? {
                    members.push(member);
                }
                Ok(Members(members))
            }
        }

        deserializer.deserialize_map(MembersVisitor)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_value_has_its_position() {
        let text = "{\r\n  \"ä\\\"/\": [1, {\"b~\": \"x]\"},\n\t-2.5e3],\"ü\": \"é\", \"z\": {}\n}\n";
        let tree = Node::from_json(text).unwrap();
        for (pointer, line, column) in [
            ("", 1, 1),
            ("/ä\"~1", 2, 11),
            ("/ä\"~1/0", 2, 12),
            ("/ä\"~1/1", 2, 15),
            ("/ä\"~1/1/b~0", 2, 22),
            ("/ä\"~1/2", 3, 2),
            ("/ü", 3, 15),
            ("/z", 3, 25),
            ("/z/missing/deeper", 3, 25),
            ("/nothing", 1, 1),
        ] {
            assert_eq!(tree.find(pointer), SourcePos { line, column }, "{pointer}");
        }
        let Value::Mapping(entries) = &tree.value else { panic!("an object") };
        assert_eq!(entries[1].key, Located { value: "ü".to_owned(), pos: SourcePos { line: 3, column: 10 } });
    }

    #[test]
    fn the_tree_holds_what_serde_json_reads() {
        let text = include_str!("../../tests/fixtures/steps/human-in-the-loop.json");
        let expected: serde_json::Value = serde_json::from_str(text).unwrap();
        assert_eq!(Node::from_json(text).unwrap().to_json(), expected);
    }

    #[test]
    fn the_last_of_two_equal_keys_counts() {
        let tree = Node::from_json("{\"a\": 1,\n\"a\": 2}").unwrap();
        assert_eq!(tree.find("/a"), SourcePos { line: 2, column: 6 });
    }

    #[test]
    fn values_nested_too_deep_are_left_out_of_the_tree() {
        let text = format!("{}1{}", "[".repeat(100_000), "]".repeat(100_000));
        let tree = Node::from_json(&text).unwrap();
        assert_eq!(tree.find(&"/0".repeat(1_000)), SourcePos { line: 1, column: MAX_DEPTH + 1 });
    }

    #[test]
    fn text_that_is_not_json_is_refused() {
        for text in ["{\"a", "]]]", "{{{", "\"\\", ":::", "[,,,", "@", "{\"a\": ü"] {
            assert!(Node::from_json(text).is_err(), "{text}");
        }
    }
}
