//! The limit on open files: an engine with many attempts needs more than a shell's default.

use std::sync::OnceLock;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// The limit before it was raised for the first time; `None` inside means unlimited.
static ORIGINAL: OnceLock<Option<u64>> = OnceLock::new();

/// Raises the limit of this process to the maximum. Returns the original limit, which agents get again; `None` means
/// unlimited.
pub fn raise_descriptor_limit() -> Option<u64> {
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    let original = *ORIGINAL.get_or_init(|| current);
    // If that fails, the engine works with the limit it has.
    let _ = setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum });
    original
}

/// Restores the original limit if it was raised. Called before another engine is started, which would take the raised
/// limit for the user's.
pub fn restore_descriptor_limit() {
    if let Some(limit) = ORIGINAL.get().copied().flatten() {
        // If that fails, only the limit of the agents is too high.
        let _ = set_descriptor_limit(limit);
    }
}

/// Sets the limit of this process, which the next started program inherits.
pub fn set_descriptor_limit(current: u64) -> std::io::Result<()> {
    let maximum = getrlimit(Resource::Nofile).maximum;
    Ok(setrlimit(Resource::Nofile, Rlimit { current: Some(current), maximum })?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_original_limit_is_known_after_a_second_raise_and_can_be_restored() {
        set_descriptor_limit(500).unwrap();
        assert_eq!([raise_descriptor_limit(), raise_descriptor_limit()], [Some(500); 2]);
        let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
        assert_eq!(current, maximum);
        restore_descriptor_limit();
        assert_eq!(getrlimit(Resource::Nofile), Rlimit { current: Some(500), maximum });
    }
}
