//! SQLite's write-ahead log (WAL), read without SQLite.
//!
//! SQLite stops at the first frame whose checksum is wrong and drops the rest, committed or not. Each frame's checksum
//! continues from the stored checksum of the frame before it, so a frame can be verified although the page before it is
//! damaged. Salvage takes every valid frame up to the last valid commit. Frames after it were never acknowledged.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt as _;
use std::path::Path;

const HEADER: u64 = 32;
const FRAME_HEADER: usize = 24;
const MAGIC: u32 = 0x377f_0682;

/// A WAL and its valid frames.
#[derive(Debug)]
pub(super) struct Wal {
    pub(super) file: File,
    pub(super) page_size: usize,
    /// Page number and file offset of each page image (the content of a frame), oldest first.
    pub(super) images: Vec<(u32, u64)>,
    /// The number of unreadable frames before the last valid commit. SQLite loses everything after the first of them.
    pub(super) bad_frames: u64,
}

/// The header of the WAL, or assumptions if it is unreadable.
struct Header {
    page_size: usize,
    /// A number that all frames since the last restart of the WAL have. Frames after them are older.
    salt: [u8; 8],
    big_endian: bool,
    is_readable: bool,
    /// The stored checksum. That of the first frame continues from it.
    sum: (u32, u32),
}

struct Frame {
    /// Where its page image is in the file.
    image: u64,
    page: u32,
    salt: [u8; 8],
    is_commit: bool,
    /// Whether its checksum continues from the frame before it.
    follows: bool,
}

impl Wal {
    /// Reads the WAL of a database; `None` if it does not exist or has no frame.
    pub(super) fn read(path: &Path, assumed_page_size: usize) -> io::Result<Option<Self>> {
        let file = match File::open(path) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(error),
        };
        let length = file.metadata()?.len();
        let Some(header) = Header::read(&file, length, assumed_page_size)? else { return Ok(None) };
        let (mut images, mut bad_frames, mut bad_since_commit) = (Vec::new(), 0, 0);
        // Images that count only if a commit follows.
        let mut pending = Vec::new();
        header.read_frames(&file, length, |frame| {
            if frame.follows && frame.salt == header.salt {
                pending.push((frame.page, frame.image));
                if frame.is_commit {
                    images.append(&mut pending);
                    bad_frames += std::mem::take(&mut bad_since_commit);
                }
            } else {
                bad_since_commit += 1;
            }
        })?;
        // SQLite loses everything after an unreadable header, as after a bad frame.
        if !header.is_readable && !images.is_empty() {
            bad_frames = bad_frames.max(1);
        }
        Ok(Some(Self { file, page_size: header.page_size, images, bad_frames }))
    }
}

impl Header {
    fn read(file: &File, length: u64, assumed_page_size: usize) -> io::Result<Option<Self>> {
        if length < HEADER + FRAME_HEADER as u64 {
            return Ok(None);
        }
        let mut bytes = [0; HEADER as usize];
        file.read_exact_at(&mut bytes, 0)?;
        let magic = word(&bytes, 0);
        let big_endian = magic & 1 == 1;
        let page_size = word(&bytes, 8) as usize;
        let plausible =
            magic & !1 == MAGIC && page_size.is_power_of_two() && (512..=65536).contains(&page_size);
        let sum = (word(&bytes, 24), word(&bytes, 28));
        if plausible && sum == checksum(&bytes[..24], (0, 0), big_endian) {
            let salt = bytes[16..24].try_into().expect("BUG: a slice of eight bytes");
            return Ok(Some(Self { page_size, salt, big_endian, is_readable: true, sum }));
        }
        let big_endian = cfg!(target_endian = "big");
        let mut header =
            Self { page_size: assumed_page_size, salt: [0; 8], big_endian, is_readable: false, sum };
        // Frames from before a restart of the WAL come last, so the first intact frame has the newest salt.
        let mut salt = None;
        header.read_frames(file, length, |frame| salt = salt.or(frame.follows.then_some(frame.salt)))?;
        header.salt = salt.unwrap_or_default();
        Ok(Some(header))
    }

    /// Reads all whole frames.
    fn read_frames(&self, file: &File, length: u64, mut visit: impl FnMut(&Frame)) -> io::Result<()> {
        let mut bytes = vec![0; FRAME_HEADER + self.page_size];
        let (mut sum, mut offset) = (self.sum, HEADER);
        while offset + bytes.len() as u64 <= length {
            file.read_exact_at(&mut bytes, offset)?;
            let found = checksum(
                &bytes[FRAME_HEADER..],
                checksum(&bytes[..8], sum, self.big_endian),
                self.big_endian,
            );
            sum = (word(&bytes, 16), word(&bytes, 20));
            let page = word(&bytes, 0);
            visit(&Frame {
                image: offset + FRAME_HEADER as u64,
                page,
                salt: bytes[8..16].try_into().expect("BUG: a slice of eight bytes"),
                is_commit: word(&bytes, 4) != 0,
                // Pages are numbered from 1. Zeros have the right checksum.
                follows: page != 0 && found == sum,
            });
            offset += bytes.len() as u64;
        }
        Ok(())
    }
}

fn word(bytes: &[u8], at: usize) -> u32 {
    u32::from_be_bytes(bytes[at..at + 4].try_into().expect("BUG: a slice of four bytes"))
}

/// Continues SQLite's checksum from `seed` over pairs of words.
fn checksum(bytes: &[u8], seed: (u32, u32), big_endian: bool) -> (u32, u32) {
    let number = |bytes: &[u8]| {
        let bytes = bytes.try_into().expect("BUG: a slice of four bytes");
        if big_endian { u32::from_be_bytes(bytes) } else { u32::from_le_bytes(bytes) }
    };
    bytes.chunks_exact(8).fold(seed, |(one, two), pair| {
        let one = one.wrapping_add(number(&pair[..4])).wrapping_add(two);
        (one, two.wrapping_add(number(&pair[4..])).wrapping_add(one))
    })
}
