//! Attempts on other hosts. Whether one is alive there cannot be seen from here, so nobody here adopts it, starts it, ends it
//! or counts it as vanished: an engine there does, or a person says that the host does not come back.

use protocol::entry::{Author, Evidence, FailureKind, RunState};
use protocol::run::{Attempt, Ending, Fact, Run};
use protocol::{AttemptId, Protocol};
use store::Store;

use super::{Engine, EngineError};
use crate::engine_config::Abandoned;

/// Which host is ours, where that matters.
#[derive(Debug)]
pub(super) struct Hosts {
    /// None if nobody on another machine can have the store: then all attempts are here.
    here: Option<String>,
}

impl Hosts {
    pub(super) fn of(store: &impl Store, here: &str) -> Self {
        Self { here: store.is_shared().then(|| here.to_owned()) }
    }

    /// Our own, where there may be others.
    pub(super) fn here(&self) -> Option<&str> {
        self.here.as_deref()
    }

    /// Attempts that may be alive on other hosts, and where.
    pub(super) fn remote<'a, P: Protocol>(
        &'a self,
        state: &'a RunState<P>,
    ) -> impl Iterator<Item = (Attempt<P::Step>, &'a str)> {
        self.here.iter().flat_map(|here| state.remote(here))
    }

    pub(super) fn is_elsewhere<P: Protocol>(&self, state: &RunState<P>, attempt: &AttemptId) -> bool {
        let host = state.hosts.get(attempt);
        self.here.as_ref().is_some_and(|here| host.is_some_and(|host| host != here))
    }

    /// How many places there are in all, if there are so many here: whoever is elsewhere takes none of ours.
    pub(super) fn slots<P: Protocol>(&self, state: &RunState<P>, here: usize) -> usize {
        here.saturating_add(self.remote(state).count())
    }
}

impl<P: Protocol, S: Store> Engine<'_, P, S> {
    pub(super) fn remote(&self) -> Vec<(AttemptId, String)> {
        let remote = self.hosts.remote(&self.journal.state);
        remote.map(|(attempt, host)| (Run::<P>::id(&attempt), host.to_owned())).collect()
    }

    /// Whether the host that a person has given up can be: it is another one, and has attempts of this run.
    pub(super) fn may_abandon(&self) -> Result<(), EngineError> {
        let Some(Abandoned { host, .. }) = &self.engine_config.overrides.abandoned else { return Ok(()) };
        let remote = self.remote();
        if remote.iter().any(|(_, at)| at == host) {
            return Ok(());
        }
        let here = self.engine_config.host() == host;
        Err(EngineError::NothingToAbandon { host: host.clone(), here, remote })
    }

    /// Counts the attempts of a host that a person has given up as interrupted, each in an entry of that person's.
    pub(super) async fn abandon(&mut self) -> Result<(), EngineError> {
        let Some(abandoned) = self.engine_config.overrides.abandoned.clone() else { return Ok(()) };
        let theirs = self.hosts.remote(&self.journal.state);
        let theirs = theirs.filter(|(_, host)| *host == abandoned.host);
        let theirs: Vec<_> = theirs.map(|(attempt, _)| attempt).collect();
        for attempt in theirs {
            let fact = Fact::Ended { attempt, ending: Ending::Interrupted };
            self.absorb_from(Some(abandoned.by.clone()), fact, Some(evidence(&abandoned))).await?;
        }
        Ok(())
    }
}

fn evidence(Abandoned { host, by, reason }: &Abandoned) -> Evidence {
    let who = match by {
        Author::Person { name, .. } => name,
        Author::Client { bucket, .. } => bucket,
        Author::Engine { .. } => "the engine",
    };
    let why = reason.as_ref().map(|reason| format!(": {reason}")).unwrap_or_default();
    let error = format!("Agent process was interrupted: {who} gave up its host `{host}`{why}");
    Evidence { kind: Some(FailureKind::Interrupted), error: Some(error), ..Evidence::default() }
}
