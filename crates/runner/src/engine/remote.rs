//! Attempts on other hosts. This engine cannot see whether one is alive, so it does not adopt, start, stop or fail
//! it. An engine on that host does. If the host does not come back, the user abandons it (`resume --abandon-host`), and
//! its attempts count as interrupted.

use protocol::AttemptId;
use protocol::entry::{Author, Evidence, FailureKind};
use protocol::run::{Ending, Fact, RunState};
use store::Store;

use super::{AbandonedHost, Engine, EngineError};

/// Tells the attempts of this host from those of others.
#[derive(Debug)]
pub(super) struct ThisHost {
    /// `None` if the store cannot be used from other hosts: then all attempts are local.
    local: Option<String>,
}

impl ThisHost {
    pub(super) fn of(store: &dyn Store, local: &str) -> Self {
        Self { local: store.is_shared().then(|| local.to_owned()) }
    }

    /// Returns the name of this host, or `None` if the store is not shared.
    pub(super) fn local(&self) -> Option<&str> {
        self.local.as_deref()
    }

    /// Iterates over the attempts that may be alive on other hosts, with their hosts.
    pub(super) fn remote_attempts<'a>(
        &'a self,
        state: &'a RunState,
    ) -> impl Iterator<Item = (AttemptId, &'a str)> {
        self.local.iter().flat_map(|local| state.remote(local))
    }

    pub(super) fn is_remote(&self, state: &RunState, attempt: &AttemptId) -> bool {
        let host = state.hosts.get(attempt);
        self.local.as_ref().is_some_and(|local| host.is_some_and(|host| host != local))
    }

    /// Returns the number of slots of the whole run: those of this host, and one for each remote attempt. The run counts
    /// every attempt, and a remote one must take no slot of this host.
    pub(super) fn slots(&self, state: &RunState, local_slots: usize) -> usize {
        local_slots.saturating_add(self.remote_attempts(state).count())
    }
}

impl Engine<'_> {
    /// Returns the attempts that may be alive on other hosts, with their hosts.
    pub(super) fn remote_attempts(&self) -> Vec<(AttemptId, String)> {
        let remote = self.this_host.remote_attempts(&self.journal.state);
        remote.map(|(attempt, host)| (attempt.clone(), host.to_owned())).collect()
    }

    /// Checks that the host abandoned by the user is not this host and has attempts of this run.
    pub(super) fn check_abandoned_host(&self) -> Result<(), EngineError> {
        let Some(AbandonedHost { host, .. }) = &self.engine_config.overrides.abandoned else { return Ok(()) };
        let remote = self.remote_attempts();
        if remote.iter().any(|(_, attempt_host)| attempt_host == host) {
            return Ok(());
        }
        let here = self.engine_config.host() == host;
        Err(EngineError::NothingToAbandon { host: host.clone(), here, remote })
    }

    /// Records the attempts of the host abandoned by the user as interrupted, each in an entry in the user's name.
    pub(super) async fn interrupt_abandoned_host(&mut self) -> Result<(), EngineError> {
        let Some(abandoned) = self.engine_config.overrides.abandoned.clone() else { return Ok(()) };
        let attempts = self.this_host.remote_attempts(&self.journal.state);
        let attempts = attempts.filter(|(_, host)| *host == abandoned.host);
        let attempts: Vec<_> = attempts.map(|(attempt, _)| attempt).collect();
        for attempt in attempts {
            let fact = Fact::Ended { attempt, ending: Ending::Interrupted };
            self.absorb_from(Some(abandoned.by.clone()), fact, Some(evidence(&abandoned))).await?;
        }
        Ok(())
    }
}

fn evidence(AbandonedHost { host, by, reason }: &AbandonedHost) -> Evidence {
    let who = match by {
        Author::Person { name, .. } => name.clone(),
        Author::BucketClient { bucket, .. } => format!("another client of `{bucket}`"),
        Author::Engine { .. } => "the engine".to_owned(),
    };
    let why = reason.as_ref().map(|reason| format!(": {reason}")).unwrap_or_default();
    let error = format!("Agent process was interrupted: {who} abandoned its host `{host}`{why}");
    Evidence { kind: Some(FailureKind::Interrupted), error: Some(error), ..Evidence::default() }
}
