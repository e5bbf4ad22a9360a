//! Comparison of generated files with those that are committed in `docs/`.

use std::fs::File;
use std::path::PathBuf;

/// Compares a file in `docs/` with `text`, or writes it if `CALLBOARD_REWRITE` is set.
pub(crate) fn expect_file(name: &str, text: &str) {
    expect_content(name, |_| text.to_owned());
}

/// Compares the section between `<!-- mark -->` and `<!-- end of mark -->` of a file in `docs/` with `text`, or
/// writes it if `CALLBOARD_REWRITE` is set.
pub(crate) fn expect_section(name: &str, mark: &str, text: &str) {
    expect_content(name, |committed| {
        let (start, end) = (format!("<!-- {mark} -->\n"), format!("<!-- end of {mark} -->"));
        let (head, rest) = committed.split_once(&start).expect("the page has the mark");
        let (_, tail) = rest.split_once(&end).expect("the page has the mark's end");
        format!("{head}{start}{text}{end}{tail}")
    });
}

fn expect_content(name: &str, expected: impl FnOnce(&str) -> String) {
    let docs = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../docs");
    // Locked, because two test processes may write to one page.
    let directory = File::open(&docs).expect("docs is there");
    directory.lock().expect("no test holds it for long");
    let path = docs.join(name);
    let committed = std::fs::read_to_string(&path).unwrap_or_default();
    let text = expected(&committed);
    if std::env::var_os("CALLBOARD_REWRITE").is_some() {
        std::fs::write(&path, text).expect("docs is there to write to");
        return;
    }
    let first_difference = committed.lines().zip(text.lines()).position(|(old, new)| old != new);
    let first_difference =
        first_difference.or((committed.lines().count() != text.lines().count()).then_some(usize::MAX));
    let line = |text: &str| {
        first_difference.and_then(|at| text.lines().nth(at)).unwrap_or("(no such line)").to_owned()
    };
    assert!(
        first_difference.is_none(),
        "{name} differs from the exploration\n  committed: {}\n  explored:  {}\nreview the difference, then run `CALLBOARD_REWRITE=1 cargo test -p callboard-explorer`",
        line(&committed),
        line(&text),
    );
}
