//! The graph as SVG.

use std::fmt::Write as _;

use protocol::present::StatusKind;

use super::labels;
use super::layout::{Point, layout};
use super::model::{Graph, Step};

/// The width of a character and the height of a line, in pixels.
const CHARACTER: usize = 8;
const LINE: usize = 17;
const PADDING: usize = 14;
const MARGIN: usize = 24;
const TITLE_HEIGHT: usize = 28;

pub(super) fn render(graph: &Graph) -> String {
    let texts: Vec<_> = graph.steps.iter().map(texts).collect();
    let sizes: Vec<_> = texts.iter().map(|texts| size(texts)).collect();
    let layout = layout(graph, &sizes);
    let title = heading(graph);
    // The title has larger characters than the boxes.
    let width = layout.width.max(text_width(&title) * 5 / 4) + 2 * MARGIN;
    let height = layout.height + 2 * MARGIN + TITLE_HEIGHT;
    let mut svg = format!(
        r##"<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}" role="img" aria-label="{title}" font-family="ui-monospace, SFMono-Regular, Menlo, Consolas, monospace" font-size="13">
<title>{title}</title>
<defs>
<marker id="needs" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="6" markerHeight="6" orient="auto"><path d="M0 0.5L8 4L0 7.5z" fill="#57606a"/></marker>
<marker id="back" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="6" markerHeight="6" orient="auto"><path d="M0 0.5L8 4L0 7.5z" fill="#9a6700"/></marker>
</defs>
<rect width="100%" height="100%" rx="6" fill="#ffffff"/>
<text x="{MARGIN}" y="{y}" font-size="15" font-weight="600" fill="#1f2328">{title}</text>
"##,
        title = escape(&title),
        y = MARGIN + 6,
    );
    for points in &layout.needs {
        polyline(&mut svg, points, r##"stroke="#57606a" marker-end="url(#needs)""##);
    }
    for points in &layout.loop_backs {
        polyline(&mut svg, points, r##"stroke="#9a6700" stroke-dasharray="5 4" marker-end="url(#back)""##);
    }
    for ((rect, texts), step) in layout.boxes.iter().zip(&texts).zip(&graph.steps) {
        let (x, y) = offset((rect.x, rect.y));
        let (stroke, fill, ink) = colours(step);
        let _ = writeln!(
            svg,
            r#"<g><title>{}</title><rect x="{x}" y="{y}" width="{}" height="{}" rx="6" fill="{fill}" stroke="{stroke}" stroke-width="1.5"/>"#,
            escape(&tooltip(step)),
            rect.width,
            rect.height,
        );
        for (row, text) in texts.iter().enumerate() {
            let (weight, ink) = if row == 0 { ("600", "#1f2328") } else { ("400", ink) };
            let _ = writeln!(
                svg,
                r#"<text x="{}" y="{}" text-anchor="middle" font-weight="{weight}" fill="{ink}">{}</text>"#,
                x + rect.width / 2,
                y + PADDING + row * LINE + 10,
                escape(text),
            );
        }
        svg.push_str("</g>\n");
    }
    svg.push_str("</svg>\n");
    svg
}

fn heading(graph: &Graph) -> String {
    match &graph.run {
        None => graph.title.clone(),
        Some(run) => {
            let status = run.status.map(|status| format!(": {status}")).unwrap_or_default();
            format!("{} {}{status}, revision {}", run.run, graph.title, run.revision)
        }
    }
}

fn texts(step: &Step) -> Vec<String> {
    std::iter::once(step.id.clone()).chain(labels::lines_below_name(step)).collect()
}

fn size(texts: &[String]) -> (usize, usize) {
    let width = texts.iter().map(|text| text_width(text)).max().unwrap_or(0);
    (width + 2 * PADDING, texts.len() * LINE + 2 * PADDING - 6)
}

/// An estimate: the font is not known here, and wide characters take two columns.
fn text_width(text: &str) -> usize {
    text.chars().map(|character| if character.is_ascii() { CHARACTER } else { 2 * CHARACTER }).sum()
}

/// The text that a browser shows while the pointer is over the box.
fn tooltip(step: &Step) -> String {
    let error = step.progress.as_ref().and_then(|progress| progress.last_error.as_deref());
    match error {
        Some(error) => format!("{} ({}): {error}", step.id, step.agent),
        None => format!("{} ({})", step.id, step.agent),
    }
}

fn polyline(svg: &mut String, points: &[Point], attributes: &str) {
    let points: Vec<_> = points.iter().map(|point| offset(*point)).map(|(x, y)| format!("{x},{y}")).collect();
    let _ = writeln!(
        svg,
        r#"<polyline points="{}" fill="none" stroke-width="1.5" stroke-linejoin="round" {attributes}/>"#,
        points.join(" "),
    );
}

/// Moves a point of the layout below the title.
fn offset((x, y): Point) -> Point {
    (x + MARGIN, y + MARGIN + TITLE_HEIGHT)
}

/// Stroke, fill and text colour of a box. The text below the name says the same for the colour-blind.
fn colours(step: &Step) -> (&'static str, &'static str, &'static str) {
    match step.progress.as_ref().map(|progress| progress.kind) {
        None => ("#57606a", "#f6f8fa", "#57606a"),
        Some(StatusKind::Pending | StatusKind::Skipped) => ("#afb8c1", "#f6f8fa", "#57606a"),
        Some(StatusKind::Running) => ("#0969da", "#ddf4ff", "#0550ae"),
        Some(StatusKind::Waiting) => ("#9a6700", "#fff8c5", "#7d4e00"),
        Some(StatusKind::Succeeded) => ("#1a7f64", "#dafbe9", "#116149"),
        Some(StatusKind::Failed) => ("#cf222e", "#ffebe9", "#a40e26"),
    }
}

fn escape(text: &str) -> String {
    let mut safe = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '&' => safe.push_str("&amp;"),
            '<' => safe.push_str("&lt;"),
            '>' => safe.push_str("&gt;"),
            '"' => safe.push_str("&quot;"),
            // XML cannot represent most control characters.
            control if control.is_control() => safe.push(' '),
            plain => safe.push(plain),
        }
    }
    safe
}
