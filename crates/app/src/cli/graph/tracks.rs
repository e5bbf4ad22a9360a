//! Keeps lines apart that have nothing to do with each other.
//!
//! The layout lets all lines between two rows of boxes turn in one row of cells. Where such lines come from one step, or
//! lead to one, that is a fork or a meeting and reads as such; where not, the drawing would claim needs that are none.
//! So each turning row gets as many *tracks* as it takes, and everything below moves down.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use super::arrange::{Arranged, Flow, Kind, Line};
use super::aside::step_aside;

/// Spreads the turning rows, or columns where the steps follow one another to the right.
pub(super) fn spread(arranged: &mut Arranged, flow: Flow) {
    if flow == Flow::Right {
        transpose(arranged);
    }
    step_aside(arranged);
    gather(arranged);
    let rows = rows(arranged);
    let tracks: BTreeMap<usize, Vec<Track>> =
        rows.into_iter().map(|(row, legs)| (row, assign(row, &legs, &arranged.lines))).collect();
    // Every row that needs more than one track moves what is below it.
    let moved = |row: usize| row + tracks.range(..row).map(|(_, tracks)| highest(tracks)).sum::<usize>();
    for area in &mut arranged.areas {
        area.y = moved(area.y);
    }
    for (place, line) in arranged.lines.iter_mut().enumerate() {
        let old = line.points.clone();
        for point in &mut line.points {
            point.1 = moved(point.1);
        }
        for (leg, pair) in old.windows(2).enumerate().filter(|(_, pair)| pair[0].1 == pair[1].1) {
            let of_row = tracks.get(&pair[0].1).into_iter().flatten();
            let track =
                of_row.filter(|track| track.legs.contains(&(place, leg))).map(|track| track.number).next();
            line.points[leg].1 = moved(pair[0].1) + track.unwrap_or(0);
            line.points[leg + 1].1 = line.points[leg].1;
        }
    }
    arranged.height = moved(arranged.height);
    close_up(arranged);
    step_aside(arranged);
    if flow == Flow::Right {
        transpose(arranged);
    }
}

/// The rows between two rows of boxes.
fn gaps(arranged: &Arranged) -> Vec<Range<usize>> {
    let mut bands: Vec<Range<usize>> =
        arranged.areas.iter().map(|area| area.y..area.y + area.height).collect();
    bands.sort_by_key(|band| band.start);
    let mut gaps = Vec::new();
    let mut end = bands.first().map_or(0, |band| band.end);
    for band in bands {
        if band.start > end {
            gaps.push(end..band.start);
        }
        end = end.max(band.end);
    }
    gaps
}

/// Lets all lines of a gap turn in its first row, from where they are spread as far as they have to be. Those that
/// would turn earlier, beside boxes that are taller than their own, wait for it.
fn gather(arranged: &mut Arranged) {
    let mut above = 0;
    for gap in gaps(arranged) {
        for line in arranged.lines.iter_mut().filter(|line| line.kind == Kind::Needs) {
            for leg in 1..line.points.len() {
                let (from, to) = (line.points[leg - 1], line.points[leg]);
                if from.1 == to.1 && (above..gap.end).contains(&from.1) {
                    line.points[leg - 1].1 = gap.start;
                    line.points[leg].1 = gap.start;
                }
            }
        }
        above = gap.end;
    }
}

/// Takes out rows in which nothing turns, save one for the arrows; where nothing turns at all, save two.
fn close_up(arranged: &mut Arranged) {
    let turning: BTreeSet<usize> = rows(arranged).into_keys().collect();
    let mut superfluous = BTreeSet::new();
    for gap in gaps(arranged) {
        let kept = match gap.clone().rev().find(|row| turning.contains(row)) {
            Some(last) => last + 1..last + 2,
            None => gap.start..gap.start + 2,
        };
        superfluous.extend(gap.filter(|row| !turning.contains(row) && !kept.contains(row)));
    }
    let moved = |row: usize| row - superfluous.range(..row).count();
    for area in &mut arranged.areas {
        area.y = moved(area.y);
    }
    for point in arranged.lines.iter_mut().flat_map(|line| &mut line.points) {
        point.1 = moved(point.1);
    }
    arranged.height = moved(arranged.height);
}

fn transpose(arranged: &mut Arranged) {
    std::mem::swap(&mut arranged.width, &mut arranged.height);
    for area in &mut arranged.areas {
        std::mem::swap(&mut area.x, &mut area.y);
        std::mem::swap(&mut area.width, &mut area.height);
    }
    for point in arranged.lines.iter_mut().flat_map(|line| &mut line.points) {
        std::mem::swap(&mut point.0, &mut point.1);
    }
}

/// A stretch across: of which line, which of its legs, and between which columns.
#[derive(Debug, Clone, Copy)]
struct Leg {
    line: usize,
    leg: usize,
    /// Where it comes from above, and where it goes on below.
    enters: usize,
    leaves: usize,
}

