//! The pages of a database and its write-ahead log (WAL), read one at a time.

use std::collections::HashMap;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt as _;
use std::path::Path;

use super::wal::Wal;
use crate::location::wal_of;

/// SQLite's default, which our databases use.
const DEFAULT_PAGE_SIZE: usize = 4096;

#[derive(Debug)]
pub(super) struct Pages {
    file: File,
    length: u64,
    pub(super) page_size: usize,
    wal: Option<Wal>,
    /// The offset of the newest image of each page in the WAL.
    newest: HashMap<u32, u64>,
}

/// One version of the content of a page: in the database file, or in a frame of the WAL.
#[derive(Debug, Clone, Copy)]
pub(super) enum Image {
    InFile(u32),
    InWal { page: u32, offset: u64 },
}

impl Pages {
    pub(super) fn open(database: &Path) -> io::Result<Self> {
        let file = match File::open(database) {
            // The WAL of a deleted database may still hold something.
            Err(error) if error.kind() == io::ErrorKind::NotFound => File::open("/dev/null")?,
            other => other?,
        };
        let length = file.metadata()?.len();
        let stated = stated_page_size(&file, length)?;
        let wal = Wal::read(&wal_of(database), stated.unwrap_or(DEFAULT_PAGE_SIZE))?;
        let page_size = stated.or(wal.as_ref().map(|wal| wal.page_size)).unwrap_or(DEFAULT_PAGE_SIZE);
        // Ignore a WAL with another page size than the file's.
        let wal = wal.filter(|wal| wal.page_size == page_size);
        let newest = wal.as_ref().map(|wal| wal.images.iter().copied().collect()).unwrap_or_default();
        Ok(Self { file, length, page_size, wal, newest })
    }

    /// The number of unreadable WAL frames that are followed by a commit.
    pub(super) fn bad_frames(&self) -> u64 {
        self.wal.as_ref().map_or(0, |wal| wal.bad_frames)
    }

    /// Returns every image of every page, the file's first. An older image is as good as a newer one, because salvaged
    /// rows never change once they are written.
    pub(super) fn images(&self) -> impl Iterator<Item = Image> + '_ {
        let count = self.length.div_ceil(self.page_size as u64).min(u64::from(u32::MAX)) as u32;
        let in_wal = self.wal.iter().flat_map(|wal| &wal.images);
        (1..=count).map(Image::InFile).chain(in_wal.map(|&(page, offset)| Image::InWal { page, offset }))
    }

    pub(super) fn read(&self, image: Image, buffer: &mut Vec<u8>) -> io::Result<()> {
        buffer.clear();
        buffer.resize(self.page_size, 0);
        match (image, &self.wal) {
            (Image::InWal { offset, .. }, Some(wal)) => wal.file.read_exact_at(buffer, offset),
            (Image::InFile(page) | Image::InWal { page, .. }, _) => self.read_from_file(page, buffer),
        }
    }

    /// Reads the newest image of a page: the last in the WAL, else that in the file. `None` if the page does not exist.
    pub(super) fn read_newest(&self, page: u32, buffer: &mut Vec<u8>) -> io::Result<Option<()>> {
        let image = match self.newest.get(&page) {
            Some(&offset) => Image::InWal { page, offset },
            None if page == 0 || u64::from(page - 1) * self.page_size as u64 >= self.length => {
                return Ok(None);
            }
            None => Image::InFile(page),
        };
        self.read(image, buffer).map(Some)
    }

    /// Reads a page of the file. The last page of a truncated file is filled with zeros.
    fn read_from_file(&self, page: u32, buffer: &mut [u8]) -> io::Result<()> {
        let begin = u64::from(page - 1) * self.page_size as u64;
        let available = usize::try_from(self.length.saturating_sub(begin)).unwrap_or(usize::MAX);
        let available = available.min(self.page_size);
        self.file.read_exact_at(&mut buffer[..available], begin)
    }
}

impl Image {
    /// The offset of the page header: the first page starts with the file header.
    pub(super) fn header_at(self) -> usize {
        match self {
            Self::InFile(1) | Self::InWal { page: 1, .. } => 100,
            Self::InFile(_) | Self::InWal { .. } => 0,
        }
    }
}

fn stated_page_size(file: &File, length: u64) -> io::Result<Option<usize>> {
    if length < 100 {
        return Ok(None);
    }
    let mut header = [0; 24];
    file.read_exact_at(&mut header, 0)?;
    let size = match u16::from_be_bytes([header[16], header[17]]) {
        1 => 65536,
        size => usize::from(size),
    };
    // Our databases reserve no bytes at the end of a page.
    let plausible = header.starts_with(b"SQLite format 3\0") && header[20] == 0;
    Ok((plausible && size.is_power_of_two() && size >= 512).then_some(size))
}
