//! The explored peer cycles: new ones, ones that continue a failed one, and imported ones.

use std::num::NonZeroU32;

use protocol::peer::change::{self, ErrorDetail, NewCycle, ReviewFields};
use protocol::peer::{
    Continued, Definition, Document, Event, HistoryEntry, Mode, Peer, PeerCycleId, Phase, PhaseStatus,
    WholeSecond, check_document,
};

use super::super::{Model, Slots};
use super::{ORDER, output};

fn id(text: &str) -> PeerCycleId {
    text.parse().expect("BUG: the cycles have sound names")
}

/// A new cycle about a spec: a named feature, which the instruction `create-spec` describes.
pub fn cycle(attempts: u32) -> Definition {
    Definition {
        cycle: id("peer:spec:feature-name:cycle:2"),
        instruction: "create-spec".to_owned(),
        mode: Mode::New,
        instruction_args: "--spec=feature-name".to_owned(),
        user_requirements: "what the user wants".to_owned(),
        continues: None,
        earlier_review: None,
        max_attempts: NonZeroU32::new(attempts).expect("BUG: there is at least one attempt"),
        timeout: None,
        prompts: std::collections::BTreeMap::new(),
    }
}

/// A new cycle about the whole repository, without a spec.
pub fn of_whole_repository(attempts: u32) -> Definition {
    Definition {
        cycle: id("peer:global:cycle:1"),
        instruction: "analyze-product".to_owned(),
        instruction_args: String::new(),
        ..cycle(attempts)
    }
}

/// A cycle that continues one with this many completed phases.
pub fn continued(completed: usize, attempts: u32) -> Definition {
    let outputs = ORDER.into_iter().take(completed).map(output).collect();
    let continued_cycle = id("peer:spec:feature-name:cycle:1");
    let continues = Some(Continued { cycle: continued_cycle, outputs });
    Definition { mode: Mode::Continue, continues, ..cycle(attempts) }
}

/// A model whose documents must have neither violations nor warnings.
pub fn model(name: &str, definition: Definition) -> Model<Peer> {
    Model::new(name, definition, Slots::All, check)
}

fn check(document: &Document) -> Vec<String> {
    let checked = check_document(document);
    let all = checked.violations.into_iter().chain(checked.warnings);
    all.map(|found| format!("{} {}: {}", found.rule, found.pointer, found.message)).collect()
}

/// Imported cycles: for each status of a cycle, a document like one that was migrated from an older format.
pub fn imported(attempts: u32) -> Vec<Model<Peer>> {
    let models = documents_in_every_status().into_iter().map(|document| {
        let never_started = document
            .phases
            .iter()
            .any(|(_, phase)| phase.status == PhaseStatus::Failed && phase.started_at.is_none());
        let suffix = if never_started { " before it started" } else { "" };
        let name = format!("imported, {}{suffix}", document.status_with_phase());
        model(&name, cycle(attempts)).importing(migrated(document).to_value())
    });
    models.collect()
}

/// A document for each status that a cycle can have.
fn documents_in_every_status() -> Vec<Document> {
    const VALID: &str = "BUG: it was built by the rules";
    let mut documents = Vec::new();
    let mut document = change::initialise(new_peer_cycle(), any_time());
    let error = || ErrorDetail { kind: "timeout".to_owned(), message: "took too long".to_owned() };
    for phase in ORDER {
        documents.push(document.clone());
        documents.push(change::fail(&document, phase, error(), any_time()).expect(VALID));
        document = change::start(&document, phase, any_time()).expect(VALID);
        documents.push(change::fail_attempt(&document, phase, error(), any_time()).expect(VALID));
        documents.push(change::fail(&document, phase, error(), any_time()).expect(VALID));
        document = match phase {
            Phase::Plan | Phase::Execute | Phase::Express => {
                change::complete(&document, phase, output(phase), any_time()).expect(VALID)
            }
            Phase::Review => {
                change::complete_review(&document, output(phase), ReviewFields::default(), any_time())
                    .expect(VALID)
            }
        };
    }
    documents.push(document.clone());
    documents.push(change::complete_cycle(&document, any_time()).expect(VALID));
    documents
}

fn new_peer_cycle() -> NewCycle {
    let Definition { cycle, instruction, mode, instruction_args, user_requirements, .. } = cycle(1);
    NewCycle { cycle, instruction, mode, instruction_args, user_requirements, continues: None }
}

fn any_time() -> WholeSecond {
    "2025-06-01T12:00:00Z".parse().expect("BUG: it is a second")
}

/// Adds the entry of a migration to the history.
fn migrated(mut document: Document) -> Document {
    document.sequence += 1;
    document.history.push(HistoryEntry::new(any_time(), None, Event::Migrated, document.sequence));
    document
}
