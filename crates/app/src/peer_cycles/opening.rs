//! Opening a peer cycle under the next number of its scope.

use std::collections::BTreeMap;
use std::num::NonZeroU32;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use protocol::entry::Author;
use protocol::peer::names::MAX_SAFE_INTEGER;
use protocol::peer::{Continued, Definition, EarlierReview, Mode, Peer, PeerCycleId, Scope};
use protocol::{RunId, RunLocation, protocol_kind};
use runner::{AgentProfile, Clock, OpenError, Role, RunOptions, RunSpec};
use store::Store;

use crate::failure::{Exit, Failure};

/// A new cycle without its number.
#[derive(Debug, Clone)]
pub(crate) struct Draft {
    pub(crate) scope: Scope,
    pub(crate) instruction: String,
    /// The flags of the command that say what the cycle is about: `--spec=NAME`, `--continue`, `--global`.
    pub(crate) instruction_args: String,
    pub(crate) user_requirements: String,
    pub(crate) continues: Option<Continued>,
    pub(crate) earlier_review: Option<EarlierReview>,
    pub(crate) max_attempts: NonZeroU32,
    pub(crate) timeout: Option<Duration>,
    pub(crate) repo_dir: String,
    pub(crate) workdir: PathBuf,
    pub(crate) profile: Option<AgentProfile>,
    pub(crate) env: Vec<(String, String)>,
    pub(crate) roles: BTreeMap<String, Role>,
    /// Prompt templates of the repository, by agent.
    pub(crate) prompts: BTreeMap<String, String>,
}

/// Opens a cycle under the next number of its scope. If another client takes that number first, tries the one after it.
pub(crate) async fn open(
    store: &Arc<dyn Store>,
    clock: &Clock,
    by: Author,
    draft: &Draft,
) -> Result<PeerCycleId, Failure> {
    let mut number = highest_number(store.as_ref(), &draft.scope).await?;
    loop {
        number += 1;
        if let Some(cycle) = open_with_number(store, clock, by.clone(), draft, number).await? {
            return Ok(cycle);
        }
    }
}

/// Opens a cycle under this number; `None` if the number is taken.
pub(crate) async fn open_with_number(
    store: &Arc<dyn Store>,
    clock: &Clock,
    by: Author,
    draft: &Draft,
    number: u64,
) -> Result<Option<PeerCycleId>, Failure> {
    if number > MAX_SAFE_INTEGER {
        return Err(Failure::new(
            Exit::Refused,
            format_args!("cannot open a cycle: `{}` has no number left", draft.scope),
        ));
    }
    let cycle = draft.scope.clone().cycle(number);
    match runner::open(store, clock, protocol_kind::<Peer>(), by, draft.run_spec(cycle.clone())).await {
        Ok(_) => Ok(Some(cycle)),
        Err(OpenError::Exists(_)) => Ok(None),
        Err(OpenError::StoreSpec(error)) => Err(error.into()),
        Err(OpenError::Commit(error)) => Err(error.into()),
    }
}

/// Returns the run of a cycle. Its name is the cycle's key.
pub(crate) fn run_of(cycle: &PeerCycleId) -> RunId {
    RunId::new(cycle.key()).expect("BUG: the key of a cycle is not a run id")
}

/// Returns the highest number of a scope; 0 if it has no cycle.
async fn highest_number(store: &dyn Store, scope: &Scope) -> Result<u64, Failure> {
    let runs = store.runs_with_prefix(&scope.store_key_prefix(), usize::MAX).await?;
    Ok(highest_number_among(runs.iter(), scope))
}

/// Returns the highest number of a scope among these runs. A run of another protocol with such a name counts as well.
pub(super) fn highest_number_among<'r>(runs: impl Iterator<Item = &'r RunId>, scope: &Scope) -> u64 {
    let cycles = runs.filter_map(|run| PeerCycleId::from_key(run.as_str()).ok());
    cycles.filter(|cycle| cycle.scope == *scope).map(|cycle| cycle.number).max().unwrap_or(0)
}

impl Draft {
    /// Returns the options of the run that the draft becomes under this id.
    pub(crate) fn options(&self, cycle: &PeerCycleId) -> RunOptions {
        RunOptions {
            location: RunLocation::new(run_of(cycle), self.repo_dir.clone()),
            workdir: self.workdir.clone(),
            profile: self.profile.clone(),
            env: self.env.clone(),
            roles: self.roles.clone(),
            worktrees: None,
            checks: Vec::new(),
        }
    }

    fn run_spec(&self, cycle: PeerCycleId) -> RunSpec {
        let options = self.options(&cycle);
        let definition = Definition {
            cycle,
            instruction: self.instruction.clone(),
            mode: if self.continues.is_some() { Mode::Continue } else { Mode::New },
            instruction_args: self.instruction_args.clone(),
            user_requirements: self.user_requirements.clone(),
            continues: self.continues.clone(),
            earlier_review: self.earlier_review.clone(),
            max_attempts: self.max_attempts,
            timeout: self.timeout,
            prompts: self.prompts.clone(),
        };
        RunSpec::new(self.instruction.clone(), &definition, options)
    }
}
