//! What the engine of the run_at has: profiles, places, programs. Read afresh at each start, never spec.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use protocol::RunId;
use protocol::entry::Author;
use serde::{Deserialize, Serialize};
use supervisor::ShimProgram;
use supervisor::adapter::{Adapter, Pass, ReportRule};

use crate::clock::Clock;
use crate::opening::RunOptions;

/// Who plays a step, and by which rules.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AgentProfile {
    pub adapter: Adapter,
    pub report: ReportRule,
    /// Which of our own variables the agent sees.
    pub pass: Pass,
    /// Variables of its own.
    #[serde(default)]
    pub env: Vec<(String, String)>,
    /// Limits for steps that set none.
    #[serde(default)]
    pub timeout: Option<Duration>,
    #[serde(default)]
    pub silence: Option<Duration>,
    pub grace: Duration,
}

/// Time between TERM and KILL unless the configuration says otherwise.
pub const GRACE: Duration = Duration::from_secs(10);

/// What an engine works with.
#[derive(Debug, Clone)]
pub struct EngineConfig {
    pub overrides: Overrides,
    /// From the configuration, by the name of the agent.
    pub by_agent: BTreeMap<String, AgentProfile>,
    /// How many attempts may be alive at once.
    pub slots: usize,
    /// The first back-off.
    pub backoff: Duration,
    /// How long an attempt may live on after its report.
    pub lingering: Duration,
    pub shim: ShimProgram,
    /// The directory of the store; attempts and quarantine lie in it, whatever the backend.
    pub store_root: PathBuf,
    pub clock: Clock,
    pub boot_id: String,
    /// How many files an agent may have open, if the engine has raised its own limit.
    pub descriptors: Option<u64>,
    /// Who we are in the journal.
    pub author: Author,
}

/// What the present command says anew about things that were spec with the run. It holds while the command does.
#[derive(Debug, Clone, Default)]
pub struct Overrides {
    pub profile: Option<AgentProfile>,
    /// Added to the spec variables, which they replace by name.
    pub env: Vec<(String, String)>,
    pub workdir: Option<PathBuf>,
    /// A document that is not what was written may be put back even if that loses something.
    pub recover: bool,
    /// A host that does not come back.
    pub abandoned: Option<Abandoned>,
}

/// A host whose attempts count as interrupted from now on, by a person's word.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Abandoned {
    pub host: String,
    pub by: Author,
    pub reason: Option<String>,
}

impl EngineConfig {
    /// What holds now: as the run was opened, with what was said again.
    pub fn options(&self, spec: &RunOptions) -> RunOptions {
        let mut options = spec.clone();
        options.env.extend(self.overrides.env.iter().cloned());
        options.workdir = self.overrides.workdir.clone().unwrap_or(options.workdir);
        options.profile = self.overrides.profile.clone().or(options.profile);
        options
    }

    /// Who plays an agent: whoever the command line named, else the configuration.
    pub fn profile<'a>(&'a self, options: &'a RunOptions, agent: &str) -> Option<&'a AgentProfile> {
        options.profile.as_ref().or_else(|| self.by_agent.get(agent))
    }

    /// The machine we are on, as attempts are placed on it.
    pub fn host(&self) -> &str {
        self.author.host()
    }

    /// Where what nobody of ours has written is kept.
    pub(crate) fn quarantine(&self, run: &RunId) -> PathBuf {
        self.store_root.join("quarantine").join(run.as_str())
    }

    pub(crate) fn attempts_dir(&self) -> PathBuf {
        self.store_root.join("attempts")
    }
}
