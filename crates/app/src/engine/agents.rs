//! Whether the agents and roles of a run are configured.

use std::collections::{BTreeMap, BTreeSet};

use protocol::{StepId, StepKind, closest};
use runner::{
    Assigned, DEFAULT_ROLE, EngineConfig, EngineError, Journal, Overrides, Role, RoleQuery, RunOptions,
};

use super::profiles;
use crate::failure::{Exit, Failure};

/// Fails with every step whose agent has no adapter, or else with the first adapter whose program does not exist. Checked
/// before a run is opened.
pub(crate) fn require_profiles<'a>(
    engine_config: &EngineConfig,
    options: &RunOptions,
    protocol: &str,
    steps: impl IntoIterator<Item = (&'a StepId, &'a str)>,
) -> Result<(), Failure> {
    let (mut missing, mut no_program) = (Vec::new(), None);
    for (step, agent) in steps {
        match engine_config.assign(options, RoleQuery { protocol, step, agent, model: None }) {
            Ok(Assigned { profile, .. }) => {
                no_program = no_program
                    .or_else(|| profiles::missing_program(agent, &profile, &options.env, &options.workdir));
            }
            Err(error) => missing.push(error),
        }
    }
    match (missing.is_empty(), no_program) {
        (false, _) => Err(EngineError::NoAdapter(missing).into()),
        (true, Some(failure)) => Err(failure),
        (true, None) => Ok(()),
    }
}

/// Fails if `--role` or `--model` names neither a step nor an agent of the run.
pub(crate) fn require_known_roles<'a>(
    roles: &BTreeMap<String, Role>,
    steps: impl IntoIterator<Item = (&'a StepId, &'a str)>,
) -> Result<(), Failure> {
    require_known(roles, steps.into_iter().flat_map(|(step, agent)| [step.as_str(), agent]).collect())
}

/// Fails if `--role` or `--model` names neither a step nor an agent of an existing run, nor an agent that its
/// protocol may ask later.
pub(crate) fn require_known_roles_of_run(
    engine_config: &EngineConfig,
    journal: &Journal,
) -> Result<(), Failure> {
    let machine = journal.machine();
    // A step of `steps` with an agent is of the kind `Command` while its checks run.
    let may_have_agent = |step: &StepId| match machine.step_kind(step) {
        StepKind::Agent | StepKind::Command => true,
        StepKind::Person | StepKind::Effect => false,
    };
    let steps: Vec<_> = machine.steps().into_iter().filter(may_have_agent).collect();
    let agents: Vec<_> = steps.iter().map(|step| machine.agent(step)).collect();
    let present = steps.iter().map(StepId::as_str).chain(agents.iter().map(String::as_str));
    let known = present.chain(machine.kind().info().roles.iter().copied());
    require_known(&engine_config.overrides.roles, known.collect())
}

fn require_known(roles: &BTreeMap<String, Role>, known: BTreeSet<&str>) -> Result<(), Failure> {
    let known: Vec<_> = known.into_iter().chain([DEFAULT_ROLE]).collect();
    let Some(name) = roles.keys().find(|name| !known.contains(&name.as_str())) else { return Ok(()) };
    let hint = match closest(name, known.iter().copied()) {
        Some(meant) => format!("did you mean `{meant}`?"),
        None => format!(
            "use one of {}",
            known.iter().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ")
        ),
    };
    Err(Failure::usage(format!("`--role` or `--model` names `{name}`, which is no step and no agent"))
        .hint(hint))
}

/// Fails if the run is a rehearsal and the command sets other agents for it.
pub(crate) fn refuse_other_agents(overrides: &Overrides, journal: &Journal) -> Result<(), Failure> {
    let profile = journal.spec.options.profile.as_ref();
    let is_rehearsal = profile.is_some_and(|profile| profile.adapter.is_rehearsal());
    if !is_rehearsal || (overrides.profile.is_none() && overrides.roles.is_empty()) {
        return Ok(());
    }
    let info = journal.kind().info();
    let what = format!("cannot use another agent for run `{}`: it is a rehearsal", journal.run);
    Err(Failure::new(Exit::Refused, what).hint(format_args!(
        "run `{}` with the same {} to start a real run",
        info.start_command, info.start_argument
    )))
}
