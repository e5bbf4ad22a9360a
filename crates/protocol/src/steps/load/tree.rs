//! YAML text → a tree in which every node knows its place.
//!
//! The tree is built from the parser's events and not through serde, for two reasons: serde stops at the first error,
//! and it has lost the place of a key by the time the key turns out to be unknown.
//!
//! Aliases share the node they name. What they would cost written out is counted before anything follows them, so a
//! file of a few hundred bytes cannot stand for gigabytes ("billion laughs").

use std::collections::BTreeMap;
use std::rc::Rc;

use serde_saphyr::granit_parser::{self, ErrorKind, Event, Parser, ScalarStyle, ScanError, Span, Tag};

use super::problem::{Problems, Rule};

/// The longest file we read; 10,000 steps with generous metadata take a tenth of it.
const LONGEST_FILE: usize = 16 * 1024 * 1024;
/// How deep lists and mappings may be nested, aliases included; what walks the tree may therefore recurse.
const DEEPEST: usize = 64;
/// What all aliases together may stand for, in bytes of text plus [`NODE_COST`] for each node.
const ALIAS_LIMIT: usize = 64 * 1024 * 1024;
const NODE_COST: usize = 64;

/// A place in the file, both numbers from 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Position {
    pub(super) line: usize,
    pub(super) column: usize,
}

impl Position {
    pub(super) const START: Self = Self { line: 1, column: 1 };

    fn of(mark: granit_parser::Marker) -> Self {
        Self { line: mark.line().max(1), column: mark.col() + 1 }
    }
}

#[derive(Debug)]
pub(super) struct Node {
    pub(super) position: Position,
    pub(super) value: Value,
    depth: usize,
    cost: usize,
}

#[derive(Debug)]
pub(super) enum Value {
    Scalar {
        text: String,
        /// Quoted, a block or tagged `!!str`: text whatever it looks like.
        quoted: bool,
    },
    List(Vec<Rc<Node>>),
    Mapping(Vec<Entry>),
}

#[derive(Debug, Clone)]
pub(super) struct Entry {
    pub(super) key: String,
    pub(super) key_position: Position,
    pub(super) value: Rc<Node>,
}

/// Reads `text`, which must hold one document. `None` means that `problems` says why there is no tree.
pub(super) fn parse(text: &str, problems: &mut Problems) -> Option<Rc<Node>> {
    if text.len() > LONGEST_FILE {
        let message = format!("the file has {} bytes, the limit is {LONGEST_FILE}", text.len());
        let hint = "keep long texts in prompt files, or split the workflow";
        problems.add(Position::START, Rule::TooLarge, message, hint);
        return None;
    }
    let options = granit_parser::options! { emit_comments: false };
    let mut builder = Builder { problems, open: vec![], anchors: BTreeMap::new(), aliased: 0, root: None };
    for event in Parser::new_from_str_with_options(text, options) {
        let step = match event {
            Ok((event, span)) => builder.take(event, span),
            Err(error) => Err(Fatal::from(&error)),
        };
        if let Err(Fatal { position, rule, message, hint }) = step {
            problems.add(position, rule, message, hint);
            return None;
        }
    }
    let root = builder.root.filter(|root| !root.is_null());
    if root.is_none() && problems.count() == 0 {
        let hint = "a workflow has a `name` and a list of `steps`";
        problems.add(Position::START, Rule::EmptyFile, "the file is empty", hint);
    }
    root
}

impl Node {
    pub(super) fn is_null(&self) -> bool {
        match &self.value {
            Value::Scalar { text, quoted } => !quoted && super::scalar::is_null(text),
            Value::List(_) | Value::Mapping(_) => false,
        }
    }
}

/// A problem after which the rest of the file cannot be read.
struct Fatal {
    position: Position,
    rule: Rule,
    message: String,
    hint: &'static str,
}

impl Fatal {
    fn broken(position: Position, message: &str, hint: &'static str) -> Self {
        Self { position, rule: Rule::BrokenYaml, message: message.to_owned(), hint }
    }
}

