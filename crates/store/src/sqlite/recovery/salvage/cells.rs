//! The rows on one page. Every length and offset is checked before it is used.

use std::io;

use super::pages::Pages;

/// The kind of page that a row is on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// A leaf of a table: rows with a row id.
    Table,
    /// A page of an index, or of a table without row ids.
    Index,
}

/// A row on a page. What does not fit continues on overflow pages.
#[derive(Debug)]
pub(super) struct Cell<'p> {
    length: usize,
    local: &'p [u8],
    overflow: Option<u32>,
}

/// The value of a column.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Value<'r> {
    Null,
    Integer(i64),
    Text(&'r [u8]),
    Blob(&'r [u8]),
}

/// The type and length of a column.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Shape {
    Null,
    Integer(usize),
    /// The numbers 0 and 1, which take no bytes.
    Constant(i64),
    Text(usize),
    Blob(usize),
    Real,
}

/// Returns the rows of a page, or `None` if its kind has no rows.
pub(super) fn cells(page: &[u8], header_at: usize) -> Option<(Kind, Vec<Cell<'_>>)> {
    let (kind, header, child) = match page.get(header_at)? {
        0x0d => (Kind::Table, 8, 0),
        0x0a => (Kind::Index, 8, 0),
        0x02 => (Kind::Index, 12, 4),
        _ => return None,
    };
    let count = usize::from(u16::from_be_bytes([*page.get(header_at + 3)?, *page.get(header_at + 4)?]));
    let pointers = page.get(header_at + header..)?;
    let offsets = pointers.chunks_exact(2).take(count).map(|two| u16::from_be_bytes([two[0], two[1]]));
    let cells = offsets.filter_map(|offset| cell(page, kind, usize::from(offset) + child));
    Some((kind, cells.collect()))
}

fn cell(page: &[u8], kind: Kind, at: usize) -> Option<Cell<'_>> {
    let (length, used) = varint(page.get(at..)?)?;
    let mut begin = at + used;
    let length = usize::try_from(length).ok()?;
    let usable = page.len();
    let smallest = (usable - 12) * 32 / 255 - 23;
    let largest = match kind {
        Kind::Table => {
            begin += varint(page.get(begin..)?)?.1; // the row id
            usable - 35
        }
        Kind::Index => (usable - 12) * 64 / 255 - 23,
    };
    if length <= largest {
        return Some(Cell { length, local: page.get(begin..begin + length)?, overflow: None });
    }
    let spread = smallest + (length - smallest) % (usable - 4);
    let local_length = if spread <= largest { spread } else { smallest };
    let local = page.get(begin..begin + local_length)?;
    let next = page.get(begin + local_length..begin + local_length + 4)?;
    let next = u32::from_be_bytes(next.try_into().expect("BUG: a slice of four bytes"));
    Some(Cell { length, local, overflow: Some(next) })
}

impl Cell<'_> {
    /// Reads the types of the columns. In all our tables they are on the page itself.
    pub(super) fn shapes(&self) -> Option<Vec<Shape>> {
        let (header, mut at) = varint(self.local)?;
        let header = self.local.get(..usize::try_from(header).ok()?)?;
        let mut shapes = Vec::new();
        while at < header.len() {
            let (code, used) = varint(&header[at..])?;
            shapes.push(Shape::of(code)?);
            at += used;
        }
        // The lengths of the columns must add up to the length of the row.
        let body: usize = shapes.iter().try_fold(0, |sum: usize, shape| sum.checked_add(shape.length()))?;
        (header.len().checked_add(body)? == self.length).then_some(shapes)
    }

    /// Assembles the row from its page and overflow pages; `None` if one of them is missing.
    pub(super) fn assemble(&self, pages: &Pages) -> io::Result<Option<Vec<u8>>> {
        let mut row = self.local.to_vec();
        let mut next = self.overflow;
        let mut buffer = Vec::new();
        // Each page adds to the row, so a cycle in the chain ends at the row's length.
        while let Some(page) = next.filter(|_| row.len() < self.length) {
            if pages.newest(page, &mut buffer)?.is_none() {
                return Ok(None);
            }
            let (link, content) = buffer.split_at(4);
            next = Some(u32::from_be_bytes(link.try_into().expect("BUG: a slice of four bytes")));
            row.extend_from_slice(&content[..content.len().min(self.length - row.len())]);
        }
        Ok((row.len() == self.length).then_some(row))
    }
}

