//! JSON text → where each of its values stands. `serde_json` forgets that, and a message without a line is half a message.

use std::collections::BTreeMap;

/// A place in a text, both numbers from 1; columns count characters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Place {
    pub line: usize,
    pub column: usize,
}

impl Place {
    pub const START: Self = Self { line: 1, column: 1 };
}

/// The places of all values of one JSON text, by JSON pointer.
#[derive(Debug, Clone)]
pub struct Places(BTreeMap<String, Place>);

impl Places {
    /// Finds the places in a text that is known to be JSON. Of a key given twice the last counts, as it does to serde.
    pub fn of(json: &str) -> Self {
        let mut scanner =
            Scanner { rest: json, place: Place::START, open: Vec::new(), found: BTreeMap::new() };
        while scanner.token() {}
        Self(scanner.found)
    }

    /// Where the value stands; of what is not there, where the nearest thing around it does.
    pub fn find(&self, pointer: &str) -> Place {
        let mut around = pointer;
        loop {
            if let Some(place) = self.0.get(around) {
                return *place;
            }
            match around.rfind('/') {
                Some(slash) => around = &around[..slash],
                None => return Place::START,
            }
        }
    }
}

/// A list or object whose end has not been seen.
enum Open {
    List { pointer: String, next: usize },
    Object { pointer: String, key: Option<String> },
}

struct Scanner<'a> {
    rest: &'a str,
    place: Place,
    /// A stack of our own: how deep a text is nested must not matter.
    open: Vec<Open>,
    found: BTreeMap<String, Place>,
}

impl Scanner<'_> {
    /// Takes one token; false at the end of the text.
    fn token(&mut self) -> bool {
        self.pass(self.rest.len() - self.rest.trim_start().len());
        let Some(first) = self.rest.chars().next() else { return false };
        match first {
            '{' => {
                let pointer = self.value();
                self.open.push(Open::Object { pointer, key: None });
                self.pass(1);
            }
            '[' => {
                let pointer = self.value();
                self.open.push(Open::List { pointer, next: 0 });
                self.pass(1);
            }
            '}' | ']' => {
                self.open.pop();
                self.pass(1);
            }
            ',' => {
                match self.open.last_mut() {
                    Some(Open::List { next, .. }) => *next += 1,
                    Some(Open::Object { key, .. }) => *key = None,
                    None => {}
                }
                self.pass(1);
            }
            ':' => self.pass(1),
            '"' => self.text(),
            _ => {
                self.value();
                let end =
                    |c: char| c.is_ascii_whitespace() || matches!(c, ',' | ']' | '}' | ':' | '"' | '[' | '{');
                // At least the first character, or we would stand still.
                self.pass(self.rest.find(end).unwrap_or(self.rest.len()).max(first.len_utf8()));
            }
        }
        true
    }

    /// A key where one is expected, else a value.
    fn text(&mut self) {
        let length = text_length(self.rest);
        if let Some(Open::Object { key: key @ None, .. }) = self.open.last_mut() {
            *key = serde_json::from_str(&self.rest[..length]).ok();
        } else {
            self.value();
        }
        self.pass(length);
    }

    /// A value begins here; answers its pointer.
    fn value(&mut self) -> String {
        let pointer = match self.open.last() {
            None => String::new(),
            Some(Open::List { pointer, next }) => super::entry(pointer, *next),
            Some(Open::Object { pointer, key }) => super::member(pointer, key.as_deref().unwrap_or_default()),
        };
        self.found.insert(pointer.clone(), self.place);
        pointer
    }

    fn pass(&mut self, bytes: usize) {
        let (passed, rest) = self.rest.split_at(bytes);
        self.place.line += passed.matches('\n').count();
        let last_line = passed.rsplit('\n').next().unwrap_or_default();
        self.place.column =
            last_line.chars().count() + if passed.contains('\n') { 1 } else { self.place.column };
        self.rest = rest;
    }
}

/// How many bytes the text in quotes has with which `json` begins.
fn text_length(json: &str) -> usize {
    let mut escaped = false;
    let end = json.char_indices().skip(1).find(|(_, character)| {
        let is_end = *character == '"' && !escaped;
        escaped = *character == '\\' && !escaped;
        is_end
    });
    end.map_or(json.len(), |(end, _)| end + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_value_is_found_where_it_stands() {
        let text = "{\r\n  \"ä\\\"/\": [1, {\"b~\": \"x]\"},\n\t-2.5e3],\"ü\": \"é\", \"z\": {}\n}\n";
        let places = Places::of(text);
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
            assert_eq!(places.find(pointer), Place { line, column }, "{pointer}");
        }
    }

    #[test]
    fn every_pointer_of_a_real_document_is_known() {
        fn pointers(value: &serde_json::Value, pointer: String, found: &mut Vec<String>) {
            if let Some(members) = value.as_object() {
                members.iter().for_each(|(key, value)| {
                    pointers(value, crate::check::member(&pointer, key), found);
                });
            }
            for (index, value) in value.as_array().into_iter().flatten().enumerate() {
                pointers(value, crate::check::entry(&pointer, index), found);
            }
            found.push(pointer);
        }
        let text = include_str!("../../tests/fixtures/steps/human-in-the-loop.json");
        let mut expected = Vec::new();
        pointers(&serde_json::from_str(text).unwrap(), String::new(), &mut expected);
        expected.sort();
        assert_eq!(Places::of(text).0.into_keys().collect::<Vec<_>>(), expected);
    }

    #[test]
    fn of_a_key_given_twice_the_last_counts() {
        assert_eq!(Places::of("{\"a\": 1,\n\"a\": 2}").find("/a"), Place { line: 2, column: 6 });
    }

    #[test]
    fn text_that_is_not_json_ends_the_search_all_the_same() {
        for text in ["{\"a", "]]]", "{{{", "\"\\", ":::", "[,,,", "@", "{\"a\": ü"] {
            Places::of(text);
        }
    }
}
