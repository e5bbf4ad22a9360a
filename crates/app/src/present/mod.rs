//! Renders what protocols present, and finds protocols and steps by name.

pub(crate) mod run_status;
pub(crate) mod step_table;
pub(crate) mod wording;

use anstyle::Style;
use protocol::present::{Line, Tone};
use protocol::{Machine, ProtocolKind, Protocols, RunId, StepId};

use crate::failure::{Code, Exit, Failure};
use crate::output::{self, CYAN, DIM, GREEN, RED, YELLOW, styled};

/// Returns the kind of a run. Fails if this version has no such protocol.
pub(crate) fn kind(
    protocols: Protocols,
    name: &str,
    run: &RunId,
) -> Result<&'static dyn ProtocolKind, Failure> {
    protocols.find(name).ok_or_else(|| unknown_protocol(protocols, name, run))
}

pub(crate) fn unknown_protocol(protocols: Protocols, name: &str, run: &RunId) -> Failure {
    let known: Vec<_> = protocols.names().map(|known| format!("`{known}`")).collect();
    Failure::new(
        Exit::Store,
        format_args!("cannot read run `{run}`: this version of callboard has no protocol `{name}`"),
    )
    .code(Code::Newer)
    .hint(format_args!("use the newer version that started the run; this one has {}", known.join(", ")))
}

/// Finds the step that the user named. Fails with the closest name as a hint.
pub(crate) fn find_step(run: &RunId, machine: &dyn Machine, name: &str) -> Result<StepId, Failure> {
    let steps = machine.steps();
    if let Some(found) = steps.iter().find(|step| step.as_str() == name) {
        return Ok(found.clone());
    }
    // Some steps are listed only while they are open, such as a question.
    if let Some(found) = StepId::new(name).ok().filter(|step| machine.has_step(step)) {
        return Ok(found);
    }
    let (singular, plural) = machine.kind().info().step_nouns;
    let failure = Failure::usage(format_args!("run `{run}` has no {singular} `{name}`"));
    Err(match protocol::closest(name, steps.iter().map(StepId::as_str)) {
        Some(meant) => failure.hint(format_args!("did you mean `{meant}`?")),
        None => failure.hint(format_args!("run `callboard show {run}` to list its {plural}")),
    })
}

/// Renders a line with the colours of its tones.
pub(crate) fn line(Line(parts): &Line) -> String {
    let parts = parts.iter().map(|(tone, text)| styled(style(*tone), output::single_line(text)));
    parts.collect()
}

/// Renders a sentence that the user should notice.
pub(crate) fn attention(sentence: &str) -> String {
    line(&Line::toned(Tone::Attention, "!").then(format!(" {sentence}")))
}

/// Returns the colour of a tone.
pub(crate) fn style(tone: Tone) -> Style {
    match tone {
        Tone::Plain => Style::new(),
        Tone::Dim => DIM,
        Tone::Active => CYAN,
        Tone::Good => GREEN,
        Tone::Attention => YELLOW,
        Tone::Bad => RED,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_known_protocols_are_found_by_name() {
        let run = RunId::new("f8c1a491").unwrap();
        for name in protocol::PROTOCOLS.names() {
            assert_eq!(kind(protocol::PROTOCOLS, name, &run).unwrap().info().name, name);
        }
        let failure = kind(protocol::PROTOCOLS, "opera", &run).unwrap_err();
        assert_eq!(
            failure.message,
            "cannot read run `f8c1a491`: this version of callboard has no protocol `opera`"
        );
    }
}
