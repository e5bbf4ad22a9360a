//! How the runs of a protocol are presented to people. The commands print it; no protocol prints.

use std::time::Duration;

use serde::Serialize;
use serde_json::{Map, Value};

use crate::check::Violation;
use crate::people::OpenItem;
use crate::prompt::PromptTemplate;
use crate::protocol_trait::Protocol;
use crate::report::Report;
use crate::{RunId, StepId, Timestamp};

/// How the commands present the runs of a protocol.
pub trait Present: Protocol {
    /// The word for a step of this protocol, singular and plural.
    const STEP_NOUNS: (&'static str, &'static str);
    /// The member of the document that maps names to steps.
    const STEPS_KEY: &'static str;
    /// The command that starts a run, for hints.
    const START_COMMAND: &'static str;
    /// What that command takes, for hints.
    const START_ARGUMENT: &'static str;
    /// Whether `retry` can run a failed step again in the same run.
    const CAN_RETRY: bool;
    /// Whether `import` can give a run another name.
    const IMPORT_CAN_RENAME: bool;
    /// Whether the checks of a step are a turn of that step, after the work of its agent.
    const CHECKS_ARE_TURNS: bool = false;
    /// The names of its agents, in a protocol whose steps appear during a run. `--role` and `--model` accept them before any step
    /// exists.
    const ROLES: &'static [&'static str] = &[];
    /// The built-in prompts of its agents, if it has any.
    const PROMPTS: &'static [PromptTemplate] = &[];
    /// Where its views are, besides the directory of the run: patterns for git's `info/exclude`, such as `/coordination/`.
    const VIEW_PATTERNS: &'static [&'static str] = &[];
    /// The steps that the template of a rehearsal script names, in a protocol whose steps appear during a run.
    const REHEARSAL_SCRIPT_STEPS: &'static [&'static str] = &[];
    /// The files that `callboard check` knows.
    const FORMATS: &'static [FileFormat] = &[];

    // Steps.

    /// Returns the name of the step's agent.
    fn agent(definition: &Self::Definition, state: &Self::State, step: &Self::Step) -> String;
    /// Returns the steps that must succeed before this one starts.
    fn needs(definition: &Self::Definition, state: &Self::State, step: &Self::Step) -> Vec<Self::Step>;
    /// Returns the loop-back of a gate.
    fn loop_back(
        _definition: &Self::Definition,
        _state: &Self::State,
        _step: &Self::Step,
    ) -> Option<LoopBack<Self::Step>> {
        None
    }
    /// Returns what belongs to the step besides the work of its agent.
    fn details(_definition: &Self::Definition, _step: &Self::Step) -> StepDetails {
        StepDetails::default()
    }
    /// Whether steps that need this one may start.
    fn unblocks_dependents(definition: &Self::Definition, state: &Self::State, step: &Self::Step) -> bool;

    // The document.

    /// Describes the run beyond its title, in lines for people.
    fn about(_definition: &Self::Definition, _document: &Self::Document) -> Vec<String> {
        Vec::new()
    }
    fn created_at(document: &Self::Document) -> Timestamp;
    fn step_summary(document: &Self::Document, step: &Self::Step) -> StepSummary;
    /// Describes the result of the run besides the statuses of its steps, in lines for people.
    fn result(_document: &Self::Document) -> Vec<Line> {
        Vec::new()
    }
    /// Returns the fields that describe the result in JSON.
    fn result_fields(_document: &Self::Document) -> Map<String, Value> {
        Map::new()
    }
    /// Suggests what to type after a run has failed.
    fn failure_hint(definition: &Self::Definition, run: &RunId, document: &Self::Document) -> String;
    /// Returns the command that retries a failed run.
    fn retry_command(_definition: &Self::Definition, run: &RunId, _document: &Self::Document) -> String {
        format!("callboard retry {run}")
    }
    /// Returns the name of the series that the run belongs to. Its next run takes over what this one has left open.
    fn series(_run: &RunId) -> Option<String> {
        None
    }
    /// Returns what waits for a person besides the questions of steps. After the end of a run it is listed only if the run
    /// belongs to a [series](Self::series) or has failed.
    fn open_items(_document: &Self::Document) -> Vec<OpenItem<Self::Step>> {
        Vec::new()
    }

    /// Returns the steps without progress for too long at the time `now`, with a sentence each. `show` and `inbox` name them.
    fn stalled(
        _definition: &Self::Definition,
        _document: &Self::Document,
        _now: Timestamp,
    ) -> Vec<(Self::Step, String)> {
        Vec::new()
    }

    /// Returns the steps as a table for `show` and the live display; `None` for a list.
    fn step_table(
        _definition: &Self::Definition,
        _state: &Self::State,
        _document: &Self::Document,
    ) -> Option<StepTable<Self::Step>> {
        None
    }

    /// Checks that a report has the fields of its step. Needs no run, so that `callboard report` can refuse it at once.
    fn check_report(_step: &StepId, _report: &Report) -> Result<(), String> {
        Ok(())
    }

    // The journal.

    /// Completes "the attempt …": `reported that its gate failed`.
    fn verdict_text(verdict: &Self::Verdict) -> &'static str;
    /// Describes a change in one line for people, if it is worth one.
    fn change_line(change: &Self::Change) -> Option<Line>;
    /// Returns the name and fields of the JSON event of a change, if it has one.
    fn change_event(change: &Self::Change) -> Option<(&'static str, Value)>;
    /// Describes a request of this protocol's own.
    fn request_text(request: &Self::Request) -> String;
    /// Lists the changed paths of the document.
    fn edit_summary(edit: &Self::Edit) -> String;
    /// Whether a change is about a step.
    fn concerns(change: &Self::Change, step: &StepId) -> bool;
    /// Returns why the change fails a step whose report was valid.
    fn failure_reason(_change: &Self::Change, _step: &StepId) -> Option<&'static str> {
        None
    }
}