impl From<&ScanError> for Fatal {
    fn from(error: &ScanError) -> Self {
        let kind = error.kind();
        let hint = if matches!(
            kind,
            ErrorKind::TabInIndentation | ErrorKind::TabInBlockIndentation | ErrorKind::TabNotAllowed
        ) {
            "indent with spaces, not with tabs"
        } else if matches!(kind, ErrorKind::MappingValueNotAllowed | ErrorKind::InvalidColonPlacement) {
            "quote a text that contains `: `, and check the indentation"
        } else if matches!(kind, ErrorKind::UnclosedQuotedScalar | ErrorKind::InvalidQuotedScalarIndent) {
            "a quote may not have been closed"
        } else if matches!(kind, ErrorKind::UnknownAnchor) {
            "a text that begins with `*` must be quoted; an alias needs its `&name` earlier in the file"
        } else if matches!(kind, ErrorKind::UnclosedFlowCollection { .. }) {
            "close it, or quote a text that begins with it"
        } else {
            "look at the line above, too: is something not closed, or indented more than its neighbours?"
        };
        Self {
            position: Position::of(*error.marker()),
            rule: Rule::BrokenYaml,
            message: format!("this is not valid YAML: {kind}"),
            hint,
        }
    }
}

/// A list or mapping whose end has not been seen.
struct Open {
    position: Position,
    anchor: usize,
    depth: usize,
    cost: usize,
    content: Content,
}

enum Content {
    List(Vec<Rc<Node>>),
    Mapping(OpenMapping),
}

#[derive(Default)]
struct OpenMapping {
    entries: Vec<Entry>,
    /// Where each key was first given.
    seen: BTreeMap<String, Position>,
    /// The key whose value comes next.
    key: Option<Key>,
    /// What `<<` brings in; the mapping's own keys win over it.
    merged: Vec<Entry>,
}

struct Key {
    text: String,
    position: Position,
    is_merge: bool,
}

struct Builder<'a> {
    problems: &'a mut Problems,
    open: Vec<Open>,
    anchors: BTreeMap<usize, Rc<Node>>,
    aliased: usize,
    root: Option<Rc<Node>>,
}

impl Builder<'_> {
    fn take(&mut self, event: Event<'_>, span: Span) -> Result<(), Fatal> {
        let position = Position::of(span.start);
        match event {
            Event::Scalar(text, style, anchor, tag) => {
                let quoted = style != ScalarStyle::Plain || self.is_text(tag.as_deref(), position);
                let cost = NODE_COST + text.len();
                let value = Value::Scalar { text: text.into_owned(), quoted };
                self.finish(Node { position, value, depth: 1, cost }, anchor)
            }
            Event::SequenceStart(_, anchor, tag) => {
                self.is_text(tag.as_deref(), position);
                self.begin(position, anchor, Content::List(vec![]))
            }
            Event::MappingStart(_, anchor, tag) => {
                self.is_text(tag.as_deref(), position);
                self.begin(position, anchor, Content::Mapping(OpenMapping::default()))
            }
            Event::SequenceEnd | Event::MappingEnd => self.end(),
            Event::Alias(anchor) => self.follow(anchor, position),
            Event::DocumentStart(..) if self.root.is_some() => Err(Fatal::broken(
                position,
                "a second document begins here; a file holds one workflow",
                "move it into a file of its own, or remove the `---`",
            )),
            Event::StreamStart
            | Event::StreamEnd
            | Event::DocumentStart(..)
            | Event::DocumentEnd
            | Event::Comment(..) => Ok(()),
            // Switched off by our options, or newer than this code: to skip it could lose a part of the workflow.
            Event::Anchor(..) | Event::UnresolvedAlias(_) | _ => {
                Err(Fatal::broken(position, "this part of YAML is not supported", "write it out plainly"))
            }
        }
    }

    /// Whether a tag makes its scalar a text. Tags that we would have to ignore are problems.
    fn is_text(&mut self, tag: Option<&Tag>, position: Position) -> bool {
        let Some(tag) = tag else { return false };
        if !tag.is_yaml_core_schema() {
            let message = format!("the tag `{tag}` is not supported");
            let hint = "remove the tag, or quote the text";
            self.problems.add(position, Rule::BrokenYaml, message, hint);
        }
        tag.is_yaml_core_schema_tag("str")
    }

    fn begin(&mut self, position: Position, anchor: usize, content: Content) -> Result<(), Fatal> {
        if self.open.len() >= DEEPEST {
            return Err(too_deep(position));
        }
        self.open.push(Open { position, anchor, depth: 1, cost: NODE_COST, content });
        Ok(())
    }

    fn end(&mut self) -> Result<(), Fatal> {
        let open = self.open.pop().expect("BUG: the parser closed what it had not opened");
        let value = match open.content {
            Content::List(items) => Value::List(items),
            Content::Mapping(mapping) => Value::Mapping(mapping.close()),
        };
        self.finish(Node { position: open.position, value, depth: open.depth, cost: open.cost }, open.anchor)
    }

    fn follow(&mut self, anchor: usize, position: Position) -> Result<(), Fatal> {
        let Some(target) = self.anchors.get(&anchor).cloned() else {
            let hint = "write out what it stands for";
            return Err(Fatal::broken(position, "this alias stands inside what it names", hint));
        };
        self.aliased = self.aliased.saturating_add(target.cost);
        if self.aliased > ALIAS_LIMIT {
            let message = "the file grows beyond 64 MiB when its aliases are written out".to_owned();
            let hint = "use fewer aliases of aliases";
            return Err(Fatal { position, rule: Rule::TooLarge, message, hint });
        }
        self.attach(target, position)
    }

    fn finish(&mut self, node: Node, anchor: usize) -> Result<(), Fatal> {
        let position = node.position;
        let node = Rc::new(node);
        // Anchor 0 is the parser's way of saying "none".
        if anchor != 0 {
            self.anchors.insert(anchor, Rc::clone(&node));
        }
        self.attach(node, position)
    }

    /// Puts a finished node where it belongs; `position` is the place of use, which for an alias is not the node's own.
    fn attach(&mut self, node: Rc<Node>, position: Position) -> Result<(), Fatal> {
        let Some(parent) = self.open.last_mut() else {
            self.root = Some(node);
            return Ok(());
        };
        parent.depth = parent.depth.max(node.depth + 1);
        parent.cost = parent.cost.saturating_add(node.cost);
        if parent.depth > DEEPEST {
            return Err(too_deep(position));
        }
        match &mut parent.content {
            Content::List(items) => items.push(node),
            Content::Mapping(mapping) => mapping.take(node, position, self.problems)?,
        }
        Ok(())
    }
}

