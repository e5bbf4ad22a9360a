//! The graph as a Mermaid flowchart.

use std::fmt::Write as _;

use protocol::present::StatusKind;

use super::labels;
use super::model::{Graph, Step};

pub(super) fn render(graph: &Graph) -> String {
    // A JSON string is a valid YAML string.
    let title = serde_json::to_string(&graph.title).expect("BUG: a text is plain data");
    let mut chart = format!("---\ntitle: {title}\n---\nflowchart TD\n");
    for (index, step) in graph.steps.iter().enumerate() {
        let _ = writeln!(chart, "    s{index}[\"{}\"]", label(step));
    }
    for (index, step) in graph.steps.iter().enumerate() {
        for need in &step.need_indices {
            let _ = writeln!(chart, "    s{need} --> s{index}");
        }
    }
    for (index, step) in graph.steps.iter().enumerate() {
        if let Some(target) = step.loop_back_index {
            let _ = writeln!(chart, "    s{index} -.->|back| s{target}");
        }
    }
    for (class, style) in CLASSES {
        let has_class =
            |step: &Step| step.progress.as_ref().is_some_and(|progress| progress.kind.as_str() == class);
        let matching = graph.steps.iter().enumerate().filter(|(_, step)| has_class(step));
        let names: Vec<_> = matching.map(|(index, _)| format!("s{index}")).collect();
        if !names.is_empty() {
            let _ = writeln!(chart, "    classDef {class} {style}\n    class {} {class}", names.join(","));
        }
    }
    chart
}

/// One class per status, named after it.
const CLASSES: [(&str, &str); 6] = [
    (StatusKind::Pending.as_str(), "fill:#f6f8fa,stroke:#afb8c1,color:#57606a"),
    (StatusKind::Running.as_str(), "fill:#ddf4ff,stroke:#0969da,color:#0550ae"),
    (StatusKind::Waiting.as_str(), "fill:#fff8c5,stroke:#9a6700,color:#7d4e00"),
    (StatusKind::Succeeded.as_str(), "fill:#dafbe9,stroke:#1a7f64,color:#116149"),
    (StatusKind::Failed.as_str(), "fill:#ffebe9,stroke:#cf222e,color:#a40e26"),
    (StatusKind::Skipped.as_str(), "fill:#f6f8fa,stroke:#afb8c1,color:#57606a"),
];

/// The node's label. The node itself is named by its index: `end` is a valid step id, but a keyword of Mermaid.
fn label(step: &Step) -> String {
    let lines = std::iter::once(step.id.clone()).chain(labels::lines_below_name(step));
    lines.map(|line| escape(&line)).collect::<Vec<_>>().join("<br>")
}

/// Writes every character with a meaning in Mermaid as a numeric entity.
fn escape(text: &str) -> String {
    let mut safe = String::with_capacity(text.len());
    for character in text.chars() {
        if character.is_control() {
            safe.push(' ');
        } else if character.is_ascii_punctuation() && !"-_.,:()/+".contains(character) {
            let _ = write!(safe, "#{};", u32::from(character));
        } else {
            safe.push(character);
        }
    }
    safe
}
