//! A sheet of cells to draw on: boxes, texts, and lines that know which of them belong together.

use anstyle::Style;
use unicode_width::{UnicodeWidthChar as _, UnicodeWidthStr as _};

use super::arrange::{Area, Cell, Kind, Line};
use super::words::Charset;
use crate::output::{DIM, YELLOW, styled};

const UP: u8 = 1;
const DOWN: u8 = 2;
const LEFT: u8 = 4;
const RIGHT: u8 = 8;

#[derive(Debug)]
pub(super) struct Canvas {
    width: usize,
    charset: Charset,
    cells: Vec<Option<(char, Style)>>,
    /// Which lines go through each cell, and with which arms.
    strokes: Vec<Vec<(usize, u8)>>,
}

/// How wide a text is on a terminal.
pub(super) fn width(text: &str) -> usize {
    text.width()
}

impl Canvas {
    pub(super) fn new(width: usize, height: usize, charset: Charset) -> Self {
        let cells = width * height;
        Self { width, charset, cells: vec![None; cells], strokes: vec![Vec::new(); cells] }
    }

    fn put(&mut self, (x, y): Cell, sign: char, style: Style) {
        if let Some(cell) = self.cells.get_mut(y * self.width + x).filter(|_| x < self.width) {
            *cell = Some((sign, style));
        }
    }

    pub(super) fn text(&mut self, (x, y): Cell, text: &str, style: Style) {
        let mut at = x;
        for sign in text.chars() {
            self.put((at, y), sign, style);
            // The second half of a wide character prints nothing.
            for half in 1..sign.width().unwrap_or(0) {
                self.put((at + half, y), '\0', style);
            }
            at += sign.width().unwrap_or(0);
        }
    }

    pub(super) fn frame(&mut self, area: Area, style: Style) {
        let Area { x, y, width, height } = area;
        let (right, bottom) = (x + width - 1, y + height - 1);
        for (cell, arms) in [
            ((x, y), DOWN | RIGHT),
            ((right, y), DOWN | LEFT),
            ((x, bottom), UP | RIGHT),
            ((right, bottom), UP | LEFT),
        ] {
            self.put(cell, self.straight(arms), style);
        }
        for column in x + 1..right {
            self.put((column, y), self.straight(LEFT | RIGHT), style);
            self.put((column, bottom), self.straight(LEFT | RIGHT), style);
        }
        for row in y + 1..bottom {
            self.put((x, row), self.straight(UP | DOWN), style);
            self.put((right, row), self.straight(UP | DOWN), style);
        }
    }

    /// Draws all lines. Where one turns on another they join, else they only cross.
    pub(super) fn lines(&mut self, lines: &[Line]) {
        for (place, line) in lines.iter().enumerate() {
            for leg in line.points.windows(2) {
                self.leg(place, leg[0], leg[1]);
            }
        }
        for cell in 0..self.cells.len() {
            // What stands in a box is not drawn over.
            if self.cells[cell].is_some() || self.strokes[cell].is_empty() {
                continue;
            }
            let strokes = std::mem::take(&mut self.strokes[cell]);
            self.cells[cell] = Some(self.junction(lines, &strokes));
        }
        for line in lines {
            self.head(line);
        }
    }

    fn leg(&mut self, line: usize, from: Cell, to: Cell) {
        let (ahead, behind) = arms_towards(from, to);
        let mut at = from;
        loop {
            let arms = match (at == from, at == to) {
                (true, true) => 0,
                (true, false) => ahead,
                (false, true) => behind,
                (false, false) => ahead | behind,
            };
            if let Some(strokes) = self.strokes.get_mut(at.1 * self.width + at.0) {
                match strokes.iter_mut().find(|(other, _)| *other == line) {
                    Some((_, known)) => *known |= arms,
                    None => strokes.push((line, arms)),
                }
            }
            if at == to {
                return;
            }
            at = step(at, ahead);
        }
    }

    /// What a cell looks like through which these lines go.
    fn junction(&self, lines: &[Line], strokes: &[(usize, u8)]) -> (char, Style) {
        let all = strokes.iter().fold(0, |all, (_, arms)| all | arms);
        let is_back = strokes.iter().all(|(line, _)| lines[*line].kind == Kind::Back);
        // Lines that turn nowhere here merely cross: what goes down stays whole, so that nobody takes it for a meeting.
        let down = || strokes.iter().filter(|(_, arms)| *arms == UP | DOWN);
        let straight = strokes.iter().all(|(_, arms)| *arms == UP | DOWN || *arms == LEFT | RIGHT);
        let crossing = straight && all == UP | DOWN | LEFT | RIGHT;
        let (arms, is_back) = if crossing {
            (UP | DOWN, down().all(|(line, _)| lines[*line].kind == Kind::Back))
        } else {
            (all, is_back)
        };
        let sign = if is_back { self.dashed(arms) } else { self.round(arms) };
        (sign, style(is_back))
    }

