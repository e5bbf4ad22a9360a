//! A right that ends by itself: a message that the server forgets unless it is written again.
//!
//! Only the server's clock counts. A lease is also over when its process is seen to have ended, or has let go of it: so
//! on one machine nobody waits for a dead engine.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use protocol::RunId;
use serde::{Deserialize, Serialize};
use tokio::sync::oneshot;
use tokio::task::JoinHandle;
use uuid::Uuid;

use super::channel::{Found, Overtaken, Which};
use super::fault::Fault;
use super::journal::escaped;
use super::server::Server;
use super::wire::json;
use crate::error::Unavailable;
use crate::os::ProcessIdentity;
use crate::{EngineHolder, Tenure};

/// A lease that is renewed until it is dropped.
#[derive(Debug)]
pub(crate) struct Lease {
    name: Name,
    /// Dropping it wakes the task that renews, which then lets go.
    stop: oneshot::Sender<()>,
    renewal: JoinHandle<()>,
}

impl Lease {
    pub(super) fn id(&self) -> &str {
        &self.name.0
    }

    /// Lets go, and waits until the server knows, or cannot be told.
    pub(crate) async fn release(self) {
        let Self { name, stop, renewal } = self;
        drop((name, stop));
        // It ends early only with its runtime, and then nobody waits here.
        let _ = renewal.await;
    }
}

/// The id of a lease that this process holds. Dropped, this process knows that it is over; the others learn it in a
/// run_at.
#[derive(Debug)]
struct Name(String);

impl Name {
    /// Ours before it is there: a second taker in this process must not think that we let go of it.
    fn new() -> Self {
        let id = Uuid::now_v7().to_string();
        ours().insert(id.clone());
        Self(id)
    }
}

impl Drop for Name {
    fn drop(&mut self) {
        ours().remove(&self.0);
    }
}

/// What a lease says.
#[derive(Debug, Clone, Serialize, Deserialize)]
struct Holding {
    id: String,
    /// Whether it is held still: the last message of its holder says that it is not.
    held: bool,
    tenure: Tenure,
    process: ProcessIdentity,
}

/// The leases that this process holds.
static OURS: Mutex<BTreeSet<String>> = Mutex::new(BTreeSet::new());

fn ours() -> MutexGuard<'static, BTreeSet<String>> {
    OURS.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Holding {
    fn is_over(&self, us: &ProcessIdentity) -> bool {
        !self.held || self.process.has_ended() || (self.process == *us && !ours().contains(&self.id))
    }

    fn holder(self) -> EngineHolder {
        EngineHolder { pid: self.process.pid, host: self.process.host, tenure: self.tenure }
    }
}

fn subject(run: &RunId) -> String {
    format!("callboard.lease.{}", escaped(run))
}

/// Renewed so often within its length: two renewals may fail.
const RENEWALS: u32 = 3;

impl Server {
    fn bad_lease(&self, source: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> Unavailable {
        let server = self.leases.server.clone();
        Unavailable::Server { server, doing: "understand a lease of", source: source.into() }
    }

    fn us(&self) -> Result<ProcessIdentity, Unavailable> {
        ProcessIdentity::this().map_err(|source| Unavailable::Io {
            action: "read",
            path: "/proc".into(),
            source,
        })
    }

    fn holding(&self, found: &Found) -> Result<Holding, Unavailable> {
        serde_json::from_slice(&found.payload).map_err(|error| self.bad_lease(error))
    }

    /// Who holds the lease of a run, if anybody does.
    pub(super) async fn lease_holder(&self, run: &RunId) -> Result<Option<EngineHolder>, Unavailable> {
        let Some(found) = self.leases.find(&subject(run), Which::Last).await? else { return Ok(None) };
        let (holding, us) = (self.holding(&found)?, self.us()?);
        Ok(if holding.is_over(&us) { None } else { Some(holding.holder()) })
    }

    /// Takes the lease of a run, or says who has it.
    pub(super) async fn take_lease(
        self: &Arc<Self>,
        run: &RunId,
        tenure: Tenure,
    ) -> Result<Result<Lease, EngineHolder>, Unavailable> {
        let (subject, us) = (subject(run), self.us()?);
        let mut race = self.leases.race("take a lease at");
        loop {
            let expected = match self.leases.find(&subject, Which::Last).await? {
                Some(found) => {
                    let holding = self.holding(&found)?;
                    if !holding.is_over(&us) {
                        return Ok(Err(holding.holder()));
                    }
                    found.sequence
                }
                None => 0,
            };
            let name = Name::new();
            let holding = Holding { id: name.0.clone(), held: true, tenure, process: us.clone() };
            match self.leases.append(&subject, expected, json(&holding)).await? {
                Ok(sequence) => {
                    let (stop, stopped) = oneshot::channel();
                    let renewal = Renewal { server: Arc::clone(self), subject, holding, sequence };
                    return Ok(Ok(Lease { name, stop, renewal: tokio::spawn(renewal.until(stopped)) }));
                }
                Err(Overtaken) => race.bear(Fault::passing("others take it without pause")).await?,
            }
        }
    }
}

/// The task that keeps a lease.
struct Renewal {
    server: Arc<Server>,
    subject: String,
    holding: Holding,
    sequence: u64,
}

impl Renewal {
    async fn until(mut self, mut stopped: oneshot::Receiver<()>) {
        let period = (self.server.lease / RENEWALS).max(Duration::from_millis(50));
        loop {
            tokio::select! {
                _ = &mut stopped => break,
                standing = async {
                    tokio::time::sleep(period).await;
                    self.renew().await
                } => match standing {
                    Ok(Standing::Lost) => return,
                    // An outage that outlasts our patience ends some time; until then nobody else can take the lease either.
                    Ok(Standing::Backup) | Err(_) => {}
                }
            }
        }
        self.holding.held = false;
        // If it is not heard the lease runs out. Nobody who leaves because of an outage waits for more than one answer.
        let run_at = self.server.lease.min(self.server.settings.patience.answer);
        let _ = tokio::time::timeout(run_at, self.renew()).await;
    }

    /// Says again who holds it, or for the last time that nobody does. What was said before and not waited for may have
    /// come first.
    async fn renew(&mut self) -> Result<Standing, Unavailable> {
        let leases = &self.server.leases;
        loop {
            if let Ok(sequence) = leases.append(&self.subject, self.sequence, json(&self.holding)).await? {
                self.sequence = sequence;
                return Ok(Standing::Backup);
            }
            match leases.find(&self.subject, Which::Last).await? {
                // It ran out and nobody wanted it: it is taken anew.
                None => self.sequence = 0,
                Some(found) if self.server.holding(&found)?.id == self.holding.id => {
                    self.sequence = found.sequence;
                }
                // The journal tells our engine, which writes there: its epoch is not the newest any more.
                Some(_) => return Ok(Standing::Lost),
            }
        }
    }
}

enum Standing {
    Backup,
    Lost,
}
