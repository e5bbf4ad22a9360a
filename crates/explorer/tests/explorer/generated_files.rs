//! Comparison of generated files with those that are committed in `docs/`.

use std::fs::File;
use std::path::PathBuf;

/// Compares a file in `docs/` with `text`, or writes it if `CALLBOARD_REWRITE` is set.
pub(crate) fn expect_file(name: &str, text: &str) {
    expect_content(name, |_| text.to_owned());
}

/// Compares the section between `<!-- NAME -->` and `<!-- end of NAME -->` of a file in `docs/` with `text`, or
/// writes it if `CALLBOARD_REWRITE` is set.
pub(crate) fn expect_section(name: &str, section_name: &str, text: &str) {
    expect_content(name, |committed| {
        let (start, end) = (format!("<!-- {section_name} -->\n"), format!("<!-- end of {section_name} -->"));
        let (head, rest) = committed.split_once(&start).expect("the page has the section");
        let (_, tail) = rest.split_once(&end).expect("the page has the end of the section");
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
