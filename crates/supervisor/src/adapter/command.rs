//! Any command line, with placeholders such as `{prompt}`.
//!
//! A template is first split like a shell line, then each argument is filled in. So a value with blanks or quotes stays
//! one argument, and nothing in it can become a command. No shell is involved.

use serde::{Deserialize, Serialize};

use super::assignment::Assignment;

/// A command line whose placeholders are all known.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "Vec<String>", into = "Vec<String>")]
pub struct CommandLine(Vec<String>);

/// Why a template cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TemplateError {
    #[error("the command is empty")]
    Empty,
    #[error("a quote in `{0}` is not closed")]
    OpenQuote(String),
    #[error("`{{{name}}}` in `{argument}` is not a placeholder; known are {}", placeholder_names())]
    Unknown { name: String, argument: String },
    #[error("a brace in `{0}` is not paired; write `{{{{` or `}}}}` for a literal brace")]
    LoneBrace(String),
}

/// A function that returns the value of a placeholder.
type Value = fn(&Assignment) -> String;

/// The placeholders, by name.
const PLACEHOLDERS: [(&str, Value); 9] = [
    ("run_id", |assignment| assignment.run.to_string()),
    ("step_id", |assignment| assignment.step().to_owned()),
    ("agent", |assignment| assignment.agent.clone()),
    ("model", |assignment| assignment.model.clone().unwrap_or_default()),
    ("prompt", |assignment| assignment.prompt_path.clone()),
    ("repo", |assignment| assignment.repo.clone()),
    ("report", |assignment| assignment.report_path.clone()),
    // Interrupted attempts do not count, so this may differ from the number in the attempt's id.
    ("attempt", |assignment| assignment.counted_attempt.to_string()),
    // The path of a file with a person's answer, or empty.
    ("manual_input", |assignment| assignment.answer_path().to_owned()),
];

fn placeholder_names() -> String {
    PLACEHOLDERS.map(|(name, _)| format!("`{{{name}}}`")).join(", ")
}

impl CommandLine {
    /// Parses a template on one line.
    pub fn parse(template: &str) -> Result<Self, TemplateError> {
        let argv = shell_words::split(template).map_err(|_| TemplateError::OpenQuote(template.to_owned()))?;
        Self::from_argv(argv)
    }

    /// Returns the program, or `None` if it contains a brace, as a placeholder does.
    pub(super) fn program(&self) -> Option<&str> {
        self.0.first().map(String::as_str).filter(|program| !program.contains(['{', '}']))
    }

    /// Checks a template that is already split.
    pub fn from_argv(argv: Vec<String>) -> Result<Self, TemplateError> {
        if argv.first().is_none_or(String::is_empty) {
            return Err(TemplateError::Empty);
        }
        argv.iter().try_for_each(|argument| pieces(argument).map(drop))?;
        Ok(Self(argv))
    }

    /// Appends arguments. They are taken literally.
    pub(super) fn with_args(&self, args: &[String]) -> Self {
        let literal = args.iter().map(|argument| argument.replace('{', "{{").replace('}', "}}"));
        Self(self.0.iter().cloned().chain(literal).collect())
    }

    pub fn argv(&self, assignment: &Assignment) -> Vec<String> {
        let fill = |piece: Piece| match piece {
            Piece::Text(text) => text,
            Piece::Value(value) => value(assignment),
        };
        let argument = |text: &String| {
            let pieces =
                pieces(text).expect("BUG: the placeholders were checked when the command line was created");
            pieces.into_iter().map(fill).collect()
        };
        self.0.iter().map(argument).collect()
    }
}

impl TryFrom<Vec<String>> for CommandLine {
    type Error = TemplateError;
    fn try_from(argv: Vec<String>) -> Result<Self, TemplateError> {
        Self::from_argv(argv)
    }
}

impl From<CommandLine> for Vec<String> {
    fn from(line: CommandLine) -> Self {
        line.0
    }
}

enum Piece {
    Text(String),
    Value(Value),
}

/// Splits one argument into literal text and placeholders.
fn pieces(argument: &str) -> Result<Vec<Piece>, TemplateError> {
    let lone = || TemplateError::LoneBrace(argument.to_owned());
    let mut pieces = Vec::new();
    let mut rest = argument;
    while let Some(at) = rest.find(['{', '}']) {
        let (text, braces) = rest.split_at(at);
        pieces.push(Piece::Text(text.to_owned()));
        let literal = braces.get(..2).filter(|two| matches!(*two, "{{" | "}}"));
        if let Some(two) = literal {
            pieces.push(Piece::Text(two[1..].to_owned()));
            rest = &braces[2..];
        } else {
            let (name, after) = braces.strip_prefix('{').and_then(|b| b.split_once('}')).ok_or_else(lone)?;
            pieces.push(placeholder(name, argument)?);
            rest = after;
        }
    }
    pieces.push(Piece::Text(rest.to_owned()));
    Ok(pieces)
}

fn placeholder(name: &str, argument: &str) -> Result<Piece, TemplateError> {
    let found = PLACEHOLDERS.into_iter().find(|(known, _)| *known == name);
    let unknown = || TemplateError::Unknown { name: name.to_owned(), argument: argument.to_owned() };
    found.map(|(_, value)| Piece::Value(value)).ok_or_else(unknown)
}

#[cfg(test)]
mod tests {
    use super::super::assignment::example;
    use super::*;

    #[test]
    fn values_with_blanks_and_quotes_stay_one_argument() {
        let line = CommandLine::parse(
            "run --as={agent} {repo} '{prompt} now' \"two words\" {attempt} {manual_input}",
        );
        assert_eq!(
            line.unwrap().argv(&example()),
            [
                "run",
                "--as=re \"viewer\"",
                "/home/me/it's mine",
                "/tmp/a b/prompt.md now",
                "two words",
                "3",
                ""
            ]
        );
    }

    #[test]
    fn doubled_braces_are_literal_braces() {
        let line = CommandLine::parse("jq '{{a: {run_id}}}' é{{}}").unwrap();
        assert_eq!(line.argv(&example()), ["jq", "{a: f8c1}", "é{}"]);
    }

    #[test]
    fn an_unknown_placeholder_is_refused_when_the_command_line_is_created() {
        let error = CommandLine::parse("run {promt}").unwrap_err().to_string();
        assert!(
            error.starts_with("`{promt}` in `{promt}` is not a placeholder; known are `{run_id}`, "),
            "{error}"
        );
        for lone in ["run {prompt", "run }", "run {prompt}}", "run {"] {
            assert!(matches!(CommandLine::parse(lone), Err(TemplateError::LoneBrace(_))), "{lone}");
        }
        assert!(matches!(CommandLine::parse("run 'a"), Err(TemplateError::OpenQuote(_))));
        for empty in ["", "  ", "''"] {
            assert_eq!(CommandLine::parse(empty), Err(TemplateError::Empty));
        }
    }

    #[test]
    fn a_stored_command_line_is_checked_when_it_is_read() {
        let line = CommandLine::parse("run {prompt}").unwrap();
        let stored = serde_json::to_string(&line).unwrap();
        assert_eq!(serde_json::from_str::<CommandLine>(&stored).unwrap(), line);
        assert!(serde_json::from_str::<CommandLine>(r#"["run","{nonsense}"]"#).is_err());
    }
}
