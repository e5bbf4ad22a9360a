//! What a new cycle is asked to do, and what it is about: from the words of the command line.

use std::path::Path;

use protocol::peer::names::{NoScope, Scoping};
use protocol::peer::{Instruction, Scope, SpecName};

use super::folders::{self, SPECS};
use crate::failure::Failure;
use crate::output;

/// The instruction that this word names.
pub(crate) fn instruction(word: &str) -> Result<Instruction, Failure> {
    let all = Instruction::ALL.map(|instruction| format!("`{instruction}`")).join(", ");
    if word.trim().is_empty() {
        return Err(Failure::usage("the instruction is empty").hint(format_args!("it is one of {all}")));
    }
    word.parse::<Instruction>().map_err(|unknown| {
        let hint = match unknown.meant {
            Some(meant) => format!("did you mean `{meant}`?"),
            None => format!("it is one of {all}"),
        };
        Failure::usage(&unknown).hint(hint)
    })
}

/// The name of a spec as somebody typed it. Whoever types the name of its folder means the spec: the date is no part of it.
pub(crate) fn spec_name(repo: &Path, typed: &str) -> Result<SpecName, Failure> {
    if let Some(name) = folders::typed(repo, typed) {
        output::note(format_args!("`{typed}` is the folder of spec `{name}`"));
        return Ok(name);
    }
    SpecName::typed(typed).map_err(|error| {
        let shown: String = output::harmless(typed).chars().take(LONGEST_SHOWN).collect();
        let more = if typed.chars().count() > LONGEST_SHOWN { "…" } else { "" };
        Failure::usage(format_args!("`{shown}{more}` cannot name a spec")).because(Some(&error))
    })
}

/// As much of a refused name is shown.
const LONGEST_SHOWN: usize = 40;

/// What the cycle is about. A spec that nobody named is found or named here, before anybody plans.
pub(crate) fn scope(
    repo: &Path,
    instruction: Instruction,
    spec: Option<SpecName>,
    requirements: &str,
) -> Result<Scope, Failure> {
    match instruction.scope(spec, requirements) {
        Ok(Scoping::Known(scope)) => Ok(scope),
        Ok(Scoping::NewestSpec) => newest_spec(repo, instruction),
        Err(error @ NoScope::SpecNeeded(_)) => {
            Err(Failure::usage(error).hint(format_args!("`callboard peer {instruction} --spec NAME`")))
        }
        Err(error @ NoScope::SpecNotTaken(_)) => {
            Err(Failure::usage(error)
                .hint(format_args!("leave out `--spec`: `callboard peer {instruction}`")))
        }
    }
}

fn newest_spec(repo: &Path, instruction: Instruction) -> Result<Scope, Failure> {
    let specs = folders::newest(repo).map_err(|error| {
        Failure::usage(format_args!("cannot read `{}`", repo.join(SPECS).display())).because(Some(&error))
    })?;
    match specs.as_slice() {
        [] => Err(Failure::usage(format_args!("there is no spec in `{}`", repo.join(SPECS).display()))
            .hint("create a spec first: `callboard peer create-spec 'what you want'`")
            .hint(format_args!(
                "or name one that is kept elsewhere: `callboard peer {instruction} --spec NAME`"
            ))),
        [only] => Ok(Scope::Spec(only.clone())),
        // Which of them is meant is not to be guessed: agents will change files for it.
        several => {
            let failure =
                Failure::usage(format_args!("{} specs have the newest date; name one", several.len()));
            Err(several.iter().fold(failure, |failure, spec| {
                let spec = output::shell_word(spec.as_str().as_ref());
                failure.hint(format_args!("`callboard peer {instruction} --spec {spec}`"))
            }))
        }
    }
}
