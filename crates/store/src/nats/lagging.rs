//! Which of the servers that keep our streams have not all of them, as the leader of each stream sees it.

use std::collections::BTreeMap;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use async_nats::jetstream::stream::PeerInfo;

use super::backend::NatsStore;
use super::server::Server;
use crate::error::Unavailable;

/// A server of the cluster that has not all that it should keep.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LaggingReplica {
    /// As it calls itself.
    pub server: String,
    pub standing: Standing,
    /// The streams of ours that it should keep.
    pub streams: Vec<String>,
}

/// How it stands with the others.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Standing {
    /// Nobody has heard of it for so long; not at all, if it led and another one had to.
    Silent(Option<Duration>),
    /// It is there, and this much is still to come.
    Behind(u64),
}

/// Servers of a cluster speak to one another every second, or every few.
const SILENCE: Duration = Duration::from_secs(10);

impl NatsStore {
    /// The servers that are down or have not caught up, in the order of their names.
    pub async fn lagging(&self) -> Result<Vec<LaggingReplica>, Unavailable> {
        self.server().await?.lagging().await
    }
}

impl Server {
    async fn lagging(&self) -> Result<Vec<LaggingReplica>, Unavailable> {
        let bucket = self.bucket(&self.settings.bucket).await?;
        let ours = [&self.journal, &self.blobs, &self.leases];
        let mut seen: BTreeMap<String, Vec<(String, Option<Standing>)>> = BTreeMap::new();
        for channel in ours.into_iter().chain(bucket.as_ref().map(|bucket| &bucket.channel)) {
            let info = channel.info().await?;
            let Some(cluster) = info.cluster else { continue };
            let led = since(cluster.leader_since.unwrap_or(info.created).unix_timestamp());
            for replica in cluster.replicas {
                let standing = standing(&replica, led);
                seen.entry(replica.name).or_default().push((channel.name.clone(), standing));
            }
        }
        Ok(seen.into_iter().filter_map(|(server, streams)| LaggingReplica::of(server, streams)).collect())
    }
}

impl LaggingReplica {
    /// A server as each stream that it keeps a copy of knows it; `None` if none of them misses anything.
    fn of(server: String, streams: Vec<(String, Option<Standing>)>) -> Option<Self> {
        let standing = streams.iter().filter_map(|(_, standing)| *standing).reduce(Standing::worse)?;
        // Some of them notice later than others that it is down.
        let is_down = matches!(standing, Standing::Silent(_));
        let streams = streams.into_iter().filter(|(_, standing)| is_down || standing.is_some());
        Some(Self { server, standing, streams: streams.map(|(stream, _)| stream).collect() })
    }
}

/// What is wrong with a server, if anything is, in the eyes of one that has led for so long. Whoever has just begun to lead has
/// not heard of the others yet: it neither misses them nor knows what they have.
fn standing(replica: &PeerInfo, led: Duration) -> Option<Standing> {
    let &PeerInfo { current, offline, active, lag, .. } = replica;
    let heard = Some(active).filter(|active| !active.is_zero());
    let is_silent = offline || active >= SILENCE || (heard.is_none() && !current && led >= SILENCE);
    if is_silent {
        Some(Standing::Silent(heard))
    } else {
        (!current && led >= SILENCE).then(|| Standing::Behind(lag.unwrap_or_default()))
    }
}

/// How long ago that was, by our clock and in seconds: near enough.
fn since(unix_seconds: i64) -> Duration {
    let then = UNIX_EPOCH + Duration::from_secs(u64::try_from(unix_seconds).unwrap_or_default());
    SystemTime::now().duration_since(then).unwrap_or_default()
}

impl Standing {
    /// One stream may have heard of a server later than another.
    fn worse(self, other: Self) -> Self {
        match (self, other) {
            (Self::Silent(Some(one)), Self::Silent(Some(other))) => Self::Silent(Some(one.min(other))),
            (Self::Silent(one), Self::Silent(other)) => Self::Silent(one.or(other)),
            (silent @ Self::Silent(_), Self::Behind(_)) | (Self::Behind(_), silent @ Self::Silent(_)) => {
                silent
            }
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
            let told = PeerInfo { name, current, offline, active, lag: Some(7) };
            standing(&told, led)
        };
        assert_eq!(of(true, false, 1, long), None);
        assert_eq!(of(false, true, 0, short), Some(Standing::Silent(None)));
        assert_eq!(of(false, false, 12, long), Some(Standing::Silent(Some(Duration::from_secs(12)))));
        assert_eq!(of(false, false, 0, long), Some(Standing::Silent(None)));
        assert_eq!(of(false, false, 1, long), Some(Standing::Behind(7)));
        assert_eq!(of(false, false, 0, short), None);
    }
}
