//! Servers of the cluster whose replicas of our streams are not current, as reported by the leader of each stream.

use std::collections::BTreeMap;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use async_nats::jetstream::stream::PeerInfo;

use crate::error::Unavailable;
use crate::nats::backend::NatsStore;
use crate::nats::connection::Session;

/// A server of the cluster whose replicas are not current.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LaggingReplica {
    /// The server's name.
    pub server: String,
    pub status: ReplicaStatus,
    /// Our streams that it replicates.
    pub streams: Vec<String>,
}

/// Why its replicas are not current.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReplicaStatus {
    /// The other servers have not heard from it for this long. `None` if that is unknown, because it led the stream
    /// itself.
    Unreachable(Option<Duration>),
    /// It is up and misses this many messages.
    Behind(u64),
}

/// Servers of a cluster exchange heartbeats every few seconds.
const HEARTBEAT_TIMEOUT: Duration = Duration::from_secs(10);

impl NatsStore {
    /// Returns the servers that are down or lag, sorted by name.
    pub async fn lagging_replicas(&self) -> Result<Vec<LaggingReplica>, Unavailable> {
        self.session().await?.lagging_replicas().await
    }
}

impl Session {
    async fn lagging_replicas(&self) -> Result<Vec<LaggingReplica>, Unavailable> {
        let bucket = self.bucket(&self.settings.bucket).await?;
        let streams = [&self.journal, &self.blobs, &self.leases];
        let mut reports: BTreeMap<String, Vec<(String, Option<ReplicaStatus>)>> = BTreeMap::new();
        for handle in streams.into_iter().chain(bucket.as_ref().map(|bucket| &bucket.handle)) {
            let info = handle.info().await?;
            let Some(cluster) = info.cluster else { continue };
            let leader_for = since(cluster.leader_since.unwrap_or(info.created).unix_timestamp());
            for replica in cluster.replicas {
                let status = status(&replica, leader_for);
                reports.entry(replica.name).or_default().push((handle.name.clone(), status));
            }
        }
        Ok(reports
            .into_iter()
            .filter_map(|(server, streams)| LaggingReplica::combine(server, streams))
            .collect())
    }
}

impl LaggingReplica {
    /// Combines what each stream reports about a server. `None` if all its replicas are current.
    fn combine(server: String, streams: Vec<(String, Option<ReplicaStatus>)>) -> Option<Self> {
        let status = streams.iter().filter_map(|(_, status)| *status).reduce(ReplicaStatus::worse)?;
        // Streams notice at different times that a server is down.
        let is_down = matches!(status, ReplicaStatus::Unreachable(_));
        let streams = streams.into_iter().filter(|(_, status)| is_down || status.is_some());
        Some(Self { server, status, streams: streams.map(|(stream, _)| stream).collect() })
    }
}

/// Returns what is wrong with a replica, if anything. A leader that was elected just now has no heartbeats yet, so it
/// cannot tell.
fn status(replica: &PeerInfo, leader_for: Duration) -> Option<ReplicaStatus> {
    let &PeerInfo { current, offline, active, lag, .. } = replica;
    let last_seen = Some(active).filter(|active| !active.is_zero());
    let is_unreachable = offline
        || active >= HEARTBEAT_TIMEOUT
        || (last_seen.is_none() && !current && leader_for >= HEARTBEAT_TIMEOUT);
    if is_unreachable {
        Some(ReplicaStatus::Unreachable(last_seen))
    } else {
        (!current && leader_for >= HEARTBEAT_TIMEOUT).then(|| ReplicaStatus::Behind(lag.unwrap_or_default()))
    }
}

/// Returns the time since then by our clock. Whole seconds are precise enough.
fn since(unix_seconds: i64) -> Duration {
    let then = UNIX_EPOCH + Duration::from_secs(u64::try_from(unix_seconds).unwrap_or_default());
    SystemTime::now().duration_since(then).unwrap_or_default()
}

impl ReplicaStatus {
    /// Combines the reports of two streams.
    fn worse(self, other: Self) -> Self {
        match (self, other) {
            (Self::Unreachable(Some(one)), Self::Unreachable(Some(other))) => {
                Self::Unreachable(Some(one.min(other)))
            }
            (Self::Unreachable(one), Self::Unreachable(other)) => Self::Unreachable(one.or(other)),
            (unreachable @ Self::Unreachable(_), Self::Behind(_))
            | (Self::Behind(_), unreachable @ Self::Unreachable(_)) => unreachable,
            (Self::Behind(one), Self::Behind(other)) => Self::Behind(one.max(other)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Reports of three servers about one that was suspended, killed, killed while leader, and restarted.
    #[test]
    fn unreachable_lagging_and_unknown_replicas_are_distinguished() {
        let (long, short) = (Duration::from_secs(60), Duration::from_secs(2));
        let status_of = |current, offline, active, leader_for| {
            let (name, active) = ("n2".to_owned(), Duration::from_secs(active));
            let info = PeerInfo { name, current, offline, active, lag: Some(7) };
            status(&info, leader_for)
        };
        assert_eq!(status_of(true, false, 1, long), None);
        assert_eq!(status_of(false, true, 0, short), Some(ReplicaStatus::Unreachable(None)));
        assert_eq!(
            status_of(false, false, 12, long),
            Some(ReplicaStatus::Unreachable(Some(Duration::from_secs(12))))
        );
        assert_eq!(status_of(false, false, 0, long), Some(ReplicaStatus::Unreachable(None)));
        assert_eq!(status_of(false, false, 1, long), Some(ReplicaStatus::Behind(7)));
        assert_eq!(status_of(false, false, 0, short), None);
    }
}
