//! Moves lines aside that run down one column with a line they have nothing to do with.

use std::ops::RangeInclusive;

use super::arrange::{Area, Arranged, Line};

/// Looks at every stretch downwards that is shared so, and puts it into the nearest column where it is by itself. One
/// that hangs on a box stays on that box; where there is no room it stays as it is.
pub(super) fn step_aside(arranged: &mut Arranged) {
    for line in 0..arranged.lines.len() {
        for leg in 0..arranged.lines[line].points.len() - 1 {
            let points = &arranged.lines[line].points;
            let column = points[leg].0;
            let down = column == points[leg + 1].0 && points[leg].1 != points[leg + 1].1;
            if !down || is_alone(arranged, line, leg, column) {
                continue;
            }
            let mut columns: Vec<_> = columns(arranged, line, leg).collect();
            columns.sort_by_key(|other| other.abs_diff(column));
            let free = |other: &usize| {
                !is_boxed(arranged, line, leg, *other) && is_alone(arranged, line, leg, *other)
            };
            if let Some(free) = columns.into_iter().find(free) {
                arranged.lines[line].points[leg].0 = free;
                arranged.lines[line].points[leg + 1].0 = free;
                arranged.width = arranged.width.max(free + 1);
            }
        }
    }
}

/// Where a stretch may go: within the box on which it hangs, else anywhere, and beyond the margin.
fn columns(arranged: &Arranged, line: usize, leg: usize) -> RangeInclusive<usize> {
    let Line { from, to, points, .. } = &arranged.lines[line];
    let inside = |step: usize| {
        let area = &arranged.areas[step];
        area.x + 1..=area.x + area.width.saturating_sub(2)
    };
    match (leg == 0, leg + 2 == points.len()) {
        // It hangs on two boxes, hence is straight; bent it would be worse.
        (true, true) => points[leg].0..=points[leg].0,
        (true, false) => inside(*from),
        (false, true) => inside(*to),
        (false, false) => 0..=arranged.width + 2,
    }
}

fn rows(line: &Line, leg: usize) -> RangeInclusive<usize> {
    let (one, other) = (line.points[leg].1, line.points[leg + 1].1);
    one.min(other)..=one.max(other)
}

/// Whether no other line that shares none of its ends runs down this column beside the stretch.
fn is_alone(arranged: &Arranged, line: usize, leg: usize, column: usize) -> bool {
    let this = &arranged.lines[line];
    let rows = rows(this, leg);
    let strangers = arranged
        .lines
        .iter()
        .filter(|other| other.kind != this.kind || (other.from != this.from && other.to != this.to));
    !strangers.flat_map(|other| other.points.windows(2)).any(|pair| {
        let (low, high) = (pair[0].1.min(pair[1].1), pair[0].1.max(pair[1].1));
        pair[0].0 == column && pair[1].0 == column && low <= *rows.end() && *rows.start() <= high
    })
}

/// Whether a box is in the way of the stretch, or of what leads to it from either side.
fn is_boxed(arranged: &Arranged, line: usize, leg: usize, column: usize) -> bool {
    let points = &arranged.lines[line].points;
    let last = points.len() - 1;
    let down = rows(&arranged.lines[line], leg).map(|row| (column, row));
    let across = |from: usize, beside: usize| {
        let (x, row) = points[from];
        let level = row == points[beside].1;
        (x.min(column)..=x.max(column)).filter(move |_| level).map(move |x| (x, row))
    };
    let before = leg.checked_sub(1).into_iter().flat_map(|from| across(from, leg));
    let after = (leg + 2 <= last).then_some(leg + 2).into_iter().flat_map(|from| across(from, leg + 1));
    // Its ends lie on boxes, as they must.
    let mut cells = down.chain(before).chain(after).filter(|cell| {
        let end = |place: usize| {
            *cell == points[place] || (leg + 1 == place || leg == place) && cell.1 == points[place].1
        };
        !end(0) && !end(last)
    });
    cells.any(|(x, y)| {
        let within = |area: &Area| {
            (area.x..area.x + area.width).contains(&x) && (area.y..area.y + area.height).contains(&y)
        };
        arranged.areas.iter().any(within)
    })
}
