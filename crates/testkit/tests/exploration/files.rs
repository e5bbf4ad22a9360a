//! Generated files that are committed.

use std::fs::File;
use std::path::PathBuf;

/// Compares a file under `docs/` with what it should hold, or writes it where that is asked for.
pub(crate) fn must_hold(name: &str, text: &str) {
    must_be(name, |_| text.to_owned());
}

/// The same for what stands in a file between two marks.
pub(crate) fn must_show(name: &str, mark: &str, text: &str) {
    must_be(name, |committed| {
        let (start, end) = (format!("<!-- {mark} -->\n"), format!("<!-- end of {mark} -->"));
        let (head, rest) = committed.split_once(&start).expect("the page has the mark");
        let (_, tail) = rest.split_once(&end).expect("the page has the mark's end");
        format!("{head}{start}{text}{end}{tail}")
    });
}

fn must_be(name: &str, should_be: impl FnOnce(&str) -> String) {
    let docs = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../docs");
    // Two tests may write to one page, each in a process of its own.
    let directory = File::open(&docs).expect("docs is there");
    directory.lock().expect("nobody holds it for long");
    let path = docs.join(name);
    let committed = std::fs::read_to_string(&path).unwrap_or_default();
    let text = should_be(&committed);
    if std::env::var_os("CALLBOARD_REWRITE").is_some() {
        std::fs::write(&path, text).expect("docs is there to write to");
        return;
    }
    let differs = committed.lines().zip(text.lines()).position(|(old, new)| old != new);
    let differs = differs.or((committed.lines().count() != text.lines().count()).then_some(usize::MAX));
    let line = |text: &str| {
        differs.and_then(|at| text.lines().nth(at)).unwrap_or("(as long as the other)").to_owned()
    };
    assert!(
        differs.is_none(),
        "{name} has drifted\n  committed: {}\n  explored:  {}\nlook at the difference, then rewrite it with CALLBOARD_REWRITE=1",
        line(&committed),
        line(&text),
    );
}
