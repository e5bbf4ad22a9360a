//! What the doctor has to say: data first, lines for people second.

use serde::Serialize;

use crate::failure::{Code, Failure};
use crate::output::paste;
use crate::output::{self, BOLD, CYAN, DIM, GREEN, RED, Style, styled};

/// How much a finding matters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Level {
    /// As it should be.
    Fine,
    /// Worth knowing; nothing needs doing.
    Note,
    /// Somebody should do something.
    Act,
}

impl Level {
    fn sign(self) -> (Style, &'static str) {
        match self {
            Self::Fine => (GREEN, "✓ fine"),
            Self::Note => (CYAN, "· note"),
            Self::Act => (RED, "✗ act "),
        }
    }
}

/// One thing the doctor has looked at.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct Finding {
    /// What was looked at: `store`, `locks`, `orphans`, …
    pub(crate) check: &'static str,
    pub(crate) level: Level,
    pub(crate) what: String,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) details: Vec<String>,
    /// Commands to type, in this order.
    #[serde(rename = "do", skip_serializing_if = "Vec::is_empty")]
    pub(crate) remedy: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) code: Option<&'static str>,
}

impl Finding {
    fn new(check: &'static str, level: Level, what: impl Into<String>) -> Self {
        Self { check, level, what: what.into(), details: Vec::new(), remedy: Vec::new(), code: None }
    }

    pub(crate) fn fine(check: &'static str, what: impl Into<String>) -> Self {
        Self::new(check, Level::Fine, what)
    }

    pub(crate) fn note(check: &'static str, what: impl Into<String>) -> Self {
        Self::new(check, Level::Note, what)
    }

    pub(crate) fn act(check: &'static str, what: impl Into<String>) -> Self {
        Self::new(check, Level::Act, what)
    }

    /// What kept us from looking, as any other command would tell it.
    pub(crate) fn failure(check: &'static str, failure: &Failure) -> Self {
        let mut finding = Self::act(check, failure.what.clone()).details(failure.causes.clone());
        finding.details.extend(failure.hints.iter().map(|hint| format!("hint: {}", paste::completed(hint))));
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

    pub(crate) fn remedy(mut self, command: impl Into<String>) -> Self {
        self.remedy.push(command.into());
        self
    }

    pub(crate) fn code(mut self, code: Code) -> Self {
        self.code = Some(code.name());
        self
    }

    /// A line, and more lines only where somebody needs them.
    pub(crate) fn show(&self) {
        let (style, sign) = self.level.sign();
        let code = self.code.map(|code| format!(" [{code}]")).unwrap_or_default();
        let check = styled(BOLD, format_args!("{:<9}", self.check));
        output::data(format_args!("{}  {check}  {}{code}", styled(style, sign), self.what));
        for detail in self.details.iter().flat_map(|detail| detail.lines()) {
            output::data(format_args!("                     {}", styled(DIM, detail)));
        }
        for command in &self.remedy {
            output::data(format_args!("                     $ {}", styled(BOLD, command)));
        }
    }
}
