//! Which of the servers that keep our streams have not all of them, as the leader of each stream sees it.

use std::time::Duration;

use async_nats::jetstream::stream::PeerInfo;

use super::backend::NatsStore;
use super::server::Server;
use crate::error::Unavailable;

/// A server of the cluster that has not all that it should keep.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Laggard {
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
    pub async fn laggards(&self) -> Result<Vec<Laggard>, Unavailable> {
        self.server().await?.laggards().await
    }
}

impl Server {
    async fn laggards(&self) -> Result<Vec<Laggard>, Unavailable> {
        let bucket = self.bucket(&self.settings.bucket).await?;
        let ours = [&self.journal, &self.blobs, &self.leases];
        let mut laggards: Vec<Laggard> = Vec::new();
        for channel in ours.into_iter().chain(bucket.as_ref().map(|bucket| &bucket.channel)) {
            let replicas = channel.info().await?.cluster.map(|cluster| cluster.replicas).unwrap_or_default();
            for (server, standing) in replicas.into_iter().filter_map(standing) {
                let stream = channel.name.clone();
                match laggards.iter_mut().find(|laggard| laggard.server == server) {
                    Some(laggard) => {
                        laggard.standing = laggard.standing.worse(standing);
                        laggard.streams.push(stream);
                    }
                    None => laggards.push(Laggard { server, standing, streams: vec![stream] }),
                }
            }
        }
        laggards.sort_by(|one, other| one.server.cmp(&other.server));
        Ok(laggards)
    }
}

/// What is wrong with a server, if anything is.
fn standing(PeerInfo { name, current, offline, active, lag }: PeerInfo) -> Option<(String, Standing)> {
    if offline || active >= SILENCE {
        Some((name, Standing::Silent(active)))
    } else {
        (!current).then(|| (name, Standing::Behind(lag.unwrap_or_default())))
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