    /// The arrow at the end of a line, in the last cell before the box.
    fn head(&mut self, line: &Line) {
        let [.., before, end] = line.points.as_slice() else { return };
        let (ahead, behind) = arms_towards(*before, *end);
        let sign = match (ahead, self.charset) {
            (UP, Charset::Unicode) => '▴',
            (DOWN, Charset::Unicode) => '▾',
            (LEFT, Charset::Unicode) => '◂',
            (_, Charset::Unicode) => '▸',
            (UP, Charset::Ascii) => '^',
            (DOWN, Charset::Ascii) => 'v',
            (LEFT, Charset::Ascii) => '<',
            (_, Charset::Ascii) => '>',
        };
        self.put(step(*end, behind), sign, style(line.kind == Kind::Back));
    }

    fn straight(&self, arms: u8) -> char {
        match self.charset {
            Charset::Unicode => glyph(arms, ['┌', '┐', '└', '┘']),
            Charset::Ascii => plain(arms),
        }
    }

    fn round(&self, arms: u8) -> char {
        match self.charset {
            Charset::Unicode => glyph(arms, ['╭', '╮', '╰', '╯']),
            Charset::Ascii => plain(arms),
        }
    }

    fn dashed(&self, arms: u8) -> char {
        let vertical = arms & (LEFT | RIGHT) == 0;
        let horizontal = arms & (UP | DOWN) == 0;
        match self.charset {
            Charset::Unicode if vertical => '┆',
            Charset::Unicode if horizontal => '┄',
            Charset::Unicode => self.round(arms),
            Charset::Ascii if vertical => ':',
            Charset::Ascii if horizontal => '.',
            Charset::Ascii => '+',
        }
    }

    /// The rows from a column on, without blanks at their ends.
    pub(super) fn rows_from(&self, column: usize) -> Vec<String> {
        self.cells.chunks(self.width.max(1)).map(|cells| row(&cells[column.min(cells.len())..])).collect()
    }
}

fn row(cells: &[Option<(char, Style)>]) -> String {
    let end = cells.iter().rposition(Option::is_some).map_or(0, |last| last + 1);
    let mut row = String::new();
    for run in cells[..end].chunk_by(|one, next| look(*one) == look(*next)) {
        let text: String =
            run.iter().map(|cell| cell.map_or(' ', |(sign, _)| sign)).filter(|sign| *sign != '\0').collect();
        match look(run[0]) {
            Some(style) if style != Style::new() => row.push_str(&styled(style, text)),
            Some(_) | None => row.push_str(&text),
        }
    }
    row
}

fn look(cell: Option<(char, Style)>) -> Option<Style> {
    cell.map(|(_, style)| style)
}

fn style(is_back: bool) -> Style {
    if is_back { YELLOW } else { DIM }
}

/// The arm that points from a cell to another one in its row or column, and the one that points back.
fn arms_towards(from: Cell, to: Cell) -> (u8, u8) {
    if to.0 > from.0 {
        (RIGHT, LEFT)
    } else if to.0 < from.0 {
        (LEFT, RIGHT)
    } else if to.1 > from.1 {
        (DOWN, UP)
    } else {
        (UP, DOWN)
    }
}

fn step((x, y): Cell, arm: u8) -> Cell {
    match arm {
        UP => (x, y.saturating_sub(1)),
        DOWN => (x, y + 1),
        LEFT => (x.saturating_sub(1), y),
        _ => (x + 1, y),
    }
}

fn glyph(arms: u8, corners: [char; 4]) -> char {
    let [down_right, down_left, up_right, up_left] = corners;
    match (arms & UP != 0, arms & DOWN != 0, arms & LEFT != 0, arms & RIGHT != 0) {
        (false, true, false, true) => down_right,
        (false, true, true, false) => down_left,
        (true, false, false, true) => up_right,
        (true, false, true, false) => up_left,
        (true, true, false, true) => '├',
        (true, true, true, false) => '┤',
        (false, true, true, true) => '┬',
        (true, false, true, true) => '┴',
        (true, true, true, true) => '┼',
        (_, _, false, false) => '│',
        (false, false, _, _) => '─',
    }
}

fn plain(arms: u8) -> char {
    match (arms & (UP | DOWN) != 0, arms & (LEFT | RIGHT) != 0) {
        (true, false) => '|',
        (false, true) => '-',
        (true, true) | (false, false) => '+',
    }
}
