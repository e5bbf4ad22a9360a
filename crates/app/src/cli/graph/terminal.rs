//! The picture for a terminal: boxes if they fit, smaller ones if not, a list if nothing fits.

use anstyle::Style;

use super::arrange::{Area, Arranged, Flow, arrange};
use super::canvas::{self, Canvas};
use super::picture::{Picture, Step};
use super::words::{self, Charset};
use crate::output::{BOLD, DIM, YELLOW, styled};

/// More rows than this, and smaller boxes are tried.
const TALL: usize = 100;

/// How much of a step is shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Form {
    /// A frame with the name, and below it who plays or how far it is.
    Boxes,
    /// One row: the name and a word.
    Rows,
}

/// Draws the picture at most this wide.
pub(super) fn draw(picture: &Picture, width: usize, charset: Charset) -> Vec<String> {
    let forms = [
        (Form::Boxes, Flow::Down),
        (Form::Boxes, Flow::Right),
        (Form::Rows, Flow::Down),
        (Form::Rows, Flow::Right),
    ];
    let mut tall = None;
    for (form, flow) in forms {
        let sheets: Vec<_> = picture.steps.iter().map(|step| sheet(step, form, charset)).collect();
        let sizes: Vec<_> = sheets.iter().map(|sheet| size(sheet, form)).collect();
        let arranged = arrange(picture, &sizes, flow);
        if used_width(&arranged) > width {
            continue;
        }
        let drawing = paint(picture, &arranged, &sheets, form, charset);
        if drawing.len() <= TALL {
            return drawing;
        }
        tall.get_or_insert(drawing);
    }
    tall.unwrap_or_else(|| list(picture, charset))
}

/// The layout leaves a margin; only what is drawn on counts.
fn used_width(arranged: &Arranged) -> usize {
    let boxes = arranged.areas.iter().map(|area| area.x + area.width);
    let lines = arranged.lines.iter().flat_map(|line| &line.points).map(|(x, _)| x + 1);
    boxes.chain(lines).max().unwrap_or(0) - margin(arranged)
}

fn margin(arranged: &Arranged) -> usize {
    let boxes = arranged.areas.iter().map(|area| area.x);
    boxes.chain(arranged.lines.iter().flat_map(|line| &line.points).map(|(x, _)| *x)).min().unwrap_or(0)
}

/// The texts of a step, each with its style.
fn sheet(step: &Step, form: Form, charset: Charset) -> Vec<(String, Style)> {
    let colour = colour(step);
    let mut particulars = words::particulars(step, charset);
    match form {
        Form::Boxes => {
            let below =
                particulars.into_iter().map(|text| (text, if step.reached.is_some() { colour } else { DIM }));
            std::iter::once((step.id.clone(), BOLD)).chain(below).collect()
        }
        Form::Rows => {
            let reached = step.reached.is_some().then(|| format!(" {}", particulars.remove(0)));
            vec![(format!("[{}{}]", step.id, reached.unwrap_or_default()), colour)]
        }
    }
}

fn colour(step: &Step) -> Style {
    step.reached.as_ref().map_or_else(Style::new, |reached| reached.kind.style())
}

fn size(sheet: &[(String, Style)], form: Form) -> (usize, usize) {
    let width = sheet.iter().map(|(text, _)| canvas::width(text)).max().unwrap_or(0);
    match form {
        // Odd, so that every box has a middle and straight lines stay straight.
        Form::Boxes => ((width + 4) | 1, sheet.len() + 2),
        Form::Rows => (width, 1),
    }
}

fn paint(
    picture: &Picture,
    arranged: &Arranged,
    sheets: &[Vec<(String, Style)>],
    form: Form,
    charset: Charset,
) -> Vec<String> {
    let mut canvas = Canvas::new(arranged.width, arranged.height, charset);
    for ((area, sheet), step) in arranged.areas.iter().zip(sheets).zip(&picture.steps) {
        let Area { x, y, .. } = *area;
        let inset = match form {
            Form::Boxes => {
                canvas.frame(*area, colour(step));
                (2, 1)
            }
            Form::Rows => (0, 0),
        };
        for (row, (text, style)) in sheet.iter().enumerate() {
            canvas.text((x + inset.0, y + inset.1 + row), text, *style);
        }
    }
    canvas.lines(&arranged.lines);
    let margin = margin(arranged);
    let mut rows = canvas.rows_from(margin);
    while rows.last().is_some_and(String::is_empty) {
        rows.pop();
    }
    let blank = rows.iter().take_while(|row| row.is_empty()).count();
    rows.split_off(blank)
}

/// One step a line, for graphs that no terminal is wide enough for.
fn list(picture: &Picture, charset: Charset) -> Vec<String> {
    let width = picture.steps.iter().map(|step| step.id.len()).max().unwrap_or(0);
    let back = if charset == Charset::Unicode { '⟲' } else { '^' };
    let after = if charset == Charset::Unicode { '←' } else { '<' };
    let names = |places: &[usize]| {
        places.iter().map(|place| picture.steps[*place].id.as_str()).collect::<Vec<_>>().join(", ")
    };
    let lines = picture.steps.iter().map(|step| {
        let mut line = format!(
            "{:<width$}  {}",
            step.id,
            styled(colour(step), words::particulars(step, charset).join(", "))
        );
        if !step.needs.is_empty() {
            line.push_str(&styled(DIM, format_args!("  {after} {}", names(&step.needs))));
        }
        if let Some(target) = step.back_to {
            line.push_str(&styled(YELLOW, format_args!("  {back} {}", names(&[target]))));
        }
        line
    });
    lines.collect()
}