/// What belongs to a step besides the work of its agent.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
pub struct StepDetails {
    /// The names of what must hold before it starts.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<String>,
    /// What it is repeated for, such as `the items of plan`.
    #[serde(rename = "loop", skip_serializing_if = "Option::is_none")]
    pub repeats_for: Option<String>,
    /// The names of the checks of its work.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub checks: Vec<String>,
    /// A person works on it, or approves it.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub person: bool,
}

impl StepDetails {
    /// Returns what it says, in a few words each.
    pub fn lines(&self) -> Vec<String> {
        let named = |word: &str, names: &[String]| {
            (!names.is_empty()).then(|| format!("{word} {}", names.join(", ")))
        };
        let lines = [
            named("waits for", &self.conditions),
            self.repeats_for.as_ref().map(|items| format!("repeats for {items}")),
            named("checks", &self.checks),
            self.person.then(|| "asks a person".to_owned()),
        ];
        lines.into_iter().flatten().collect()
    }
}

/// Steps as a table: a group of a team is a row, its roles are columns.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StepTable<S = StepId> {
    pub columns: Vec<String>,
    pub rows: Vec<StepTableRow<S>>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StepTableRow<S = StepId> {
    pub name: String,
    /// The step in each column, if there is one.
    pub cells: Vec<Option<S>>,
    /// What else there is to say, such as why nothing happens.
    pub note: Option<String>,
}

/// A file format of a protocol, for `callboard check`.
#[derive(Debug, Clone, Copy)]
pub struct FileFormat {
    /// For `--as`, such as `pm_state`.
    pub name: &'static str,
    /// Recognises a file by its name and content.
    pub matches: fn(&str, &Value) -> bool,
    pub check: fn(&Value) -> CheckedFile,
}

/// What is wrong with a file, and what is in it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CheckedFile {
    pub violations: Vec<Violation>,
    pub warnings: Vec<Violation>,
    /// Says what a file without violations has, such as `3 groups, 1 complete`.
    pub summary: String,
}

/// One line of text for people, in parts with a tone each.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Line(pub Vec<(Tone, String)>);

impl Line {
    pub fn plain(text: impl Into<String>) -> Self {
        Self::default().then(text)
    }

    pub fn toned(tone: Tone, text: impl Into<String>) -> Self {
        Self(vec![(tone, text.into())])
    }

    /// Appends plain text.
    #[must_use]
    pub fn then(mut self, text: impl Into<String>) -> Self {
        self.0.push((Tone::Plain, text.into()));
        self
    }

