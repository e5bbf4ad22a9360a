//! The graph as a list for the terminal, one step a line.

use super::labels;
use super::model::{Graph, Step};
use crate::cli::step_status;
use crate::output::{self, BOLD, DIM, Style, YELLOW, styled};
use crate::present;

pub(super) fn render(graph: &Graph) -> Vec<String> {
    let rows: Vec<_> = graph.steps.iter().map(Row::of).collect();
    let widest = |text: fn(&Row) -> &str| rows.iter().map(|row| text(row).chars().count()).max().unwrap_or(0);
    let widths = [widest(|row| &row.id), widest(|row| &row.status), widest(|row| &row.needs)];
    std::iter::once(heading(graph)).chain(rows.iter().map(|row| row.line(widths))).collect()
}

fn heading(graph: &Graph) -> String {
    let title = styled(BOLD, &graph.title);
    let steps = output::count(graph.steps.len(), "step", "steps");
    match &graph.run {
        None => format!("{title}  {steps}"),
        Some(run) => {
            let status = run.status.map(|status| format!("  {status}")).unwrap_or_default();
            format!("{} {title}{status}  {steps}  revision {}", styled(BOLD, &run.run), run.revision)
        }
    }
}

/// The columns of a step.
struct Row {
    style: Style,
    symbol: char,
    id: String,
    /// The agent, if there is no run.
    status: String,
    needs: String,
    /// The loop-back of a gate, conditions, data loop and checks.
    remarks: String,
}

impl Row {
    fn of(step: &Step) -> Self {
        let kind = step.progress.as_ref().map(|progress| progress.kind);
        let iteration = step.progress.as_ref().and_then(|progress| progress.iteration);
        let iteration = iteration.map(|iteration| format!(", {}", labels::iteration(iteration)));
        let loop_back = step
            .loop_back_to
            .as_ref()
            .map(|target| format!("loops back to {target}{}", iteration.unwrap_or_default()));
        Self {
            style: kind.map_or_else(Style::new, |kind| present::style(kind.tone())),
            symbol: kind.map_or('-', step_status::symbol),
            id: step.id.clone(),
            status: step.progress.as_ref().map_or_else(|| step.agent.clone(), labels::status),
            needs: if step.needs.is_empty() {
                String::new()
            } else {
                format!("needs {}", step.needs.join(", "))
            },
            remarks: loop_back.into_iter().chain(step.details.lines()).collect::<Vec<_>>().join("; "),
        }
    }

    fn line(&self, [ids, statuses, needs]: [usize; 3]) -> String {
        let mut line = format!("{} {:<ids$}", styled(self.style, self.symbol), self.id);
        let columns =
            [(self.style, &self.status, statuses), (DIM, &self.needs, needs), (YELLOW, &self.remarks, 0)];
        let last = columns.iter().rposition(|(_, text, _)| !text.is_empty());
        for (index, (style, text, width)) in
            columns.into_iter().enumerate().take(last.map_or(0, |last| last + 1))
        {
            let width = if Some(index) == last { 0 } else { width };
            line.push_str(&format!("  {}", styled(style, format_args!("{text:<width$}"))));
        }
        line
    }
}
