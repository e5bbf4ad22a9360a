//! Parses the instruction and the spec of a new peer cycle from the command line. The instruction says what the cycle is to do:
//! `create-spec`, `execute-tasks` and so on.

use std::path::Path;

use protocol::peer::names::{NoScope, ScopeSource};
use protocol::peer::{Instruction, Scope, SpecName};

use super::spec_folders::{self, SPECS};
use crate::failure::Failure;
use crate::output;

/// Parses an instruction.
pub(crate) fn instruction(word: &str) -> Result<Instruction, Failure> {
    let all = Instruction::ALL.map(|instruction| format!("`{instruction}`")).join(", ");
    if word.trim().is_empty() {
        return Err(Failure::usage("the instruction is empty").hint(format_args!("use one of {all}")));
    }
    word.parse::<Instruction>().map_err(|unknown| {
        let hint = match unknown.meant {
            Some(meant) => format!("did you mean `{meant}`?"),
            None => format!("use one of {all}"),
        };
        Failure::usage(&unknown).hint(hint)
    })
}

/// Parses the name of a spec. The name of its folder, which has a date, is accepted as well.
pub(crate) fn spec_name(repo: &Path, typed: &str) -> Result<SpecName, Failure> {
    if let Some(name) = spec_folders::spec_in(repo, typed) {
        output::note(format_args!("`{typed}` is the folder of spec `{name}`"));
        return Ok(name);
    }
    SpecName::normalized(typed).map_err(|error| {
        let shown: String = output::single_line(typed).chars().take(MAX_PRINTED).collect();
        let more = if typed.chars().count() > MAX_PRINTED { "…" } else { "" };
        Failure::usage(format_args!("`{shown}{more}` cannot name a spec")).because(Some(&error))
    })
}

/// How many characters of an invalid name are printed.
const MAX_PRINTED: usize = 40;

/// Determines the scope of a new cycle. Without a given spec, the instruction decides: a spec named after the requirements, the
/// newest spec, or the whole repository.
pub(crate) fn scope(
    repo: &Path,
    instruction: Instruction,
    spec: Option<SpecName>,
    requirements: &str,
) -> Result<Scope, Failure> {
    match instruction.scope(spec, requirements) {
        Ok(ScopeSource::Known(scope)) => Ok(scope),
        Ok(ScopeSource::NewestSpec) => newest_spec(repo, instruction),
        Err(error @ NoScope::SpecNeeded(_)) => Err(Failure::usage(error)
            .hint(format_args!("name the spec: `callboard peer {instruction} --spec NAME`"))),
        Err(error @ NoScope::SpecNotAccepted(_)) => {
            Err(Failure::usage(error)
                .hint(format_args!("leave out `--spec`: `callboard peer {instruction}`")))
        }
    }
}

fn newest_spec(repo: &Path, instruction: Instruction) -> Result<Scope, Failure> {
    let specs = spec_folders::newest(repo).map_err(|error| {
        Failure::usage(format_args!("cannot read `{}`", repo.join(SPECS).display())).because(Some(&error))
    })?;
    match specs.as_slice() {
        [] => Err(Failure::usage(format_args!("there is no spec in `{}`", repo.join(SPECS).display()))
            .hint("create a spec first: `callboard peer create-spec 'what you want'`")
            .hint(format_args!(
                "or name a spec in another folder: `callboard peer {instruction} --spec NAME`"
            ))),
        [only] => Ok(Scope::Spec(only.clone())),
        // Do not guess: agents will change files for the spec.
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
