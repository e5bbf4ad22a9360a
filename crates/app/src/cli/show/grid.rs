//! Steps as a table: rows such as the groups of a team, columns such as their roles.

use protocol::StepId;
use protocol::present::{Grid, GridRow, StepSummary};

use crate::cli::step_status;
use crate::output::{self, BOLD, DIM, styled};
use crate::present;
use crate::query::overview::RunOverview;

/// Prints the table. A cell has the symbol of its step and its status or duration.
pub(super) fn print(grid: &Grid, steps: &[(StepId, StepSummary)], overview: &RunOverview) {
    let summary = |cell: &Option<StepId>| {
        let step = cell.as_ref()?;
        steps.iter().find(|(name, _)| name == step).map(|(_, summary)| summary)
    };
    let texts: Vec<Vec<String>> = grid
        .rows
        .iter()
        .map(|row| {
            row.cells
                .iter()
                .map(|cell| summary(cell).map_or_else(String::new, |cell| text(cell, overview)))
                .collect()
        })
        .collect();
    let width = |column: usize| {
        let cells = texts.iter().filter_map(|row| row.get(column)).map(|text| text.chars().count());
        cells.chain(grid.columns.get(column).map(|name| name.chars().count())).max().unwrap_or(0)
    };
    let widths: Vec<_> = (0..grid.columns.len()).map(width).collect();
    let name_width = grid.rows.iter().map(|row| row.name.chars().count()).max().unwrap_or(0);
    let header = grid.columns.iter().zip(&widths).map(|(name, width)| format!("{name:<width$}"));
    let header = header.collect::<Vec<_>>().join("  ");
    output::data(format_args!("  {:name_width$}  {}", "", styled(DIM, header.trim_end())));
    for (GridRow { name, cells, note }, texts) in grid.rows.iter().zip(&texts) {
        let cells = cells.iter().zip(texts).zip(&widths).map(|((cell, text), width)| {
            let style = summary(cell).map(|cell| present::style(cell.kind.tone())).unwrap_or_default();
            styled(style, format_args!("{text:<width$}"))
        });
        let note = note.as_deref().map(|note| styled(DIM, output::single_line(note)));
        let line = cells.chain(note).collect::<Vec<_>>().join("  ");
        output::data(
            format_args!("  {}  {line}", styled(BOLD, format_args!("{name:<name_width$}")))
                .to_string()
                .trim_end(),
        );
    }
}

/// The status of a step, or how long it took.
fn text(step: &StepSummary, overview: &RunOverview) -> String {
    let symbol = step_status::symbol(step.kind);
    let detail = match step.elapsed(overview.at) {
        Some(elapsed) => output::duration(elapsed),
        None => step_status::label(step.kind).to_owned(),
    };
    let turns = if step.loop_backs > 0 { format!(" ×{}", step.loop_backs + 1) } else { String::new() };
    format!("{symbol} {detail}{turns}")
}
