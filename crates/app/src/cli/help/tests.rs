//! Every command has a summary, an example and descriptions of its arguments.

use clap::Arg;

use super::*;

/// All visible commands, including the main one.
fn commands() -> Vec<Command> {
    let mut all = vec![command()];
    let mut next = 0;
    while next < all.len() {
        let subcommands: Vec<_> = all[next].get_subcommands().filter(|c| !c.is_hide_set()).cloned().collect();
        all.extend(subcommands);
        next += 1;
    }
    all
}

/// The text below the options.
fn after_help(command: &Command) -> String {
    command.get_after_help().map(ToString::to_string).unwrap_or_default()
}

/// The callboard command lines in the examples, without pipes and redirections.
fn examples(command: &Command) -> Vec<String> {
    let text = after_help(command);
    let lines = text.lines().filter_map(|line| line.strip_prefix("  "));
    let calls = lines.filter(|line| line.starts_with("callboard "));
    calls.map(without_shell).collect()
}

/// A command line up to the first shell operator or comment.
fn without_shell(line: &str) -> String {
    let ends = [" | ", " > ", " >> ", " && ", "; ", " #"].iter().filter_map(|sign| line.find(sign));
    line[..ends.min().unwrap_or(line.len())].trim().to_owned()
}

#[test]
fn every_command_is_in_one_group() {
    let main = Cli::command();
    for command in main.get_subcommands().filter(|command| !command.is_hide_set()) {
        let groups = GROUPS.iter().filter(|(_, names)| names.contains(&command.get_name())).count();
        assert_eq!(groups, 1, "`{}` is in {groups} groups of the main help", command.get_name());
    }
    let shown = command().render_help().to_string();
    for command in main.get_subcommands().filter(|command| !command.is_hide_set()) {
        assert!(shown.contains(&format!("\n  {} ", command.get_name())), "{shown}");
    }
    assert!(!shown.contains("__"), "internal commands are not shown: {shown}");
}

#[test]
fn every_command_has_a_summary_and_an_example_that_parses() {
    for shown in commands() {
        let name = shown.get_name();
        let about = shown.get_about().map(ToString::to_string).unwrap_or_default();
        assert!(
            !about.is_empty() && !about.ends_with('.'),
            "`{name}` has no summary, or one with a full stop"
        );
        let examples = examples(&shown);
        assert!(!examples.is_empty(), "`{name}` has no example");
        for example in examples {
            let words = shell_words::split(&example).unwrap();
            let parsed = Cli::command().try_get_matches_from(&words);
            assert!(parsed.is_ok(), "the example `{example}` of `{name}` does not parse");
        }
    }
}

#[test]
fn every_argument_is_described() {
    for shown in commands() {
        let described = |argument: &&Arg| argument.get_help().is_some() || argument.get_long_help().is_some();
        let arguments = shown.get_arguments().filter(|argument| !argument.is_hide_set());
        let undescribed: Vec<_> =
            arguments.filter(|argument| !described(argument)).map(Arg::get_id).collect();
        assert!(undescribed.is_empty(), "`{}` does not describe {undescribed:?}", shown.get_name());
    }
}

#[test]
fn every_command_in_the_operating_guide_parses() {
    let page = include_str!("../../../../../docs/operating.md");
    let main = Cli::command();
    let spans = page.lines().flat_map(|line| line.split('`').skip(1).step_by(2));
    let lines = page.lines().filter_map(|line| line.trim_start().strip_prefix("$ "));
    let calls: Vec<_> = lines.chain(spans).filter(|text| text.starts_with("callboard ")).collect();
    assert!(calls.len() > 40, "{calls:?}");
    for call in calls {
        let words = shell_words::split(&without_shell(call)).unwrap();
        let parsed = main.clone().try_get_matches_from(&words);
        assert!(parsed.is_ok(), "`{call}` in docs/operating.md does not parse");
    }
}

#[test]
fn a_long_summary_is_wrapped_and_indented() {
    assert_eq!(wrap_indented("see how a run is", 80, 6), "see how a run is");
    assert_eq!(wrap_indented("see how a run is", 16, 6), "see how a\n      run is");
    assert_eq!(wrap_indented("see it", 3, 6), "see\n      it", "a word is never cut");
    let shown = command().render_help().to_string();
    assert!(shown.lines().all(|line| line.len() <= MAX_WIDTH), "{shown}");
}
