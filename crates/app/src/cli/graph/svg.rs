//! The picture as SVG: the terminal's layout, a cell being some pixels.

use std::fmt::Write as _;

use super::arrange::{Arranged, Cell, Flow, Kind, Line, arrange};
use super::canvas;
use super::picture::{Picture, Step};
use super::words::{self, Charset};
use crate::present::StatusKind;

/// A cell in pixels.
const CELL: (usize, usize) = (10, 17);
const MARGIN: usize = 24;
/// Room for the title.
const HEAD: usize = 28;

pub(super) fn draw(picture: &Picture) -> String {
    let texts: Vec<_> = picture.steps.iter().map(texts).collect();
    let sizes: Vec<_> = texts.iter().map(|texts| size(texts)).collect();
    let arranged = arrange(picture, &sizes, Flow::Down);
    let title = escape(&heading(picture));
    let wide = (arranged.width * CELL.0).max(canvas::width(&title) * 10) + 2 * MARGIN;
    let tall = used_height(&arranged) * CELL.1 + 2 * MARGIN + HEAD;
    let mut svg = format!(
        r##"<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {wide} {tall}" width="{wide}" height="{tall}" role="img" aria-label="{title}" font-family="ui-monospace, SFMono-Regular, Menlo, Consolas, monospace" font-size="13">
<title>{title}</title>
<defs>
<marker id="needs" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="6" markerHeight="6" orient="auto"><path d="M0 0.5L8 4L0 7.5z" fill="#57606a"/></marker>
<marker id="back" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="6" markerHeight="6" orient="auto"><path d="M0 0.5L8 4L0 7.5z" fill="#9a6700"/></marker>
</defs>
<rect width="100%" height="100%" rx="6" fill="#ffffff"/>
<text x="{MARGIN}" y="{y}" font-size="15" font-weight="600" fill="#1f2328">{title}</text>
"##,
        y = MARGIN + 6,
    );
    for line in &arranged.lines {
        draw_line(&mut svg, line);
    }
    for ((area, texts), step) in arranged.areas.iter().zip(&texts).zip(&picture.steps) {
        let (x, y) = pixels((area.x, area.y));
        let (width, height) = (area.width * CELL.0, area.height * CELL.1);
        let (stroke, fill, ink) = colours(step);
        let _ = writeln!(
            svg,
            r#"<g><title>{}</title><rect x="{x}" y="{y}" width="{width}" height="{height}" rx="6" fill="{fill}" stroke="{stroke}" stroke-width="1.5"/>"#,
            escape(&hover(step)),
        );
        let middle = x + width / 2;
        for (row, text) in texts.iter().enumerate() {
            let (weight, ink) = if row == 0 { ("600", "#1f2328") } else { ("400", ink) };
            let _ = writeln!(
                svg,
                r#"<text x="{middle}" y="{}" text-anchor="middle" font-weight="{weight}" fill="{ink}">{}</text>"#,
                y + (row + 1) * CELL.1 + 12,
                escape(text),
            );
        }
        svg.push_str("</g>\n");
    }
    svg.push_str("</svg>\n");
    svg
}

fn heading(picture: &Picture) -> String {
    match &picture.run {
        None => picture.title.clone(),
        Some(run) => {
            let status = run.status.map(|status| format!(": {status}")).unwrap_or_default();
            format!("{} {}{status}, revision {}", run.run, picture.title, run.revision)
        }
    }
}

fn texts(step: &Step) -> Vec<String> {
    std::iter::once(step.id.clone()).chain(words::particulars(step, Charset::Unicode)).collect()
}

fn size(texts: &[String]) -> (usize, usize) {
    let width = texts.iter().map(|text| canvas::width(text)).max().unwrap_or(0) + 4;
    // Odd, so that every box has a middle and straight lines stay straight.
    (width | 1, texts.len() + 2)
}

fn used_height(arranged: &Arranged) -> usize {
    let boxes = arranged.areas.iter().map(|area| area.y + area.height);
    boxes.chain(arranged.lines.iter().flat_map(|line| &line.points).map(|(_, y)| y + 1)).max().unwrap_or(0)
}

/// What a pointer over the box shows.
fn hover(step: &Step) -> String {
    let error = step.reached.as_ref().and_then(|reached| reached.error.as_deref());
    match error {
        Some(error) => format!("{} ({}): {error}", step.id, step.agent),
        None => format!("{} ({})", step.id, step.agent),
    }
}

fn draw_line(svg: &mut String, line: &Line) {
    let last = line.points.len() - 1;
    let points: Vec<_> = line
        .points
        .iter()
        .enumerate()
        .map(|(place, point)| {
            let neighbour = line.points[if place == 0 { 1.min(last) } else { place - 1 }];
            let is_end = place == 0 || place == last;
            let (x, y) = if is_end { border(*point, neighbour) } else { middle(*point) };
            format!("{x},{y}")
        })
        .collect();
    let (colour, marker, dash) = match line.kind {
        Kind::Needs => ("#57606a", "needs", ""),
        Kind::Back => ("#9a6700", "back", r#" stroke-dasharray="5 4""#),
    };
    let _ = writeln!(
        svg,
        r#"<polyline points="{}" fill="none" stroke="{colour}" stroke-width="1.5" stroke-linejoin="round"{dash} marker-end="url(#{marker})"/>"#,
        points.join(" "),
    );
}

fn pixels((x, y): Cell) -> (usize, usize) {
    (x * CELL.0 + MARGIN, y * CELL.1 + MARGIN + HEAD)
}

fn middle(cell: Cell) -> (usize, usize) {
    let (x, y) = pixels(cell);
    (x + CELL.0 / 2, y + CELL.1 / 2)
}

/// Where a line meets a box: on the side of its cell that faces the next point.
fn border(cell: Cell, towards: Cell) -> (usize, usize) {
    let (left, top) = pixels(cell);
    let (x, y) = middle(cell);
    if towards.0 > cell.0 {
        (left + CELL.0, y)
    } else if towards.0 < cell.0 {
        (left, y)
    } else if towards.1 > cell.1 {
        (x, top + CELL.1)
    } else {
        (x, top)
    }
}

/// Edge, ground and ink of a box; told apart by the colour-blind, and said in words as well.
fn colours(step: &Step) -> (&'static str, &'static str, &'static str) {
    match step.reached.as_ref().map(|reached| reached.kind) {
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
    for sign in text.chars() {
        match sign {
            '&' => safe.push_str("&amp;"),
            '<' => safe.push_str("&lt;"),
            '>' => safe.push_str("&gt;"),
            '"' => safe.push_str("&quot;"),
            // XML has no way to say most control characters.
            control if control.is_control() => safe.push(' '),
            plain => safe.push(plain),
        }
    }
    safe
}
