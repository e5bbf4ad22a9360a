//! Detecting the format of a file.

use std::path::Path;
use std::str::FromStr;

use protocol::present::FileFormat;
use serde_json::{Map, Value};

/// A format that can be checked.
#[derive(Debug, Clone, Copy)]
pub(super) enum Format {
    /// A workflow, in YAML or JSON.
    Workflow,
    /// The state of a run: `run_state.json`.
    Steps,
    /// The state of a peer cycle.
    Peer,
    /// A file of another protocol.
    Other(&'static FileFormat),
}

impl Format {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Workflow => "workflow",
            Self::Steps => "steps",
            Self::Peer => "peer",
            Self::Other(format) => format.name,
        }
    }

    /// Returns the names of the files of other protocols, for a hint.
    pub(super) fn names_of_others() -> String {
        let names: Vec<_> = others().map(|format| format!("`{}`", format.name)).collect();
        format!("or {}", names.join(", "))
    }

    /// Returns all formats that this program knows.
    fn all() -> impl Iterator<Item = Self> {
        let others = others().map(Self::Other);
        [Self::Workflow, Self::Steps, Self::Peer].into_iter().chain(others)
    }
}

impl PartialEq for Format {
    fn eq(&self, other: &Self) -> bool {
        self.name() == other.name()
    }
}

impl Eq for Format {}

impl serde::Serialize for Format {
    fn serialize<S: serde::Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_str(self.name())
    }
}

impl FromStr for Format {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        Self::all().find(|format| format.name() == name).ok_or_else(|| {
            let names: Vec<_> = Self::all().map(|format| format!("`{}`", format.name())).collect();
            format!("expected one of {}", names.join(", "))
        })
    }
}

/// Returns the formats that the protocols bring themselves.
fn others() -> impl Iterator<Item = &'static FileFormat> {
    crate::program().protocols.0.iter().flat_map(|kind| kind.info().formats)
}

/// The detected format.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Guess {
    Format(Format),
    /// JSON, but of no known format.
    Unknown,
    /// It looks like JSON and cannot be parsed.
    BrokenJson,
}

/// Detects the format by the content. JSON is also YAML, so the file name decides where the content does not.
pub(super) fn guess(file: &Path, source: &str) -> Guess {
    let extension =
        file.extension().and_then(|extension| extension.to_str()).unwrap_or_default().to_ascii_lowercase();
    let is_yaml = matches!(extension.as_str(), "yaml" | "yml");
    let name = file.file_name().unwrap_or_default().to_string_lossy();
    match serde_json::from_str::<Value>(source) {
        Ok(value) if let Some(format) = others().find(|format| (format.matches)(&name, &value)) => {
            Guess::Format(Format::Other(format))
        }
        Ok(Value::Object(fields)) => {
            let steps = fields.get("steps");
            if fields.contains_key("run_id") || steps.is_some_and(Value::is_object) && !is_yaml {
                Guess::Format(Format::Steps)
            } else if is_peer_cycle(&fields) {
                Guess::Format(Format::Peer)
            } else if steps.is_some() || is_yaml {
                Guess::Format(Format::Workflow)
            } else {
                Guess::Unknown
            }
        }
        Ok(_) if extension == "json" => Guess::Unknown,
        Err(_) if extension == "json" || source.trim_start().starts_with('{') && !is_yaml => {
            Guess::BrokenJson
        }
        Ok(_) | Err(_) => Guess::Format(Format::Workflow),
    }
}

/// Recognises a peer cycle of any version: old ones have no `cycle_id`, but all have phases.
fn is_peer_cycle(fields: &Map<String, Value>) -> bool {
    fields.contains_key("cycle_id") || fields.get("phases").is_some_and(|phases| phases.get("plan").is_some())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_content_decides_the_format_and_else_the_file_name() {
        let workflow = || Guess::Format(Format::Workflow);
        let steps = || Guess::Format(Format::Steps);
        let peer = || Guess::Format(Format::Peer);
        for (file, source, expected) in [
            ("wf.yaml", "steps:\n- id: a\n", workflow()),
            ("wf", "name: w\n", workflow()),
            ("wf", "", workflow()),
            ("wf.json", r#"{"name": "w", "steps": [{"id": "a"}]}"#, workflow()),
            ("wf.yaml", r#"{"steps": {"a": {}}}"#, workflow()),
            ("wf.yml", "{steps: [{id: a}]}", workflow()),
            ("run_state.json", r#"{"run_id": "x", "steps": {}}"#, steps()),
            ("copy.txt", r#"{"run_id": "x", "steps": {}}"#, steps()),
            ("copy.txt", r#"{"steps": {"a": {}}}"#, steps()),
            ("copy.yaml", r#"{"run_id": "x", "steps": {}}"#, steps()),
            ("cycle.json", r#"{"version": 2, "cycle_id": "peer:global:cycle:1"}"#, peer()),
            ("old", r#"{"version": 1, "phases": {"plan": {"status": "complete"}}}"#, peer()),
            ("other.json", r#"{"phases": ["plan"]}"#, Guess::Unknown),
            ("run_state.json", r#"{"run_id": "x", "steps": {"#, Guess::BrokenJson),
            ("copy.txt", "\n {\"run_id\": ", Guess::BrokenJson),
            ("empty.json", "", Guess::BrokenJson),
            ("package.json", r#"{"name": "x", "version": "1"}"#, Guess::Unknown),
            ("list.json", "[1, 2]", Guess::Unknown),
        ] {
            assert_eq!(guess(Path::new(file), source), expected, "{file}: {source}");
        }
    }
}