impl Shape {
    fn of(code: u64) -> Option<Self> {
        Some(match code {
            0 => Self::Null,
            1..=4 => Self::Integer(usize::try_from(code).ok()?),
            5 => Self::Integer(6),
            6 => Self::Integer(8),
            7 => Self::Real,
            8 => Self::Constant(0),
            9 => Self::Constant(1),
            10 | 11 => return None,
            even if even % 2 == 0 => Self::Blob(usize::try_from((even - 12) / 2).ok()?),
            odd => Self::Text(usize::try_from((odd - 13) / 2).ok()?),
        })
    }

    fn length(self) -> usize {
        match self {
            Self::Null | Self::Constant(_) => 0,
            Self::Integer(length) | Self::Text(length) | Self::Blob(length) => length,
            Self::Real => 8,
        }
    }

    pub(super) fn is_integer(self) -> bool {
        matches!(self, Self::Integer(_) | Self::Constant(_))
    }
}

/// Reads the values of an assembled row.
pub(super) fn values<'r>(shapes: &[Shape], row: &'r [u8]) -> Option<Vec<Value<'r>>> {
    let (header, _) = varint(row)?;
    let mut rest = row.get(usize::try_from(header).ok()?..)?;
    let mut values = Vec::with_capacity(shapes.len());
    for shape in shapes {
        let (bytes, after) = rest.split_at_checked(shape.length())?;
        rest = after;
        values.push(match shape {
            Shape::Null | Shape::Real => Value::Null,
            Shape::Constant(number) => Value::Integer(*number),
            Shape::Integer(_) => Value::Integer(integer(bytes)),
            Shape::Text(_) => Value::Text(bytes),
            Shape::Blob(_) => Value::Blob(bytes),
        });
    }
    Some(values)
}

fn integer(bytes: &[u8]) -> i64 {
    let negative = bytes.first().is_some_and(|byte| byte & 0x80 != 0);
    bytes.iter().fold(if negative { -1 } else { 0 }, |number, byte| number << 8 | i64::from(*byte))
}

/// Reads SQLite's variable-length integer of one to nine bytes. Returns the value and its length.
fn varint(bytes: &[u8]) -> Option<(u64, usize)> {
    let mut value = 0;
    for (at, &byte) in bytes.iter().take(8).enumerate() {
        value = value << 7 | u64::from(byte & 0x7f);
        if byte & 0x80 == 0 {
            return Some((value, at + 1));
        }
    }
    Some((value << 8 | u64::from(*bytes.get(8)?), 9))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_read_as_sqlite_writes_them() {
        assert_eq!(varint(&[0x7f]), Some((127, 1)));
        assert_eq!(varint(&[0x81, 0x00]), Some((128, 2)));
        assert_eq!(varint(&[0xff; 9]), Some((u64::MAX, 9)));
        assert_eq!(varint(&[0x81]), None);
        assert_eq!(integer(&[0xff, 0xfe]), -2);
        assert_eq!(integer(&[0x01, 0x00]), 256);
    }

    #[test]
    fn random_bytes_cause_no_panic() {
        let mut random = fastrand::Rng::with_seed(7);
        for _ in 0..10_000 {
            let mut page: Vec<u8> = (0..512).map(|_| random.u8(..)).collect();
            page[0] = [0x0d, 0x0a, 0x02][random.usize(..3)];
            let (_, cells) = cells(&page, 0).unwrap();
            for cell in &cells {
                if let Some(shapes) = cell.shapes() {
                    values(&shapes, cell.local);
                }
            }
        }
    }
}
