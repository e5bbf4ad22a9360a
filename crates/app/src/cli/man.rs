//! `callboard man [COMMAND]`.

use std::path::{Path, PathBuf};

use clap::Command;
use clap_mangen::Man;
use clap_mangen::roff::{Roff, roman};

use super::help;
use crate::failure::{Exit, Failure};
use crate::output;

/// Print a manual page, or write all of them to a directory
///
/// The pages have the same texts as `--help`. Packages install them with --dir.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  callboard man | man -l -
  callboard man resume | man -l -
  callboard man --dir ~/.local/share/man/man1")]
pub(super) struct Arguments {
    /// The command [default: the main page]
    #[arg(conflicts_with = "dir")]
    command: Option<String>,

    /// Write the pages of all commands to this directory
    #[arg(long, value_name = "DIR")]
    dir: Option<PathBuf>,
}

pub(super) fn run(arguments: Arguments) -> Result<Exit, Failure> {
    let pages = pages();
    if let Some(directory) = &arguments.dir {
        write_all(directory, &pages)?;
        output::note(format_args!("wrote {} manual pages to `{}`", pages.len(), directory.display()));
        return Ok(Exit::Success);
    }
    let name =
        arguments.command.map_or_else(|| "callboard".to_owned(), |command| format!("callboard-{command}"));
    let page = pages.iter().find(|page| page.name == name).ok_or_else(|| {
        Failure::usage(format!("there is no manual page `{name}`"))
            .hint("run `callboard --help` to list the commands")
    })?;
    output::raw(&page.text);
    Ok(Exit::Success)
}

#[derive(Debug)]
struct Page {
    /// The name of the page, such as `callboard-resume`.
    name: String,
    text: String,
}

fn write_all(directory: &Path, pages: &[Page]) -> Result<(), Failure> {
    let failed = |path: &Path| {
        let what = format!("cannot write `{}`", path.display());
        move |error: std::io::Error| Failure::usage(what).because(Some(&error))
    };
    std::fs::create_dir_all(directory).map_err(failed(directory))?;
    for page in pages {
        let path = directory.join(format!("{}.1", page.name));
        std::fs::write(&path, &page.text).map_err(failed(&path))?;
    }
    Ok(())
}

/// Returns one page for callboard and one for each visible command.
fn pages() -> Vec<Page> {
    let mut main = help::command().disable_help_subcommand(true);
    main.build();
    let mut all = Vec::new();
    collect(&main, &mut all);
    all.into_iter().map(page).collect()
}

/// Adds the command and its visible subcommands, at every level.
fn collect<'c>(command: &'c Command, all: &mut Vec<&'c Command>) {
    all.push(command);
    for subcommand in command.get_subcommands().filter(|command| !command.is_hide_set()) {
        collect(subcommand, all);
    }
}

fn page(command: &Command) -> Page {
    let name = command.get_display_name().unwrap_or_else(|| command.get_name()).to_owned();
    let man = Man::new(command.clone());
    // The date is empty, so that the same program prints the same page. `Man::render_title` would leave out an empty argument.
    let title = format!(".TH {name} 1 \"\" \"callboard {}\" \"Callboard\"\n", env!("CARGO_PKG_VERSION"));
    let mut text = title.into_bytes();
    let parts = [
        Man::render_name_section,
        Man::render_synopsis_section,
        Man::render_description_section,
        Man::render_options_section,
    ];
    for part in parts {
        part(&man, &mut text).expect("BUG: writing to memory failed");
    }
    if command.get_subcommands().any(|subcommand| !subcommand.is_hide_set()) {
        man.render_subcommands_section(&mut text).expect("BUG: writing to memory failed");
    }
    let text = String::from_utf8(text).expect("BUG: our help is UTF-8");
    let after_help = command.get_after_help().map(ToString::to_string).unwrap_or_default();
    Page { name, text: text + &sections(&after_help) }
}

/// Turns the text below the options of the help into sections. Line breaks are kept.
fn sections(help: &str) -> String {
    let mut roff = Roff::new();
    for block in help.split("\n\n").filter(|block| !block.trim().is_empty()) {
        let (title, body) = match block.split_once(':') {
            Some((head, body)) if head.starts_with("Example") => ("EXAMPLES", body),
            Some(("Exit codes", body)) => ("EXIT STATUS", body),
            Some(_) | None => ("NOTES", block),
        };
        roff.control("SH", [title]);
        roff.control("nf", []);
        for line in body.trim_matches('\n').lines() {
            roff.text([roman(line.trim())]);
        }
        roff.control("fi", []);
    }
    roff.render()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::Cli;

    #[test]
    fn every_command_has_a_page_with_a_description_and_examples() {
        let pages = pages();
        let main = <Cli as clap::CommandFactory>::command();
        for command in main.get_subcommands().filter(|command| !command.is_hide_set()) {
            let name = format!("callboard-{}", command.get_name());
            let page = pages.iter().find(|page| page.name == name);
            let text = &page.unwrap_or_else(|| panic!("`{name}` has no page")).text;
            for section in [".SH NAME", ".SH SYNOPSIS", ".SH DESCRIPTION", ".SH OPTIONS", ".SH EXAMPLES"] {
                assert!(text.contains(section), "{name} lacks {section}");
            }
        }
        assert_eq!(pages[0].name, "callboard");
        assert!(pages.iter().all(|page| !page.name.contains("__")), "internal commands have no page");
    }
}
