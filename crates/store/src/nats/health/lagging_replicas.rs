//! Which of the servers that keep our streams have not all of them, as the leader of each stream sees it.

use std::collections::BTreeMap;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use async_nats::jetstream::stream::PeerInfo;

use crate::error::Unavailable;
use crate::nats::backend::NatsStore;
use crate::nats::connection::Session;

/// A server of the cluster that has not all that it should keep.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LaggingReplica {
    /// As it calls itself.
    pub server: String,
    pub status: ReplicaStatus,
    /// The streams of ours that it should keep.
    pub streams: Vec<String>,
}

/// How it stands with the others.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReplicaStatus {
    /// Nobody has heard of it for so long; not at all, if it led and another one had to.
    Unreachable(Option<Duration>),
    /// It is there, and this much is still to come.
    Behind(u64),
}

/// Servers of a cluster speak to one another every second, or every few.
const HEARTBEAT_TIMEOUT: Duration = Duration::from_secs(10);

impl NatsStore {
    /// The servers that are down or have not caught up, in the order of their names.
    pub async fn lagging_replicas(&self) -> Result<Vec<LaggingReplica>, Unavailable> {
        self.session().await?.lagging_replicas().await
    }
}

impl Session {
    async fn lagging_replicas(&self) -> Result<Vec<LaggingReplica>, Unavailable> {
        let bucket = self.bucket(&self.settings.bucket).await?;
        let ours = [&self.journal, &self.blobs, &self.leases];
        let mut tip: BTreeMap<String, Vec<(String, Option<ReplicaStatus>)>> = BTreeMap::new();
        for handle in ours.into_iter().chain(bucket.as_ref().map(|bucket| &bucket.handle)) {
            let info = handle.info().await?;
            let Some(cluster) = info.cluster else { continue };
            let led = since(cluster.leader_since.unwrap_or(info.created).unix_timestamp());
            for replica in cluster.replicas {
                let status = status(&replica, led);
                tip.entry(replica.name).or_default().push((handle.name.clone(), status));
            }
        }
        Ok(tip.into_iter().filter_map(|(server, streams)| LaggingReplica::of(server, streams)).collect())
    }
}

impl LaggingReplica {
    /// A server as each stream that it keeps a copy of knows it; `None` if none of them misses anything.
    fn of(server: String, streams: Vec<(String, Option<ReplicaStatus>)>) -> Option<Self> {
        let status = streams.iter().filter_map(|(_, status)| *status).reduce(ReplicaStatus::worse)?;
        // Some of them notice later than others that it is down.
        let is_down = matches!(status, ReplicaStatus::Unreachable(_));
        let streams = streams.into_iter().filter(|(_, status)| is_down || status.is_some());
        Some(Self { server, status, streams: streams.map(|(stream, _)| stream).collect() })
    }
}

/// What is wrong with a server, if anything is, in the eyes of one that has led for so long. Whoever has just begun to lead has
/// not heard of the others yet: it neither misses them nor knows what they have.
fn status(replica: &PeerInfo, led: Duration) -> Option<ReplicaStatus> {
    let &PeerInfo { current, offline, active, lag, .. } = replica;
    let last_seen = Some(active).filter(|active| !active.is_zero());
    let is_unreachable = offline
        || active >= HEARTBEAT_TIMEOUT
        || (last_seen.is_none() && !current && led >= HEARTBEAT_TIMEOUT);
    if is_unreachable {
        Some(ReplicaStatus::Unreachable(last_seen))
    } else {
        (!current && led >= HEARTBEAT_TIMEOUT).then(|| ReplicaStatus::Behind(lag.unwrap_or_default()))
    }
}

/// How long ago that was, by our clock and in seconds: near enough.
fn since(unix_seconds: i64) -> Duration {
    let then = UNIX_EPOCH + Duration::from_secs(u64::try_from(unix_seconds).unwrap_or_default());
    SystemTime::now().duration_since(then).unwrap_or_default()
}

impl ReplicaStatus {
    /// One stream may have heard of a server later than another.
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

    /// As three servers told it of one that was stopped, killed, killed while it led, and started again.
    #[test]
    fn who_is_silent_is_told_from_who_is_behind_and_from_who_has_not_been_asked_yet() {
        let (long, short) = (Duration::from_secs(60), Duration::from_secs(2));
        let of = |current, offline, active, led| {
            let (name, active) = ("n2".to_owned(), Duration::from_secs(active));
            let info = PeerInfo { name, current, offline, active, lag: Some(7) };
            status(&info, led)
        };
        assert_eq!(of(true, false, 1, long), None);
        assert_eq!(of(false, true, 0, short), Some(ReplicaStatus::Unreachable(None)));
        assert_eq!(
            of(false, false, 12, long),
            Some(ReplicaStatus::Unreachable(Some(Duration::from_secs(12))))
        );
        assert_eq!(of(false, false, 0, long), Some(ReplicaStatus::Unreachable(None)));
        assert_eq!(of(false, false, 1, long), Some(ReplicaStatus::Behind(7)));
        assert_eq!(of(false, false, 0, short), None);
    }
}