/// The legs of each row in which no box stands.
fn rows(arranged: &Arranged) -> BTreeMap<usize, Vec<Leg>> {
    let mut rows: BTreeMap<usize, Vec<Leg>> = BTreeMap::new();
    for (line, Line { points, kind, .. }) in arranged.lines.iter().enumerate() {
        for (leg, pair) in points.windows(2).enumerate().filter(|(_, pair)| pair[0].1 == pair[1].1) {
            let (enters, leaves) = match kind {
                Kind::Needs => (pair[0].0, pair[1].0),
                Kind::Back => (pair[1].0, pair[0].0),
            };
            rows.entry(pair[0].1).or_default().push(Leg { line, leg, enters, leaves });
        }
    }
    rows.retain(|row, _| !arranged.areas.iter().any(|area| (area.y..area.y + area.height).contains(row)));
    rows
}

/// Legs that share a row.
#[derive(Debug)]
struct Track {
    number: usize,
    legs: Vec<(usize, usize)>,
}

fn highest(tracks: &[Track]) -> usize {
    tracks.iter().map(|track| track.number).max().unwrap_or(0)
}

/// What belongs together: a fork, a meeting, or a single line.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Bundle {
    From(usize),
    To(usize),
    Back(usize),
}

/// Gives each bundle the first track on which it touches no other.
fn assign(row: usize, legs: &[Leg], lines: &[Line]) -> Vec<Track> {
    let mut bundles: BTreeMap<Bundle, Vec<Leg>> = BTreeMap::new();
    for leg in legs {
        bundles.entry(bundle(leg, legs, lines, row)).or_default().push(*leg);
    }
    let mut waiting: Vec<Vec<Leg>> = bundles.into_values().collect();
    waiting.sort_by_key(|legs| span(legs));
    let mut done: Vec<(usize, Vec<Leg>)> = Vec::new();
    while !waiting.is_empty() {
        // Whoever comes down in a column goes before whoever leaves it downwards.
        let free = waiting.iter().position(|one| !waiting.iter().any(|other| goes_before(other, one)));
        // In a ring nobody can be first. One line by itself may be, where a bundle was not.
        if free.is_none()
            && let Some(several) = waiting.iter().position(|legs| legs.len() > 1)
        {
            let legs = waiting.remove(several);
            waiting.extend(legs.into_iter().map(|leg| vec![leg]));
            continue;
        }
        let next = waiting.remove(free.unwrap_or(0));
        let least =
            done.iter().filter(|(_, other)| goes_before(other, &next)).map(|(number, _)| number + 1).max();
        let taken = |number: usize| done.iter().any(|(other, legs)| *other == number && touch(legs, &next));
        let number = (least.unwrap_or(0)..).find(|number| !taken(*number)).expect("BUG: numbers do not end");
        done.push((number, next));
    }
    let legs = |legs: Vec<Leg>| legs.iter().map(|leg| (leg.line, leg.leg)).collect();
    done.into_iter().map(|(number, bundle)| Track { number, legs: legs(bundle) }).collect()
}

fn bundle(leg: &Leg, legs: &[Leg], lines: &[Line], row: usize) -> Bundle {
    let line = &lines[leg.line];
    if line.kind == Kind::Back {
        return Bundle::Back(leg.line);
    }
    let passes = |other: &&Line| {
        let rows = || other.points.iter().map(|point| point.1);
        other.kind == Kind::Needs && rows().min() <= Some(row) && rows().max() >= Some(row)
    };
    let forks = lines.iter().filter(passes).filter(|other| other.from == line.from).count() > 1;
    let meets = lines.iter().filter(passes).any(|other| other.to == line.to && other.from != line.from);
    let siblings: Vec<Leg> =
        legs.iter().copied().filter(|other| lines[other.line].from == line.from).collect();
    let (start, end) = span(&siblings);
    // In the middle of a fork, a line that meets another one would seem to send that one along the fork.
    let within = start < leg.leaves && leg.leaves < end;
    if forks && !(meets && within) { Bundle::From(line.from) } else { Bundle::To(line.to) }
}

fn goes_before(one: &[Leg], other: &[Leg]) -> bool {
    one.iter().any(|one| other.iter().any(|other| one.line != other.line && one.enters == other.leaves))
}

fn span(legs: &[Leg]) -> (usize, usize) {
    let columns = || legs.iter().flat_map(|leg| [leg.enters, leg.leaves]);
    (columns().min().unwrap_or(0), columns().max().unwrap_or(0))
}

fn touch(one: &[Leg], other: &[Leg]) -> bool {
    let ((start, end), (from, to)) = (span(one), span(other));
    start <= to && from <= end
}

#[cfg(test)]
mod tests;
