//! What a protocol adds so that commands can show its runs and talk about them, and how a command finds the protocol of
//! the run it was given.
//!
//! Every command that takes a run takes one of any protocol: what it does is a [`Deed`], written once for all of them, and
//! [`dispatch`] is the one place that knows which protocols there are. What differs between them is a [`Presentation`].

pub(crate) mod run_status;

mod peer;
mod shown;
mod steps;

use protocol::peer::Peer;
use protocol::steps::Steps;
use protocol::{Protocol, RunId, Stamp, StepId};
use serde_json::{Map, Value};

use crate::failure::{Code, Exit, Failure};
pub(crate) use shown::{Shown, StatusKind, WayBack};

/// The face of a protocol.
pub(crate) trait Presentation: Protocol {
    /// What people call a step here, as one and as many.
    const STEP: (&'static str, &'static str);
    /// The member of the document that has the steps by their names.
    const STEPS_AT: &'static str;
    /// The command that opens a run, and what it is given: for hints.
    const OPENED_BY: &'static str;
    const OPENED_WITH: &'static str;
    /// Whether a step that has failed can be tried again in the same run.
    const RETRIES: bool;
    /// Whether a run can have another name where it is imported.
    const RENAMES: bool;

    // Who plays.
    /// All steps, in the order in which people read them.
    fn steps(definition: &Self::Definition) -> Vec<Self::Step>;
    /// Who is asked in a step's turn.
    fn agent(definition: &Self::Definition, step: &Self::Step) -> String;
    /// Steps that must be behind us before this one begins.
    fn needs(definition: &Self::Definition, step: &Self::Step) -> Vec<Self::Step>;
    /// Where a step can send the run back to.
    fn way_back(definition: &Self::Definition, step: &Self::Step) -> Option<WayBack<Self::Step>>;
    /// Whether steps that need this one may begin.
    fn is_behind(definition: &Self::Definition, state: &Self::State, step: &Self::Step) -> bool;

    // What the document says.
    /// What the run is about beyond its title, in lines for people.
    fn about(document: &Self::Document) -> Vec<String>;
    fn created_at(document: &Self::Document) -> Stamp;
    fn shown(document: &Self::Document, step: &Self::Step) -> Shown;
    /// What the run came to besides how its steps stand, in lines for people; nothing while it has come to nothing.
    fn result(document: &Self::Document) -> Vec<String>;
    /// The same for programs, by name.
    fn result_fields(document: &Self::Document) -> Map<String, Value>;

    // What an entry says.
    /// What an attempt says with a verdict: "it reported that …".
    fn said(verdict: &Self::Verdict) -> &'static str;
    /// A change as a line for people, if it is worth one.
    fn line(change: &Self::Change) -> Option<String>;
    /// The same as an event for programs: its name and its fields.
    fn event(change: &Self::Change) -> Option<(&'static str, Value)>;
    /// Where an edit changes the document.
    fn edited(edit: &Self::Edit) -> String;
    /// Whether a change is about a step.
    fn concerns(change: &Self::Change, step: &Self::Step) -> bool;
    /// Why a step has failed for good though its report was fit, if the change says so.
    fn defeat(change: &Self::Change, step: &Self::Step) -> Option<&'static str>;

    /// What to type when a run has failed.
    fn after_failure(run: &RunId, document: &Self::Document) -> String;
}

/// What a command does with a run, whatever its protocol.
pub(crate) trait Deed {
    type Done;

    async fn with<P: Presentation>(self) -> Result<Self::Done, Failure>;
}

/// The protocols there are, by the names that the store has for them.
pub(crate) const KNOWN: [&str; 2] = [Steps::NAME, Peer::NAME];

/// Does it by the rules of the protocol of that name; `None` if there is none.
pub(crate) async fn dispatch<D: Deed>(protocol: &str, deed: D) -> Option<Result<D::Done, Failure>> {
    match protocol {
        Steps::NAME => Some(deed.with::<Steps>().await),
        Peer::NAME => Some(deed.with::<Peer>().await),
        _ => None,
    }
}

/// Does it with a run of that protocol.
pub(crate) async fn by_name<D: Deed>(protocol: &str, run: &RunId, deed: D) -> Result<D::Done, Failure> {
    dispatch(protocol, deed).await.unwrap_or_else(|| Err(unknown_protocol(protocol, run)))
}

pub(crate) fn is_known(protocol: &str) -> bool {
    KNOWN.contains(&protocol)
}

fn unknown_protocol(name: &str, run: &RunId) -> Failure {
    let known = KNOWN.map(|known| format!("`{known}`")).join(", ");
    Failure::new(Exit::Store, format_args!("run `{run}` is a `{name}` run, which this program does not know"))
        .code(Code::Newer)
        .hint(format_args!("it knows {known}; a newer callboard has opened that run: use that one"))
}

/// The step of that name, if the run has one.
pub(crate) fn find_step<P: Presentation>(definition: &P::Definition, name: &StepId) -> Option<P::Step> {
    P::steps(definition).into_iter().find(|step| P::step_id(step) == *name)
}

/// The step that somebody has typed, or who may have been meant.
pub(crate) fn step<P: Presentation>(
    run: &RunId,
    definition: &P::Definition,
    name: &str,
) -> Result<P::Step, Failure> {
    let steps = P::steps(definition);
    let names: Vec<_> = steps.iter().map(P::step_id).collect();
    if let Some(place) = names.iter().position(|known| known.as_str() == name) {
        return Ok(steps[place].clone());
    }
    let (one, many) = P::STEP;
    let failure = Failure::usage(format_args!("run `{run}` has no {one} `{name}`"));
    Err(match protocol::closest(name, names.iter().map(StepId::as_str)) {
        Some(meant) => failure.hint(format_args!("did you mean `{meant}`?")),
        None => failure.hint(format_args!("`callboard show {run}` lists its {many}")),
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
    async fn every_known_protocol_is_found_by_its_name_and_no_other() {
        let run = RunId::new("f8c1a491").unwrap();
        for name in KNOWN {
            assert_eq!(by_name(name, &run, Name).await.unwrap(), name);
        }
        let failure = by_name("opera", &run, Name).await.unwrap_err();
        assert_eq!(failure.what, "run `f8c1a491` is a `opera` run, which this program does not know");
    }
}
