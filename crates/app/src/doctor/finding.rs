//! One result of a check: structured for `--json`, printed as lines for people.

use serde::Serialize;

use crate::failure::{Code, Failure};
use crate::output::location_flags;
use crate::output::{self, BOLD, CYAN, DIM, GREEN, RED, Style, styled};

/// How much a finding matters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Level {
    Ok,
    /// Worth knowing; requires no action.
    Note,
    /// Requires an action by the user.
    Problem,
}

impl Level {
    fn label(self) -> (Style, &'static str) {
        match self {
            Self::Ok => (GREEN, "✓ ok     "),
            Self::Note => (CYAN, "· note   "),
            Self::Problem => (RED, "✗ problem"),
        }
    }
}

/// Indents details and commands below the message.
const INDENT: &str = "                      ";

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct Finding {
    /// The name of the check: `store`, `locks`, `orphans`, …
    pub(crate) check: &'static str,
    pub(crate) level: Level,
    pub(crate) message: String,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) details: Vec<String>,
    /// Commands that fix it, in this order.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) commands: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) code: Option<&'static str>,
}

impl Finding {
    fn new(check: &'static str, level: Level, message: impl Into<String>) -> Self {
        Self { check, level, message: message.into(), details: Vec::new(), commands: Vec::new(), code: None }
    }

    pub(crate) fn ok(check: &'static str, message: impl Into<String>) -> Self {
        Self::new(check, Level::Ok, message)
    }

    pub(crate) fn note(check: &'static str, message: impl Into<String>) -> Self {
        Self::new(check, Level::Note, message)
    }

    pub(crate) fn problem(check: &'static str, message: impl Into<String>) -> Self {
        Self::new(check, Level::Problem, message)
    }

    /// Reports a check that failed, with the causes, hints and code that any other command would print.
    pub(crate) fn failure(check: &'static str, failure: &Failure) -> Self {
        let mut finding = Self::problem(check, failure.message.clone()).details(failure.causes.clone());
        // As in a printed failure, the commands in hints get `--repo` and `--store`.
        let hints = failure.hints.iter().map(|hint| format!("hint: {}", location_flags::add_to(hint)));
        finding.details.extend(hints);
        finding.code = failure.code.map(Code::name);
        finding
    }

    pub(crate) fn detail(mut self, detail: impl Into<String>) -> Self {
        self.details.push(detail.into());
        self
    }

    pub(crate) fn details(mut self, details: impl IntoIterator<Item = String>) -> Self {
        self.details.extend(details);
        self
    }

    pub(crate) fn command(mut self, command: impl Into<String>) -> Self {
        self.commands.push(command.into());
        self
    }

    pub(crate) fn code(mut self, code: Code) -> Self {
        self.code = Some(code.name());
        self
    }

    /// Prints the finding: one line, then its details and commands.
    pub(crate) fn print(&self) {
        let (style, label) = self.level.label();
        let code = self.code.map(|code| format!(" [{code}]")).unwrap_or_default();
        let check = styled(BOLD, format_args!("{:<9}", self.check));
        output::data(format_args!("{}  {check}  {}{code}", styled(style, label), self.message));
        for detail in self.details.iter().flat_map(|detail| detail.lines()) {
            output::data(format_args!("{INDENT}{}", styled(DIM, detail)));
        }
        for command in &self.commands {
            output::data(format_args!("{INDENT}$ {}", styled(BOLD, command)));
        }
    }
}
