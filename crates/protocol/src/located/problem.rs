//! What can be wrong with a file that people write, and where.

use std::fmt;

use super::SourcePos;

macro_rules! rules {
    ($($(#[$doc:meta])* $rule:ident => $name:literal,)*) => {
        /// The rule that a [`Problem`] breaks. Its name is stable: programs match on it.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
        pub enum Rule {
            $($(#[$doc])* $rule,)*
        }

        impl Rule {
            /// Returns the rule's name in kebab case.
            pub fn name(self) -> &'static str {
                match self {
                    $(Self::$rule => $name,)*
                }
            }
        }
    };
}

rules! {
    /// The text is not YAML, or uses a part of YAML that is not supported.
    BrokenYaml => "broken-yaml",
    /// The file is too big, nested too deeply, or grows too big when its aliases are written out.
    TooLarge => "too-large",
    EmptyFile => "empty-file",
    /// Something that must be a mapping is not: the file itself, or a step.
    NotAMapping => "not-a-mapping",
    UnknownKey => "unknown-key",
    /// A key that the format has and this version does not support. Ignoring it would change what the file means.
    NotSupportedYet => "not-supported-yet",
    DuplicateKey => "duplicate-key",
    /// A key that has no effect on this step, or cannot be combined with another of its keys.
    NoEffect => "no-effect",
    WrongType => "wrong-type",
    MissingKey => "missing-key",
    EmptyValue => "empty-value",
    NoSteps => "no-steps",
    DuplicateId => "duplicate-id",
    /// An id that cannot be used in the names of files, branches and variables, or is too long for that.
    UnsafeId => "unsafe-id",
    UnknownStep => "unknown-step",
    SelfDependency => "self-dependency",
    Cycle => "cycle",
    /// `loop_back_to` names a step that this one does not depend on.
    NotAnAncestor => "not-an-ancestor",
    /// The prompt file does not exist. The caller finds this: the loader reads no files.
    MissingPrompt => "missing-prompt",
    /// A step names a check that is not configured. The caller finds this, too.
    UnknownCheck => "unknown-check",
    BadMaxAttempts => "bad-max-attempts",
    /// `parallel` or `max_iterations` of `loop` is not a whole number from 1.
    BadLoopLimit => "bad-loop-limit",
    BadTimeout => "bad-timeout",
    /// Warning: `next_on_success` names a step that does not need this one.
    SuccessorDoesNotNeed => "successor-does-not-need",
    /// Warning: the same step is listed twice.
    RepeatedReference => "repeated-reference",
}

impl fmt::Display for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// One thing that is wrong, where it is, and how to fix it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    /// From 1.
    pub line: usize,
    /// From 1, in characters.
    pub column: usize,
    pub rule: Rule,
    pub message: String,
    /// What to change.
    pub hint: String,
}

/// `line:column: message`, to be printed after the file's name.
impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}: {}", self.line, self.column, self.message)
    }
}

/// The problems found so far, so that one pass over a file reports them all.
#[derive(Debug, Default)]
pub struct Problems {
    found: Vec<Problem>,
}

impl Problems {
    pub fn add(&mut self, at: SourcePos, rule: Rule, message: impl AsRef<str>, hint: impl AsRef<str>) {
        let (message, hint) = (printable(message.as_ref()), printable(hint.as_ref()));
        self.found.push(Problem { line: at.line, column: at.column, rule, message, hint });
    }

    pub fn count(&self) -> usize {
        self.found.len()
    }

    /// Returns the problems in the order of the file. A value reached through several aliases is reported once.
    pub fn into_sorted(mut self) -> Vec<Problem> {
        self.found.sort_by(|a, b| {
            (a.line, a.column, a.rule, &a.message).cmp(&(b.line, b.column, b.rule, &b.message))
        });
        self.found.dedup();
        self.found
    }
}

/// Escapes control characters: messages quote the file, which must not control the terminal.
fn printable(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    for character in text.chars() {
        if character.is_control() {
            shown.extend(character.escape_debug());
        } else {
            shown.push(character);
        }
    }
    shown
}
