//! YAML text → a tree of [`Node`]s.
//!
//! The tree is built from the parser's events: serde stops at the first error, and it has lost the position of a key by
//! the time the key turns out to be unknown.
//!
//! Aliases share the node they name. What they would cost if written out is counted before the tree is walked, so that
//! a file of a few hundred bytes cannot expand to gigabytes ("billion laughs").

use std::collections::BTreeMap;
use std::rc::Rc;

use serde_saphyr::granit_parser::{self, ErrorKind, Event, Parser, ScalarStyle, ScanError, Span, Tag};

use super::{Located, MappingEntry, Node, Problems, Rule, SourcePos, Value};

/// The longest file that is read; a workflow of 10,000 steps with generous metadata takes a tenth of it.
const MAX_BYTES: usize = 16 * 1024 * 1024;
/// How deep lists and mappings may be nested, aliases included. Code that walks the tree may therefore recurse.
const MAX_DEPTH: usize = 64;
/// What all aliases together may add, in bytes of text plus [`NODE_COST`] for each node.
const MAX_ALIAS_COST: usize = 64 * 1024 * 1024;
const NODE_COST: usize = 64;

impl Node {
    /// Reads a text that holds one YAML document. An empty text is null. Returns `None` if the text is not YAML;
    /// `problems` then says why.
    pub fn from_yaml(text: &str, problems: &mut Problems) -> Option<Rc<Self>> {
        if text.len() > MAX_BYTES {
            let message = format!("the file has {} bytes, the limit is {MAX_BYTES}", text.len());
            problems.add(SourcePos::START, Rule::TooLarge, message, "make it shorter, or split it");
            return None;
        }
        let options = granit_parser::options! { emit_comments: false };
        let mut builder =
            Builder { problems, open: vec![], anchors: BTreeMap::new(), alias_cost: 0, root: None };
        for event in Parser::new_from_str_with_options(text, options) {
            let taken = match event {
                Ok((event, span)) => builder.take(event, span),
                Err(error) => Err(FatalProblem::from(&error)),
            };
            if let Err(FatalProblem { pos, rule, message, hint }) = taken {
                problems.add(pos, rule, message, hint);
                return None;
            }
        }
        Some(builder.root.unwrap_or_else(|| Rc::new(Self { pos: SourcePos::START, value: Value::Null })))
    }
}

fn source_pos(mark: granit_parser::Marker) -> SourcePos {
    SourcePos { line: mark.line().max(1), column: mark.col() + 1 }
}

/// A problem that ends the parsing.
struct FatalProblem {
    pos: SourcePos,
    rule: Rule,
    message: String,
    hint: &'static str,
}

impl FatalProblem {
    fn broken(pos: SourcePos, message: &str, hint: &'static str) -> Self {
        Self { pos, rule: Rule::BrokenYaml, message: message.to_owned(), hint }
    }
}

impl From<&ScanError> for FatalProblem {
    fn from(error: &ScanError) -> Self {
        let kind = error.kind();
        let hint = if matches!(
            kind,
            ErrorKind::TabInIndentation | ErrorKind::TabInBlockIndentation | ErrorKind::TabNotAllowed
        ) {
            "indent with spaces, not with tabs"
        } else if matches!(kind, ErrorKind::MappingValueNotAllowed | ErrorKind::InvalidColonPlacement) {
            "quote a string that contains `: `, and check the indentation"
        } else if matches!(kind, ErrorKind::UnclosedQuotedScalar | ErrorKind::InvalidQuotedScalarIndent) {
            "a quote may not have been closed"
        } else if matches!(kind, ErrorKind::UnknownAnchor) {
            "a string that begins with `*` must be quoted; an alias needs its `&name` earlier in the file"
        } else if matches!(kind, ErrorKind::UnclosedFlowCollection { .. }) {
            "close it, or quote a string that begins with it"
        } else {
            "look at the line above, too: is something not closed, or indented more than its neighbours?"
        };
        Self {
            pos: source_pos(*error.marker()),
            rule: Rule::BrokenYaml,
            message: format!("this is not valid YAML: {kind}"),
            hint,
        }
    }
}

/// A finished node, and what each alias of it would cost.
#[derive(Clone)]
struct BuiltNode {
    node: Rc<Node>,
    /// Whether it is a scalar without quotes.
    plain: bool,
    depth: usize,
    cost: usize,
}

