//! The parts in which the document is stored: the head, each phase, and chunks of the history. A write stores only the parts
//! that it changes.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{Context, Document, HistoryEntry, Metadata, Phase, PhaseDocument, Phases, Unknown};
use crate::peer::names::PeerCycleId;

/// The path of the part with everything except phases and history.
const HEAD: &str = "head";
const PHASES: &str = "phases/";
const HISTORY: &str = "history/";

/// How many history entries a full chunk has.
const CHUNK_LENGTH: usize = 32;

/// The head of a document, for serializing it without a copy.
#[derive(Serialize)]
struct HeadRef<'a> {
    version: u64,
    cycle_id: &'a PeerCycleId,
    sequence: u64,
    metadata: &'a Metadata,
    context: &'a Context,
    #[serde(skip_serializing_if = "Option::is_none")]
    cycle_summary: &'a Option<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    insights: &'a Option<Value>,
    #[serde(flatten)]
    unknown: &'a Unknown,
}

/// The head, parsed from its part.
#[derive(Deserialize)]
struct Head {
    version: u64,
    cycle_id: PeerCycleId,
    sequence: u64,
    metadata: Metadata,
    context: Context,
    #[serde(default, deserialize_with = "super::deserialize_present")]
    cycle_summary: Option<Value>,
    #[serde(default, deserialize_with = "super::deserialize_present")]
    insights: Option<Value>,
    #[serde(flatten)]
    unknown: Unknown,
}

fn phase_part(phase: Phase) -> String {
    format!("{PHASES}{phase}")
}

/// Returns the path of a chunk. Its number has leading zeros, so that paths sort in the order of the chunks.
fn history_part(chunk: usize) -> String {
    format!("{HISTORY}{chunk:06}")
}

fn chunk_count(document: &Document) -> usize {
    document.history.len().div_ceil(CHUNK_LENGTH)
}

fn chunk(document: &Document, index: usize) -> &[HistoryEntry] {
    let rest = document.history.get(index * CHUNK_LENGTH..).unwrap_or_default();
    &rest[..rest.len().min(CHUNK_LENGTH)]
}

/// Returns the paths of all parts.
pub(in crate::peer) fn all(document: &Document) -> Vec<String> {
    let phases = Phase::ALL.into_iter().map(phase_part);
    let history = (0..chunk_count(document)).map(history_part);
    std::iter::once(HEAD.to_owned()).chain(phases).chain(history).collect()
}

/// Returns the paths of the parts that a write changed. The head is always one: it has the sequence.
pub(in crate::peer) fn changed(old: &Document, new: &Document) -> Vec<String> {
    let phases = Phase::ALL.into_iter().filter(|phase| old.phases[*phase] != new.phases[*phase]);
    let mut parts: Vec<_> = std::iter::once(HEAD.to_owned()).chain(phases.map(phase_part)).collect();
    // Chunks that a shorter history no longer has are stored empty.
    let count = chunk_count(old).max(chunk_count(new));
    parts.extend((0..count).filter(|index| chunk(old, *index) != chunk(new, *index)).map(history_part));
    parts
}

/// Returns the JSON text of one part.
pub(in crate::peer) fn part(document: &Document, path: &str) -> String {
    let text = if let Some(phase) = path.strip_prefix(PHASES).and_then(Phase::parse) {
        serde_json::to_string(&document.phases[phase])
    } else if let Some(index) = path.strip_prefix(HISTORY).and_then(|index| index.parse().ok()) {
        serde_json::to_string(chunk(document, index))
    } else {
        serde_json::to_string(&HeadRef {
            version: document.version,
            cycle_id: &document.cycle_id,
            sequence: document.sequence,
            metadata: &document.metadata,
            context: &document.context,
            cycle_summary: &document.cycle_summary,
            insights: &document.insights,
            unknown: &document.unknown,
        })
    };
    text.expect("BUG: a document cannot be serialized")
}

/// Assembles a document from its parts; `None` if a part is missing or malformed.
pub(in crate::peer) fn assemble(parts: &[(String, String)]) -> Option<Document> {
    let (mut head, mut history) = (None, Vec::new());
    let mut phases: [Option<PhaseDocument>; 4] = [const { None }; 4];
    for (path, body) in parts {
        if path == HEAD {
            head = Some(serde_json::from_str::<Head>(body).ok()?);
        } else if let Some(phase) = path.strip_prefix(PHASES) {
            phases[Phase::parse(phase)? as usize] = Some(serde_json::from_str(body).ok()?);
        } else if path.starts_with(HISTORY) {
            history.push((path, serde_json::from_str::<Vec<HistoryEntry>>(body).ok()?));
        }
    }
    let [plan, execute, express, review] = phases;
    history.sort_by_key(|(path, _)| *path);
    let Head { version, cycle_id, sequence, metadata, context, cycle_summary, insights, unknown } = head?;
    let phases = Phases { plan: plan?, execute: execute?, express: express?, review: review? };
    let history = history.into_iter().flat_map(|(_, entries)| entries).collect();
    Some(Document {
        version,
        cycle_id,
        sequence,
        metadata,
        context,
        phases,
        history,
        cycle_summary,
        insights,
        unknown,
    })
}
