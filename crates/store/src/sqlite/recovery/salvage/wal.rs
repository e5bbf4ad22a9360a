//! SQLite's write-ahead log (WAL), read without SQLite.
//!
//! SQLite stops at the first frame whose checksum is wrong and drops the rest, committed or not. Each frame's checksum
//! is seeded with the stored checksum of the frame before it, so a frame can be verified although its predecessor is
//! unreadable. Salvage takes every valid frame up to the last valid commit. Frames after it were never acknowledged.

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
    salt: [u8; 8],
    big_endian: bool,
    /// The checksum, which seeds the first frame's. `None` if the header is unreadable.
    sum: Option<(u32, u32)>,
}

struct Frame {
    page: u32,
    is_commit: bool,
    is_valid: bool,
    /// The stored checksum, which seeds the next frame's.
    sum: (u32, u32),
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
        let frame_size = (FRAME_HEADER + header.page_size) as u64;
        let mut buffer = vec![0; FRAME_HEADER + header.page_size];
        let (mut seed, mut images, mut bad_frames, mut bad_since_commit) = (header.sum, Vec::new(), 0, 0);
        // Images that count only if a commit follows.
        let mut pending = Vec::new();
        let mut offset = HEADER;
        while offset + frame_size <= length {
            file.read_exact_at(&mut buffer, offset)?;
            let frame = header.frame(&buffer, seed);
            seed = Some(frame.sum);
            if frame.is_valid {
                pending.push((frame.page, offset + FRAME_HEADER as u64));
                if frame.is_commit {
                    images.append(&mut pending);
                    bad_frames += std::mem::take(&mut bad_since_commit);
                }
            } else {
                bad_since_commit += 1;
            }
            offset += frame_size;
        }
        // SQLite loses everything after an unreadable header, as after a bad frame.
        if header.sum.is_none() && !images.is_empty() {
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
        let mut bytes = [0; HEADER as usize + FRAME_HEADER];
        file.read_exact_at(&mut bytes, 0)?;
        let magic = word(&bytes, 0);
        let big_endian = magic & 1 == 1;
        let page_size = word(&bytes, 8) as usize;
        let plausible =
            magic & !1 == MAGIC && page_size.is_power_of_two() && (512..=65536).contains(&page_size);
        let sum = checksum(&bytes[..24], (0, 0), big_endian);
        if plausible && sum == (word(&bytes, 24), word(&bytes, 28)) {
            let salt = bytes[16..24].try_into().expect("BUG: a slice of eight bytes");
            return Ok(Some(Self { page_size, salt, big_endian, sum: Some(sum) }));
        }
        // The first frame always has the newest salt.
        let salt = bytes[40..48].try_into().expect("BUG: a slice of eight bytes");
        let big_endian = cfg!(target_endian = "big");
        Ok(Some(Self { page_size: assumed_page_size, salt, big_endian, sum: None }))
    }

    fn frame(&self, bytes: &[u8], seed: Option<(u32, u32)>) -> Frame {
        let sum = (word(bytes, 16), word(bytes, 20));
        let found = seed.map(|seed| {
            let seed = checksum(&bytes[..8], seed, self.big_endian);
            checksum(&bytes[FRAME_HEADER..], seed, self.big_endian)
        });
        let is_valid = bytes[8..16] == self.salt && found == Some(sum);
        Frame { page: word(bytes, 0), is_commit: word(bytes, 4) != 0, is_valid, sum }
    }
}

fn word(bytes: &[u8], at: usize) -> u32 {
    u32::from_be_bytes(bytes[at..at + 4].try_into().expect("BUG: a slice of four bytes"))
}

/// Computes SQLite's checksum over pairs of words.
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
