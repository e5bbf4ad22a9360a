//! The rows on one page. Every length and offset is checked before it is used.

use std::io;

use super::pages::Pages;

/// The kind of page that a row is on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum PageKind {
    /// A leaf of a table: rows with a row id.
    Table,
    /// A page of an index, or of a table without row ids.
    Index,
}

/// A row on a page. What does not fit continues on overflow pages.
#[derive(Debug)]
pub(super) struct Cell<'p> {
    /// The length of the whole row.
    length: usize,
    /// What is on the page itself.
    local: &'p [u8],
    /// The first overflow page.
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

/// The type and length of a column: a serial type of SQLite's record format.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum SerialType {
    Null,
    Integer(usize),
    /// The numbers 0 and 1, which take no bytes.
    Constant(i64),
    Text(usize),
    Blob(usize),
    Real,
}

/// Returns the rows of a page, or `None` if its kind has no rows.
pub(super) fn cells(page: &[u8], header_at: usize) -> Option<(PageKind, Vec<Cell<'_>>)> {
    let (kind, header_length, child_pointer_length) = match page.get(header_at)? {
        0x0d => (PageKind::Table, 8, 0),
        0x0a => (PageKind::Index, 8, 0),
        0x02 => (PageKind::Index, 12, 4),
        _ => return None,
    };
    let count = usize::from(u16::from_be_bytes([*page.get(header_at + 3)?, *page.get(header_at + 4)?]));
    let pointers = page.get(header_at + header_length..)?;
    let offsets = pointers.chunks_exact(2).take(count).map(|two| u16::from_be_bytes([two[0], two[1]]));
    let cells = offsets.filter_map(|offset| cell(page, kind, usize::from(offset) + child_pointer_length));
    Some((kind, cells.collect()))
}

/// Reads the cell at an offset. `min_local` and `max_local` bound how much of a row is on the page itself; their
/// formulas are from SQLite's file format, "B-tree Cell Format".
fn cell(page: &[u8], kind: PageKind, at: usize) -> Option<Cell<'_>> {
    let (length, used) = varint(page.get(at..)?)?;
    let mut begin = at + used;
    let length = usize::try_from(length).ok()?;
    let usable = page.len();
    let min_local = (usable - 12) * 32 / 255 - 23;
    let max_local = match kind {
        PageKind::Table => {
            begin += varint(page.get(begin..)?)?.1; // the row id
            usable - 35
        }
        PageKind::Index => (usable - 12) * 64 / 255 - 23,
    };
    if length <= max_local {
        return Some(Cell { length, local: page.get(begin..begin + length)?, overflow: None });
    }
    let surplus = min_local + (length - min_local) % (usable - 4);
    let local_length = if surplus <= max_local { surplus } else { min_local };
    let local = page.get(begin..begin + local_length)?;
    let next = page.get(begin + local_length..begin + local_length + 4)?;
    let next = u32::from_be_bytes(next.try_into().expect("BUG: a slice of four bytes"));
    Some(Cell { length, local, overflow: Some(next) })
}

impl Cell<'_> {
    /// Reads the types of the columns. In all our tables they are on the page itself.
    pub(super) fn serial_types(&self) -> Option<Vec<SerialType>> {
        let (header, mut at) = varint(self.local)?;
        let header = self.local.get(..usize::try_from(header).ok()?)?;
        let mut serial_types = Vec::new();
        while at < header.len() {
            let (code, used) = varint(&header[at..])?;
            serial_types.push(SerialType::of(code)?);
            at += used;
        }
        // The lengths of the columns must add up to the length of the row.
        let body: usize = serial_types
            .iter()
            .try_fold(0, |sum: usize, serial_type| sum.checked_add(serial_type.length()))?;
        (header.len().checked_add(body)? == self.length).then_some(serial_types)
    }

    /// Assembles the row from its page and overflow pages; `None` if one of them is missing.
    pub(super) fn assemble(&self, pages: &Pages) -> io::Result<Option<Vec<u8>>> {
        let mut row = self.local.to_vec();
        let mut next = self.overflow;
        let mut buffer = Vec::new();
        // Each page adds to the row, so a cycle in the chain ends at the row's length.
        while let Some(page) = next.filter(|_| row.len() < self.length) {
            if pages.read_newest(page, &mut buffer)?.is_none() {
                return Ok(None);
            }
            let (link, content) = buffer.split_at(4);
            next = Some(u32::from_be_bytes(link.try_into().expect("BUG: a slice of four bytes")));
            row.extend_from_slice(&content[..content.len().min(self.length - row.len())]);
        }
        Ok((row.len() == self.length).then_some(row))
    }
}

impl SerialType {
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
pub(super) fn values<'r>(serial_types: &[SerialType], row: &'r [u8]) -> Option<Vec<Value<'r>>> {
    let (header, _) = varint(row)?;
    let mut rest = row.get(usize::try_from(header).ok()?..)?;
    let mut values = Vec::with_capacity(serial_types.len());
    for serial_type in serial_types {
        let (bytes, after) = rest.split_at_checked(serial_type.length())?;
        rest = after;
        values.push(match serial_type {
            SerialType::Null | SerialType::Real => Value::Null,
            SerialType::Constant(number) => Value::Integer(*number),
            SerialType::Integer(_) => Value::Integer(integer(bytes)),
            SerialType::Text(_) => Value::Text(bytes),
            SerialType::Blob(_) => Value::Blob(bytes),
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
                if let Some(serial_types) = cell.serial_types() {
                    values(&serial_types, cell.local);
                }
            }
        }
    }
}