/// A list or mapping whose end has not been seen.
struct OpenCollection {
    pos: SourcePos,
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
    entries: Vec<MappingEntry>,
    /// Where each key was first given.
    seen: BTreeMap<String, SourcePos>,
    /// The key whose value comes next.
    key: Option<Key>,
    /// What `<<` brings in; the mapping's own keys win over it.
    merged: Vec<MappingEntry>,
}

struct Key {
    text: String,
    pos: SourcePos,
    is_merge: bool,
}

struct Builder<'a> {
    problems: &'a mut Problems,
    /// From the outermost to the innermost.
    open: Vec<OpenCollection>,
    anchors: BTreeMap<usize, BuiltNode>,
    /// The cost of all aliases so far.
    alias_cost: usize,
    root: Option<Rc<Node>>,
}

impl Builder<'_> {
    fn take(&mut self, event: Event<'_>, span: Span) -> Result<(), FatalProblem> {
        let pos = source_pos(span.start);
        match event {
            Event::Scalar(text, style, anchor, tag) => {
                let plain = style == ScalarStyle::Plain && !self.check_tag(tag.as_deref(), pos);
                let (cost, text) = (NODE_COST + text.len(), text.into_owned());
                let value = if plain { Value::from_plain_scalar(text) } else { Value::Text(text) };
                let node = Rc::new(Node { pos, value });
                self.finish(BuiltNode { node, plain, depth: 1, cost }, anchor)
            }
            Event::SequenceStart(_, anchor, tag) => {
                self.check_tag(tag.as_deref(), pos);
                self.begin(pos, anchor, Content::List(vec![]))
            }
            Event::MappingStart(_, anchor, tag) => {
                self.check_tag(tag.as_deref(), pos);
                self.begin(pos, anchor, Content::Mapping(OpenMapping::default()))
            }
            Event::SequenceEnd | Event::MappingEnd => self.end(),
            Event::Alias(anchor) => self.add_alias(anchor, pos),
            Event::DocumentStart(..) if self.root.is_some() => Err(FatalProblem::broken(
                pos,
                "a second document begins here; a file holds one",
                "move it into a file of its own, or remove the `---`",
            )),
            Event::StreamStart
            | Event::StreamEnd
            | Event::DocumentStart(..)
            | Event::DocumentEnd
            | Event::Comment(..) => Ok(()),
            // Disabled by the options, or newer than this code. Skipping it could lose a part of the file.
            Event::Anchor(..) | Event::UnresolvedAlias(_) | _ => {
                Err(FatalProblem::broken(pos, "this part of YAML is not supported", "write it out plainly"))
            }
        }
    }

    /// Reports a tag that is not supported. Returns whether the tag makes its scalar a string.
    fn check_tag(&mut self, tag: Option<&Tag>, pos: SourcePos) -> bool {
        let Some(tag) = tag else { return false };
        if !tag.is_yaml_core_schema() {
            let message = format!("the tag `{tag}` is not supported");
            let hint = "remove the tag, or quote the text";
            self.problems.add(pos, Rule::BrokenYaml, message, hint);
        }
        tag.is_yaml_core_schema_tag("str")
    }

    fn begin(&mut self, pos: SourcePos, anchor: usize, content: Content) -> Result<(), FatalProblem> {
        if self.open.len() >= MAX_DEPTH {
            return Err(too_deep(pos));
        }
        self.open.push(OpenCollection { pos, anchor, depth: 1, cost: NODE_COST, content });
        Ok(())
    }

    fn end(&mut self) -> Result<(), FatalProblem> {
        let open = self.open.pop().expect("BUG: the parser closed what it had not opened");
        let value = match open.content {
            Content::List(items) => Value::List(items),
            Content::Mapping(mapping) => Value::Mapping(mapping.close()),
        };
        let node = Rc::new(Node { pos: open.pos, value });
        self.finish(BuiltNode { node, plain: false, depth: open.depth, cost: open.cost }, open.anchor)
    }

    /// Adds the node that an alias names.
    fn add_alias(&mut self, anchor: usize, pos: SourcePos) -> Result<(), FatalProblem> {
        let Some(target) = self.anchors.get(&anchor).cloned() else {
            let hint = "write out what it stands for";
            return Err(FatalProblem::broken(pos, "this alias is inside what it names", hint));
        };
        self.alias_cost = self.alias_cost.saturating_add(target.cost);
        if self.alias_cost > MAX_ALIAS_COST {
            let message = "the file grows beyond 64 MiB when its aliases are written out".to_owned();
            let hint = "use fewer aliases of aliases";
            return Err(FatalProblem { pos, rule: Rule::TooLarge, message, hint });
        }
        self.attach(target, pos)
    }

    fn finish(&mut self, built: BuiltNode, anchor: usize) -> Result<(), FatalProblem> {
        let pos = built.node.pos;
        // The parser uses anchor 0 for "none".
        if anchor != 0 {
            self.anchors.insert(anchor, built.clone());
        }
        self.attach(built, pos)
    }

    /// Adds a finished node to the innermost open collection. For an alias, `pos` is where the alias is written.
    fn attach(&mut self, built: BuiltNode, pos: SourcePos) -> Result<(), FatalProblem> {
        let Some(parent) = self.open.last_mut() else {
            self.root = Some(built.node);
            return Ok(());
        };
        parent.depth = parent.depth.max(built.depth + 1);
        parent.cost = parent.cost.saturating_add(built.cost);
        if parent.depth > MAX_DEPTH {
            return Err(too_deep(pos));
        }
        match &mut parent.content {
            Content::List(items) => items.push(built.node),
            Content::Mapping(mapping) => mapping.take(built, pos, self.problems)?,
        }
        Ok(())
    }
}

