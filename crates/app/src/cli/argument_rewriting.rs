//! Rewrites two forms of arguments that clap cannot parse as they are typed:
//!
//! * `--env A=1 B=2 wf.yaml`: clap would take `wf.yaml` for another value of `--env`;
//! * `--log-level DEBUG run`: clap knows this flag only after `run`.

use std::ffi::OsString;

/// Writes `--env A=1 B=2` as `--env A=1 --env B=2`, and moves a `--log-level` that stands before `run` to after it.
pub(super) fn rewrite(arguments: impl IntoIterator<Item = OsString>) -> Vec<OsString> {
    let mut arguments: Vec<_> = arguments.into_iter().collect();
    if let [_, flag, _, command, ..] = &mut arguments[..]
        && flag == "--log-level"
        && command == "run"
    {
        arguments[1..4].rotate_right(1);
    }
    let mut rewritten: Vec<OsString> = Vec::new();
    let mut after_env = false;
    for argument in arguments {
        let is_value = after_env && is_variable(&argument);
        // The first value has its flag already.
        if is_value && rewritten.last().is_some_and(|last| last != "--env") {
            rewritten.push("--env".into());
        }
        after_env = argument == "--env" || is_value;
        rewritten.push(argument);
    }
    rewritten
}

fn is_variable(argument: &OsString) -> bool {
    let text = argument.to_string_lossy();
    let name = text.split_once('=').map(|(name, _)| name);
    name.is_some_and(|name| !name.is_empty() && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn several_variables_after_one_flag_are_several_flags() {
        for (typed, expected) in [
            ("run --env A=1 B=2 wf.yaml", "run --env A=1 --env B=2 wf.yaml"),
            ("run --env A=1 --env B=2", "run --env A=1 --env B=2"),
            ("run --env A=1 a/b=c", "run --env A=1 a/b=c"),
            ("run --metric A=1 B=2", "run --metric A=1 B=2"),
            ("callboard --log-level DEBUG run wf.yaml", "callboard run --log-level DEBUG wf.yaml"),
            ("callboard --log-level DEBUG ls", "callboard --log-level DEBUG ls"),
        ] {
            let words = |line: &str| line.split(' ').map(OsString::from).collect::<Vec<_>>();
            assert_eq!(rewrite(words(typed)), words(expected));
        }
    }
}
