//! The history: one entry per write of Callboard, with the number of that write.

use serde::{Deserialize, Serialize};

use super::{Phase, Unknown, WholeSecond};

/// What a write did.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct HistoryEntry {
    pub timestamp: WholeSecond,
    /// `None` if the event is about the whole cycle.
    pub phase: Option<Phase>,
    pub event: Event,
    /// The document's `sequence` after the write that added this entry.
    pub sequence: u64,
    /// Fields that the format does not define. Callboard itself adds some, such as `by`.
    #[serde(flatten)]
    pub unknown: Unknown,
}

/// What can happen to a cycle or to a phase.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "String", into = "String")]
pub enum Event {
    Initialized,
    Started,
    Progress,
    Completed,
    Failed,
    /// An earlier document was restored.
    Recovered,
    /// The document was made from an older format.
    Migrated,
    /// This entry replaces the progress entries with the numbers `from` to `to`.
    Compacted,
    /// An event that another program or a later version has written.
    Other(String),
}

impl Event {
    /// The known events.
    pub const KNOWN: [&str; 8] =
        ["initialized", "started", "progress", "completed", "failed", "recovered", "migrated", "compacted"];

    pub fn as_str(&self) -> &str {
        match self {
            Self::Initialized => "initialized",
            Self::Started => "started",
            Self::Progress => "progress",
            Self::Completed => "completed",
            Self::Failed => "failed",
            Self::Recovered => "recovered",
            Self::Migrated => "migrated",
            Self::Compacted => "compacted",
            Self::Other(word) => word,
        }
    }
}

impl From<String> for Event {
    fn from(word: String) -> Self {
        match word.as_str() {
            "initialized" => Self::Initialized,
            "started" => Self::Started,
            "progress" => Self::Progress,
            "completed" => Self::Completed,
            "failed" => Self::Failed,
            "recovered" => Self::Recovered,
            "migrated" => Self::Migrated,
            "compacted" => Self::Compacted,
            _ => Self::Other(word),
        }
    }
}

impl From<Event> for String {
    fn from(event: Event) -> Self {
        event.as_str().to_owned()
    }
}

impl HistoryEntry {
    pub fn new(timestamp: WholeSecond, phase: Option<Phase>, event: Event, sequence: u64) -> Self {
        Self { timestamp, phase, event, sequence, unknown: Unknown::new() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_known_event_parses_as_it_prints() {
        for word in Event::KNOWN {
            let event = Event::from(word.to_owned());
            assert_eq!(event.as_str(), word);
            assert!(!matches!(event, Event::Other(_)), "{word}");
        }
        assert_eq!(Event::from("annotated".to_owned()), Event::Other("annotated".to_owned()));
    }
}