    /// Appends text with a tone.
    #[must_use]
    pub fn then_toned(mut self, tone: Tone, text: impl Into<String>) -> Self {
        self.0.push((tone, text.into()));
        self
    }
}

/// How a text is emphasised. The terminal gives each a colour.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Tone {
    Plain,
    Dim,
    /// Something goes on.
    Active,
    Good,
    /// A person should look.
    Attention,
    Bad,
}

/// What a document says about a step, in terms that are the same for every protocol.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StepSummary {
    /// The word of the protocol's own document.
    pub status: &'static str,
    pub kind: StatusKind,
    /// Counted attempts of this turn.
    pub attempts: u32,
    /// How often a loop-back has reset the step.
    pub loop_backs: u32,
    pub started_at: Option<Timestamp>,
    pub ended_at: Option<Timestamp>,
    pub error: Option<String>,
    pub note: Option<String>,
}

impl StepSummary {
    /// Returns how long the step has run so far, or how long it took.
    pub fn elapsed(&self, now: Timestamp) -> Option<Duration> {
        let started_at = self.started_at?;
        match self.kind {
            StatusKind::Running | StatusKind::Waiting => Some(now.since(started_at)),
            StatusKind::Succeeded | StatusKind::Failed => {
                self.ended_at.map(|ended_at| ended_at.since(started_at))
            }
            StatusKind::Pending | StatusKind::Skipped => None,
        }
    }

    /// Returns how long the step took, if it has ended.
    pub fn took(&self) -> Option<Duration> {
        match self.kind {
            StatusKind::Succeeded | StatusKind::Failed => Some(self.ended_at?.since(self.started_at?)),
            StatusKind::Pending | StatusKind::Running | StatusKind::Waiting | StatusKind::Skipped => None,
        }
    }
}

/// The meaning of a status across protocols.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StatusKind {
    Pending,
    Running,
    /// Waits for a person.
    Waiting,
    Succeeded,
    Failed,
    Skipped,
}

impl StatusKind {
    /// Returns the word of all protocols for it.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Pending => "pending",
            Self::Running => "running",
            Self::Waiting => "waiting",
            Self::Succeeded => "succeeded",
            Self::Failed => "failed",
            Self::Skipped => "skipped",
        }
    }

    pub fn tone(self) -> Tone {
        match self {
            Self::Pending | Self::Skipped => Tone::Dim,
            Self::Running => Tone::Active,
            Self::Waiting => Tone::Attention,
            Self::Succeeded => Tone::Good,
            Self::Failed => Tone::Bad,
        }
    }
}

/// The step that a gate loops back to, and its iteration limit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LoopBack<S = StepId> {
    pub to: S,
    pub max_iterations: u32,
}

/// Formats a duration: `1.5 s`, `2 min 03 s`, `1 h 02 min`. Rounds down.
pub fn duration(duration: Duration) -> String {
    let seconds = duration.as_secs();
    match seconds {
        0..10 => format!("{seconds}.{} s", duration.subsec_millis() / 100),
        10..60 => format!("{seconds} s"),
        60..3600 => format!("{} min {:02} s", seconds / 60, seconds % 60),
        _ => format!("{} h {:02} min", seconds / 3600, seconds / 60 % 60),
    }
}

/// Formats a size in binary units: `1.5 KiB`.
pub fn size(bytes: u64) -> String {
    const UNITS: [&str; 4] = ["KiB", "MiB", "GiB", "TiB"];
    let mut amount = bytes as f64 / 1024.0;
    let mut unit = UNITS[0];
    for next in &UNITS[1..] {
        if amount < 1024.0 {
            break;
        }
        amount /= 1024.0;
        unit = next;
    }
    if bytes < 1024 { format!("{bytes} bytes") } else { format!("{amount:.1} {unit}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_and_sizes_are_formatted_for_people() {
        let lengths = [940, 9_970, 10_000, 123_000, 3_720_000].map(Duration::from_millis);
        assert_eq!(lengths.map(duration), ["0.9 s", "9.9 s", "10 s", "2 min 03 s", "1 h 02 min"]);
        assert_eq!([7, 1536, 5 << 30].map(size), ["7 bytes", "1.5 KiB", "5.0 GiB"]);
    }
}
