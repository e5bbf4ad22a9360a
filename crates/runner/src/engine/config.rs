//! The configuration of an engine: agent profiles, slots, programs. Read at each engine start, not stored with the
//! run.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use protocol::entry::Author;
use protocol::{Protocols, RunId};
use serde::{Deserialize, Serialize};
use supervisor::ShimProgram;
use supervisor::adapter::{Adapter, EnvPolicy, ReportRule};

use crate::attempt::Effects;
use crate::clock::Clock;
use crate::run::RunOptions;

use super::roles::{Role, RoleName};

/// How the attempts of an agent are started and read.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AgentProfile {
    pub adapter: Adapter,
    pub report: ReportRule,
    /// Which variables of the engine's environment the agent sees.
    pub env_policy: EnvPolicy,
    /// Additional variables.
    pub env: Vec<(String, String)>,
    /// How long an attempt may run, unless its step sets a limit.
    pub timeout: Option<Duration>,
    /// How long an attempt may write no output.
    pub silence: Option<Duration>,
    /// The time between TERM and KILL.
    pub grace: Duration,
}

/// The default time between TERM and KILL.
pub const GRACE: Duration = Duration::from_secs(10);

/// The configuration of an engine.
#[derive(Debug, Clone)]
pub struct EngineConfig {
    pub overrides: Overrides,
    /// The profile of each configured adapter, by the adapter's name, without the settings of roles. An agent gets the
    /// adapter that has its own name, unless a role of the agent or its step names another.
    pub profiles: BTreeMap<String, AgentProfile>,
    /// The roles of the configuration.
    pub roles: BTreeMap<RoleName, Role>,
    /// How many attempts may be alive on this host at once.
    pub slots: usize,
    /// The first back-off; later ones double.
    pub backoff: Duration,
    /// How long an attempt may keep running after its report.
    pub linger_timeout: Duration,
    pub shim: ShimProgram,
    /// The local directory of the store. Attempts and quarantine are in it, whatever the backend.
    pub local_dir: PathBuf,
    pub clock: Clock,
    /// The protocols that the engine knows.
    pub protocols: Protocols,
    /// The effects that the engine can perform.
    pub effects: Effects,
    /// The kernel's id of the current boot.
    pub boot_id: String,
    /// The limit of open files that agents get: the one that the engine had before it raised its own.
    pub agent_open_files_limit: Option<u64>,
    /// The engine as an author of entries.
    pub author: Author,
}

/// What the current command sets for its own engine only: overrides of the run's options, and switches.
#[derive(Debug, Clone, Default)]
pub struct Overrides {
    pub profile: Option<AgentProfile>,
    /// By step or agent. A field that is set replaces the same field of the run's role.
    pub roles: BTreeMap<String, Role>,
    /// Added to the variables of the run, replacing those of the same name.
    pub env: Vec<(String, String)>,
    pub workdir: Option<PathBuf>,
    /// Restore a corrupted document even if that loses changes.
    pub recover: bool,
    /// Exit when only an answer can move the run.
    pub exit_when_waiting: bool,
    /// A host that the user has abandoned.
    pub abandoned: Option<AbandonedHost>,
}

/// A host whose attempts count as interrupted because the user has given it up.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AbandonedHost {
    pub host: String,
    pub by: Author,
    pub reason: Option<String>,
}

impl EngineConfig {
    /// Returns the run's options with the overrides of the command.
    pub fn options(&self, run_options: &RunOptions) -> RunOptions {
        let mut options = run_options.clone();
        options.env.extend(self.overrides.env.iter().cloned());
        options.workdir = self.overrides.workdir.clone().unwrap_or(options.workdir);
        options.profile = self.overrides.profile.clone().or(options.profile);
        for (name, role) in &self.overrides.roles {
            let run_role = options.roles.entry(name.clone()).or_default();
            run_role.override_with(role);
        }
        options
    }

    /// Returns the name of this host, as recorded for attempts.
    pub fn host(&self) -> &str {
        self.author.host()
    }

    /// Returns the quarantine of a run: the directory for files that this program did not write.
    pub(crate) fn quarantine(&self, run: &RunId) -> PathBuf {
        self.local_dir.join("quarantine").join(run.as_str())
    }

    pub(crate) fn attempts_dir(&self) -> PathBuf {
        self.local_dir.join("attempts")
    }
}
