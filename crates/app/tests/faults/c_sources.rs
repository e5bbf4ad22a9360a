//! Compiles the C sources of this directory: an `LD_PRELOAD` library that shifts the clock, and a FUSE file system.

use std::path::{Path, PathBuf};
use std::process::Command;

/// Compiles a C source of this directory with these flags into `directory`, and returns the path of the result.
#[track_caller]
pub(crate) fn compile_c(source: &str, flags: &[&str], directory: &Path) -> PathBuf {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/faults").join(source);
    let target = directory.join(source.file_stem().unwrap());
    let output = Command::new("cc").args(flags).arg("-o").arg(&target).arg(&source).output();
    let output = output.expect("this test needs a C compiler: install `cc` (gcc or clang)");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    target
}
