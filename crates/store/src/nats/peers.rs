//! The servers that keep our streams, as the leader of each stream sees them.

use std::collections::BTreeMap;
use std::time::Duration;

use async_nats::jetstream::stream::PeerInfo;

use super::backend::NatsStore;
use super::server::Server;
use crate::error::Unavailable;

/// A server of the cluster that has not all that it should keep.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Peer {
    /// As it calls itself.
    pub server: String,
    pub standing: Standing,
    /// The streams of ours that it should keep.
    pub streams: Vec<String>,
}

/// How it stands with the others.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Standing {
    /// Nobody has heard of it for so long.
    Silent(Duration),
    /// It is there, and this much is still to come.
    Behind(u64),
}

/// Servers of a cluster speak to one another every second, or every few.
const SILENCE: Duration = Duration::from_secs(10);

impl NatsStore {
    /// The servers that are down or have not caught up, in the order of their names.
    pub async fn peers(&self) -> Result<Vec<Peer>, Unavailable> {
        self.server().await?.peers().await
    }
}

impl Server {
    async fn peers(&self) -> Result<Vec<Peer>, Unavailable> {
        let bucket = self.bucket(&self.settings.bucket).await?;
        let ours = [&self.journal, &self.blobs, &self.leases];
        let mut seen: BTreeMap<String, Vec<(String, Option<Standing>)>> = BTreeMap::new();
        for channel in ours.into_iter().chain(bucket.as_ref().map(|bucket| &bucket.channel)) {
            let replicas = channel.info().await?.cluster.map(|cluster| cluster.replicas).unwrap_or_default();
            for peer in replicas {
                let standing = standing(&peer);
                seen.entry(peer.name).or_default().push((channel.name.clone(), standing));
            }
        }
        Ok(seen.into_iter().filter_map(|(server, streams)| Peer::of(server, streams)).collect())
    }
}

impl Peer {
    /// A server as each stream that it keeps a copy of knows it; `None` if none of them misses anything.
    fn of(server: String, streams: Vec<(String, Option<Standing>)>) -> Option<Self> {
        let standing = streams.iter().filter_map(|(_, standing)| *standing).reduce(Standing::worse)?;
        // Some of them notice later than others that it is down.
        let is_down = matches!(standing, Standing::Silent(_));
        let streams = streams.into_iter().filter(|(_, standing)| is_down || standing.is_some());
        Some(Self { server, standing, streams: streams.map(|(stream, _)| stream).collect() })
    }
}

/// What is wrong with a server, if anything is.
fn standing(PeerInfo { current, offline, active, lag, .. }: &PeerInfo) -> Option<Standing> {
    if *offline || *active >= SILENCE {
        Some(Standing::Silent(*active))
    } else {
        (!current).then(|| Standing::Behind(lag.unwrap_or_default()))
    }
}

impl Standing {
    /// One stream may have heard of a server later than another.
    fn worse(self, other: Self) -> Self {
        match (self, other) {
            (Self::Silent(one), Self::Silent(other)) => Self::Silent(one.min(other)),
            (silent @ Self::Silent(_), Self::Behind(_)) | (Self::Behind(_), silent @ Self::Silent(_)) => {
                silent
            }
            (Self::Behind(one), Self::Behind(other)) => Self::Behind(one.max(other)),
        }
    }
}