fn too_deep(position: Position) -> Fatal {
    let message = format!("this is nested more than {DEEPEST} levels deep");
    Fatal { position, rule: Rule::TooLarge, message, hint: "make it flatter: metadata can hold a text, too" }
}

impl OpenMapping {
    /// Takes a key and its value by turns.
    fn take(&mut self, node: Rc<Node>, position: Position, problems: &mut Problems) -> Result<(), Fatal> {
        let Some(key) = self.key.take() else {
            let Value::Scalar { text, quoted } = &node.value else {
                return Err(Fatal::broken(
                    position,
                    "a key must be a word, not a list or a mapping",
                    "quote a key that contains brackets or braces",
                ));
            };
            self.key = Some(Key { text: text.clone(), position, is_merge: text == "<<" && !quoted });
            return Ok(());
        };
        if key.is_merge {
            return self.merge(&node, position);
        }
        if let Some(first) = self.seen.get(&key.text) {
            let message = format!("`{}` is given twice; the first is on line {}", key.text, first.line);
            problems.add(key.position, Rule::DuplicateKey, message, "keep one of the two");
        } else {
            self.seen.insert(key.text.clone(), key.position);
            self.entries.push(Entry { key: key.text, key_position: key.position, value: node });
        }
        Ok(())
    }

    fn merge(&mut self, node: &Node, position: Position) -> Result<(), Fatal> {
        let sources = match &node.value {
            Value::Mapping(entries) => {
                self.merged.extend(entries.iter().cloned());
                return Ok(());
            }
            Value::List(sources) => sources.as_slice(),
            Value::Scalar { .. } => &[],
        };
        if sources.is_empty() {
            return Err(Fatal::broken(
                position,
                "`<<` brings in a mapping, and this is none",
                "name one, such as `<<: *defaults`",
            ));
        }
        sources.iter().try_for_each(|source| match &source.value {
            Value::Mapping(_) => self.merge(source, position),
            Value::Scalar { .. } | Value::List(_) => {
                let hint = "name mappings only, such as `<<: [*defaults, *more]`";
                Err(Fatal::broken(position, "`<<` takes mappings only", hint))
            }
        })
    }

    fn close(mut self) -> Vec<Entry> {
        for entry in self.merged {
            if self.seen.insert(entry.key.clone(), entry.key_position).is_none() {
                self.entries.push(entry);
            }
        }
        self.entries
    }
}
