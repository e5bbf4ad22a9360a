//! The output of a check: whole in a file, its digest and its tail in the result.

use std::fs::File;
use std::io::{self, Read as _};

use sha2::{Digest as _, Sha256};

/// How many bytes of the output's tail a result keeps.
const KEPT: usize = 16 * 1024;

/// What a result says about the output.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Output {
    pub(super) digest: String,
    pub(super) tail: String,
}

/// Reads the output once, however long it is.
pub(super) fn read(mut file: File) -> io::Result<Output> {
    let (mut hash, mut tail) = (Sha256::new(), Vec::new());
    let mut buffer = vec![0; 64 * 1024];
    loop {
        let length = file.read(&mut buffer)?;
        if length == 0 {
            return Ok(Output { digest: hexadecimal(&hash.finalize()), tail: text(&tail) });
        }
        hash.update(&buffer[..length]);
        tail.extend_from_slice(&buffer[..length]);
        tail.drain(..tail.len().saturating_sub(KEPT));
    }
}

/// Returns the SHA-256 in lower-case hexadecimal.
pub(super) fn digest(bytes: &[u8]) -> String {
    hexadecimal(&Sha256::digest(bytes))
}

fn hexadecimal(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Returns the bytes as text, without a character that was cut at the start.
fn text(bytes: &[u8]) -> String {
    let is_cut = |byte: &u8| bytes.len() == KEPT && *byte & 0b1100_0000 == 0b1000_0000;
    let start = bytes.iter().take(3).take_while(|byte| is_cut(byte)).count();
    String::from_utf8_lossy(&bytes[start..]).into_owned()
}
