//! How commands present runs of any protocol.
//!
//! A command that takes a run is a [`Deed`], written once for all protocols. [`dispatch`] is the only function that lists
//! the protocols. A [`Presentation`] holds what differs between them.

pub(crate) mod run_status;

mod peer;
mod step_summary;
mod steps;

use protocol::peer::Peer;
use protocol::steps::Steps;
use protocol::{Protocol, RunId, Stamp, StepId};
use serde_json::{Map, Value};

use crate::failure::{Code, Exit, Failure};
pub(crate) use step_summary::{LoopBack, StatusKind, StepSummary};

/// How commands present the runs of a protocol.
pub(crate) trait Presentation: Protocol {
    /// The word for a step of this protocol, singular and plural.
    const STEP: (&'static str, &'static str);
    /// The member of the document that maps names to steps.
    const STEPS_AT: &'static str;
    /// The command that starts a run, and what it takes; for hints.
    const OPENED_BY: &'static str;
    const OPENED_WITH: &'static str;
    /// Whether `retry` can run a failed step again in the same run.
    const RETRIES: bool;
    /// Whether `import` can give a run another name.
    const RENAMES: bool;

    // The definition.

    /// Returns all steps in reading order.
    fn steps(definition: &Self::Definition) -> Vec<Self::Step>;
    /// Returns the name of the step's agent.
    fn agent(definition: &Self::Definition, step: &Self::Step) -> String;
    /// Returns the steps that must succeed before this one starts.
    fn needs(definition: &Self::Definition, step: &Self::Step) -> Vec<Self::Step>;
    /// Returns the loop-back of a gate.
    fn loop_back(definition: &Self::Definition, step: &Self::Step) -> Option<LoopBack<Self::Step>>;
    /// Whether steps that need this one may start.
    fn unblocks_dependents(definition: &Self::Definition, state: &Self::State, step: &Self::Step) -> bool;

    // The document.

    /// Describes the run beyond its title, in lines for people.
    fn about(document: &Self::Document) -> Vec<String>;
    fn created_at(document: &Self::Document) -> Stamp;
    fn step_summary(document: &Self::Document, step: &Self::Step) -> StepSummary;
    /// Describes the result of the run besides the statuses of its steps, in lines for people.
    fn result(document: &Self::Document) -> Vec<String>;
    /// Returns the fields that describe the result in JSON.
    fn result_fields(document: &Self::Document) -> Map<String, Value>;

    // The journal.

    /// Completes "the attempt …": `reported that its gate failed`.
    fn verdict_text(verdict: &Self::Verdict) -> &'static str;
    /// Describes a change in one line for people, if it is worth one.
    fn change_line(change: &Self::Change) -> Option<String>;
    /// Returns the name and fields of the JSON event of a change, if it has one.
    fn change_event(change: &Self::Change) -> Option<(&'static str, Value)>;
    /// Lists the changed paths of the document.
    fn edit_summary(edit: &Self::Edit) -> String;
    /// Whether a change is about a step.
    fn concerns(change: &Self::Change, step: &Self::Step) -> bool;
    /// Returns why the change fails a step whose report was valid.
    fn failure_reason(change: &Self::Change, step: &Self::Step) -> Option<&'static str>;

    /// Suggests what to type after a run has failed.
    fn after_failure(run: &RunId, document: &Self::Document) -> String;
}

/// A command on a run of any protocol.
pub(crate) trait Deed {
    type Done;

    async fn with<P: Presentation>(self) -> Result<Self::Done, Failure>;
}

/// The names of all protocols, as the store writes them.
pub(crate) const KNOWN: [&str; 2] = [Steps::NAME, Peer::NAME];

/// Runs a deed for the protocol of that name. Returns `None` if this version has no such protocol.
pub(crate) async fn dispatch<D: Deed>(protocol: &str, deed: D) -> Option<Result<D::Done, Failure>> {
    match protocol {
        Steps::NAME => Some(deed.with::<Steps>().await),
        Peer::NAME => Some(deed.with::<Peer>().await),
        _ => None,
    }
}

/// Runs a deed for a run of that protocol. Fails if this version has no such protocol.
pub(crate) async fn by_name<D: Deed>(protocol: &str, run: &RunId, deed: D) -> Result<D::Done, Failure> {
    dispatch(protocol, deed).await.unwrap_or_else(|| Err(unknown_protocol(protocol, run)))
}

pub(crate) fn is_known(protocol: &str) -> bool {
    KNOWN.contains(&protocol)
}

fn unknown_protocol(name: &str, run: &RunId) -> Failure {
    let known = KNOWN.map(|known| format!("`{known}`")).join(", ");
    Failure::new(
        Exit::Store,
        format_args!("cannot read run `{run}`: this version of callboard has no protocol `{name}`"),
    )
    .code(Code::Newer)
    .hint(format_args!("use the newer version that started the run; this one has {known}"))
}

/// Returns the step of that name, if the run has one.
pub(crate) fn find_step<P: Presentation>(definition: &P::Definition, name: &StepId) -> Option<P::Step> {
    P::steps(definition).into_iter().find(|step| P::step_id(step) == *name)
}

/// Finds the step that the user named. Fails with the closest name as a hint.
pub(crate) fn step<P: Presentation>(
    run: &RunId,
    definition: &P::Definition,
    name: &str,
) -> Result<P::Step, Failure> {
    let steps = P::steps(definition);
    let names: Vec<_> = steps.iter().map(P::step_id).collect();
    if let Some(index) = names.iter().position(|known| known.as_str() == name) {
        return Ok(steps[index].clone());
    }
    let (one, many) = P::STEP;
    let failure = Failure::usage(format_args!("run `{run}` has no {one} `{name}`"));
    Err(match protocol::closest(name, names.iter().map(StepId::as_str)) {
        Some(meant) => failure.hint(format_args!("did you mean `{meant}`?")),
        None => failure.hint(format_args!("run `callboard show {run}` to list its {many}")),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Name;

    impl Deed for Name {
        type Done = &'static str;

        async fn with<P: Presentation>(self) -> Result<&'static str, Failure> {
            Ok(P::NAME)
        }
    }

    #[tokio::test]
    async fn only_known_protocols_are_found_by_name() {
        let run = RunId::new("f8c1a491").unwrap();
        for name in KNOWN {
            assert_eq!(by_name(name, &run, Name).await.unwrap(), name);
        }
        let failure = by_name("opera", &run, Name).await.unwrap_err();
        assert_eq!(
            failure.message,
            "cannot read run `f8c1a491`: this version of callboard has no protocol `opera`"
        );
    }
}
