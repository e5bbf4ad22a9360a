//! Tables and diagrams of an exploration, for people to review.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;

use super::notation::LEGEND;
use crate::Exploration;

/// One transition, in words.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Row {
    pub(crate) state: String,
    pub(crate) input: String,
    pub(crate) changes: String,
    /// `None` if the input was refused.
    pub(crate) next: Option<String>,
}

impl Exploration {
    /// Returns the table, sorted, with one line per transition. Above it are `about`, the protocol's `legend` and the common
    /// `LEGEND`.
    pub fn table(&self, about: &str, legend: &str) -> String {
        let rows: BTreeSet<_> = self.rows.iter().collect();
        let width =
            |text: fn(&Row) -> &str| rows.iter().map(|row| text(row).chars().count()).max().unwrap_or(0);
        let (state_width, input_width) = (width(|row| &row.state), width(|row| &row.input));
        let changes_width = width(|row| &row.changes);
        let refused = rows.iter().filter(|row| row.next.is_none()).count();
        let transitions = rows.len() - refused;
        let counts = format!("{}, {transitions} transitions, {refused} refusals", self.title());
        let mut table = format!("{about}\n{counts}\n\n{legend}\n{LEGEND}\n\n");
        for Row { state, input, changes, next } in rows {
            let next = next.as_deref().map_or("(the same)".to_owned(), |next| {
                if next == state { "(the same)".to_owned() } else { next.to_owned() }
            });
            let line =
                format!("{state:<state_width$} | {input:<input_width$} | {changes:<changes_width$} | {next}");
            table.push_str(line.trim_end());
            table.push('\n');
        }
        table
    }

    /// Returns the name of the model and the number of its states.
    fn title(&self) -> String {
        format!("{}: {} states", self.model, self.states)
    }

    /// Returns a state diagram in Mermaid's language. Inputs between the same two states share an arrow. Inputs that
    /// change nothing have none.
    pub fn diagram(&self) -> String {
        let is_change = |row: &&Row| row.next.as_ref().is_some_and(|next| *next != row.state);
        let rows: BTreeSet<_> = self.rows.iter().filter(is_change).collect();
        let states: BTreeSet<&str> =
            rows.iter().flat_map(|row| [Some(row.state.as_str()), row.next.as_deref()]).flatten().collect();
        let numbers: BTreeMap<&str, usize> =
            states.iter().enumerate().map(|(number, state)| (*state, number)).collect();
        let mut arrows: BTreeMap<(usize, usize), Vec<&str>> = BTreeMap::new();
        for row in &rows {
            let Some(next) = &row.next else { continue };
            let arrow = (numbers[row.state.as_str()], numbers[next.as_str()]);
            arrows.entry(arrow).or_default().push(&row.input);
        }
        let mut diagram = format!("%% {}\nstateDiagram-v2\n", self.title());
        for (state, number) in &numbers {
            let words = state.split_whitespace().collect::<Vec<_>>().join(" ");
            let _ = writeln!(diagram, "    state \"{words}\" as s{number}");
        }
        if let Some(first) = self.rows.first() {
            let _ = writeln!(diagram, "    [*] --> s{}", numbers[first.state.as_str()]);
        }
        let ends = arrows.keys().map(|(_, to)| *to).filter(|to| arrows.keys().all(|(from, _)| from != to));
        let ends: BTreeSet<_> = ends.collect();
        for ((from, to), inputs) in &arrows {
            // In Mermaid a colon ends a label.
            let label = inputs.join(", ").replace(": ", " ");
            let _ = writeln!(diagram, "    s{from} --> s{to} : {label}");
        }
        for end in ends {
            let _ = writeln!(diagram, "    s{end} --> [*]");
        }
        diagram
    }
}
