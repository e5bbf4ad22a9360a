//! Every code has a page, every page a code, and every command on a page parses.

use std::collections::BTreeSet;
use std::path::Path;

use clap::CommandFactory as _;

use super::*;
use crate::cli::Cli;

#[test]
fn every_page_has_a_code_and_every_code_a_page() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/errors");
    let files = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name());
    let pages: BTreeSet<_> = files.map(|name| name.into_string().unwrap()).collect();
    let codes: Vec<_> = Code::ALL.iter().map(|code| format!("{code}.md")).collect();
    assert_eq!(pages, codes.iter().cloned().collect(), "pages and codes differ");
    assert_eq!(pages.len(), codes.len(), "a code stands for two errors");
    assert!(codes.is_sorted(), "the codes are not in order");
}

#[test]
fn every_page_has_the_same_sections() {
    for code in Code::ALL {
        let page = code.page();
        assert!(page.starts_with(&format!("# {code}: ")), "{code}");
        let headings: Vec<_> = page.lines().filter_map(|line| line.strip_prefix("## ")).collect();
        let expected = ["What happened", "Why", "What Callboard did", "What to do", "Example"];
        assert_eq!(headings, expected, "{code}");
        assert!(!code.title().ends_with('.') && code.title().len() < 60, "{code}: {}", code.title());
    }
}

#[test]
fn every_command_on_a_page_parses() {
    for code in Code::ALL {
        let lines = code.page().lines().filter_map(|line| line.trim_start().strip_prefix("$ "));
        let spans = code.page().split('`').skip(1).step_by(2);
        let commands: Vec<_> = lines.chain(spans).filter(|text| text.starts_with("callboard ")).collect();
        assert!(!commands.is_empty(), "{code} has no command");
        for command in commands {
            let words = shell_words::split(command).unwrap();
            let parsed = Cli::command().try_get_matches_from(&words);
            let is_valid = match parsed {
                Ok(_) => true,
                // `--help` and `--version` are valid, and so is the name of a command alone, such as `callboard run`.
                Err(error) => {
                    !error.use_stderr()
                        || (words.len() == 2 && Cli::command().find_subcommand(&words[1]).is_some())
                }
            };
            assert!(is_valid, "{code}: `{command}` does not parse");
        }
    }
}

#[test]
fn a_code_is_found_by_name_and_by_number() {
    for name in ["E004", "e004", "e4", "4", "0004"] {
        assert_eq!(find(name).unwrap(), Code::NetworkFileSystem, "{name}");
    }
    // The letter l instead of the digit 1.
    let failure = find("E0l1").unwrap_err();
    assert!(failure.hints[0].starts_with("did you mean `E0"), "{:?}", failure.hints);
    assert_eq!(find("nonsense").unwrap_err().hints, ["run `callboard explain` to list all codes"]);
}
