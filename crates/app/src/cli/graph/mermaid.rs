//! The picture as a Mermaid flowchart, for pages that draw those themselves.

use std::fmt::Write as _;

use super::picture::{Picture, Step};
use super::words::{self, Charset};
use crate::present::StatusKind;

pub(super) fn draw(picture: &Picture) -> String {
    // The front matter is YAML, of which JSON's strings are a part.
    let title = serde_json::to_string(&picture.title).expect("BUG: a text is plain data");
    let mut chart = format!("---\ntitle: {title}\n---\nflowchart TD\n");
    for (place, step) in picture.steps.iter().enumerate() {
        let _ = writeln!(chart, "    s{place}[\"{}\"]", label(step));
    }
    for (place, step) in picture.steps.iter().enumerate() {
        for need in &step.needs {
            let _ = writeln!(chart, "    s{need} --> s{place}");
        }
    }
    for (place, step) in picture.steps.iter().enumerate() {
        if let Some(target) = step.back_to {
            let _ = writeln!(chart, "    s{place} -.->|back| s{target}");
        }
    }
    for (class, style) in CLASSES {
        let of_class =
            |step: &Step| step.reached.as_ref().is_some_and(|reached| words::word(reached.kind) == class);
        let places = picture.steps.iter().enumerate().filter(|(_, step)| of_class(step));
        let names: Vec<_> = places.map(|(place, _)| format!("s{place}")).collect();
        if !names.is_empty() {
            let _ = writeln!(chart, "    classDef {class} {style}\n    class {} {class}", names.join(","));
        }
    }
    chart
}

/// A class is called as its status is said.
const CLASSES: [(&str, &str); 6] = [
    (words::word(StatusKind::Pending), "fill:#f6f8fa,stroke:#afb8c1,color:#57606a"),
    (words::word(StatusKind::Running), "fill:#ddf4ff,stroke:#0969da,color:#0550ae"),
    (words::word(StatusKind::Waiting), "fill:#fff8c5,stroke:#9a6700,color:#7d4e00"),
    (words::word(StatusKind::Succeeded), "fill:#dafbe9,stroke:#1a7f64,color:#116149"),
    (words::word(StatusKind::Failed), "fill:#ffebe9,stroke:#cf222e,color:#a40e26"),
    (words::word(StatusKind::Skipped), "fill:#f6f8fa,stroke:#afb8c1,color:#57606a"),
];

/// Steps are nodes by their place: `end` and `a.b` are fine names for steps, not for nodes.
fn label(step: &Step) -> String {
    let lines = std::iter::once(step.id.clone()).chain(words::particulars(step, Charset::Unicode));
    lines.map(|line| escape(&line)).collect::<Vec<_>>().join("<br>")
}

/// Whatever could mean something in a label is written as a number.
fn escape(text: &str) -> String {
    let mut safe = String::with_capacity(text.len());
    for sign in text.chars() {
        if sign.is_control() {
            safe.push(' ');
        } else if sign.is_ascii_punctuation() && !"-_.,:()/+".contains(sign) {
            let _ = write!(safe, "#{};", u32::from(sign));
        } else {
            safe.push(sign);
        }
    }
    safe
}