fn too_deep(pos: SourcePos) -> FatalProblem {
    let message = format!("this is nested more than {MAX_DEPTH} levels deep");
    FatalProblem { pos, rule: Rule::TooLarge, message, hint: "make it flatter" }
}

impl OpenMapping {
    /// Takes keys and values alternately.
    fn take(
        &mut self,
        built: BuiltNode,
        pos: SourcePos,
        problems: &mut Problems,
    ) -> Result<(), FatalProblem> {
        let Some(key) = self.key.take() else {
            let text = match built.node.scalar_text() {
                Some(word) => word.to_owned(),
                None if built.node.is_null() => "null".to_owned(),
                None => {
                    return Err(FatalProblem::broken(
                        pos,
                        "a key must be a word, not a list or a mapping",
                        "quote a key that contains brackets or braces",
                    ));
                }
            };
            let is_merge = built.plain && text == "<<";
            self.key = Some(Key { text, pos, is_merge });
            return Ok(());
        };
        if key.is_merge {
            return self.merge(&built.node, pos);
        }
        if let Some(first) = self.seen.get(&key.text) {
            let message = format!("`{}` is given twice; the first is on line {}", key.text, first.line);
            problems.add(key.pos, Rule::DuplicateKey, message, "keep one of the two");
        } else {
            self.seen.insert(key.text.clone(), key.pos);
            let key = Located { value: key.text, pos: key.pos };
            self.entries.push(MappingEntry { key, value: built.node });
        }
        Ok(())
    }

    fn merge(&mut self, node: &Node, pos: SourcePos) -> Result<(), FatalProblem> {
        let sources = match &node.value {
            Value::Mapping(entries) => {
                self.merged.extend(entries.iter().cloned());
                return Ok(());
            }
            Value::List(sources) => sources.as_slice(),
            Value::Null
            | Value::Bool { .. }
            | Value::AmbiguousBool(_)
            | Value::Number { .. }
            | Value::Text(_) => &[],
        };
        if sources.is_empty() {
            return Err(FatalProblem::broken(
                pos,
                "`<<` brings in a mapping, and this is none",
                "name one, such as `<<: *defaults`",
            ));
        }
        sources.iter().try_for_each(|source| match &source.value {
            Value::Mapping(_) => self.merge(source, pos),
            Value::Null
            | Value::Bool { .. }
            | Value::AmbiguousBool(_)
            | Value::Number { .. }
            | Value::Text(_)
            | Value::List(_) => {
                let hint = "name mappings only, such as `<<: [*defaults, *more]`";
                Err(FatalProblem::broken(pos, "`<<` takes mappings only", hint))
            }
        })
    }

    fn close(mut self) -> Vec<MappingEntry> {
        for entry in self.merged {
            if self.seen.insert(entry.key.value.clone(), entry.key.pos).is_none() {
                self.entries.push(entry);
            }
        }
        self.entries
    }
}
