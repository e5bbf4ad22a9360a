//! How many files may be open: an engine with many attempts needs more than a shell gives.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Raises our own limit as far as it goes, and says what it was, so that agents can be given that.
pub fn raise_descriptor_limit() -> Option<u64> {
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    // An engine that could not raise it works with what it has.
    let _ = setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum });
    current
}

/// Sets our own limit, for the program that is started next.
pub(crate) fn set_descriptor_limit(current: u64) -> std::io::Result<()> {
    let maximum = getrlimit(Resource::Nofile).maximum;
    Ok(setrlimit(Resource::Nofile, Rlimit { current: Some(current), maximum })?)
}
