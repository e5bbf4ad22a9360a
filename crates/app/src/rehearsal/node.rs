//! YAML text → a tree in which every node knows its place, so that all problems can be told at once.

use std::fmt;

use protocol::steps::load::{Problem, Rule};
use serde::de::{Deserialize, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_saphyr::{Error, Spanned, UserMessageFormatter};

/// A value and where it was written.
#[derive(Debug, Clone)]
pub(super) struct Placed<T> {
    pub(super) value: T,
    /// From 1.
    pub(super) line: usize,
    /// From 1, in characters.
    pub(super) column: usize,
}

#[derive(Debug, Clone)]
pub(super) enum Node {
    Nothing,
    Truth(bool),
    /// As text: what reads it knows what it must be.
    Number(String),
    Text(String),
    List(Vec<Placed<Node>>),
    Mapping(Vec<Entry>),
}

/// A key and its value.
pub(super) type Entry = (Placed<String>, Placed<Node>);

impl Node {
    /// What to call it in a message.
    pub(super) fn kind(&self) -> &'static str {
        match self {
            Self::Nothing => "nothing",
            Self::Truth(_) => "a truth value",
            Self::Number(_) => "a number",
            Self::Text(_) => "a text",
            Self::List(_) => "a list",
            Self::Mapping(_) => "a mapping",
        }
    }
}

/// What a script may hold, aliases written out: far more than a workflow's 10,000 steps would need.
const MOST_NODES: usize = 100_000;

/// Reads the one document of the file. Depth and size are limited by the parser's own budget.
pub(super) fn parse(text: &str) -> Result<Placed<Node>, Problem> {
    let options = serde_saphyr::options! {
        with_snippet: false,
        budget: serde_saphyr::budget! { max_nodes: MOST_NODES },
    };
    let root: Spanned<Node> = serde_saphyr::from_str_with_options(text, options).map_err(|e| problem(&e))?;
    Ok(placed(root))
}

fn problem(error: &Error) -> Problem {
    let place = error.location();
    // What is wrong behind an alias is wrapped in the alias's error, which knows the place.
    let error = match error {
        Error::AliasError { error: inner, .. } => inner,
        error => error,
    };
    let number = |number: u64| usize::try_from(number).unwrap_or(usize::MAX).max(1);
    let (rule, hint) = match error {
        Error::DuplicateMappingKey { .. } => (Rule::DuplicateKey, "keep one of the two"),
        Error::Budget { .. } => (Rule::TooLarge, "write out what the aliases stand for, or make it shorter"),
        _ => (Rule::BrokenYaml, "check indentation, quotes and brackets; `- ` begins a part"),
    };
    let message = match error {
        Error::DuplicateMappingKey { key: Some(key), .. } => format!("`{}` is given twice", printable(key)),
        Error::Budget { .. } => "the file is too large, or grows too large with its aliases".to_owned(),
        _ => {
            let options = serde_saphyr::render_options! { formatter: &UserMessageFormatter };
            let text = error.render_with_options(options);
            // It appends the place, which we say ourselves.
            let text = text.split(" at line ").next().unwrap_or_default();
            format!("this is not valid YAML: {}", printable(text))
        }
    };
    Problem {
        line: place.map_or(1, |place| number(place.line())),
        column: place.map_or(1, |place| number(place.column())),
        rule,
        message,
        hint: hint.to_owned(),
    }
}

/// Escapes control characters: messages quote the file, and the file must not be able to write to the terminal.
pub(super) fn printable(text: &str) -> String {
    let escaped = |c: char| if c.is_control() { c.escape_debug().to_string() } else { c.to_string() };
    text.chars().map(escaped).collect()
}

fn placed<T>(spanned: Spanned<T>) -> Placed<T> {
    let number = |number: u64| usize::try_from(number).unwrap_or(usize::MAX).max(1);
    let place = spanned.referenced;
    Placed { value: spanned.value, line: number(place.line()), column: number(place.column()) }
}

impl<'de> Deserialize<'de> for Node {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(Builder)
    }
}

struct Builder;

impl<'de> Visitor<'de> for Builder {
    type Value = Node;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a text, a number, a list or a mapping")
    }

    fn visit_unit<E>(self) -> Result<Node, E> {
        Ok(Node::Nothing)
    }

    fn visit_bool<E>(self, truth: bool) -> Result<Node, E> {
        Ok(Node::Truth(truth))
    }

    fn visit_u64<E>(self, number: u64) -> Result<Node, E> {
        Ok(Node::Number(number.to_string()))
    }

    fn visit_i64<E>(self, number: i64) -> Result<Node, E> {
        Ok(Node::Number(number.to_string()))
    }

    fn visit_u128<E>(self, number: u128) -> Result<Node, E> {
        Ok(Node::Number(number.to_string()))
    }

    fn visit_i128<E>(self, number: i128) -> Result<Node, E> {
        Ok(Node::Number(number.to_string()))
    }

    fn visit_f64<E>(self, number: f64) -> Result<Node, E> {
        Ok(Node::Number(number.to_string()))
    }

    fn visit_str<E>(self, text: &str) -> Result<Node, E> {
        Ok(Node::Text(text.to_owned()))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Node, A::Error> {
        let mut list = Vec::new();
        while let Some(item) = items.next_element()? {
            list.push(placed(item));
        }
        Ok(Node::List(list))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Node, A::Error> {
        let mut mapping = Vec::new();
        while let Some((key, value)) = entries.next_entry()? {
            mapping.push((placed(key), placed(value)));
        }
        Ok(Node::Mapping(mapping))
    }
}
