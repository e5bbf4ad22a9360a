//! Generated files that are committed.

use std::path::PathBuf;

/// Compares a file under `docs/protocols/steps/` with what it should hold, or writes it where that is asked for.
pub(crate) fn must_hold(name: &str, text: &str) {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../docs/protocols/steps").join(name);
    if std::env::var_os("CALLBOARD_REWRITE").is_some() {
        std::fs::write(&path, text).expect("docs/protocols/steps is there to write to");
        return;
    }
    let committed = std::fs::read_to_string(&path).unwrap_or_default();
    let differs = committed.lines().zip(text.lines()).position(|(old, new)| old != new);
    let differs = differs.or((committed.lines().count() != text.lines().count()).then_some(usize::MAX));
    let line = |text: &str| {
        differs.and_then(|at| text.lines().nth(at)).unwrap_or("(as long as the other)").to_owned()
    };
    assert!(
        differs.is_none(),
        "{name} has drifted\n  committed: {}\n  explored:  {}\nlook at the difference, then rewrite it with CALLBOARD_REWRITE=1",
        line(&committed),
        line(text),
    );
}
