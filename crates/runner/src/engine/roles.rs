//! Roles: which adapter and model work on a step, and with which limits. This is the only place that chooses.

use std::time::Duration;

use protocol::StepId;
use serde::{Deserialize, Serialize};
use supervisor::adapter::EnvPolicy;

use super::config::{AgentProfile, EngineConfig};
use crate::run::RunOptions;

/// The name of the role for all steps and agents. It is less specific than any other.
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
    /// Overrides the fields that the other role sets.
    pub fn override_with(&mut self, other: &Self) {
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

/// The step whose role is looked up.
#[derive(Debug, Clone, Copy)]
pub struct RoleQuery<'a> {
    pub protocol: &'a str,
    pub step: &'a StepId,
    pub agent: &'a str,
    /// The model that the step sets itself.
    pub model: Option<&'a str>,
}

/// The profile and the model that a step gets.
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

/// One source of settings for a step: a role, or a whole profile.
#[derive(Default)]
struct RoleSource<'a> {
    role: Option<&'a Role>,
    profile: Option<&'a AgentProfile>,
}

impl<'a> RoleSource<'a> {
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

/// Returns the first value that a role among the sources sets.
fn first_set<'a, T>(sources: &[RoleSource<'a>], value: impl Fn(&'a Role) -> Option<T>) -> Option<T> {
    sources.iter().filter_map(|source| source.role).find_map(value)
}

impl EngineConfig {
    /// Returns the profile and the model of a step. Fails if no adapter is configured for it.
    ///
    /// The first source that sets a value wins: the profile of a rehearsal, roles of the command line, the profile of
    /// the command line, configured roles of the step and of its agent, the adapter that has the agent's name, default
    /// roles. Model, arguments and variables fit one adapter only: a source after the one that names the adapter does
    /// not set them. Two exceptions: the model is one of the command line, or else that of the step itself, before all others;
    /// the timeout of an adapter that a role names comes after that of every role.
    pub fn assign(&self, options: &RunOptions, query: RoleQuery<'_>) -> Result<Assigned, NoAdapter> {
        let command_line_roles = [query.step.as_str(), query.agent, DEFAULT_ROLE]
            .map(|name| RoleSource::role(options.roles.get(name)));
        let command_line_model = first_set(&command_line_roles, |role| role.model.clone());
        let rehearsal = options.profile.as_ref().filter(|profile| profile.adapter.is_rehearsal());
        let [specific_roles, default_roles] = [vec![query.step.as_str(), query.agent], vec![DEFAULT_ROLE]]
            .map(|names| self.configured_roles(query.protocol, &names));
        let sources: Vec<_> = std::iter::once(RoleSource::profile(rehearsal))
            .chain(command_line_roles)
            .chain([RoleSource::profile(options.profile.as_ref())])
            .chain(specific_roles)
            .chain([RoleSource::profile(self.profiles.get(query.agent))])
            .chain(default_roles)
            .collect();
        let missing = |adapter: Option<&str>| NoAdapter {
            step: query.step.clone(),
            agent: query.agent.to_owned(),
            adapter: adapter.map(str::to_owned),
        };
        let chosen = sources.iter().position(RoleSource::names_adapter).ok_or_else(|| missing(None))?;
        let up_to_chosen = &sources[..=chosen];
        let adapter = sources[chosen].role.and_then(|role| role.adapter.as_deref());
        let profile = sources[chosen].profile.or_else(|| self.profiles.get(adapter?));
        let mut profile = profile.ok_or_else(|| missing(adapter))?.clone();
        if let Some(args) = first_set(up_to_chosen, |role| role.args.as_ref()) {
            profile.adapter = profile.adapter.with_args(args);
        }
        if let (EnvPolicy::AllowList(names), Some(more)) =
            (&mut profile.env_policy, first_set(up_to_chosen, |role| role.pass_env.as_ref()))
        {
            names.extend(more.iter().cloned());
        }
        let stronger = if sources[chosen].profile.is_some() { up_to_chosen } else { &sources };
        let timeout = first_set(stronger, |role| role.timeout).or(profile.timeout);
        profile.timeout = timeout.or_else(|| first_set(&sources, |role| role.timeout));
        let model = command_line_model
            .or_else(|| query.model.map(str::to_owned))
            .or_else(|| first_set(up_to_chosen, |role| role.model.clone()));
        Ok(Assigned { profile, model })
    }

    /// Returns the configured roles of these names, those of the protocol first.
    fn configured_roles(&self, protocol: &str, names: &[&str]) -> Vec<RoleSource<'_>> {
        let scopes = [Some(protocol.to_owned()), None];
        let found = scopes.iter().flat_map(|scope| {
            names.iter().map(|name| RoleName { protocol: scope.clone(), name: (*name).to_owned() })
        });
        found.map(|name| RoleSource::role(self.roles.get(&name))).collect()
    }
}
