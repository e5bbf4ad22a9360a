//! The documentation names files that exist.

use std::fs;
use std::path::{Path, PathBuf};

#[test]
fn links_and_paths_in_the_documentation_lead_to_files() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let crates: Vec<_> = names(&root.join("crates")).map(|name| format!("{name}/")).collect();
    let others = ["docs/", "examples/", "scripts/"].map(str::to_owned);
    let mut missing = Vec::new();
    for page in pages(&root) {
        let text = fs::read_to_string(&page).unwrap();
        let directory = page.parent().unwrap();
        let links = text.split("](").skip(1).filter_map(|rest| rest.split([')', '#']).next());
        let links = links.filter(|link| !link.is_empty() && !link.contains([':', ' ']));
        let paths = text.split('`').skip(1).step_by(2).filter_map(|code| {
            let is_path = code.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"_-./".contains(&byte));
            let below = |directories: &[String], path: &str| {
                directories
                    .iter()
                    .any(|name| path.strip_prefix(name.as_str()).is_some_and(|rest| !rest.is_empty()))
            };
            let in_crate = code.strip_prefix("crates/").unwrap_or(code);
            match is_path {
                true if below(&crates, in_crate) => Some(root.join("crates").join(in_crate)),
                true if below(&others, code) => Some(root.join(code)),
                true | false => None,
            }
        });
        let named = links.map(|link| directory.join(link)).chain(paths);
        // A module is named without `.rs`.
        let absent = named.filter(|path| !path.exists() && !path.with_extension("rs").exists());
        missing.extend(absent.map(|path| format!("{}: {}", page.display(), path.display())));
    }
    assert!(missing.is_empty(), "no such file:\n{}", missing.join("\n"));
}

/// Returns the Markdown files of the repository: at its root, in `docs` and in `examples`.
fn pages(root: &Path) -> Vec<PathBuf> {
    let mut pages = Vec::new();
    let mut directories = vec![root.join("docs"), root.join("examples")];
    let mut paths: Vec<_> = names(root).map(|name| root.join(name)).filter(|path| path.is_file()).collect();
    loop {
        pages
            .extend(paths.extract_if(.., |path| path.extension().is_some_and(|extension| extension == "md")));
        directories.extend(paths.drain(..).filter(|path| path.is_dir()));
        let Some(directory) = directories.pop() else { return pages };
        paths.extend(names(&directory).map(|name| directory.join(name)));
    }
}

fn names(directory: &Path) -> impl Iterator<Item = String> {
    fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap())
}
