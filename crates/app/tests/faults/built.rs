//! The two small programs in C that some faults need: no Rust program can be preloaded into another, or mount itself.

use std::path::{Path, PathBuf};
use std::process::Command;

/// Builds a C source beside this file with these flags.
#[track_caller]
pub(crate) fn built(source: &str, flags: &[&str], into: &Path) -> PathBuf {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/faults").join(source);
    let target = into.join(source.file_stem().unwrap());
    let output = Command::new("cc").args(flags).arg("-o").arg(&target).arg(&source).output();
    let output = output.expect("this test needs a C compiler: install `cc` (gcc or clang)");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    target
}
