//! Steps as a table: rows such as the groups of a team, columns such as their roles. For `show` and the live display.

use protocol::present::{StepSummary, StepTable, StepTableRow};
use protocol::{StepId, Timestamp};

use crate::cli::step_status;
use crate::output::{self, BOLD, DIM, styled};
use crate::present;

/// Returns the lines of the table. A cell has the symbol of its step, and its duration as of `at` or its status.
pub(crate) fn lines(
    step_table: &StepTable,
    steps: &[(StepId, StepSummary)],
    at: Option<Timestamp>,
) -> Vec<String> {
    let summary = |cell: &Option<StepId>| {
        let step = cell.as_ref()?;
        steps.iter().find(|(name, _)| name == step).map(|(_, summary)| summary)
    };
    let texts = |row: &StepTableRow| -> Vec<String> {
        let cells = row.cells.iter();
        cells.map(|cell| summary(cell).map_or_else(String::new, |cell| text(cell, at))).collect()
    };
    let texts: Vec<Vec<String>> = step_table.rows.iter().map(texts).collect();
    let width = |column: usize| {
        let cells = texts.iter().filter_map(|row| row.get(column)).map(|text| text.chars().count());
        cells.chain(step_table.columns.get(column).map(|name| name.chars().count())).max().unwrap_or(0)
    };
    let widths: Vec<_> = (0..step_table.columns.len()).map(width).collect();
    let name_width = step_table.rows.iter().map(|row| row.name.chars().count()).max().unwrap_or(0);
    let header = step_table.columns.iter().zip(&widths).map(|(name, width)| format!("{name:<width$}"));
    let header = header.collect::<Vec<_>>().join("  ");
    let mut lines = vec![format!("{:name_width$}  {}", "", styled(DIM, header.trim_end()))];
    for (StepTableRow { name, cells, note }, texts) in step_table.rows.iter().zip(&texts) {
        let cells = cells.iter().zip(texts).zip(&widths).map(|((cell, text), width)| {
            let style = summary(cell).map(|cell| present::style(cell.kind.tone())).unwrap_or_default();
            styled(style, format_args!("{text:<width$}"))
        });
        let note = note.as_deref().map(|note| styled(DIM, output::single_line(note)));
        let line = cells.chain(note).collect::<Vec<_>>().join("  ");
        let line = format!("{}  {line}", styled(BOLD, format_args!("{name:<name_width$}")));
        lines.push(line.trim_end().to_owned());
    }
    lines
}

/// Whether the table has the step.
pub(crate) fn has(step_table: &StepTable, step: &StepId) -> bool {
    step_table.rows.iter().flat_map(|row| &row.cells).flatten().any(|cell| cell == step)
}

/// The status of a step, or how long it took. Without a time, a running step has no duration.
fn text(step: &StepSummary, at: Option<Timestamp>) -> String {
    let symbol = step_status::symbol(step.kind);
    let took = at.map_or_else(|| step.took(), |at| step.elapsed(at));
    let detail = took.map_or_else(|| step.kind.as_str().to_owned(), output::duration);
    let turns = if step.loop_backs > 0 { format!(" ×{}", step.loop_backs + 1) } else { String::new() };
    format!("{symbol} {detail}{turns}")
}
