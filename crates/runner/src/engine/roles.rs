//! Roles: which adapter and model work on a step, and with which limits. This is the only place that chooses.

use std::time::Duration;

use protocol::StepId;
use serde::{Deserialize, Serialize};
use supervisor::adapter::Pass;

use super::config::{AgentProfile, EngineConfig};
use crate::run::RunOptions;

/// The name of a role that stands for all others.
pub const DEFAULT_ROLE: &str = "default";

/// The settings of a role. What it does not set, a less specific role may.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Role {
    /// The name of a configured adapter.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub adapter: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// The timeout of an attempt, unless the step sets one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout: Option<Duration>,
    /// Variables of the engine's environment that are passed on, besides those of the adapter.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pass_env: Option<Vec<String>>,
    /// Arguments that follow those of the adapter.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub args: Option<Vec<String>>,
}

impl Role {
    /// Replaces the fields that the other role sets.
    pub(super) fn replace_with(&mut self, other: &Self) {
        let Self { adapter, model, timeout, pass_env, args } = other.clone();
        *self = Self {
            adapter: adapter.or(self.adapter.take()),
            model: model.or(self.model.take()),
            timeout: timeout.or(self.timeout.take()),
            pass_env: pass_env.or(self.pass_env.take()),
            args: args.or(self.args.take()),
        };
    }
}

/// The name of a configured role: of one protocol, or of all.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct RoleName {
    pub protocol: Option<String>,
    /// A step, an agent, or [`DEFAULT_ROLE`].
    pub name: String,
}

/// A step for which a role is wanted.
#[derive(Debug, Clone, Copy)]
pub struct RoleOf<'a> {
    pub protocol: &'a str,
    pub step: &'a StepId,
    pub agent: &'a str,
    /// The model that the step sets itself.
    pub model: Option<&'a str>,
}

/// How a step is worked on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Assigned {
    pub profile: AgentProfile,
    pub model: Option<String>,
}

/// A step that no configured adapter works on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NoAdapter {
    pub step: StepId,
    pub agent: String,
    /// The adapter that a role names and that is not configured.
    pub adapter: Option<String>,
}

/// One place that may say how a step is worked on.
#[derive(Default)]
struct Place<'a> {
    role: Option<&'a Role>,
    profile: Option<&'a AgentProfile>,
}

impl<'a> Place<'a> {
    fn role(role: Option<&'a Role>) -> Self {
        Self { role, profile: None }
    }

    fn profile(profile: Option<&'a AgentProfile>) -> Self {
        Self { role: None, profile }
    }

    fn names_adapter(&self) -> bool {
        self.profile.is_some() || self.role.is_some_and(|role| role.adapter.is_some())
    }
}

/// Returns the first value that one of the places sets.
fn first<'a, T>(places: &[Place<'a>], value: impl Fn(&'a Role) -> Option<T>) -> Option<T> {
    places.iter().filter_map(|place| place.role).find_map(value)
}

impl EngineConfig {
    /// Returns how a step is worked on.
    ///
    /// Strongest first: roles of the command line, the profile of the command line, configured roles of the step and of its
    /// agent, the adapter that has the agent's name, default roles. Model, arguments and variables fit one adapter only:
    /// a place that is weaker than the one that names the adapter does not set them.
    pub fn assign(&self, options: &RunOptions, of: RoleOf<'_>) -> Result<Assigned, NoAdapter> {
        let given =
            [of.step.as_str(), of.agent, DEFAULT_ROLE].map(|name| Place::role(options.roles.get(name)));
        let flag_model = first(&given, |role| role.model.clone());
        let forced = options.profile.as_ref().filter(|profile| profile.adapter.is_rehearsal());
        let [own, default] = [vec![of.step.as_str(), of.agent], vec![DEFAULT_ROLE]]
            .map(|names| self.configured_roles(of.protocol, &names));
        let places: Vec<_> = std::iter::once(Place::profile(forced))
            .chain(given)
            .chain([Place::profile(options.profile.as_ref())])
            .chain(own)
            .chain([Place::profile(self.by_agent.get(of.agent))])
            .chain(default)
            .collect();
        let missing = |adapter: Option<&str>| NoAdapter {
            step: of.step.clone(),
            agent: of.agent.to_owned(),
            adapter: adapter.map(str::to_owned),
        };
        let chosen = places.iter().position(Place::names_adapter).ok_or_else(|| missing(None))?;
        let fitting = &places[..=chosen];
        let adapter = places[chosen].role.and_then(|role| role.adapter.as_deref());
        let profile = places[chosen].profile.or_else(|| self.by_agent.get(adapter?));
        let mut profile = profile.ok_or_else(|| missing(adapter))?.clone();
        if let Some(args) = first(fitting, |role| role.args.as_ref()) {
            profile.adapter = profile.adapter.with_args(args);
        }
        if let (Pass::AllowList(names), Some(more)) =
            (&mut profile.pass, first(fitting, |role| role.pass_env.as_ref()))
        {
            names.extend(more.iter().cloned());
        }
        profile.timeout = first(&places, |role| role.timeout).or(profile.timeout);
        let model = flag_model
            .or_else(|| of.model.map(str::to_owned))
            .or_else(|| first(fitting, |role| role.model.clone()));
        Ok(Assigned { profile, model })
    }

    /// The configured roles of these names, those of the protocol first.
    fn configured_roles(&self, protocol: &str, names: &[&str]) -> Vec<Place<'_>> {
        let scopes = [Some(protocol.to_owned()), None];
        let found = scopes.iter().flat_map(|scope| {
            names.iter().map(|name| RoleName { protocol: scope.clone(), name: (*name).to_owned() })
        });
        found.map(|name| Place::role(self.roles.get(&name))).collect()
    }
}
