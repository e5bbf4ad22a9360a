//! The limit on open files: an engine with many attempts needs more than a shell's default.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Raises the limit of this process to the maximum. Returns the previous limit, which agents get again; `None` means
/// unlimited.
pub fn raise_descriptor_limit() -> Option<u64> {
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    // If that fails, the engine works with the limit it has.
    let _ = setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum });
    current
}

/// Sets the limit of this process, which the next started program inherits.
pub(crate) fn set_descriptor_limit(current: u64) -> std::io::Result<()> {
    let maximum = getrlimit(Resource::Nofile).maximum;
    Ok(setrlimit(Resource::Nofile, Rlimit { current: Some(current), maximum })?)
}
